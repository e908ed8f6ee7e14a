// Command lines: "--name=value", "--name value", "--switch", and the rest in order, in any mixture; after "--" nothing is
// a flag any more.

#ifndef HOLDFAST_CLIENT_CLI_ARGUMENTS_H_
#define HOLDFAST_CLIENT_CLI_ARGUMENTS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace holdfast::cli {

struct Flag {
  absl::string_view name;   // without dashes
  absl::string_view value;  // what stands for the value in help; empty: a switch
  absl::string_view help;
};

class Arguments {
 public:
  // INVALID_ARGUMENT names the flag: unknown, without its value, a value for a switch, or given twice.
  static absl::StatusOr<Arguments> Parse(absl::Span<const absl::string_view> words,
                                         absl::Span<const Flag> flags);

  const std::vector<std::string>& positional() const { return positional_; }
  bool Has(absl::string_view flag) const;
  // The value, or `otherwise` when the flag was not given. INVALID_ARGUMENT names the flag.
  std::string Text(absl::string_view flag, absl::string_view otherwise = "") const;
  absl::StatusOr<uint64_t> Size(absl::string_view flag, uint64_t otherwise) const;
  absl::StatusOr<uint64_t> Count(absl::string_view flag, uint64_t otherwise,
                                 uint64_t max = UINT64_MAX) const;
  absl::StatusOr<std::chrono::milliseconds> Duration(absl::string_view flag,
                                                     std::chrono::milliseconds otherwise) const;

  // Takes the first positional word away.
  std::string TakeFirst();

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> positional_;
};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_ARGUMENTS_H_

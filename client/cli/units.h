// Sizes and times as people write and read them.

#ifndef HOLDFAST_CLIENT_CLI_UNITS_H_
#define HOLDFAST_CLIENT_CLI_UNITS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace holdfast::cli {

// Whole bytes, or with one of B, KiB, MiB, GiB, TiB: "64MiB". INVALID_ARGUMENT, also when it exceeds 64 bits.
absl::StatusOr<uint64_t> ParseSize(absl::string_view text);

// A whole number with one of ms, s, m, h: "5s". INVALID_ARGUMENT, also above about 49 days, which is what the wire holds.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(absl::string_view text);

// A whole number. INVALID_ARGUMENT.
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);

// "512 B", "1.5 MiB".
std::string HumanSize(uint64_t bytes);
// The largest two units: "350 ms", "12.5 s", "3 m 20 s", "5 h 1 m", "2 d 3 h".
std::string HumanDuration(uint64_t milliseconds);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_UNITS_H_

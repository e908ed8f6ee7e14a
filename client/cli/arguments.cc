#include "client/cli/arguments.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

absl::Status Named(absl::string_view flag, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("--", flag, ": ", status.message()));
}

const std::string* Find(const std::map<std::string, std::string, std::less<>>& values,
                        absl::string_view flag) {
  const auto it = values.find(std::string(flag));
  return it == values.end() ? nullptr : &it->second;
}

}  // namespace

absl::StatusOr<Arguments> Arguments::Parse(absl::Span<const absl::string_view> words,
                                           absl::Span<const Flag> flags) {
  Arguments arguments;
  bool only_words = false;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (only_words || !absl::StartsWith(word, "-") || word == "-") {
      arguments.positional_.emplace_back(word);
      continue;
    }
    if (word == "--") {
      only_words = true;
      continue;
    }
    if (!absl::ConsumePrefix(&word, "--"))
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", word));
    const size_t equals = word.find('=');
    const absl::string_view name = word.substr(0, equals);
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [name](const Flag& f) { return f.name == name; });
    if (flag == flags.end())
      return absl::InvalidArgumentError(absl::StrCat("unknown flag --", name));
    std::string value;
    if (equals != absl::string_view::npos) {
      if (flag->value.empty())
        return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value"));
      value = std::string(word.substr(equals + 1));
    } else if (!flag->value.empty()) {
      if (i + 1 == words.size())
        return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
      value = std::string(words[++i]);
    }
    if (!arguments.values_.emplace(std::string(name), std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " is given twice"));
    }
  }
  return arguments;
}

bool Arguments::Has(absl::string_view flag) const { return Find(values_, flag) != nullptr; }

std::string Arguments::Text(absl::string_view flag, absl::string_view otherwise) const {
  const std::string* value = Find(values_, flag);
  return value == nullptr ? std::string(otherwise) : *value;
}

absl::StatusOr<uint64_t> Arguments::Size(absl::string_view flag, uint64_t otherwise) const {
  const std::string* value = Find(values_, flag);
  if (value == nullptr) return otherwise;
  absl::StatusOr<uint64_t> size = ParseSize(*value);
  if (!size.ok()) return Named(flag, size.status());
  return size;
}

absl::StatusOr<uint64_t> Arguments::Count(absl::string_view flag, uint64_t otherwise,
                                          uint64_t max) const {
  const std::string* value = Find(values_, flag);
  if (value == nullptr) return otherwise;
  absl::StatusOr<uint64_t> count = ParseCount(*value);
  if (!count.ok()) return Named(flag, count.status());
  if (*count > max) return absl::InvalidArgumentError(absl::StrCat("--", flag, ": at most ", max));
  return count;
}

absl::StatusOr<std::chrono::milliseconds> Arguments::Duration(
    absl::string_view flag, std::chrono::milliseconds otherwise) const {
  const std::string* value = Find(values_, flag);
  if (value == nullptr) return otherwise;
  absl::StatusOr<std::chrono::milliseconds> duration = ParseDuration(*value);
  if (!duration.ok()) return Named(flag, duration.status());
  return duration;
}

std::string Arguments::TakeFirst() {
  std::string first = std::move(positional_.front());
  positional_.erase(positional_.begin());
  return first;
}

}  // namespace holdfast::cli

#include "client/cli/units.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace holdfast::cli {
namespace {

struct Unit {
  absl::string_view name;
  uint64_t factor;
};

constexpr Unit kSizes[] = {{"", 1},
                           {"B", 1},
                           {"KiB", 1ull << 10},
                           {"MiB", 1ull << 20},
                           {"GiB", 1ull << 30},
                           {"TiB", 1ull << 40}};
constexpr Unit kTimes[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};

// The number in front and what follows it.
bool Split(absl::string_view text, uint64_t* number, absl::string_view* unit) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(text[digits])) ++digits;
  *unit = text.substr(digits);
  return digits > 0 && absl::SimpleAtoi(text.substr(0, digits), number);
}

template <size_t kCount>
bool Scale(const Unit (&units)[kCount], absl::string_view text, uint64_t max, uint64_t* value) {
  absl::string_view name;
  if (!Split(text, value, &name)) return false;
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    if (*value > max / unit.factor) return false;
    *value *= unit.factor;
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(absl::string_view text) {
  uint64_t bytes = 0;
  if (Scale(kSizes, text, std::numeric_limits<uint64_t>::max(), &bytes)) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a size such as 4096, 64KiB, 64MiB or 2GiB"));
}

absl::StatusOr<std::chrono::milliseconds> ParseDuration(absl::string_view text) {
  uint64_t ms = 0;
  if (Scale(kTimes, text, std::numeric_limits<uint32_t>::max(), &ms))
    return std::chrono::milliseconds(ms);
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a time such as 500ms, 5s, 2m or 1h"));
}

absl::StatusOr<uint64_t> ParseCount(absl::string_view text) {
  uint64_t number = 0;
  absl::string_view rest;
  if (Split(text, &number, &rest) && rest.empty()) return number;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a whole number"));
}

std::string HumanSize(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const char* const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be written as 1024.0.
  while (value >= 1023.95 && unit + 1 < std::size(names)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, names[unit]);
}

std::string HumanDuration(uint64_t milliseconds) {
  constexpr uint64_t kMinutesPerDay = 1440;
  if (milliseconds < 1000) return absl::StrCat(milliseconds, " ms");
  if (milliseconds < 60'000)
    return absl::StrFormat("%d.%d s", milliseconds / 1000, milliseconds % 1000 / 100);
  const uint64_t minutes = milliseconds / 60'000;
  if (minutes < 60) return absl::StrCat(minutes, " m ", milliseconds / 1000 % 60, " s");
  if (minutes < kMinutesPerDay) return absl::StrCat(minutes / 60, " h ", minutes % 60, " m");
  return absl::StrCat(minutes / kMinutesPerDay, " d ", minutes / 60 % 24, " h");
}

}  // namespace holdfast::cli

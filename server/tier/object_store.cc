#include "server/tier/object_store.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace holdfast::tier {

bool IsValidName(absl::string_view name) {
  if (name.empty() || name.size() > 512) return false;
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
    const bool plain = std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    if (!plain) return false;
  }
  return true;
}

}  // namespace holdfast::tier

#include "server/core/ids.h"

#include "absl/strings/escaping.h"

namespace holdfast::core {

template <typename Tag>
std::string Uuid<Tag>::ToHex() const {
  return absl::BytesToHexString(AsBytes());
}

template struct Uuid<ClientTag>;
template struct Uuid<SegmentTag>;

}  // namespace holdfast::core

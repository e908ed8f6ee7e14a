// Who may still touch which memory, as the model of the core sees it.

#ifndef HOLDFAST_TESTS_TESTING_CLAIMS_H_
#define HOLDFAST_TESTS_TESTING_CLAIMS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/core/ids.h"
#include "tests/testing/core_harness.h"

namespace holdfast::testing {

// A range of a memory: the address space of one client, or one pooled device.
struct Extent {
  std::string memory;
  uint64_t begin = 0;
  uint64_t size_bytes = 0;

  bool Touches(const Extent& other) const {
    return memory == other.memory && Overlaps(begin, size_bytes, other.begin, other.size_bytes);
  }
};

// Memory that has no replica any more, or whose replica cannot be read, but that somebody may read or write until some
// time.
class Claims {
 public:
  void AddReader(core::PutId put, const Extent& extent, int64_t until_ms) {
    claims_.push_back({put, extent, until_ms, /*writes=*/false});
  }
  void AddWriter(core::PutId put, const Extent& extent, int64_t until_ms) {
    claims_.push_back({put, extent, until_ms, /*writes=*/true});
  }
  // The writer of this put has said that it writes no more.
  void DropWriter(core::PutId put) {
    std::erase_if(claims_, [put](const Claim& claim) { return claim.writes && claim.put == put; });
  }
  void DropOver(int64_t now_ms) {
    std::erase_if(claims_, [now_ms](const Claim& claim) { return claim.until_ms <= now_ms; });
  }
  // Empty, or why this memory must not be handed out.
  std::string Against(const Extent& extent, int64_t now_ms) const {
    for (const Claim& claim : claims_) {
      if (claim.until_ms <= now_ms || !claim.extent.Touches(extent)) continue;
      return absl::StrCat(extent.memory, " at ", extent.begin, " may be ",
                          claim.writes ? "written" : "read", " for ", claim.until_ms - now_ms,
                          " ms more, because of put ", claim.put.value);
    }
    return "";
  }

 private:
  struct Claim {
    core::PutId put;
    Extent extent;
    int64_t until_ms = 0;
    bool writes = false;
  };

  std::vector<Claim> claims_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_CLAIMS_H_

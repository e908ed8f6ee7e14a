// Chooses segments for new replicas. It only proposes: the allocation that follows checks the lifetime and the room
// itself, so what is read here may be a moment old.

#ifndef HOLDFAST_SERVER_CORE_PLACEMENT_H_
#define HOLDFAST_SERVER_CORE_PLACEMENT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/core/operations.h"
#include "server/core/segment_slot.h"

namespace holdfast::core {

// Randomness of one call, expanded from one number (splitmix64, Steele et al., "Fast splittable pseudorandom number
// generators", 2014).
class CallRandom {
 public:
  explicit CallRandom(uint64_t seed) : state_(seed) {}
  // Uniform in [0, bound); bound > 0.
  uint32_t Below(uint32_t bound);

 private:
  uint64_t state_;
};

// A proposed segment, with the lifetime that was seen.
struct SegmentChoice {
  uint32_t slot = 0;
  uint32_t lifetime = 0;
};

// Thread-safe. Invariants, under the lock:
//  * `order_` holds the slots that take objects, sorted by the bucket of their pool's largest free range;
//  * `begins_[b]` is where bucket b begins, so all slots that surely have room for a size are one suffix of `order_`;
//  * a slot's bucket is what its pool said at the last Refresh.
// The cost of a choice does not grow with the number of segments.
class Placement {
 public:
  explicit Placement(const SlotTable* slots);

  // Brings the slot to where its present state says: in, out, or another bucket. Idempotent, so the last call wins,
  // in whatever order calls come.
  void Refresh(uint32_t slot);

  struct Query {
    uint64_t size_bytes = 0;
    PlacementStrategy strategy = PlacementStrategy::kFreeRatioFirst;
    absl::Span<const absl::string_view> preferred_segments;  // names
    ClientId local_client;                                   // none: no preference
    absl::Span<const uint32_t> excluded_slots;  // chosen for this object, or tried and found full
    absl::Span<const uint64_t> used_hosts;      // host hashes to avoid if possible
  };
  // nullopt when no segment that takes objects seems to have room.
  std::optional<SegmentChoice> Choose(const Query& query, CallRandom* random) const;

  // Number of slots that take objects.
  uint32_t size() const;
  // Checks the invariants; empty if they hold.
  std::string Audit() const;

 private:
  static constexpr uint32_t kBuckets = kPlacementClasses;
  static constexpr uint32_t kAbsent = UINT32_MAX;

  struct Entry {
    uint32_t position = kAbsent;  // in order_
    uint16_t bucket = 0;
    std::string name;
    ClientId owner;
  };

  bool Excluded(const Query& query, uint32_t slot) const;
  bool HostUsed(const Query& query, uint32_t slot) const;
  double FreeRatio(uint32_t slot) const;
  // One of two random slots, the larger one more likely: the best of two uniform looks gives a segment at most twice the
  // share of an equal one, which is not enough to keep a larger one as full as the others.
  uint32_t DrawByCapacity(uint32_t a, uint32_t b, CallRandom* random) const;
  void Insert(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MoveTo(uint32_t slot, uint16_t bucket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Put(uint32_t position, uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<uint32_t> FromList(const Query& query, const std::vector<uint32_t>& slots,
                                   uint16_t bucket) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  std::optional<uint32_t> FromRange(const Query& query, uint32_t begin, uint32_t end, int samples,
                                    CallRandom* random) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  std::optional<uint32_t> ChooseSlot(const Query& query, CallRandom* random) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);

  const SlotTable* const slots_;

  mutable absl::Mutex mu_;
  std::vector<uint32_t> order_ ABSL_GUARDED_BY(mu_);
  std::array<uint32_t, kBuckets + 1> begins_ ABSL_GUARDED_BY(mu_) = {};
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);  // by slot
  absl::flat_hash_map<std::string, std::vector<uint32_t>> by_name_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<ClientId, std::vector<uint32_t>> by_owner_ ABSL_GUARDED_BY(mu_);
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_PLACEMENT_H_

// Ranges that nobody owns any more but somebody may still touch: a reader whose lease runs, or a writer that was given
// up. They go back to their allocator when that time is over.

#ifndef HOLDFAST_SERVER_CORE_QUARANTINE_H_
#define HOLDFAST_SERVER_CORE_QUARANTINE_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace holdfast::core {

// An allocated range without a replica. It keeps its hold on the slot.
struct QuarantinedRange {
  int64_t until_ms = 0;
  uint32_t slot = 0;
  uint32_t range = 0;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;

  friend auto operator<=>(const QuarantinedRange&, const QuarantinedRange&) = default;
};

// Thread-safe. Bounded by the number of ranges that the allocators have given out.
class Quarantine {
 public:
  void Add(const QuarantinedRange& range);
  // Removes and returns up to `max_ranges` whose time is over, the oldest first.
  std::vector<QuarantinedRange> TakeDue(int64_t now_ms, size_t max_ranges);
  // Removes and returns all ranges of one slot. Cost: theirs.
  std::vector<QuarantinedRange> TakeSlot(uint32_t slot);

  std::vector<QuarantinedRange> Snapshot() const;
  uint64_t ranges() const;
  uint64_t bytes() const;

 private:
  mutable absl::Mutex mu_;
  absl::btree_set<QuarantinedRange> by_time_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint32_t, absl::btree_set<QuarantinedRange>> by_slot_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_QUARANTINE_H_

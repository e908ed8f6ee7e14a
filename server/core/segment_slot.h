// The table of slots: where registrations live, so that a replica names its registration by 20 bits and a reader
// learns from one atomic word whether it still is what it was.

#ifndef HOLDFAST_SERVER_CORE_SEGMENT_SLOT_H_
#define HOLDFAST_SERVER_CORE_SEGMENT_SLOT_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/core/ids.h"
#include "server/core/offset_allocator.h"
#include "server/core/operations.h"

namespace holdfast::core {

// Slot numbers fit the 20 bits that a replica has for them.
inline constexpr uint32_t kMaxSlots = 1u << 20;
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

// The allocator of one registration, or of all registrations of one pool.
// Thread-safe. The figures that placement reads are copies that may lag by one operation of another thread.
class Pool {
 public:
  // A pool without an allocator has no room until Open.
  explicit Pool(std::string pool_id) : pool_id_(std::move(pool_id)) {}

  // Makes the allocator, with `reserved` taken. Returns the ranges that were reserved. Called once.
  std::vector<OffsetAllocator::ReservedRange> Open(
      uint64_t size_bytes, absl::Span<const OffsetAllocator::Reserved> reserved);

  // nullopt: nothing fits. *bucket_changed: placement has to look at the members again.
  std::optional<AllocatedRange> Allocate(uint64_t size_bytes, bool* bucket_changed);
  void Free(uint32_t range, bool* bucket_changed);

  void AddMember(uint32_t slot);
  void RemoveMember(uint32_t slot);
  std::vector<uint32_t> Members() const;

  bool is_private() const { return pool_id_.empty(); }
  const std::string& pool_id() const { return pool_id_; }
  uint16_t bucket() const { return bucket_.load(std::memory_order_relaxed); }
  uint64_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }
  uint64_t capacity_bytes() const { return capacity_bytes_.load(std::memory_order_relaxed); }
  // The allocator's own audit, for tests.
  std::string Audit() const;

 private:
  bool PublishFigures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string pool_id_;  // empty: private

  std::atomic<uint16_t> bucket_{0};
  std::atomic<uint64_t> allocated_bytes_{0};
  std::atomic<uint64_t> capacity_bytes_{0};

  mutable absl::Mutex mu_;
  std::optional<OffsetAllocator> allocator_ ABSL_GUARDED_BY(mu_);
  std::vector<uint32_t> members_ ABSL_GUARDED_BY(mu_);
};

// One registration, or nobody.
//
// The word is lifetime << 32 | holds. The lifetime is generation << 1 | ended: a live one is compared as a whole, so a
// successor in the same slot is told apart. A hold is one allocated range, whether its replica is linked or not, plus
// one for the registration itself until the sweep has been through all shards. The slot is free when the last hold
// goes; everything else in it is constant while there are holds.
class Slot {
 public:
  static constexpr uint64_t kHoldMask = 0xffffffffu;
  static constexpr uint32_t kEndedBit = 1;

  uint32_t lifetime() const {
    return static_cast<uint32_t>(word_.load(std::memory_order_acquire) >> 32);
  }
  static bool IsLive(uint32_t lifetime) { return (lifetime & kEndedBit) == 0; }
  bool IsLive() const { return IsLive(lifetime()); }
  uint32_t holds() const {
    return static_cast<uint32_t>(word_.load(std::memory_order_acquire) & kHoldMask);
  }

  // Takes a hold if the registration of `lifetime` is still live.
  bool TryHold(uint32_t lifetime) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if (static_cast<uint32_t>(word >> 32) != lifetime || !IsLive(lifetime)) return false;
    } while (!word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
  }
  // Takes another hold for somebody who has one.
  void AddHold() { word_.fetch_add(1, std::memory_order_relaxed); }
  // True when these were the last: the caller gives the slot back to the registry.
  [[nodiscard]] bool DropHolds(uint32_t count) {
    const uint64_t before = word_.fetch_sub(count, std::memory_order_acq_rel);
    return (before & kHoldMask) == count;
  }

 private:
  friend class SegmentRegistry;

  // False if it had ended before.
  bool End() {
    constexpr uint64_t kEnded = uint64_t{kEndedBit} << 32;
    return (word_.fetch_or(kEnded, std::memory_order_seq_cst) & kEnded) == 0;
  }
  // The next generation, live, with the registration's own hold.
  void Begin() {
    const uint32_t generation = (lifetime() >> 1) + 1;
    word_.store((uint64_t{generation} << 33) | 1, std::memory_order_release);
  }

  std::atomic<uint64_t> word_{uint64_t{kEndedBit} << 32};

 public:
  // Set by the registry. Readers hold no lock.
  std::atomic<bool> takes_objects{false};
  std::atomic<int64_t> readable_until_ms{kForever};

  // Constant while there are holds.
  RegistrationId registration;
  SegmentSpec spec;
  ClientId owner;
  ClientEpoch owner_epoch;
  uint64_t host_hash = 0;  // 0: no host label
  std::shared_ptr<Pool> pool;
};

// Slots by number. Memory of slots is stable and lives as long as the table; numbers grow as they are needed.
// At() of a number that was handed out is safe from any thread without a lock.
class SlotTable {
 public:
  explicit SlotTable(uint32_t max_slots);
  ~SlotTable();

  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  Slot& At(uint32_t slot) { return *Find(slot); }
  const Slot& At(uint32_t slot) const { return *Find(slot); }
  // Makes room for slot number size(). Not thread-safe against itself.
  uint32_t Grow();
  uint32_t size() const { return size_.load(std::memory_order_acquire); }
  uint32_t max_slots() const { return max_slots_; }

 private:
  static constexpr uint32_t kChunkSlots = 64;

  Slot* Find(uint32_t slot) const {
    return chunks_[slot / kChunkSlots].load(std::memory_order_acquire) + slot % kChunkSlots;
  }

  const uint32_t max_slots_;
  const std::unique_ptr<std::atomic<Slot*>[]> chunks_;
  std::atomic<uint32_t> size_{0};
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_SEGMENT_SLOT_H_

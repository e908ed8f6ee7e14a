// How an object lies in memory: one slot of the shard's arena with a header, the replicas and the key bytes.

#ifndef HOLDFAST_SERVER_CORE_OBJECT_RECORD_H_
#define HOLDFAST_SERVER_CORE_OBJECT_RECORD_H_

#include <atomic>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/core/record_arena.h"
#include "server/core/size_class.h"

namespace holdfast::core {

// Leases are kept in ticks so that a deadline fits 32 bits for eight years. Rounded up: a lease never ends early.
inline constexpr int64_t kLeaseTickMs = 64;
inline constexpr uint32_t LeaseTicks(int64_t deadline_ms) {
  return static_cast<uint32_t>((deadline_ms + kLeaseTickMs - 1) / kLeaseTickMs);
}

inline constexpr uint32_t kReplicasMax = 16;

// One replica: 20 bytes. Linked into the shard's list of its registration.
struct ReplicaRecord {
  uint32_t offset_low = 0;  // offset in units of 64 bytes, low half
  uint32_t offset_high : 8 = 0;
  uint32_t slot : 20 = 0;    // of the registration
  uint32_t ordinal : 4 = 0;  // place in the object, which leads back to its header
  uint32_t range = 0;        // in the allocator of the registration
  Handle previous = 0;       // in the list of the registration: handles of replicas
  Handle next = 0;

  uint64_t offset_bytes() const {
    return ((uint64_t{offset_high} << 32) | offset_low) * kUnitBytes;
  }
  void set_offset_bytes(uint64_t offset) {
    const uint64_t units = offset / kUnitBytes;
    offset_low = static_cast<uint32_t>(units);
    offset_high = static_cast<uint32_t>(units >> 32) & 0xff;
  }
};
static_assert(sizeof(ReplicaRecord) == 20);

struct ObjectRecord {
  SlotHeader header;
  uint8_t replica_count : 7;
  uint8_t durable : 1;  // has an entry in the shard's table of durable replicas
  uint8_t replica_capacity;
  uint16_t key_bytes;
  uint16_t complete;  // one bit a replica, by ordinal
  uint64_t size_bytes;
  uint64_t version;                     // the put id
  mutable std::atomic<uint32_t> lease;  // ticks; readers extend it under the shared lock
  uint32_t put;                         // record of the put in progress in the shard, 0: none

  ReplicaRecord* replicas() { return reinterpret_cast<ReplicaRecord*>(this + 1); }
  const ReplicaRecord* replicas() const { return reinterpret_cast<const ReplicaRecord*>(this + 1); }
  absl::string_view key() const {
    return {reinterpret_cast<const char*>(replicas() + replica_capacity), key_bytes};
  }
  bool IsComplete(uint32_t ordinal) const { return (complete >> ordinal & 1) != 0; }

  // Of the replica on this slot, which has at most one of an object; replica_count if there is none.
  uint32_t OrdinalOf(uint32_t slot) const {
    uint32_t ordinal = 0;
    while (ordinal < replica_count && replicas()[ordinal].slot != slot) ++ordinal;
    return ordinal;
  }

  bool Leased(int64_t now_ms) const { return lease_until_ms() > now_ms; }
  int64_t lease_until_ms() const {
    return int64_t{lease.load(std::memory_order_relaxed)} * kLeaseTickMs;
  }
  // Never shortens a lease.
  void ExtendLease(int64_t deadline_ms) const {
    const uint32_t wanted = LeaseTicks(deadline_ms);
    uint32_t present = lease.load(std::memory_order_relaxed);
    while (present < wanted &&
           !lease.compare_exchange_weak(present, wanted, std::memory_order_relaxed)) {
    }
  }

  static size_t Bytes(uint32_t replica_capacity, size_t key_bytes) {
    return sizeof(ObjectRecord) + replica_capacity * sizeof(ReplicaRecord) + key_bytes;
  }
  static Handle ReplicaHandle(Handle object, uint32_t ordinal) {
    return object + static_cast<Handle>((sizeof(ObjectRecord) + ordinal * sizeof(ReplicaRecord)) /
                                        RecordArena::kStepBytes);
  }
  static Handle ObjectHandle(Handle replica, uint32_t ordinal) {
    return replica - ReplicaHandle(0, ordinal);
  }
};
static_assert(sizeof(ObjectRecord) == 32);

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OBJECT_RECORD_H_

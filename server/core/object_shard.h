// One of many parts of the object table: the objects of some keys, found by key, by registration and by put.

#ifndef HOLDFAST_SERVER_CORE_OBJECT_SHARD_H_
#define HOLDFAST_SERVER_CORE_OBJECT_SHARD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/core/ids.h"
#include "server/core/object_record.h"
#include "server/core/operations.h"
#include "server/core/record_arena.h"
#include "server/core/segment_registry.h"
#include "server/core/unpublished_ledger.h"

namespace holdfast::core {

// A range that lost its replica. To be released when the shard's lock is gone.
struct FreedRange {
  uint32_t slot = 0;
  uint32_t range = 0;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  int64_t touch_until_ms = 0;  // somebody may read or write it so long
  bool may_be_written = false;
};
using FreedRanges = absl::InlinedVector<FreedRange, 8>;

// What a shard lets go of under its lock. To be given to Master::Release when the lock is gone.
struct Freed {
  FreedRanges ranges;
  std::vector<DurableEnd> durable;

  void clear() {
    ranges.clear();
    durable.clear();
  }
};

struct NewReplica {
  SegmentChoice segment;
  AllocatedRange range{};
};
using NewReplicas = absl::InlinedVector<NewReplica, 4>;

// What lies on one slot, for audits.
struct SlotUse {
  uint64_t ranges = 0;
  uint64_t bytes = 0;
};

// A put in progress.
struct PutRecord {
  Handle object = 0;  // 0: this record is free
  ClientEpoch owner;
  RequestId request;
  int64_t started_ms = 0;
  bool durable = false;  // in the queue of puts with a durable replica
  // Links by index, 0 is none: those of the same queue in order of their start, and those of one session.
  uint32_t older = 0;
  uint32_t newer = 0;
  uint32_t session_previous = 0;
  uint32_t session_next = 0;
};

// A replica in the durable tier, published or of a put in progress.
struct DurableReplica {
  TicketId ticket;            // its name
  int64_t not_before_ms = 0;  // of a put in progress: until then an upload may land
  bool published = false;
  std::string checksum;
};

// Callers hold `mu` (shared for const functions); no function blocks, calls out or destroys anything large.
//
// Invariants:
//  * every replica is in the list of its registration, and the range that it names holds the registration's slot;
//  * an object is complete, or has a put record, or both of its replicas and record are gone with it;
//  * an object without replicas has a put record or a published durable replica;
//  * a replica is linked only while its registration was live under this lock, so the sweep, which takes the lock after
//    the registration has ended, finds the list complete.
class ObjectShard {
 public:
  // `registry` and `chunks` outlive the shard.
  ObjectShard(const MasterOptions& options, const SegmentRegistry* registry, ChunkPool* chunks);

  mutable absl::Mutex mu;

  // 0 if there is none. `hash` is of the key.
  Handle Find(uint64_t hash, absl::string_view key) const ABSL_SHARED_LOCKS_REQUIRED(mu);
  const ObjectRecord& At(Handle object) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return *static_cast<const ObjectRecord*>(arena_.At(object));
  }
  // Two steps of a look-up to come, which bring what it will touch into the cache: the place in the index, then the record.
  void PrefetchIndex(uint64_t hash) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    index_.prefetch(HashProbe{static_cast<uint32_t>(hash)});
  }
  void PrefetchRecord(uint64_t hash) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    auto it = index_.find(HashProbe{static_cast<uint32_t>(hash)});
    if (it == index_.end()) {
      arena_.PrefetchNext();  // where it goes if it is put now
      return;
    }
    const void* record = arena_.At(it->object);
    __builtin_prefetch(record);
    __builtin_prefetch(static_cast<const char*>(record) + 64);
  }
  // What a put of this session that begins or ends will touch.
  void PrefetchPuts(ClientEpoch owner) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    puts_by_session_.prefetch(owner);
    __builtin_prefetch(&puts_[free_put_]);
    __builtin_prefetch(&puts_[queues_[0].oldest]);
    __builtin_prefetch(&puts_[queues_[0].newest]);
  }
  // The record of the put in progress, nullptr if there is none.
  const PutRecord* PutOf(const ObjectRecord& object) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return object.put == 0 ? nullptr : &puts_[object.put];
  }

  // THE predicate of every read path: complete, and its registration has not ended.
  bool IsAvailable(const ObjectRecord& object, uint32_t ordinal) const
      ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return object.IsComplete(ordinal) && registry_->IsLive(object.replicas()[ordinal].slot);
  }
  // The same for a durable replica: published. nullptr if there is none.
  const DurableReplica* AvailableDurable(Handle object) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    const DurableReplica* durable = DurableOf(object);
    return durable != nullptr && durable->published ? durable : nullptr;
  }
  bool AnyAvailable(Handle object) const ABSL_SHARED_LOCKS_REQUIRED(mu);
  // Complete or not: whether a replica's registration is live.
  bool AnyReplicaLive(const ObjectRecord& object) const ABSL_SHARED_LOCKS_REQUIRED(mu);
  // The same, or there is a durable replica.
  bool AnyLive(const ObjectRecord& object) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return object.durable != 0 || AnyReplicaLive(object);
  }
  // Published or not; nullptr if there is none.
  const DurableReplica* DurableOf(Handle object) const ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return At(object).durable == 0 ? nullptr : &durable_.find(object)->second;
  }

  struct NewObject {
    absl::string_view key;
    uint64_t size_bytes = 0;
    PutId put;
    ClientEpoch owner;
    RequestId request;
    int64_t started_ms = 0;
    absl::Span<const NewReplica> replicas;
    TicketId ticket;            // none: no durable replica
    int64_t not_before_ms = 0;  // of its upload
  };
  // There is no object of this key, and all registrations are live.
  Handle Insert(uint64_t hash, const NewObject& object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Ends the put: all replicas are complete, and the durable one, if any, is published.
  void Complete(Handle object, absl::string_view checksum) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Gives the put in progress to another session.
  void ChangeOwner(Handle object, ClientEpoch owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Takes the durable replica of a put in progress out of it.
  void DropDurable(Handle object, UploadOutcome outcome, Freed* freed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // What is known of the writer of a put in progress.
  struct Writer {
    bool done = false;  // writes to memory no more; otherwise it may until the put's release time
    UploadOutcome upload = UploadOutcome::kAmbiguous;
  };
  // Takes the object out.
  void Erase(Handle object, Writer writer, int64_t now_ms, Freed* freed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  struct SweepCounts {
    uint32_t replicas = 0;
    uint32_t erased_objects = 0;
    uint32_t discarded_puts = 0;
  };
  // Two steps of a sweep to come: the starts of the lists, then the first records.
  void PrefetchLists(absl::Span<const uint32_t> slots) const ABSL_SHARED_LOCKS_REQUIRED(mu);
  void PrefetchFirst(absl::Span<const uint32_t> slots) const ABSL_SHARED_LOCKS_REQUIRED(mu);
  // Unlinks replicas of ended registrations and discards puts of ended sessions, at most `max_steps` replicas of both
  // together.
  // Returns true if there is more.
  bool Sweep(absl::Span<const uint32_t> slots, absl::Span<const ClientEpoch> sessions,
             uint32_t max_steps, int64_t now_ms, Freed* freed, SweepCounts* counts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Discards puts whose release time is over, unlinking at most `max_steps` replicas. Returns how many puts.
  uint32_t DiscardDuePuts(uint32_t max_steps, int64_t now_ms, Freed* freed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Rows of the records of one chunk that are at or behind *record. Moves *record behind the chunk; false at the end.
  bool List(bool filter_invalid, absl::string_view prefix, uint32_t shard, uint32_t* record,
            std::vector<KeyListing>* rows) const ABSL_SHARED_LOCKS_REQUIRED(mu);

  // Figures for those who hold no lock; each is exact while nobody writes.
  uint64_t objects() const { return objects_.load(std::memory_order_relaxed); }
  uint64_t replicas() const { return replicas_.load(std::memory_order_relaxed); }
  uint64_t puts() const { return put_count_.load(std::memory_order_relaxed); }
  uint64_t durable_replicas() const { return durable_count_.load(std::memory_order_relaxed); }
  // When the first put in progress is to be discarded; kForever if there is none.
  int64_t next_discard_ms() const { return next_discard_ms_.load(std::memory_order_relaxed); }

  uint32_t chunks() const ABSL_SHARED_LOCKS_REQUIRED(mu) { return arena_.chunks(); }
  // Recounts everything. Adds what lies on each slot to `use_by_slot`, and the tickets of puts in progress to `tickets`.
  // Empty if the books agree.
  std::string Audit(std::vector<SlotUse>* use_by_slot, std::vector<TicketId>* tickets) const
      ABSL_SHARED_LOCKS_REQUIRED(mu);

 private:
  struct IndexEntry {
    uint32_t hash = 0;
    Handle object = 0;
  };
  struct KeyProbe {
    uint32_t hash;
    absl::string_view key;
  };
  // Any entry of this hash; looks at no record.
  struct HashProbe {
    uint32_t hash;
  };
  struct EntryHash {
    using is_transparent = void;
    size_t operator()(const IndexEntry& entry) const { return entry.hash; }
    size_t operator()(const KeyProbe& probe) const { return probe.hash; }
    size_t operator()(const HashProbe& probe) const { return probe.hash; }
  };
  struct EntryEq {
    using is_transparent = void;
    const RecordArena* arena;
    bool operator()(const IndexEntry& a, const IndexEntry& b) const { return a.object == b.object; }
    bool operator()(const IndexEntry& entry, const KeyProbe& probe) const {
      return entry.hash == probe.hash &&
             static_cast<const ObjectRecord*>(arena->At(entry.object))->key() == probe.key;
    }
    bool operator()(const KeyProbe& probe, const IndexEntry& entry) const {
      return (*this)(entry, probe);
    }
    bool operator()(const IndexEntry& entry, const HashProbe& probe) const {
      return entry.hash == probe.hash;
    }
  };

  ObjectRecord& Mutable(Handle object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return *static_cast<ObjectRecord*>(arena_.At(object));
  }
  ReplicaRecord& ReplicaAt(Handle replica) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return *static_cast<ReplicaRecord*>(arena_.At(replica));
  }
  // Makes the neighbours of a replica point to where it lies now.
  void PointNeighboursAt(Handle replica) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void LinkReplica(Handle replica) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void UnlinkReplica(Handle object, uint32_t ordinal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void AddFreed(const ObjectRecord& object, uint32_t ordinal, bool writer_is_done, int64_t now_ms,
                FreedRanges* freed) const ABSL_SHARED_LOCKS_REQUIRED(mu);
  // Removes a record without replicas and put from index and arena.
  void EraseRecord(Handle object, uint64_t hash) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  int64_t ReleaseMs(const PutRecord& put) const {
    return put.started_ms + release_timeout_ms_[put.durable ? 1 : 0];
  }
  void UpdateNextDiscard() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void LinkSession(uint32_t put) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void UnlinkSession(uint32_t put) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  uint32_t AddPut(const PutRecord& put) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void RemovePut(uint32_t put) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Returns how many replicas were unlinked.
  uint32_t SweepLists(absl::Span<const uint32_t> slots, uint32_t max_steps, int64_t now_ms,
                      Freed* freed, SweepCounts* counts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Whether an object's replicas still fit into a hold of `max_steps`; the first object always does. Counts them.
  bool TakeSteps(Handle object, uint32_t max_steps, uint32_t* steps) const
      ABSL_SHARED_LOCKS_REQUIRED(mu);
  std::string AuditLists(std::vector<SlotUse>* use_by_slot) const ABSL_SHARED_LOCKS_REQUIRED(mu);

  const uint64_t seed_;
  const std::array<int64_t, 2>
      release_timeout_ms_;  // of plain puts, and of those with a durable replica
  const SegmentRegistry* const registry_;

  std::atomic<uint64_t> objects_{0};
  std::atomic<uint64_t> replicas_{0};
  std::atomic<uint64_t> put_count_{0};
  std::atomic<uint64_t> durable_count_{0};
  std::atomic<int64_t> next_discard_ms_{kForever};

  RecordArena arena_ ABSL_GUARDED_BY(mu);
  absl::flat_hash_set<IndexEntry, EntryHash, EntryEq> index_ ABSL_GUARDED_BY(mu);
  std::vector<Handle> heads_ ABSL_GUARDED_BY(mu);    // first replica of each slot's list
  std::vector<PutRecord> puts_ ABSL_GUARDED_BY(mu);  // [0] is nobody
  uint32_t free_put_ ABSL_GUARDED_BY(mu) = 0;        // linked by `newer`
  struct PutQueue {
    uint32_t oldest = 0;
    uint32_t newest = 0;
  };
  std::array<PutQueue, 2> queues_ ABSL_GUARDED_BY(mu);  // by PutRecord::durable
  absl::flat_hash_map<ClientEpoch, uint32_t> puts_by_session_ ABSL_GUARDED_BY(mu);
  absl::flat_hash_map<Handle, DurableReplica> durable_ ABSL_GUARDED_BY(mu);  // by object
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OBJECT_SHARD_H_

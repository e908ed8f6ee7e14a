// The registrations: who lends what, since when, and until when. A registration ends once, in constant time, by one bit
// of its slot; everything that lay on it is unreadable from then on and is cleaned up by the sweep.

#ifndef HOLDFAST_SERVER_CORE_SEGMENT_REGISTRY_H_
#define HOLDFAST_SERVER_CORE_SEGMENT_REGISTRY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/core/ids.h"
#include "server/core/operations.h"
#include "server/core/placement.h"
#include "server/core/quarantine.h"
#include "server/core/residue_book.h"
#include "server/core/segment_slot.h"

namespace holdfast::core {

// Thread-safe. The lock is for operations on registrations only; reads and allocations of the data path go by the slot's
// word. Order of an end, which the other parts rely on: bit set, out of placement, queued for the sweep, swept, free.
//
// Invariants, under the lock:
//  * `by_id_` has every registration whose slot is not free; `by_segment_` and `by_owner_` the live ones;
//  * a registration that has ended leaves a residue: what readers and late writers may still touch of its memory. A later
//    private registration of the same client over that memory gets its allocator when every such residue is settled and
//    its leases are over, with the writers' ranges taken. A pooled one settles when all its ranges are out of quarantine;
//    later members of its pool need not wait, since their allocator knows.
class SegmentRegistry {
 public:
  SegmentRegistry(const MasterOptions& options, SlotTable* slots, Placement* placement);

  // --- registrations ---

  // BAD_ID, BAD_SIZE, BAD_FIELD, SEGMENT_EXISTS, SEGMENT_OVERLAP, SEGMENT_LIMIT. *inherited: ranges of the new registration
  // that wait for late writers; the caller puts them into quarantine.
  absl::StatusOr<MountAnswer> Mount(const Session& session, const SegmentSpec& spec, int64_t now_ms,
                                    std::vector<QuarantinedRange>* inherited);
  // Ends at once or sets the deadline. `owner` none: whoever owns it. OK if it has ended or never was; NOT_SEGMENT_OWNER.
  absl::Status Unmount(const ClientId& owner, RegistrationId registration, int64_t grace_ms,
                       int64_t now_ms);
  // SEGMENT_UNKNOWN, SEGMENT_STATE.
  absl::Status SetDraining(RegistrationId registration, bool draining);
  // Ends all registrations of one session. Cost: their number.
  void EndSession(const Session& session, int64_t now_ms);
  // Ends the registrations whose grace is over; returns how many.
  size_t EndDue(int64_t now_ms);
  // Those of `registrations` that are not live.
  std::vector<uint64_t> NotLive(absl::Span<const uint64_t> registrations) const;

  // --- data path: no lock ---

  const Slot& slot(uint32_t slot) const { return slots_.At(slot); }
  bool IsLive(uint32_t slot) const { return slots_.At(slot).IsLive(); }
  // The hold for a new range, and the range. nullopt: `choice` is not live any more, or has no room.
  std::optional<AllocatedRange> Allocate(const SegmentChoice& choice, uint64_t size_bytes);
  // Gives a range back with its hold. An ended private allocator is not touched any more: it dies as a whole.
  void Free(uint32_t slot, uint32_t range);
  // Drops holds of ranges that went down with their private allocator.
  void DropHolds(uint32_t slot, uint32_t count);
  // Whether ranges of the slot die with its registration.
  bool DiesWithRegistration(uint32_t slot) const {
    return slots_.At(slot).pool->is_private() && !IsLive(slot);
  }

  // --- what may still be touched ---

  // Notes for an ended private registration: leases run until `leases_until_ms` at the latest, `ranges` may be written
  // to. The caller holds ranges of the slot.
  void NoteResidue(uint32_t slot, int64_t leases_until_ms, absl::Span<const TouchedRange> ranges);
  // Gives allocators to the registrations whose waiting is over, forgets residues that do not matter any more, and
  // returns the inherited ranges for the quarantine.
  std::vector<QuarantinedRange> AdmitWaiting(int64_t now_ms);
  // Swept slots of private registrations that are still held, by ranges in quarantine or in the hands of a thread. Each may
  // be free, or another's, by the time the caller looks.
  std::vector<uint32_t> Unsettled() const;

  // --- sweep ---

  // All slots that have ended and were not swept. Stays until FinishSweep.
  std::vector<uint32_t> EndedSlots() const;
  bool HasEnded() const;
  // When the first of those that were not swept has ended; kForever if there is none. No lock.
  int64_t OldestEndMs() const { return oldest_end_ms_.load(std::memory_order_relaxed); }
  // Every shard was visited since EndedSlots returned this slot.
  void FinishSweep(uint32_t slot);
  // Allocators of freed slots, to be destroyed by whom it does not hurt.
  std::vector<std::shared_ptr<Pool>> TakeDeadPools();

  // --- lists and figures ---

  std::vector<SegmentListing> List(RegistrationId after, bool include_ended, size_t max_rows,
                                   int64_t now_ms) const;
  uint32_t SegmentsOf(const ClientId& owner) const;
  // Fills segments, capacity and allocated bytes, and what waits for cleanup. Cost: registrations.
  void Count(int64_t now_ms, MasterCounts* counts) const;
  size_t ResidueCount() const;

 private:
  struct Control {
    SegmentState state = SegmentState::kEnded;
    int64_t deadline_ms = kForever;
    int64_t ended_at_ms = 0;
    bool waiting = false;  // has no allocator yet
    bool swept = false;
  };

  absl::Status CheckSpec(const SegmentSpec& spec) const;
  absl::StatusOr<uint32_t> FindLive(RegistrationId registration) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::Status CheckOverlap(const ClientId& owner, const SegmentSpec& spec) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<Pool>> FindOrMakePool(const SegmentSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<uint32_t> TakeSlot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetState(uint32_t slot, SegmentState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool EndLocked(uint32_t slot, int64_t now_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TryAdmit(uint32_t slot, int64_t now_ms, std::vector<QuarantinedRange>* inherited)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SegmentListing Describe(uint32_t slot, int64_t now_ms) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Second half of an end, without the lock: out of placement, then into the sweep's queue.
  void Retire(absl::Span<const uint32_t> slots);
  void FreeSlot(uint32_t slot);
  void NoteOldestEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RefreshMembers(const Pool& pool);

  const MasterOptions options_;
  Placement* const placement_;
  SlotTable& slots_;

  std::atomic<int64_t> oldest_end_ms_{kForever};

  mutable absl::Mutex mu_;
  uint64_t next_registration_ ABSL_GUARDED_BY(mu_);
  std::vector<Control> controls_ ABSL_GUARDED_BY(mu_);  // by slot
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mu_);
  absl::btree_map<RegistrationId, uint32_t> by_id_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<SegmentId, uint32_t> by_segment_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<ClientId, std::vector<uint32_t>> by_owner_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::weak_ptr<Pool>> pools_ ABSL_GUARDED_BY(mu_);
  absl::btree_set<std::pair<int64_t, uint32_t>> deadlines_ ABSL_GUARDED_BY(mu_);
  absl::btree_set<uint32_t> waiting_ ABSL_GUARDED_BY(mu_);
  absl::btree_set<uint32_t> ended_ ABSL_GUARDED_BY(mu_);      // queued for the sweep
  absl::btree_set<uint32_t> unsettled_ ABSL_GUARDED_BY(mu_);  // swept and not free
  ResidueBook residues_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Pool>> dead_pools_ ABSL_GUARDED_BY(mu_);
  uint64_t swept_registrations_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_SEGMENT_REGISTRY_H_

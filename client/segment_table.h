// What this client lends: its segments, which of them the user still wants mounted, and under which registration.

#ifndef HOLDFAST_CLIENT_SEGMENT_TABLE_H_
#define HOLDFAST_CLIENT_SEGMENT_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "client/deadline.h"
#include "holdfast/client.h"

namespace holdfast::client {

using SegmentId = std::array<uint8_t, 16>;

// The right to change one segment at the master; nobody else has it until the claim is given back.
struct SegmentClaim {
  SegmentOptions segment;
  uint64_t registration_id = 0;  // the last one known; 0: none
  uint64_t epoch = 0;            // of the session that the registration belongs to
  uint32_t grace_ms = 0;
  // A mount in this session may have reached the master although its answer was not seen, so that `registration_id` may
  // be out of date; 0: none.
  uint64_t uncertain_epoch = 0;
  // How the segment was before a mount claimed it.
  bool was_known = false;
  bool was_wanted = false;
};

// Thread-safe; holds its lock for no call. Invariants:
//  * A segment has at most one claim; every change at the master is made under it.
//  * A segment that the user has unmounted is unwanted from then on, is never claimed for a remount, and stays here until
//    the master has confirmed that it ended (or its session, and with it the registration, is over).
//  * Every registration id that a segment here ever had finds it, so that an unmount with an id from before a remount
//    ends the segment that its caller means.
class SegmentTable {
 public:
  // --- by the user ---

  // Waits for another claim on the segment. DEADLINE_EXCEEDED.
  absl::StatusOr<SegmentClaim> ClaimForMount(const SegmentOptions& segment, Deadline deadline);
  // `epoch` is that of the call. Also gives a remount's claim back.
  void Mounted(const SegmentClaim& claim, uint64_t epoch, uint64_t registration_id);
  // The segment is again what it was before; if it may be mounted all the same, it is one to unmount.
  void MountFailed(const SegmentClaim& claim, uint64_t epoch, bool outcome_unknown);

  // The segment is unwanted from here on, also on failure. None: no segment here has or had this registration.
  // DEADLINE_EXCEEDED.
  absl::StatusOr<absl::optional<SegmentClaim>> ClaimForUnmount(uint64_t registration_id,
                                                               uint32_t grace_ms,
                                                               Deadline deadline);
  // The master has confirmed. A graceful one stays here until the master says that it ended.
  void Unmounted(const SegmentClaim& claim);
  void UnmountFailed(const SegmentClaim& claim);

  // --- by the heartbeat thread ---

  // Wanted segments that are not mounted under `epoch`.
  std::vector<SegmentClaim> ClaimForRemount(uint64_t epoch);
  void RemountFailed(const SegmentClaim& claim, uint64_t epoch, bool outcome_unknown);
  // The master will never take it: forgets it. True if the user must hear that it ended.
  bool RemountRefused(const SegmentClaim& claim);
  // Unwanted segments whose unmount the master has not confirmed. Forgets those of earlier sessions.
  std::vector<SegmentClaim> ClaimForSettling(uint64_t epoch);
  // The master has ended these: forgets them; the answer holds those that the user must hear of.
  std::vector<uint64_t> TakeEnded(const std::vector<uint64_t>& registration_ids);
  // What a heartbeat under `epoch` reports.
  std::vector<uint64_t> Reported(uint64_t epoch) const;

  // --- views ---

  std::vector<uint64_t> MountedIds(uint64_t epoch) const;
  // Last known registration of all that are wanted, mounted or not.
  std::vector<uint64_t> WantedIds() const;
  size_t WantedCount() const;

 private:
  struct Entry {
    SegmentOptions segment;
    uint64_t registration_id = 0;
    uint64_t epoch = 0;
    uint64_t uncertain_epoch = 0;
    uint32_t grace_ms = 0;
    bool wanted = false;
    bool claimed = false;
    bool leaving = false;              // unmounted with a grace period that may still run
    std::vector<uint64_t> former_ids;  // the last kFormerIdsMax
  };
  using Entries = absl::flat_hash_map<SegmentId, Entry>;

  // Waits until nobody has a claim on the segment, or it is gone. False when the deadline is over.
  bool AwaitUnclaimed(const SegmentId& id, Deadline deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static SegmentClaim MakeClaim(Entry& entry);
  void Forget(Entries::iterator it) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetRegistration(Entry& entry, uint64_t registration_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, SegmentId> by_registration_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_SEGMENT_TABLE_H_

// Mounts and unmounts the segments of this client at the master: for the user, and after a session was reopened.

#ifndef HOLDFAST_CLIENT_MOUNTER_H_
#define HOLDFAST_CLIENT_MOUNTER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/call.h"
#include "client/segment_table.h"
#include "client/session.h"
#include "holdfast/client.h"

namespace holdfast::client {

// Thread-safe. Mount and Unmount are for the user's threads and may wait for a heartbeat round; Settle is for the
// heartbeat thread and waits for none.
class Mounter {
 public:
  struct SettleReport {
    size_t remounted = 0;
    std::vector<uint64_t>
        lost_registration_ids;  // of segments that the master refused to mount again
    absl::Status first_error;   // what is left is for the next round
  };

  // All must outlive it.
  Mounter(Caller* caller, Session* session, SegmentTable* table)
      : caller_(caller), session_(session), table_(table) {}

  absl::StatusOr<uint64_t> Mount(SegmentOptions segment, Deadline deadline);
  absl::Status Unmount(uint64_t registration_id, std::chrono::milliseconds grace,
                       Deadline deadline);

  // Brings the master in line with the table under session `epoch`: mounts what is wanted and not mounted, unmounts
  // what is mounted and not wanted. Each call of it ends after `call_deadline` at the latest.
  SettleReport Settle(uint64_t epoch, std::chrono::milliseconds call_deadline,
                      Cancellation* cancellation);

 private:
  // Where a call is made from.
  struct Frame {
    uint64_t epoch = 0;  // 0: the session's own, renewed when the master refuses it
    CallSettings settings;
  };

  template <class Request, class Response>
  absl::Status Call(Method<Request, Response> method, Request* request, Response* response,
                    const Frame& frame);
  absl::StatusOr<uint64_t> CallMount(const SegmentOptions& segment, Frame frame,
                                     uint64_t* epoch_used);
  // Ends the segment's registration, also one of which only the master knows.
  absl::Status EndClaimed(SegmentClaim* claim, const Frame& frame);
  // False when the rest of the round would fail as well.
  bool RemountSome(absl::Span<const SegmentClaim> claims, const Frame& frame, SettleReport* report);

  Caller* const caller_;
  Session* const session_;
  SegmentTable* const table_;
};

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_MOUNTER_H_

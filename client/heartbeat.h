// Keeps the session: the pass is one heartbeat with everything that its answer asks for, the worker runs it in time.

#ifndef HOLDFAST_CLIENT_HEARTBEAT_H_
#define HOLDFAST_CLIENT_HEARTBEAT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "client/call.h"
#include "client/mounter.h"
#include "client/segment_table.h"
#include "client/session.h"
#include "holdfast/client.h"
#include "holdfast/v1/store.pb.h"

namespace holdfast::client {

struct HeartbeatOptions {
  uint64_t incarnation = 0;  // random for each client
  std::string host;
  std::chrono::milliseconds ttl{0};  // wanted; 0: the master's default
  SessionEvents events;
  // The master has told where the durable tier is. On the heartbeat thread.
  std::function<void(const std::string& uri)> on_durable_store;
  // The master answered after it had not: it is worthwhile to connect again at once. On the heartbeat thread.
  std::function<void()> on_recovered;
};

// One thread at a time, except Cancel.
class HeartbeatPass {
 public:
  // All must outlive it. `caller` should have a connection of its own.
  HeartbeatPass(Caller* caller, Session* session, SegmentTable* table, Mounter* mounter,
                HeartbeatOptions options);

  // Opens the session for the first time. The error of the call; DEADLINE_EXCEEDED when no answer came.
  absl::Status Open(Deadline deadline);
  // One heartbeat. When the session is lost: opens a new one and mounts all segments again.
  absl::Status Run();
  // From the start of one run to that of the next.
  std::chrono::milliseconds interval() const { return interval_; }

  // Ends the calls of a run that is in progress and of all later ones. From any thread.
  void Cancel() { cancellation_.Cancel(); }

 private:
  absl::Status Beat(uint64_t epoch, Deadline deadline, v1::HeartbeatResponse* response);
  void TellOffers(v1::HeartbeatResponse* response);
  void TellEnded(const std::vector<uint64_t>& registration_ids);

  Caller* const caller_;
  Session* const session_;
  SegmentTable* const table_;
  Mounter* const mounter_;
  const HeartbeatOptions options_;
  Cancellation cancellation_;  // thread-safe

  std::chrono::milliseconds ttl_;
  std::chrono::milliseconds interval_;
  bool failed_ = false;  // the last run had no answer
};

// Runs a pass until it is destroyed, which takes no longer than an event of the user.
class HeartbeatWorker {
 public:
  HeartbeatWorker(HeartbeatPass* pass, Session* session);
  ~HeartbeatWorker();
  HeartbeatWorker(const HeartbeatWorker&) = delete;
  HeartbeatWorker& operator=(const HeartbeatWorker&) = delete;

 private:
  void Loop();

  HeartbeatPass* const pass_;
  Session* const session_;
  std::thread thread_;
};

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_HEARTBEAT_H_

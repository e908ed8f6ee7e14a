// The client's session with the master: who this client is, under which epoch it is known, and the meeting point of the
// heartbeat thread (which renews and reopens the session) with calls that the master refused for lack of one.

#ifndef HOLDFAST_CLIENT_SESSION_H_
#define HOLDFAST_CLIENT_SESSION_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/call.h"
#include "client/deadline.h"

namespace holdfast::client {

// Thread-safe. A round is one run of the heartbeat pass; one at a time, on one thread.
class Session {
 public:
  explicit Session(const std::array<uint8_t, 16>& client_id);

  // 16 bytes, as the wire has it.
  const std::string& client_id() const { return client_id_; }
  // 0: no session.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  // --- by calls ---

  // Asks for a round at once.
  void Kick();
  // Asks for a round at once and waits for the end of it. The epoch that is then current.
  uint64_t AwaitRound(uint64_t stale_epoch, Deadline deadline);

  // --- by the heartbeat thread ---

  // Waits until `next`, a kick or the end; false at the end. A kick is answered not before `earliest`, so that calls
  // that are refused again and again cannot make a storm of heartbeats.
  bool AwaitTurn(Deadline earliest, Deadline next);
  void BeginRound();
  // Publishes the epoch that the round found and wakes those that wait.
  void EndRound(uint64_t epoch);

  // No more rounds; nobody waits any longer.
  void Stop();

 private:
  const std::string client_id_;
  std::atomic<uint64_t> epoch_{0};  // orders nothing but itself; written only by EndRound

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool kicked_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t rounds_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What a call does that the master refused for lack of a session.
enum class AfterReopening { kRepeat, kGiveUp };

// Makes a call that carries the session in its request. When the master refuses the session, a heartbeat round is asked
// for, and with kRepeat the call is made once more under the session that the round opened.
template <class Request, class Response, class Stub>
absl::Status CallInSession(Caller& caller, Session& session, Method<Request, Response, Stub> method,
                           Request* request, Response* response, const CallSettings& settings,
                           AfterReopening after) {
  const uint64_t epoch = session.epoch();
  if (epoch == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(settings.operation, ": this client has no session"));
  }
  request->mutable_session()->set_client_id(session.client_id());
  request->mutable_session()->set_client_epoch(epoch);
  absl::Status status = caller.Call(method, *request, response, settings);
  if (!SessionRefused(status)) return status;
  if (after == AfterReopening::kGiveUp) {
    session.Kick();
    return status;
  }
  const uint64_t reopened = session.AwaitRound(epoch, settings.deadline);
  if (reopened == epoch || reopened == 0) return status;
  request->mutable_session()->set_client_epoch(reopened);
  response->Clear();
  return caller.Call(method, *request, response, settings);
}

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_SESSION_H_

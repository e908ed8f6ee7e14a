// The clients that are alive: who opened a session, when each was heard last, and which sessions have ended.

#ifndef HOLDFAST_SERVER_CORE_CLIENT_SESSIONS_H_
#define HOLDFAST_SERVER_CORE_CLIENT_SESSIONS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/core/ids.h"
#include "server/core/operations.h"

namespace holdfast::core {

// Thread-safe, in stripes by client, so that a heartbeat waits for no data work and hardly for another heartbeat.
// An epoch names one session for ever: it is never given out twice, by this or an earlier run of the master.
class ClientSessions {
 public:
  explicit ClientSessions(const MasterOptions& options);

  struct HeartbeatResult {
    HeartbeatAnswer answer;
    std::optional<Session> ended;  // by this call; the caller ends its registrations
  };
  // BAD_ID, BAD_FIELD, CLIENT_LIMIT.
  absl::StatusOr<HeartbeatResult> Heartbeat(const HeartbeatRequest& request, int64_t now_ms);

  // SESSION_UNKNOWN, SESSION_STALE, BAD_ID.
  absl::Status Check(const Session& session) const;

  // The live session of a client; none if there is none.
  ClientEpoch EpochOf(const ClientId& client) const;

  // Ends and returns the sessions that were silent for their time-out. When most clients are silent at once, the fault
  // is likelier here or in the network: they get one more period of grace first.
  std::vector<Session> TakeExpired(int64_t now_ms);
  // Everybody counts as heard just now.
  void RefreshAll(int64_t now_ms);

  // Ended sessions whose puts were not discarded yet. Stays until FinishDiscard.
  std::vector<ClientEpoch> EndedEpochs() const;
  bool HasEnded() const;
  void FinishDiscard(const std::vector<ClientEpoch>& epochs);

  static constexpr uint32_t kStripes = 64;
  std::vector<ClientListing> List(uint32_t stripe, int64_t now_ms) const;
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t expired() const { return expired_.load(std::memory_order_relaxed); }
  uint64_t deferred() const { return deferred_.load(std::memory_order_relaxed); }

 private:
  struct Record {
    ClientEpoch epoch;
    uint64_t incarnation = 0;
    int64_t ttl_ms = 0;
    int64_t heard_ms = 0;
    std::string host;
    std::string peer;

    bool Overdue(int64_t now_ms) const { return now_ms - heard_ms > ttl_ms; }
  };
  struct Stripe {
    mutable absl::Mutex mu;
    absl::flat_hash_map<ClientId, Record> clients ABSL_GUARDED_BY(mu);
  };

  Stripe& StripeOf(const ClientId& client) { return stripes_[StripeIndex(client)]; }
  const Stripe& StripeOf(const ClientId& client) const { return stripes_[StripeIndex(client)]; }
  static size_t StripeIndex(const ClientId& client);
  absl::StatusOr<HeartbeatResult> Open(const HeartbeatRequest& request, int64_t now_ms);
  bool DeferMassExpiry(size_t overdue, int64_t now_ms);
  void NoteEnded(const Session& session);

  const MasterOptions options_;

  std::atomic<uint64_t> next_epoch_;
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> expired_{0};
  std::atomic<uint64_t> deferred_{0};
  std::array<Stripe, kStripes> stripes_;

  mutable absl::Mutex ended_mu_;
  std::vector<ClientEpoch> ended_ ABSL_GUARDED_BY(ended_mu_);
  int64_t mass_expiry_at_ms_ ABSL_GUARDED_BY(ended_mu_) = 0;  // 0: not deferring
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_CLIENT_SESSIONS_H_

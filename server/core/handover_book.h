// Hand-overs of unpublished names between clients: what one has offered, in which order, and how far the other has
// acknowledged.

#ifndef HOLDFAST_SERVER_CORE_HANDOVER_BOOK_H_
#define HOLDFAST_SERVER_CORE_HANDOVER_BOOK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/core/ids.h"
#include "server/core/operations.h"
#include "server/core/outcome.h"

namespace holdfast::core {

// Thread-safe. Decides nothing about ownership: that is the ledger's, and only it can say which offers are still open.
//
// Invariants:
//  * the entries of a hand-over have consecutive sequence numbers, from the first that is not acknowledged on;
//  * acknowledgements only move forward, and never beyond what was offered;
//  * a hand-over ends with either of its sessions.
class HandoverBook {
 public:
  // Bounds memory: what one sender may have offered and not seen acknowledged.
  explicit HandoverBook(uint32_t max_entries_of_a_session);

  // The sequence number that the next entry must have, 0 for a new hand-over. kHandoverUnknown when the id is in use towards
  // another session, kClientQuota when this sender has no room.
  Reason NextSequence(const Session& from, ClientEpoch to, uint64_t id, uint64_t* next) const;
  // What was answered to an entry that was offered before; kNone if it is acknowledged.
  Reason AnswerTo(const Session& from, uint64_t id, uint64_t sequence) const;
  // False when another call was faster, or there is no room: nothing was noted.
  bool Append(const Session& from, ClientEpoch to, uint64_t id, uint64_t sequence,
              HandoverEntry entry);
  // Everything before `next_expected` is acknowledged. Takes the entries out that were not before. *acknowledged is where
  // the hand-over stands then; beyond what was offered nothing moves. kHandoverUnknown.
  Reason Acknowledge(ClientEpoch to, const ClientId& from, uint64_t id, uint64_t next_expected,
                     std::vector<HandoverEntry>* taken, uint64_t* acknowledged, Session* sender);
  // The entries from `first` on, `count` of them (0: all), as far as they are not acknowledged. They stay in the book, so
  // that acknowledgements can pass them. kHandoverUnknown.
  Reason Entries(const Session& from, uint64_t id, uint64_t first, uint64_t count,
                 std::vector<HandoverEntry>* entries) const;
  // Up to `max_rows` entries that this session has not acknowledged, in order.
  std::vector<OfferRow> PendingFor(ClientEpoch to, size_t max_rows) const;
  // Ends the hand-overs from and to a session; returns the entries of those *to* it: the senders keep them.
  std::vector<HandoverEntry> EndSession(ClientEpoch session);

  uint64_t entries() const { return entry_count_.load(std::memory_order_relaxed); }

 private:
  using Key = std::pair<ClientId, uint64_t>;  // sender, id
  struct Handover {
    Session from;
    ClientEpoch to;
    uint64_t first = 0;  // sequence number of entries[0]
    std::deque<HandoverEntry> entries;
  };

  struct OfSession {
    std::vector<Key> keys;  // as sender and as receiver
    uint32_t entries = 0;   // as sender
  };

  bool HasRoom(ClientEpoch from, bool begin) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Forget(const Key& key, ClientEpoch session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Hand-overs of one session: each is a queue that goes on as long as both sessions live.
  static constexpr size_t kHandoversMax = 1024;

  const uint32_t max_entries_;

  std::atomic<uint64_t> entry_count_{0};

  mutable absl::Mutex mu_;
  std::map<Key, Handover> handovers_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<ClientEpoch, OfSession> by_session_ ABSL_GUARDED_BY(mu_);
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_HANDOVER_BOOK_H_

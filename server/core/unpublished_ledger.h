// The ledger of unpublished names: every name in the durable tier that may hold bytes and is not reachable through an
// object has exactly one ticket here, and the ticket an owner, until the name is published or its deletion is confirmed.

#ifndef HOLDFAST_SERVER_CORE_UNPUBLISHED_LEDGER_H_
#define HOLDFAST_SERVER_CORE_UNPUBLISHED_LEDGER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/core/ids.h"
#include "server/core/operations.h"
#include "server/core/outcome.h"

namespace holdfast::core {

// A name that lost its put or its object.
struct DurableEnd {
  TicketId ticket;
  bool published = false;
  UploadOutcome outcome = UploadOutcome::kAmbiguous;  // of an unpublished one
  int64_t leased_until_ms = 0;                        // somebody may read it so long
};

// Thread-safe; one lock, held for a few hundred nanoseconds a name. Does no I/O: a worker takes names that are to be
// deleted and tells what the store has confirmed.
//
// Invariants:
//  * used = tickets that are not free <= capacity;
//  * a ticket is given back by FinishPublish, by an upload that never started, or by a confirmed deletion, by nothing else;
//  * kWaiting, kReady and kDeleting are a one-way door: such a name is never published;
//  * a name that may still be written is not deleted before its not_before.
//
// Names of removed objects come in as tickets are free; until then they are kept as debt (16 bytes each), and new puts
// leave the last tickets to them.
class UnpublishedLedger {
 public:
  // Takes its limits from `options`. Without a durable tier it has no tickets, and no memory.
  explicit UnpublishedLedger(const MasterOptions& options);

  // What all names begin with, in this run of the master.
  const std::string& name_prefix() const { return name_prefix_; }
  // The name that belongs to a ticket, this one or an earlier one: "<partition>/<epoch>/<ticket>".
  std::string NameOf(TicketId ticket) const;

  // --- for puts ---

  // Takes a ticket. kLedgerFull, kClientQuota.
  Reason Reserve(ClientEpoch owner, int64_t not_before_ms, TicketId* ticket);
  // The put of a reserved name ends: its metadata is about to be made visible. Cancels an offer. If kNone, followed by
  // exactly one of the next two. kNotPutOwner; kStalePut when the name is on its way out: nothing is to be published.
  Reason BeginPublish(TicketId ticket, ClientEpoch owner);
  // It is visible, and the ticket free. (If it was removed again meanwhile, the name is to be deleted.)
  void FinishPublish(TicketId ticket, int64_t now_ms);
  // It was not made visible: the put goes on, or is over.
  void RefusePublish(TicketId ticket, int64_t now_ms);
  // Names that lost their put or object. Those that can be deleted at once become one task.
  void Settle(absl::Span<const DurableEnd> ends, int64_t now_ms);

  // --- for hand-overs ---

  // A reserved name of `owner` is offered to `receiver`, whose share it counts against from now on. *offer tells this
  // offer from later ones of the same name. kNotPutOwner, kStalePut, kClientQuota, kOffered when it is offered already.
  Reason Offer(TicketId ticket, ClientEpoch owner, ClientEpoch receiver, uint32_t* offer);
  // The receiver becomes the owner. False if this offer is no longer open.
  bool Accept(TicketId ticket, uint32_t offer);
  // The owner keeps it. False if this offer is no longer open.
  bool Withdraw(TicketId ticket, uint32_t offer);
  bool IsOpen(TicketId ticket, uint32_t offer) const;

  // --- for the worker that deletes; one at a time ---

  struct Batch {
    std::vector<TicketId> tickets;
    std::vector<std::string> names;
    std::vector<uint32_t> task_names;  // how many of them come from each task, in order
    bool rest_in_front = false;        // the last task has more names
  };
  // Up to `max_names` names from the head of the queue, from one task only if wanted. Empty: nothing is due.
  Batch Take(size_t max_names, bool one_task, int64_t now_ms);
  // confirmed[i]: the i-th name of the batch is known to be gone. The others go back to the tail, task by task.
  void Finish(const Batch& batch, const std::vector<bool>& confirmed, int64_t now_ms);
  // When there may be something to take if nothing else happens: 0 at once, kForever when nothing waits.
  int64_t NextDueMs() const;
  // True once after something was queued: the worker is to be woken.
  bool TakeAttention();

  // --- for operators ---

  uint32_t capacity() const { return capacity_; }
  uint32_t used() const {
    absl::MutexLock lock(&mu_);
    return used_;
  }
  LedgerCounts Count(int64_t now_ms) const;
  // Up to `max_rows` used tickets from slot *slot on; moves *slot behind them. False at the end.
  bool List(uint32_t* slot, size_t max_rows, int64_t now_ms,
            std::vector<TicketListing>* rows) const;
  // Recounts everything. `in_puts`: the tickets of all puts in progress. Empty if the books agree.
  std::string Audit(absl::Span<const TicketId> in_puts) const;

 private:
  // 64 bytes, so that the memory of a ticket is this and its name.
  struct Ticket {
    uint32_t generation = 0;
    TicketState state = TicketState::kFree;
    bool gone = false;  // kPublishing: its put or object went away meanwhile
    uint16_t name_bytes = 0;
    std::unique_ptr<char[]> name;
    ClientEpoch owner;  // on whose account it is, also while the master deletes it
    int64_t not_before_ms = 0;
    union {
      int64_t since_ms = 0;  // of the master's debt
      uint64_t receiver;     // kOffered: the session
    };
    // All links are slots; 0 is nobody.
    union {
      uint32_t next = 0;  // free list, or the next name of the task
      uint32_t offer;     // kReserved, kOffered: the last one
    };
    // Of a task; valid in its first ticket.
    uint32_t task_last = 0;
    uint32_t task_names = 0;
    uint32_t queue_next = 0;
    // All names that the master owes, in order of their age.
    uint32_t older = 0;
    uint32_t newer = 0;
  };
  static_assert(sizeof(Ticket) == 64);

  struct Debt {
    TicketId ticket;
    int64_t not_before_ms = 0;
  };

  // nullptr if the ticket is not (or no longer) in use.
  Ticket* Find(TicketId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static uint32_t SlotOf(TicketId id) { return static_cast<uint32_t>(id.value); }
  TicketId IdOf(uint32_t slot) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return TicketId{uint64_t{tickets_[slot].generation} << 32 | slot};
  }
  Ticket* FindOffered(TicketId id, uint32_t offer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The offer is void; the ticket is the owner's again.
  void CancelOffer(Ticket* ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Discharge(ClientEpoch owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // There is a free one.
  uint32_t Allocate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Frees it, and gives it to a debt if there is one.
  void Free(uint32_t slot, int64_t now_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetName(uint32_t slot, TicketId name_of) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SettleOne(const DurableEnd& end, int64_t now_ms, uint32_t* task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Passes the one-way door: waits until not_before, or joins *task (which it begins if there is none).
  void Owe(uint32_t slot, int64_t not_before_ms, int64_t now_ms, uint32_t* task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddToTask(uint32_t slot, uint32_t* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Enqueue(uint32_t task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint32_t Dequeue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Names whose time has come become tasks of their own.
  void ReadyDue(int64_t now_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdoptDebts(int64_t now_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LaterThan(uint32_t a, uint32_t b) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return tickets_[a].not_before_ms > tickets_[b].not_before_ms;
  }
  std::string AuditQueue() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void LinkYoungest(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UnlinkAge(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string name_prefix_;
  const uint32_t capacity_;
  const uint32_t client_share_;     // tickets
  const uint32_t removal_reserve_;  // tickets

  std::atomic<bool> attention_{false};

  mutable absl::Mutex mu_;
  std::vector<Ticket> tickets_ ABSL_GUARDED_BY(mu_);  // [0] is nobody
  uint32_t free_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t used_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t high_water_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<ClientEpoch, uint32_t> used_by_owner_ ABSL_GUARDED_BY(mu_);
  std::vector<uint32_t> waiting_ ABSL_GUARDED_BY(mu_);  // a heap, the earliest not_before first
  uint32_t queue_head_ ABSL_GUARDED_BY(mu_) = 0;        // of tasks
  uint32_t queue_tail_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t tasks_ ABSL_GUARDED_BY(mu_) = 0;      // queued ones
  uint32_t in_flight_ ABSL_GUARDED_BY(mu_) = 0;  // tasks of the batch that is being deleted
  uint32_t owed_ ABSL_GUARDED_BY(mu_) = 0;       // names behind the one-way door
  uint32_t oldest_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t youngest_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Debt> debts_ ABSL_GUARDED_BY(mu_);
  LedgerCounts totals_ ABSL_GUARDED_BY(mu_);  // what only grows
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_UNPUBLISHED_LEDGER_H_

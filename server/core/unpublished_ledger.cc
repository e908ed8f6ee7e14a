#include "server/core/unpublished_ledger.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"
#include "server/core/key_hash.h"
#include "server/core/segment_slot.h"

namespace holdfast::core {

UnpublishedLedger::UnpublishedLedger(const MasterOptions& options)
    : name_prefix_(absl::StrCat(options.name_partition, "/",
                                absl::Hex(FirstId(options.seed, /*stream=*/4), absl::kZeroPad16),
                                "/")),
      capacity_(options.durable_tier ? options.ledger_tickets : 0),
      client_share_(static_cast<uint32_t>(
          std::max<uint64_t>(1, uint64_t{capacity_} * options.ledger_client_percent / 100))),
      removal_reserve_(
          static_cast<uint32_t>(uint64_t{capacity_} * options.ledger_removal_percent / 100)),
      tickets_(capacity_ == 0 ? 0 : capacity_ + 1) {
  absl::MutexLock lock(&mu_);
  for (uint32_t slot = capacity_; slot > 0; --slot) {
    tickets_[slot].next = free_;
    free_ = slot;
  }
}

std::string UnpublishedLedger::NameOf(TicketId ticket) const {
  return absl::StrCat(name_prefix_, absl::Hex(ticket.value, absl::kZeroPad16));
}

UnpublishedLedger::Ticket* UnpublishedLedger::Find(TicketId id) {
  const uint32_t slot = SlotOf(id);
  if (slot == 0 || slot > capacity_ || IdOf(slot) != id) return nullptr;
  return tickets_[slot].state == TicketState::kFree ? nullptr : &tickets_[slot];
}

uint32_t UnpublishedLedger::Allocate() {
  const uint32_t slot = free_;
  HOLDFAST_CHECK(slot != 0);
  Ticket& ticket = tickets_[slot];
  free_ = std::exchange(ticket.next, 0);
  ++ticket.generation;
  high_water_ = std::max(high_water_, ++used_);
  return slot;
}

void UnpublishedLedger::SetName(uint32_t slot, TicketId name_of) {
  const std::string name = NameOf(name_of);
  tickets_[slot].name_bytes = static_cast<uint16_t>(name.size());
  tickets_[slot].name = std::make_unique<char[]>(name.size());
  std::memcpy(tickets_[slot].name.get(), name.data(), name.size());
}

void UnpublishedLedger::Free(uint32_t slot, int64_t now_ms) {
  Ticket& ticket = tickets_[slot];
  if (ticket.owner != ClientEpoch()) Discharge(ticket.owner);
  const uint32_t generation = ticket.generation;
  ticket = Ticket();
  ticket.generation = generation;
  ticket.next = free_;
  free_ = slot;
  --used_;
  AdoptDebts(now_ms);
}

Reason UnpublishedLedger::Reserve(ClientEpoch owner, int64_t not_before_ms, TicketId* id) {
  absl::MutexLock lock(&mu_);
  const uint32_t limit = debts_.empty() ? capacity_ : capacity_ - removal_reserve_;
  if (used_ >= limit) {
    ++totals_.full_refusals;
    return Reason::kLedgerFull;
  }
  uint32_t& account = used_by_owner_[owner];
  if (account >= client_share_) {
    ++totals_.quota_refusals;
    return Reason::kClientQuota;
  }
  ++account;
  const uint32_t slot = Allocate();
  Ticket& ticket = tickets_[slot];
  ticket.state = TicketState::kReserved;
  ticket.owner = owner;
  ticket.not_before_ms = not_before_ms;
  *id = IdOf(slot);
  SetName(slot, *id);
  return Reason::kNone;
}

void UnpublishedLedger::Discharge(ClientEpoch owner) {
  auto account = used_by_owner_.find(owner);
  if (--account->second == 0) used_by_owner_.erase(account);
}

void UnpublishedLedger::CancelOffer(Ticket* ticket) {
  if (ticket->state != TicketState::kOffered) return;
  Discharge(ClientEpoch{ticket->receiver});
  ticket->receiver = 0;
  ticket->state = TicketState::kReserved;
}

Reason UnpublishedLedger::BeginPublish(TicketId id, ClientEpoch owner) {
  absl::MutexLock lock(&mu_);
  Ticket* ticket = Find(id);
  if (ticket == nullptr) return Reason::kStalePut;
  CancelOffer(ticket);
  if (ticket->state != TicketState::kReserved) return Reason::kStalePut;
  if (ticket->owner != owner) return Reason::kNotPutOwner;
  ticket->state = TicketState::kPublishing;
  return Reason::kNone;
}

Reason UnpublishedLedger::Offer(TicketId id, ClientEpoch owner, ClientEpoch receiver,
                                uint32_t* offer) {
  absl::MutexLock lock(&mu_);
  Ticket* ticket = Find(id);
  if (ticket == nullptr) return Reason::kStalePut;
  if (ticket->state == TicketState::kOffered) return Reason::kOffered;
  if (ticket->state != TicketState::kReserved) return Reason::kStalePut;
  if (ticket->owner != owner) return Reason::kNotPutOwner;
  uint32_t& account = used_by_owner_[receiver];
  if (account >= client_share_) {
    ++totals_.quota_refusals;
    return Reason::kClientQuota;
  }
  ++account;
  ticket->state = TicketState::kOffered;
  ticket->receiver = receiver.value;
  *offer = ++ticket->offer;
  return Reason::kNone;
}

UnpublishedLedger::Ticket* UnpublishedLedger::FindOffered(TicketId id, uint32_t offer) {
  Ticket* ticket = Find(id);
  const bool open = ticket != nullptr && ticket->state == TicketState::kOffered;
  return open && ticket->offer == offer ? ticket : nullptr;
}

bool UnpublishedLedger::Accept(TicketId id, uint32_t offer) {
  absl::MutexLock lock(&mu_);
  Ticket* ticket = FindOffered(id, offer);
  if (ticket == nullptr) return false;
  Discharge(ticket->owner);
  ticket->owner = ClientEpoch{ticket->receiver};
  ticket->receiver = 0;
  ticket->state = TicketState::kReserved;
  return true;
}

bool UnpublishedLedger::Withdraw(TicketId id, uint32_t offer) {
  absl::MutexLock lock(&mu_);
  Ticket* ticket = FindOffered(id, offer);
  if (ticket != nullptr) CancelOffer(ticket);
  return ticket != nullptr;
}

bool UnpublishedLedger::IsOpen(TicketId id, uint32_t offer) const {
  absl::MutexLock lock(&mu_);
  const uint32_t slot = SlotOf(id);
  return slot != 0 && slot < tickets_.size() && IdOf(slot) == id &&
         tickets_[slot].state == TicketState::kOffered && tickets_[slot].offer == offer;
}

void UnpublishedLedger::FinishPublish(TicketId id, int64_t now_ms) {
  absl::MutexLock lock(&mu_);
  Ticket* ticket = Find(id);
  HOLDFAST_CHECK(ticket != nullptr && ticket->state == TicketState::kPublishing);
  ++totals_.published_names;
  if (!ticket->gone) {
    Free(SlotOf(id), now_ms);
    return;
  }
  uint32_t task = 0;
  Owe(SlotOf(id), ticket->not_before_ms, now_ms, &task);
  if (task != 0) Enqueue(task);
}

void UnpublishedLedger::RefusePublish(TicketId id, int64_t now_ms) {
  absl::MutexLock lock(&mu_);
  Ticket* ticket = Find(id);
  HOLDFAST_CHECK(ticket != nullptr && ticket->state == TicketState::kPublishing);
  if (!ticket->gone) {
    ticket->state = TicketState::kReserved;
    return;
  }
  uint32_t task = 0;
  Owe(SlotOf(id), ticket->not_before_ms, now_ms, &task);
  if (task != 0) Enqueue(task);
}

void UnpublishedLedger::Settle(absl::Span<const DurableEnd> ends, int64_t now_ms) {
  if (ends.empty()) return;
  absl::MutexLock lock(&mu_);
  uint32_t task = 0;
  for (const DurableEnd& end : ends) SettleOne(end, now_ms, &task);
  if (task != 0) Enqueue(task);
}

void UnpublishedLedger::SettleOne(const DurableEnd& end, int64_t now_ms, uint32_t* task) {
  Ticket* ticket = Find(end.ticket);
  if (ticket != nullptr && ticket->state == TicketState::kPublishing) {
    // Whoever is publishing it decides, and is told by this.
    ticket->gone = true;
    if (end.published) ticket->not_before_ms = end.leased_until_ms;
    return;
  }
  if (end.published) {
    debts_.push_back({end.ticket, end.leased_until_ms});
    AdoptDebts(now_ms);
    return;
  }
  if (ticket == nullptr) return;
  CancelOffer(ticket);
  if (ticket->state != TicketState::kReserved) return;  // told before
  if (end.outcome == UploadOutcome::kNotStarted) {
    ++totals_.unused_names;
    Free(SlotOf(end.ticket), now_ms);
    return;
  }
  const bool may_land = end.outcome != UploadOutcome::kFinished;
  Owe(SlotOf(end.ticket), may_land ? ticket->not_before_ms : 0, now_ms, task);
}

void UnpublishedLedger::Owe(uint32_t slot, int64_t not_before_ms, int64_t now_ms, uint32_t* task) {
  Ticket& ticket = tickets_[slot];
  ticket.gone = false;
  ticket.not_before_ms = not_before_ms;
  // Callers read their clock before they come here, and may pass each other on the way.
  ticket.since_ms = youngest_ == 0 ? now_ms : std::max(now_ms, tickets_[youngest_].since_ms);
  LinkYoungest(slot);
  attention_.store(true, std::memory_order_relaxed);
  if (not_before_ms <= now_ms) {
    AddToTask(slot, task);
    return;
  }
  ticket.state = TicketState::kWaiting;
  waiting_.push_back(slot);
  std::push_heap(waiting_.begin(), waiting_.end(),
                 [this](uint32_t a, uint32_t b)
                     ABSL_SHARED_LOCKS_REQUIRED(mu_) { return LaterThan(a, b); });
}

void UnpublishedLedger::AdoptDebts(int64_t now_ms) {
  uint32_t task = 0;
  while (!debts_.empty() && used_ < capacity_) {
    const Debt debt = debts_.front();
    debts_.pop_front();
    const uint32_t slot = Allocate();
    SetName(slot, debt.ticket);
    Owe(slot, debt.not_before_ms, now_ms, &task);
  }
  if (task != 0) Enqueue(task);
}

void UnpublishedLedger::LinkYoungest(uint32_t slot) {
  tickets_[slot].older = youngest_;
  (youngest_ != 0 ? tickets_[youngest_].newer : oldest_) = slot;
  youngest_ = slot;
  ++owed_;
}

void UnpublishedLedger::UnlinkAge(uint32_t slot) {
  const Ticket& ticket = tickets_[slot];
  (ticket.older != 0 ? tickets_[ticket.older].newer : oldest_) = ticket.newer;
  (ticket.newer != 0 ? tickets_[ticket.newer].older : youngest_) = ticket.older;
  --owed_;
}

void UnpublishedLedger::AddToTask(uint32_t slot, uint32_t* task) {
  Ticket& ticket = tickets_[slot];
  ticket.state = TicketState::kReady;
  ticket.next = 0;
  if (*task == 0) {
    *task = slot;
    ticket.task_names = 0;
  } else {
    tickets_[tickets_[*task].task_last].next = slot;
  }
  tickets_[*task].task_last = slot;
  ++tickets_[*task].task_names;
}

void UnpublishedLedger::Enqueue(uint32_t task) {
  tickets_[task].queue_next = 0;
  (queue_tail_ != 0 ? tickets_[queue_tail_].queue_next : queue_head_) = task;
  queue_tail_ = task;
  ++tasks_;
}

uint32_t UnpublishedLedger::Dequeue() {
  const uint32_t task = queue_head_;
  queue_head_ = tickets_[task].queue_next;
  if (queue_head_ == 0) queue_tail_ = 0;
  --tasks_;
  return task;
}

void UnpublishedLedger::ReadyDue(int64_t now_ms) {
  const auto later = [this](uint32_t a, uint32_t b)
                         ABSL_SHARED_LOCKS_REQUIRED(mu_) { return LaterThan(a, b); };
  while (!waiting_.empty() && tickets_[waiting_.front()].not_before_ms <= now_ms) {
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    uint32_t task = 0;
    AddToTask(waiting_.back(), &task);
    waiting_.pop_back();
    Enqueue(task);
  }
}

UnpublishedLedger::Batch UnpublishedLedger::Take(size_t max_names, bool one_task, int64_t now_ms) {
  Batch batch;
  absl::MutexLock lock(&mu_);
  HOLDFAST_CHECK(in_flight_ == 0);
  ReadyDue(now_ms);
  while (queue_head_ != 0 && batch.names.size() < max_names && !(one_task && in_flight_ > 0)) {
    const uint32_t task = Dequeue();
    const uint32_t names = tickets_[task].task_names;
    const uint32_t last = tickets_[task].task_last;
    const auto taken =
        static_cast<uint32_t>(std::min<size_t>(names, max_names - batch.names.size()));
    uint32_t slot = task;
    for (uint32_t i = 0; i < taken; ++i, slot = tickets_[slot].next) {
      tickets_[slot].state = TicketState::kDeleting;
      batch.tickets.push_back(IdOf(slot));
      batch.names.emplace_back(tickets_[slot].name.get(), tickets_[slot].name_bytes);
    }
    batch.task_names.push_back(taken);
    ++in_flight_;
    if (taken == names) continue;
    // The rest stays in front: confirmed progress is never sent again, and the next attempt goes on from there.
    batch.rest_in_front = true;
    tickets_[slot].task_last = last;
    tickets_[slot].task_names = names - taken;
    tickets_[slot].queue_next = queue_head_;
    queue_head_ = slot;
    if (queue_tail_ == 0) queue_tail_ = slot;
    ++tasks_;
  }
  return batch;
}

void UnpublishedLedger::Finish(const Batch& batch, const std::vector<bool>& confirmed,
                               int64_t now_ms) {
  HOLDFAST_CHECK(confirmed.size() == batch.tickets.size());
  absl::MutexLock lock(&mu_);
  size_t at = 0;
  for (size_t group = 0; group < batch.task_names.size(); ++group) {
    uint32_t left = 0;  // what remains of the task
    for (const size_t end = at + batch.task_names[group]; at < end; ++at) {
      const uint32_t slot = SlotOf(batch.tickets[at]);
      HOLDFAST_CHECK(tickets_[slot].state == TicketState::kDeleting);
      if (!confirmed[at]) {
        AddToTask(slot, &left);
        ++totals_.retried_names;
        continue;
      }
      UnlinkAge(slot);
      ++totals_.deleted_names;
      Free(slot, now_ms);
    }
    if (left == 0) continue;
    if (batch.rest_in_front && group + 1 == batch.task_names.size()) {
      const uint32_t rest = Dequeue();
      tickets_[tickets_[left].task_last].next = rest;
      tickets_[left].task_last = tickets_[rest].task_last;
      tickets_[left].task_names += tickets_[rest].task_names;
    }
    Enqueue(left);
  }
  in_flight_ = 0;
}

int64_t UnpublishedLedger::NextDueMs() const {
  absl::MutexLock lock(&mu_);
  if (queue_head_ != 0) return 0;
  return waiting_.empty() ? kForever : tickets_[waiting_.front()].not_before_ms;
}

bool UnpublishedLedger::TakeAttention() {
  return attention_.load(std::memory_order_relaxed) &&
         attention_.exchange(false, std::memory_order_relaxed);
}

LedgerCounts UnpublishedLedger::Count(int64_t now_ms) const {
  absl::MutexLock lock(&mu_);
  LedgerCounts counts = totals_;
  counts.tickets_used = used_;
  counts.tickets_capacity = capacity_;
  counts.tickets_high_water = high_water_;
  counts.pending_tasks = tasks_ + in_flight_;
  counts.pending_names = owed_ - waiting_.size();
  counts.quarantined_names = waiting_.size();
  counts.removal_debt = debts_.size();
  counts.oldest_owed_age_ms = oldest_ == 0 ? 0 : now_ms - tickets_[oldest_].since_ms;
  return counts;
}

bool UnpublishedLedger::List(uint32_t* slot, size_t max_rows, int64_t now_ms,
                             std::vector<TicketListing>* rows) const {
  // A free ticket costs a look, so the step is bounded by looks as well.
  constexpr uint32_t kLooksMax = 4096;
  absl::MutexLock lock(&mu_);
  *slot = std::max(*slot, 1u);
  const uint32_t end = static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{*slot} + kLooksMax, uint64_t{capacity_} + 1));
  for (; *slot < end && rows->size() < max_rows; ++*slot) {
    const Ticket& ticket = tickets_[*slot];
    if (ticket.state == TicketState::kFree) continue;
    TicketListing row;
    row.ticket = IdOf(*slot);
    row.name.assign(ticket.name.get(), ticket.name_bytes);
    row.state = ticket.state;
    row.owner = ticket.owner;
    if (ticket.state >= TicketState::kWaiting) row.age_ms = now_ms - ticket.since_ms;
    row.not_before_left_ms = std::max<int64_t>(0, ticket.not_before_ms - now_ms);
    rows->push_back(std::move(row));
  }
  return *slot <= capacity_;
}

std::string UnpublishedLedger::AuditQueue() const {
  uint32_t tasks = 0;
  uint64_t names = 0;
  uint32_t last = 0;
  for (uint32_t task = queue_head_; task != 0; task = tickets_[task].queue_next, ++tasks) {
    uint32_t in_task = 0;
    uint32_t last_in_task = 0;
    for (uint32_t slot = task; slot != 0 && in_task <= used_; slot = tickets_[slot].next) {
      if (tickets_[slot].state != TicketState::kReady) return "a queued name that is not ready";
      last_in_task = slot;
      ++in_task;
    }
    if (in_task != tickets_[task].task_names) return "names of a task";
    if (last_in_task != tickets_[task].task_last) return "last name of a task";
    names += in_task;
    last = task;
  }
  if (tasks != tasks_ || last != queue_tail_) return "queue of tasks";
  uint64_t ready = 0;
  for (const Ticket& ticket : tickets_) ready += ticket.state == TicketState::kReady ? 1 : 0;
  return ready == names ? "" : absl::StrCat(ready, " names are ready, ", names, " queued");
}

std::string UnpublishedLedger::Audit(absl::Span<const TicketId> in_puts) const {
  absl::MutexLock lock(&mu_);
  for (const TicketId& id : in_puts) {
    const uint32_t slot = SlotOf(id);
    if (slot == 0 || slot >= tickets_.size() || IdOf(slot) != id ||
        tickets_[slot].state == TicketState::kFree ||
        tickets_[slot].state >= TicketState::kWaiting) {
      return absl::StrCat("a put holds ticket ", id.value, ", which is not a client's");
    }
  }
  if (in_puts.size() + owed_ != used_) return "a client's ticket without a put";
  uint32_t used = 0;
  uint64_t owed = 0;
  uint64_t waiting = 0;
  absl::flat_hash_map<ClientEpoch, uint32_t> by_owner;
  for (uint32_t slot = 1; slot < tickets_.size(); ++slot) {
    const Ticket& ticket = tickets_[slot];
    if (ticket.state == TicketState::kFree) continue;
    ++used;
    owed += ticket.state >= TicketState::kWaiting ? 1 : 0;
    waiting += ticket.state == TicketState::kWaiting ? 1 : 0;
    if (ticket.name_bytes == 0) return "a ticket without a name";
    if (ticket.owner != ClientEpoch()) ++by_owner[ticket.owner];
    if (ticket.state == TicketState::kOffered) ++by_owner[ClientEpoch{ticket.receiver}];
  }
  if (used != used_ || used_ > capacity_) return absl::StrCat(used, " tickets used, not ", used_);
  uint32_t free = 0;
  for (uint32_t slot = free_; slot != 0; slot = tickets_[slot].next) ++free;
  if (free + used_ != capacity_) return "free tickets";
  if (by_owner != used_by_owner_) return "tickets of the clients";
  if (waiting != waiting_.size()) return "names that wait";
  if (!debts_.empty() && used_ < capacity_) return "a debt beside a free ticket";
  uint64_t in_order = 0;
  for (uint32_t slot = oldest_; slot != 0; slot = tickets_[slot].newer) {
    const uint32_t older = tickets_[slot].older;
    if (older != 0 && tickets_[older].since_ms > tickets_[slot].since_ms) return "order of age";
    ++in_order;
  }
  if (in_order != owed || owed_ != owed) return "names that are owed";
  return AuditQueue();
}

}  // namespace holdfast::core

// Hand-over of puts with an unpublished durable replica from one client to another.

#include "absl/strings/str_cat.h"
#include "server/core/master.h"

namespace holdfast::core {
namespace {

constexpr size_t kChecksumBytesMax = 128;

}  // namespace

Reason Master::MakeOffer(const OfferRequest& request, ClientEpoch receiver, const OfferItem& item,
                         HandoverEntry* entry) {
  if (const Reason reason = CheckKey(item.key); reason != Reason::kNone) return reason;
  if (item.checksum.size() > kChecksumBytesMax) return Reason::kBadField;
  {
    const uint64_t hash = table_.Hash(item.key);
    const ObjectShard& shard = table_.ShardOf(hash);
    absl::ReaderMutexLock lock(&shard.mu);
    const Handle handle = shard.Find(hash, item.key);
    if (handle == 0 || shard.At(handle).version != item.put.value) {
      return WasIssued(item.put) ? Reason::kStalePut : Reason::kUnknownPut;
    }
    const ObjectRecord& object = shard.At(handle);
    const PutRecord* put = shard.PutOf(object);
    if (put == nullptr) return Reason::kPutComplete;
    if (put->owner != request.session.epoch) return Reason::kNotPutOwner;
    const DurableReplica* durable = shard.DurableOf(handle);
    if (durable == nullptr) return Reason::kBadField;
    entry->ticket = durable->ticket;
    entry->size_bytes = object.size_bytes;
  }
  entry->key = std::string(item.key);
  entry->put = item.put;
  entry->checksum = std::string(item.checksum);
  return ledger_.Offer(entry->ticket, request.session.epoch, receiver, &entry->offer);
}

Outcome Master::OfferOne(const OfferRequest& request, ClientEpoch receiver, uint64_t sequence,
                         const OfferItem& item) {
  HandoverEntry entry;
  entry.refused = MakeOffer(request, receiver, item, &entry);
  const HandoverEntry made = entry;
  if (handovers_.Append(request.session, receiver, request.handover_id, sequence,
                        std::move(entry))) {
    return {made.refused};
  }
  if (made.refused == Reason::kNone) ledger_.Withdraw(made.ticket, made.offer);
  return {Reason::kHandoverUnknown};
}

absl::Status Master::OfferTickets(const OfferRequest& request, OfferAnswer* answer) {
  if (absl::Status status = CheckBatch("offer", request.items.size()); !status.ok()) return status;
  if (absl::Status status = sessions_.Check(request.session); !status.ok()) return status;
  const ClientEpoch receiver = sessions_.EpochOf(request.to);
  if (receiver == ClientEpoch()) {
    return Refuse(Reason::kHandoverUnknown,
                  absl::StrCat("offer: client ", request.to.ToHex(), " has no session"));
  }
  uint64_t next = 0;
  const Reason reason =
      handovers_.NextSequence(request.session, receiver, request.handover_id, &next);
  if (reason != Reason::kNone) {
    return Refuse(reason, absl::StrCat("offer: hand-over ", request.handover_id, " cannot go on"));
  }
  answer->rows.reserve(request.items.size());
  for (size_t i = 0; i < request.items.size(); ++i) {
    const uint64_t sequence = request.first_sequence + i;
    if (sequence < next) {
      answer->rows.push_back({handovers_.AnswerTo(request.session, request.handover_id, sequence)});
      continue;
    }
    // A gap would never be acknowledged.
    const Outcome outcome = sequence > next
                                ? Outcome{Reason::kHandoverUnknown}
                                : OfferOne(request, receiver, sequence, request.items[i]);
    answer->rows.push_back(outcome);
    // A refused item has its number all the same, so that the others keep theirs when the call is repeated.
    if (outcome.reason != Reason::kHandoverUnknown) ++next;
  }
  answer->next_sequence = next;
  // If one of the sessions ended meanwhile, its end may have come before these entries were there to be found.
  absl::Status status = sessions_.Check(request.session);
  if (!status.ok()) EndHandovers(request.session.epoch);
  if (sessions_.EpochOf(request.to) != receiver) EndHandovers(receiver);
  return status;
}

bool Master::MovePut(const HandoverEntry& entry, ClientEpoch from, ClientEpoch to) {
  const uint64_t hash = table_.Hash(entry.key);
  ObjectShard& shard = table_.ShardOf(hash);
  absl::MutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, entry.key);
  if (handle == 0 || shard.At(handle).version != entry.put.value) return false;
  const PutRecord* put = shard.PutOf(shard.At(handle));
  if (put == nullptr || put->owner != from) return false;
  shard.ChangeOwner(handle, to);
  return true;
}

absl::Status Master::AckTickets(const Session& session, const ClientId& from, uint64_t handover_id,
                                uint64_t next_expected, int64_t now_ms, uint64_t* acknowledged) {
  if (absl::Status status = sessions_.Check(session); !status.ok()) return status;
  std::vector<HandoverEntry> taken;
  Session sender;
  const Reason reason = handovers_.Acknowledge(session.epoch, from, handover_id, next_expected,
                                               &taken, acknowledged, &sender);
  if (reason != Reason::kNone) {
    return Refuse(reason, absl::StrCat("acknowledge: no hand-over ", handover_id, " of client ",
                                       from.ToHex(), " to this session"));
  }
  // The ledger says who owns a name; the put follows. An offer that was withdrawn or published meanwhile is passed over.
  for (const HandoverEntry& entry : taken) {
    if (ledger_.Accept(entry.ticket, entry.offer)) MovePut(entry, sender.epoch, session.epoch);
  }
  // If this session ended meanwhile, the discard of its puts may have passed these by.
  absl::Status status = sessions_.Check(session);
  if (status.ok()) return status;
  Freed freed;
  for (const HandoverEntry& entry : taken) {
    RevokeOnePut(session, {entry.key, entry.put}, /*writer_is_done=*/false, now_ms, &freed);
  }
  Release(freed, now_ms);
  return status;
}

absl::Status Master::WithdrawOffer(const Session& session, uint64_t handover_id,
                                   uint64_t first_sequence, uint64_t count, uint64_t* withdrawn) {
  if (absl::Status status = sessions_.Check(session); !status.ok()) return status;
  std::vector<HandoverEntry> entries;
  const Reason reason = handovers_.Entries(session, handover_id, first_sequence, count, &entries);
  if (reason != Reason::kNone) {
    return Refuse(reason, absl::StrCat("withdraw: no hand-over ", handover_id, " of this session"));
  }
  for (const HandoverEntry& entry : entries) {
    *withdrawn += ledger_.Withdraw(entry.ticket, entry.offer) ? 1 : 0;
  }
  return absl::OkStatus();
}

std::vector<OfferRow> Master::PendingOffers(ClientEpoch receiver) const {
  constexpr size_t kRowsMax = 256;  // of one heartbeat
  std::vector<OfferRow> rows = handovers_.PendingFor(receiver, kRowsMax);
  for (OfferRow& row : rows) {
    row.open = ledger_.IsOpen(row.entry.ticket, row.entry.offer);
    if (row.open) row.name = ledger_.NameOf(row.entry.ticket);
  }
  return rows;
}

void Master::EndHandovers(ClientEpoch session) {
  for (const HandoverEntry& entry : handovers_.EndSession(session)) {
    ledger_.Withdraw(entry.ticket, entry.offer);
  }
}

}  // namespace holdfast::core

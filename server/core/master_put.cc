// Puts: PutStart, PutEnd, PutRevoke and Remove.

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"
#include "server/core/master.h"
#include "server/core/size_class.h"

namespace holdfast::core {
namespace {

// A chosen segment may end, or fill up, before its range is taken; then another is chosen, so often at most.
constexpr int kPlacementTries = 16;
constexpr int kInsertTries = 8;
// Each name is looked up for each item.
constexpr size_t kPreferredSegmentsMax = 64;
constexpr size_t kChecksumBytesMax = 128;

// What stands in the way of a new put.
struct Obstacle {
  Reason reason = Reason::kNone;
  bool replay = false;  // this very put is in progress already
};

Obstacle FindObstacle(const ObjectShard& shard, Handle handle, const Session& session,
                      RequestId request, int64_t discard_timeout_ms, int64_t now_ms)
    ABSL_SHARED_LOCKS_REQUIRED(shard.mu) {
  if (handle == 0) return {};
  if (shard.AnyAvailable(handle)) return {Reason::kObjectExists};
  const ObjectRecord& object = shard.At(handle);
  // An object without live replicas is as good as absent, whether the sweep has been there or not.
  const PutRecord* put = shard.PutOf(object);
  if (put == nullptr || !shard.AnyLive(object)) return {};
  const bool mine = put->owner == session.epoch;
  if (mine && put->request == request) return {Reason::kNone, true};
  const DurableReplica* durable = shard.DurableOf(handle);
  const bool may_land = durable != nullptr && now_ms < durable->not_before_ms;
  if (now_ms - put->started_ms >= discard_timeout_ms && !may_land) return {};
  return {mine ? Reason::kPutInProgressByYou : Reason::kPutInProgressByOther};
}

}  // namespace

Reason Master::CheckPutItem(const PutStartItem& item) const {
  if (const Reason reason = CheckKey(item.key); reason != Reason::kNone) return reason;
  if (item.size_bytes == 0 || item.size_bytes > kSegmentBytesMax) return Reason::kBadSize;
  if (item.replicas > options_.max_replicas) return Reason::kBadReplicaCount;
  if (item.durability > Durability::kDurable) return Reason::kBadField;
  if (item.upload_timeout_ms > options_.upload_timeout_max_ms) return Reason::kBadField;
  if (item.durability != Durability::kMemory && !options_.durable_tier) {
    return Reason::kNoDurableTier;
  }
  return item.request.value == 0 ? Reason::kBadId : Reason::kNone;
}

Reason Master::PlaceReplicas(const PutStartRequest& request, const PutStartItem& item,
                             CallRandom* random, NewReplicas* replicas) {
  if (item.durability == Durability::kDurable) return Reason::kNone;
  const uint32_t wanted = std::max(item.replicas, 1u);
  absl::InlinedVector<uint32_t, 8> excluded;
  absl::InlinedVector<uint64_t, 4> used_hosts;
  Placement::Query query;
  query.size_bytes = item.size_bytes;
  query.strategy = options_.strategy;
  query.preferred_segments = request.preferred_segments;
  if (request.prefer_local || options_.strategy == PlacementStrategy::kLocalFirst) {
    query.local_client = request.session.client;
  }
  for (int tries = 0; replicas->size() < wanted && tries < kPlacementTries + int(wanted); ++tries) {
    query.excluded_slots = excluded;
    query.used_hosts = used_hosts;
    const std::optional<SegmentChoice> choice = placement_.Choose(query, random);
    if (!choice.has_value()) break;
    excluded.push_back(choice->slot);
    const std::optional<AllocatedRange> range = registry_.Allocate(*choice, item.size_bytes);
    if (!range.has_value()) continue;
    used_hosts.push_back(registry_.slot(choice->slot).host_hash);
    replicas->push_back({*choice, *range});
  }
  if (replicas->size() == wanted) return Reason::kNone;
  FreeUnused(*replicas);
  replicas->clear();
  const uint32_t segments = placement_.size();
  if (segments == 0) return Reason::kNoSegment;
  return segments < wanted ? Reason::kTooFewSegments : Reason::kNoSpace;
}

void Master::FreeUnused(const NewReplicas& replicas) {
  for (const NewReplica& replica : replicas) {
    registry_.Free(replica.segment.slot, replica.range.index);
  }
}

PutStartRow Master::Describe(const ObjectShard& shard, Handle handle, int64_t now_ms,
                             SegmentTableBuilder* table, PutStartAnswer* answer) const {
  const ObjectRecord& object = shard.At(handle);
  PutStartRow row;
  row.put = PutId{object.version};
  row.first_replica = static_cast<uint32_t>(answer->replicas.size());
  row.replica_count = object.replica_count;
  for (uint32_t i = 0; i < object.replica_count; ++i) {
    table->Add(object.replicas()[i].slot, object.replicas()[i].offset_bytes());
  }
  if (const DurableReplica* durable = shard.DurableOf(handle)) {
    UploadRow upload;
    upload.row = static_cast<uint32_t>(answer->rows.size());
    upload.name = ledger_.NameOf(durable->ticket);
    upload.time_left_ms =
        std::max<int64_t>(0, durable->not_before_ms - options_.upload_grace_ms - now_ms);
    answer->uploads.push_back(std::move(upload));
  }
  return row;
}

PutStartRow Master::StartOnePut(const PutStartRequest& request, const PutStartItem& item,
                                uint64_t hash, int64_t now_ms, CallRandom* random,
                                SegmentTableBuilder* table, PutStartAnswer* answer) {
  PutStartRow row;
  row.reason = CheckPutItem(item);
  if (row.reason != Reason::kNone) return row;
  {
    // Most refusals are found here, before space is taken for nothing.
    const ObjectShard& shard = table_.ShardOf(hash);
    absl::ReaderMutexLock lock(&shard.mu);
    const Handle handle = shard.Find(hash, item.key);
    const Obstacle obstacle = FindObstacle(shard, handle, request.session, item.request,
                                           options_.put_discard_timeout_ms, now_ms);
    if (obstacle.replay) return Describe(shard, handle, now_ms, table, answer);
    row.reason = obstacle.reason;
    if (row.reason != Reason::kNone) return row;
  }
  if (item.durability == Durability::kMemory) {
    return InsertOnePut(request, item, hash, TicketId(), now_ms, random, table, answer);
  }
  // The ticket comes before the name is told: no upload starts without one.
  TicketId ticket;
  row.reason = ledger_.Reserve(request.session.epoch, NotBeforeMs(item, now_ms), &ticket);
  if (row.reason != Reason::kNone) return row;
  row = InsertOnePut(request, item, hash, ticket, now_ms, random, table, answer);
  if (answer->uploads.empty() || answer->uploads.back().name != ledger_.NameOf(ticket)) {
    const DurableEnd unused{ticket, /*published=*/false, UploadOutcome::kNotStarted, 0};
    ledger_.Settle({&unused, 1}, now_ms);
  }
  return row;
}

int64_t Master::NotBeforeMs(const PutStartItem& item, int64_t now_ms) const {
  const int64_t timeout_ms =
      item.upload_timeout_ms == 0 ? options_.upload_timeout_ms : item.upload_timeout_ms;
  return now_ms + timeout_ms + options_.upload_grace_ms;
}

PutStartRow Master::InsertOnePut(const PutStartRequest& request, const PutStartItem& item,
                                 uint64_t hash, TicketId ticket, int64_t now_ms, CallRandom* random,
                                 SegmentTableBuilder* table, PutStartAnswer* answer) {
  PutStartRow row;
  ObjectShard& shard = table_.ShardOf(hash);
  for (int tries = 0; tries < kInsertTries; ++tries) {
    NewReplicas replicas;
    row.reason = PlaceReplicas(request, item, random, &replicas);
    if (row.reason != Reason::kNone) return row;
    Freed freed;
    std::optional<PutStartRow> done;
    {
      absl::MutexLock lock(&shard.mu);
      const Handle handle = shard.Find(hash, item.key);
      const Obstacle obstacle = FindObstacle(shard, handle, request.session, item.request,
                                             options_.put_discard_timeout_ms, now_ms);
      if (obstacle.replay) {
        done = Describe(shard, handle, now_ms, table, answer);
      } else if (obstacle.reason != Reason::kNone) {
        row.reason = obstacle.reason;
        done = row;
      } else if (AllLive(replicas)) {
        if (handle != 0) {
          if (shard.At(handle).put != 0) discarded_puts_.fetch_add(1, std::memory_order_relaxed);
          shard.Erase(handle, ObjectShard::Writer{}, now_ms, &freed);
        }
        const PutId put{next_put_.fetch_add(1, std::memory_order_relaxed)};
        const Handle inserted =
            shard.Insert(hash, {item.key, item.size_bytes, put, request.session.epoch, item.request,
                                now_ms, replicas, ticket, NotBeforeMs(item, now_ms)});
        done = Describe(shard, inserted, now_ms, table, answer);
        replicas.clear();  // they belong to the object now
      }
    }
    FreeUnused(replicas);
    Release(freed, now_ms);
    if (done.has_value()) return *done;
  }
  row.reason = Reason::kNoSpace;
  return row;
}

bool Master::AllLive(const NewReplicas& replicas) const {
  for (const NewReplica& replica : replicas) {
    // Our range holds the slot, so the generation cannot change: only the end has to be looked for.
    if (!registry_.IsLive(replica.segment.slot)) return false;
  }
  return true;
}

absl::Status Master::PutStart(const PutStartRequest& request, int64_t now_ms,
                              PutStartAnswer* answer) {
  if (absl::Status status = CheckBatch("put start", request.items.size()); !status.ok()) {
    return status;
  }
  if (request.preferred_segments.size() > kPreferredSegmentsMax) {
    return Refuse(Reason::kBadField, absl::StrCat("put start: ", request.preferred_segments.size(),
                                                  " preferred segments, at most ",
                                                  kPreferredSegmentsMax, " are allowed"));
  }
  if (absl::Status status = sessions_.Check(request.session); !status.ok()) return status;
  CallRandom random(request.random);
  SegmentTableBuilder table(&registry_, answer);
  answer->rows.reserve(request.items.size());
  answer->replicas.reserve(request.items.size());
  table_.ForEach(
      request.items.size(), [&request](size_t i) { return request.items[i].key; },
      [&](size_t i, uint64_t hash) {
        answer->rows.push_back(
            StartOnePut(request, request.items[i], hash, now_ms, &random, &table, answer));
      },
      request.session.epoch);
  // If the session ended meanwhile, the discard of its puts may have passed these by.
  absl::Status status = sessions_.Check(request.session);
  if (!status.ok()) RevokeStarted(request, *answer, now_ms);
  return status;
}

void Master::RevokeStarted(const PutStartRequest& request, const PutStartAnswer& answer,
                           int64_t now_ms) {
  Freed freed;
  for (size_t i = 0; i < answer.rows.size(); ++i) {
    if (answer.rows[i].reason != Reason::kNone) continue;
    // It may be a replay, whose first answer was given: then the writer may be writing.
    RevokeOnePut(request.session, {request.items[i].key, answer.rows[i].put},
                 /*writer_is_done=*/false, now_ms, &freed);
  }
  Release(freed, now_ms);
}

Outcome Master::CompletePut(const Session& session, const PutRef& item, uint64_t hash,
                            TicketId* publishing, Freed* freed) {
  ObjectShard& shard = table_.ShardOf(hash);
  absl::MutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, item.key);
  if (handle == 0 || shard.At(handle).version != item.put.value) {
    return {WasIssued(item.put) ? Reason::kStalePut : Reason::kUnknownPut};
  }
  const ObjectRecord& object = shard.At(handle);
  const PutRecord* put = shard.PutOf(object);
  if (put != nullptr && put->owner != session.epoch) return {Reason::kNotPutOwner};
  const DurableReplica* durable = shard.DurableOf(handle);
  if (put != nullptr && durable != nullptr) {
    if (item.upload == UploadOutcome::kUnspecified) return {Reason::kBadField};
    const bool stored = item.upload == UploadOutcome::kFinished;
    if (stored && *publishing == TicketId()) {
      *publishing = durable->ticket;
      return {};
    }
    if (!stored && !shard.AnyReplicaLive(object)) return {Reason::kReplicaLost};
    if (!stored) shard.DropDurable(handle, item.upload, freed);
  }
  // The record stays when all is lost, so that a repeated end is told the same.
  if (!shard.AnyLive(object)) return {Reason::kReplicaLost};
  if (put != nullptr) shard.Complete(handle, item.checksum);
  return {};
}

Outcome Master::EndOnePut(const Session& session, const PutRef& item, uint64_t hash,
                          int64_t now_ms) {
  if (const Reason reason = CheckKey(item.key); reason != Reason::kNone) return {reason};
  if (item.checksum.size() > kChecksumBytesMax || item.upload > UploadOutcome::kAmbiguous) {
    return {Reason::kBadField};
  }
  Freed freed;
  TicketId publishing;
  Outcome outcome = CompletePut(session, item, hash, &publishing, &freed);
  if (publishing != TicketId()) {
    // No lock is held between the steps, so the ledger is told before and after: meanwhile nobody deletes the name, and
    // whoever takes the put or the object away leaves a note there.
    outcome.reason = ledger_.BeginPublish(publishing, session.epoch);
    if (!outcome.ok()) return outcome;
    outcome = CompletePut(session, item, hash, &publishing, &freed);
    if (outcome.ok()) {
      ledger_.FinishPublish(publishing, now_ms);
    } else {
      ledger_.RefusePublish(publishing, now_ms);
    }
  }
  Release(freed, now_ms);
  return outcome;
}

Outcome Master::RevokeOnePut(const Session& session, const PutRef& item, bool writer_is_done,
                             int64_t now_ms, Freed* freed) {
  if (const Reason reason = CheckKey(item.key); reason != Reason::kNone) return {reason};
  if (item.upload > UploadOutcome::kAmbiguous) return {Reason::kBadField};
  const uint64_t hash = table_.Hash(item.key);
  ObjectShard& shard = table_.ShardOf(hash);
  absl::MutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, item.key);
  if (handle == 0 || shard.At(handle).version != item.put.value) {
    return {WasIssued(item.put) ? Reason::kNone : Reason::kUnknownPut};
  }
  const PutRecord* put = shard.PutOf(shard.At(handle));
  if (put == nullptr) return {Reason::kPutComplete};
  if (put->owner != session.epoch) return {Reason::kNotPutOwner};
  shard.Erase(handle, ObjectShard::Writer{writer_is_done, item.upload}, now_ms, freed);
  return {};
}

absl::Status Master::PutEnd(const Session& session, absl::Span<const PutRef> items, int64_t now_ms,
                            std::vector<Outcome>* answer) {
  if (absl::Status status = CheckBatch("put end", items.size()); !status.ok()) return status;
  if (absl::Status status = sessions_.Check(session); !status.ok()) return status;
  answer->reserve(items.size());
  table_.ForEach(
      items.size(), [items](size_t i) { return items[i].key; },
      [&](size_t i, uint64_t hash) {
        answer->push_back(EndOnePut(session, items[i], hash, now_ms));
      },
      session.epoch);
  return absl::OkStatus();
}

absl::Status Master::PutRevoke(const Session& session, absl::Span<const PutRef> items,
                               int64_t now_ms, std::vector<Outcome>* answer) {
  if (absl::Status status = CheckBatch("put revoke", items.size()); !status.ok()) return status;
  if (absl::Status status = sessions_.Check(session); !status.ok()) return status;
  answer->reserve(items.size());
  Freed freed;  // together, so that the names of one call become one task
  for (const PutRef& item : items) {
    answer->push_back(RevokeOnePut(session, item, /*writer_is_done=*/true, now_ms, &freed));
  }
  Release(freed, now_ms);
  return absl::OkStatus();
}

Outcome Master::RemoveOne(absl::string_view key, bool force, int64_t now_ms, Freed* freed) {
  if (const Reason reason = CheckKey(key); reason != Reason::kNone) return {reason};
  const uint64_t hash = table_.Hash(key);
  ObjectShard& shard = table_.ShardOf(hash);
  absl::MutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, key);
  if (handle == 0) return {Reason::kObjectNotFound};
  const ObjectRecord& object = shard.At(handle);
  // Without force a put in progress, and what an ended segment left behind, are as invisible as they are to Get.
  if (!force && !shard.AnyAvailable(handle)) return {Reason::kObjectNotFound};
  if (!force && object.Leased(now_ms)) return {Reason::kLeased};
  if (object.put != 0) discarded_puts_.fetch_add(1, std::memory_order_relaxed);
  shard.Erase(handle, ObjectShard::Writer{}, now_ms, freed);
  return {};
}

absl::Status Master::Remove(const Session& session, absl::Span<const absl::string_view> keys,
                            bool force, int64_t now_ms, std::vector<Outcome>* answer) {
  if (absl::Status status = CheckBatch("remove", keys.size()); !status.ok()) return status;
  if (absl::Status status = sessions_.Check(session); !status.ok()) return status;
  answer->reserve(keys.size());
  Freed freed;
  for (absl::string_view key : keys) answer->push_back(RemoveOne(key, force, now_ms, &freed));
  Release(freed, now_ms);
  return absl::OkStatus();
}

}  // namespace holdfast::core

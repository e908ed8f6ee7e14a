#include "server/core/master.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"
#include "server/core/size_class.h"

namespace holdfast::core {
namespace {

// Bound of one step of the quarantine.
constexpr size_t kDueRangesMax = 4096;
// What a client may always have offered.
constexpr uint32_t kHandoverEntriesMin = 16;

}  // namespace

Master::Master(const MasterOptions& options)
    : options_(options),
      slots_(options.max_segments),
      placement_(&slots_),
      registry_(options, &slots_, &placement_),
      sessions_(options),
      ledger_(options),
      handovers_(std::max(options.ledger_tickets / 4, kHandoverEntriesMin)),
      table_(options, &registry_),
      first_put_(FirstId(options.seed, /*stream=*/3)),
      next_put_(first_put_) {}

absl::Status Master::CheckBatch(absl::string_view operation, size_t items) const {
  if (items == 0) return Refuse(Reason::kBatchEmpty, absl::StrCat(operation, ": no items"));
  if (items > options_.max_batch_items) {
    return Refuse(Reason::kBatchTooLarge, absl::StrCat(operation, ": ", items, " items, at most ",
                                                       options_.max_batch_items, " are allowed"));
  }
  return absl::OkStatus();
}

Reason Master::CheckKey(absl::string_view key) const {
  if (key.empty()) return Reason::kEmptyKey;
  return key.size() > options_.max_key_bytes ? Reason::kKeyTooLong : Reason::kNone;
}

bool Master::WasIssued(PutId put) const {
  return put.value >= first_put_ && put.value < next_put_.load(std::memory_order_relaxed);
}

absl::StatusOr<HeartbeatAnswer> Master::Heartbeat(const HeartbeatRequest& request, int64_t now_ms) {
  if (request.registration_ids.size() > options_.max_batch_items) {
    return Refuse(
        Reason::kBatchTooLarge,
        absl::StrCat("heartbeat: ", request.registration_ids.size(), " registrations, at most ",
                     options_.max_batch_items, " are allowed"));
  }
  absl::StatusOr<ClientSessions::HeartbeatResult> result = sessions_.Heartbeat(request, now_ms);
  if (!result.ok()) return result.status();
  if (result->ended.has_value()) registry_.EndSession(*result->ended, now_ms);
  if (result->answer.state == SessionState::kLive && !request.registration_ids.empty()) {
    result->answer.ended_registration_ids = registry_.NotLive(request.registration_ids);
  }
  if (result->answer.state == SessionState::kLive) {
    result->answer.offers = PendingOffers(request.epoch);
  }
  return std::move(result->answer);
}

absl::StatusOr<MountAnswer> Master::MountSegment(const Session& session, const SegmentSpec& spec,
                                                 int64_t now_ms) {
  if (absl::Status status = sessions_.Check(session); !status.ok()) return status;
  std::vector<QuarantinedRange> inherited;
  absl::StatusOr<MountAnswer> answer = registry_.Mount(session, spec, now_ms, &inherited);
  for (const QuarantinedRange& range : inherited) quarantine_.Add(range);
  if (!answer.ok()) return answer;
  // If the session ended meanwhile, its end may have come before the registration was there to be found.
  if (absl::Status status = sessions_.Check(session); !status.ok()) {
    registry_.Unmount(ClientId(), answer->registration, 0, now_ms).IgnoreError();
    return status;
  }
  return answer;
}

absl::Status Master::UnmountSegment(const Session& session, RegistrationId registration,
                                    int64_t grace_ms, int64_t now_ms) {
  if (absl::Status status = sessions_.Check(session); !status.ok()) return status;
  return registry_.Unmount(session.client, registration, grace_ms, now_ms);
}

absl::Status Master::UnmountSegmentByOperator(RegistrationId registration, int64_t grace_ms,
                                              int64_t now_ms) {
  return registry_.Unmount(ClientId(), registration, grace_ms, now_ms);
}

absl::Status Master::DrainSegment(RegistrationId registration) {
  return registry_.SetDraining(registration, true);
}

absl::Status Master::UndrainSegment(RegistrationId registration) {
  return registry_.SetDraining(registration, false);
}

std::vector<SegmentListing> Master::ListSegments(RegistrationId after, bool include_ended,
                                                 size_t max_rows, int64_t now_ms) const {
  return registry_.List(after, include_ended, max_rows, now_ms);
}

std::vector<ClientListing> Master::ListClients(uint32_t stripe, int64_t now_ms) const {
  std::vector<ClientListing> rows = sessions_.List(stripe, now_ms);
  for (ClientListing& row : rows) row.segments = registry_.SegmentsOf(row.client);
  return rows;
}

uint32_t Master::client_stripes() const { return ClientSessions::kStripes; }

bool Master::ListKeys(bool filter_invalid, absl::string_view prefix, KeyCursor* cursor,
                      std::vector<KeyListing>* rows) const {
  if (cursor->shard >= table_.shard_count()) return false;
  const ObjectShard& shard = table_.shard(cursor->shard);
  absl::ReaderMutexLock lock(&shard.mu);
  if (!shard.List(filter_invalid, prefix, cursor->shard, &cursor->record, rows)) {
    *cursor = {cursor->shard + 1, 0};
  }
  return cursor->shard < table_.shard_count();
}

absl::StatusOr<ObjectListing> Master::GetObject(absl::string_view key, int64_t now_ms) const {
  if (const Reason reason = CheckKey(key); reason != Reason::kNone) {
    return Refuse(reason, "show object: not a valid key");
  }
  const uint64_t hash = table_.Hash(key);
  const ObjectShard& shard = table_.ShardOf(hash);
  absl::ReaderMutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, key);
  if (handle == 0) return Refuse(Reason::kObjectNotFound, "show object: no such key");
  const ObjectRecord& object = shard.At(handle);
  ObjectListing listing;
  listing.size_bytes = object.size_bytes;
  listing.version = PutId{object.version};
  listing.lease_left_ms = std::max<int64_t>(0, object.lease_until_ms() - now_ms);
  if (const PutRecord* put = shard.PutOf(object)) {
    listing.put_in_progress = true;
    listing.put_age_ms = now_ms - put->started_ms;
  }
  for (uint32_t i = 0; i < object.replica_count; ++i) {
    const ReplicaRecord& replica = object.replicas()[i];
    const Slot& slot = registry_.slot(replica.slot);
    listing.replicas.push_back({slot.registration, slot.spec.name, slot.spec.endpoint,
                                replica.offset_bytes(), object.IsComplete(i),
                                shard.IsAvailable(object, i)});
  }
  if (const DurableReplica* durable = shard.DurableOf(handle)) {
    listing.durable_name = ledger_.NameOf(durable->ticket);
    listing.durable_checksum = durable->checksum;
    listing.durable_published = durable->published;
  }
  return listing;
}

MasterCounts Master::Count(int64_t now_ms) const {
  MasterCounts counts;
  counts.clients = sessions_.count();
  registry_.Count(now_ms, &counts);
  table_.Count(&counts);
  counts.ledger = ledger_.Count(now_ms);
  CleanupCounts& cleanup = counts.cleanup;
  cleanup.swept_replicas = swept_replicas_.load(std::memory_order_relaxed);
  cleanup.erased_objects = erased_objects_.load(std::memory_order_relaxed);
  cleanup.discarded_puts = discarded_puts_.load(std::memory_order_relaxed);
  cleanup.quarantined_ranges = quarantine_.ranges();
  cleanup.quarantined_bytes = quarantine_.bytes();
  cleanup.expired_clients = sessions_.expired();
  cleanup.deferred_expiries = sessions_.deferred();
  cleanup.master_stalls = stalls_.load(std::memory_order_relaxed);
  return counts;
}

bool Master::ExpireStep(int64_t now_ms) {
  const int64_t last_ms = last_expire_step_ms_.exchange(now_ms, std::memory_order_relaxed);
  if (last_ms >= 0 && now_ms - last_ms > options_.stall_threshold_ms) {
    // The clients were not silent: nobody listened.
    sessions_.RefreshAll(now_ms);
    stalls_.fetch_add(1, std::memory_order_relaxed);
  }
  for (const Session& session : sessions_.TakeExpired(now_ms)) {
    registry_.EndSession(session, now_ms);
  }
  registry_.EndDue(now_ms);
  for (const QuarantinedRange& range : quarantine_.TakeDue(now_ms, kDueRangesMax)) {
    registry_.Free(range.slot, range.range);
  }
  for (uint32_t slot : registry_.Unsettled()) SettleQuarantine(slot, now_ms);
  for (const QuarantinedRange& range : registry_.AdmitWaiting(now_ms)) quarantine_.Add(range);
  registry_.TakeDeadPools();
  return SweepPending();
}

void Master::SettleQuarantine(uint32_t slot, int64_t now_ms) {
  // The slot may have been freed, and given to another, since it was listed; only its ranges, which hold it, make it safe
  // to look at. Those of a live successor go back to where they were.
  Freed freed;
  for (const QuarantinedRange& range : quarantine_.TakeSlot(slot)) {
    freed.ranges.push_back({slot, range.range, range.offset_bytes, range.size_bytes, range.until_ms,
                            /*may_be_written=*/true});
  }
  Release(freed, now_ms);
}

bool Master::SweepPending() const { return registry_.HasEnded() || sessions_.HasEnded(); }

void Master::DiscardDuePuts(uint32_t first_shard, uint32_t count, int64_t now_ms) {
  constexpr uint32_t kStepsMax = 64;
  for (uint32_t i = first_shard; i < std::min(first_shard + count, table_.shard_count()); ++i) {
    ObjectShard& shard = table_.shard(i);
    // Most shards have no put that is so old: they are passed without their lock.
    if (now_ms < shard.next_discard_ms()) continue;
    Freed freed;
    uint32_t discarded = 0;
    {
      absl::MutexLock lock(&shard.mu);
      discarded = shard.DiscardDuePuts(kStepsMax, now_ms, &freed);
    }
    discarded_puts_.fetch_add(discarded, std::memory_order_relaxed);
    Release(freed, now_ms);
  }
}

void Master::NoteSwept(const ObjectShard::SweepCounts& counts) {
  swept_replicas_.fetch_add(counts.replicas, std::memory_order_relaxed);
  erased_objects_.fetch_add(counts.erased_objects, std::memory_order_relaxed);
  discarded_puts_.fetch_add(counts.discarded_puts, std::memory_order_relaxed);
}

void Master::Release(const Freed& all, int64_t now_ms) {
  ledger_.Settle(all.durable, now_ms);
  const FreedRanges& freed = all.ranges;
  // Ranges of one ended private registration come in runs; a run costs one subtraction.
  for (size_t i = 0; i < freed.size();) {
    const uint32_t slot = freed[i].slot;
    if (!registry_.DiesWithRegistration(slot)) {
      ReleaseOne(freed[i++], now_ms);
      continue;
    }
    uint32_t run = 0;
    int64_t leases_until_ms = 0;
    std::vector<TouchedRange> written;
    for (; i < freed.size() && freed[i].slot == slot; ++i, ++run) {
      const FreedRange& range = freed[i];
      if (range.touch_until_ms <= now_ms) continue;
      if (range.may_be_written) {
        written.push_back({range.offset_bytes, range.size_bytes, range.touch_until_ms});
      } else {
        leases_until_ms = std::max(leases_until_ms, range.touch_until_ms);
      }
    }
    if (leases_until_ms != 0 || !written.empty()) {
      registry_.NoteResidue(slot, leases_until_ms, written);
    }
    registry_.DropHolds(slot, run);
  }
}

void Master::ReleaseOne(const FreedRange& range, int64_t now_ms) {
  if (range.touch_until_ms > now_ms) {
    quarantine_.Add(
        {range.touch_until_ms, range.slot, range.range, range.offset_bytes, range.size_bytes});
  } else {
    registry_.Free(range.slot, range.range);
  }
}

std::string Master::Audit() const {
  std::vector<SlotUse> use;
  std::vector<TicketId> tickets;
  uint64_t chunks = 0;
  for (uint32_t i = 0; i < table_.shard_count(); ++i) {
    const ObjectShard& shard = table_.shard(i);
    absl::ReaderMutexLock lock(&shard.mu);
    if (std::string error = shard.Audit(&use, &tickets); !error.empty()) {
      return absl::StrCat("shard ", i, ": ", error);
    }
    chunks += shard.chunks();
  }
  if (std::string error = ledger_.Audit(tickets); !error.empty()) {
    return absl::StrCat("ledger: ", error);
  }
  uint64_t taken_chunks = 0;
  if (std::string error = table_.chunks().Audit(&taken_chunks); !error.empty()) return error;
  if (taken_chunks != chunks) {
    return absl::StrCat(taken_chunks, " chunks are taken, ", chunks, " used");
  }
  for (const QuarantinedRange& range : quarantine_.Snapshot()) {
    if (use.size() <= range.slot) use.resize(range.slot + 1);
    ++use[range.slot].ranges;
    use[range.slot].bytes += UnitsRoundedUp(range.size_bytes) * kUnitBytes;
  }
  std::map<const Pool*, uint64_t> pool_bytes;
  for (const SegmentListing& row :
       registry_.List(RegistrationId(), /*include_ended=*/true, SIZE_MAX, 0)) {
    if (use.size() <= row.slot) use.resize(row.slot + 1);
    if (row.ranges != use[row.slot].ranges) {
      return absl::StrCat("segment '", row.spec.name, "' has ", row.ranges, " ranges, not ",
                          use[row.slot].ranges);
    }
    if (registry_.DiesWithRegistration(row.slot)) continue;
    pool_bytes[registry_.slot(row.slot).pool.get()] += use[row.slot].bytes;
  }
  for (const auto& [pool, bytes] : pool_bytes) {
    if (pool->allocated_bytes() != bytes) {
      return absl::StrCat("pool '", pool->pool_id(), "' has ", pool->allocated_bytes(),
                          " bytes allocated, not ", bytes);
    }
    if (std::string error = pool->Audit(); !error.empty()) return error;
  }
  return placement_.Audit();
}

}  // namespace holdfast::core

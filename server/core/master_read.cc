// Reads: Get and Exists, by one predicate.

#include <algorithm>

#include "server/core/master.h"

namespace holdfast::core {

GetRow Master::FindOne(absl::string_view key, uint64_t hash, int64_t now_ms,
                       SegmentTableBuilder* table, GetAnswer* answer) const {
  GetRow row;
  row.reason = CheckKey(key);
  if (row.reason != Reason::kNone) return row;
  const ObjectShard& shard = table_.ShardOf(hash);
  absl::ReaderMutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, key);
  row.first_replica = static_cast<uint32_t>(answer->replicas.size());
  if (handle != 0) {
    const ObjectRecord& object = shard.At(handle);
    row.lease_ms = options_.read_lease_ms;
    for (uint32_t i = 0; i < object.replica_count; ++i) {
      if (!shard.IsAvailable(object, i)) continue;
      const ReplicaRecord& replica = object.replicas()[i];
      table->Add(replica.slot, replica.offset_bytes());
      ++row.replica_count;
      // No lease outlives the grace of a segment that leaves.
      const int64_t until_ms =
          registry_.slot(replica.slot).readable_until_ms.load(std::memory_order_relaxed);
      row.lease_ms = std::clamp<int64_t>(until_ms - now_ms, 0, row.lease_ms);
    }
    if (const DurableReplica* durable = shard.AvailableDurable(handle)) {
      answer->durable.push_back({ledger_.NameOf(durable->ticket), durable->checksum});
      row.durable = static_cast<uint32_t>(answer->durable.size());
    }
    if (row.replica_count > 0 || row.durable != 0) {
      row.size_bytes = object.size_bytes;
      row.version = PutId{object.version};
      if (row.lease_ms > 0) object.ExtendLease(now_ms + row.lease_ms);
      return row;
    }
  }
  row.lease_ms = 0;
  row.reason = Reason::kObjectNotFound;
  return row;
}

absl::Status Master::BuildGet(absl::Span<const absl::string_view> keys, int64_t now_ms,
                              GetAnswer* answer) const {
  if (absl::Status status = CheckBatch("get", keys.size()); !status.ok()) return status;
  SegmentTableBuilder table(&registry_, answer);
  answer->rows.reserve(keys.size());
  answer->replicas.reserve(keys.size());
  table_.ForEach(
      keys.size(), [keys](size_t i) { return keys[i]; },
      [&](size_t i, uint64_t hash) {
        answer->rows.push_back(FindOne(keys[i], hash, now_ms, &table, answer));
      });
  return absl::OkStatus();
}

void Master::RecheckGet(GetAnswer* answer) const {
  if (AllSegmentsLive(registry_, *answer)) return;
  DropEnded(registry_, answer, absl::MakeSpan(answer->rows), [](GetRow* row) {
    if (row->durable != 0) return;  // to be read from there
    *row = GetRow();
    row->reason = Reason::kObjectNotFound;
  });
}

absl::Status Master::Get(absl::Span<const absl::string_view> keys, int64_t now_ms,
                         GetAnswer* answer) const {
  if (absl::Status status = BuildGet(keys, now_ms, answer); !status.ok()) return status;
  RecheckGet(answer);
  return absl::OkStatus();
}

Reason Master::ProbeOne(absl::string_view key, uint64_t hash) const {
  if (const Reason reason = CheckKey(key); reason != Reason::kNone) return reason;
  const ObjectShard& shard = table_.ShardOf(hash);
  absl::ReaderMutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, key);
  return handle != 0 && shard.AnyAvailable(handle) ? Reason::kNone : Reason::kObjectNotFound;
}

absl::Status Master::Exists(absl::Span<const absl::string_view> keys,
                            std::vector<Outcome>* answer) const {
  if (absl::Status status = CheckBatch("exists", keys.size()); !status.ok()) return status;
  answer->reserve(keys.size());
  table_.ForEach(
      keys.size(), [keys](size_t i) { return keys[i]; },
      [&](size_t i, uint64_t hash) { answer->push_back({ProbeOne(keys[i], hash)}); });
  return absl::OkStatus();
}

}  // namespace holdfast::core

#include "server/core/object_shard.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"
#include "server/core/key_hash.h"

namespace holdfast::core {

ObjectShard::ObjectShard(const MasterOptions& options, const SegmentRegistry* registry,
                         ChunkPool* chunks)
    : seed_(options.hash_seed),
      release_timeout_ms_{options.put_release_timeout_ms, options.durable_put_release_ms()},
      registry_(registry),
      arena_(chunks),
      index_(0, EntryHash{}, EntryEq{&arena_}),
      puts_(1) {}

Handle ObjectShard::Find(uint64_t hash, absl::string_view key) const {
  auto it = index_.find(KeyProbe{static_cast<uint32_t>(hash), key});
  return it == index_.end() ? 0 : it->object;
}

bool ObjectShard::AnyAvailable(Handle handle) const {
  const ObjectRecord& object = At(handle);
  for (uint32_t i = 0; i < object.replica_count; ++i) {
    if (IsAvailable(object, i)) return true;
  }
  return AvailableDurable(handle) != nullptr;
}

bool ObjectShard::AnyReplicaLive(const ObjectRecord& object) const {
  for (uint32_t i = 0; i < object.replica_count; ++i) {
    if (registry_->IsLive(object.replicas()[i].slot)) return true;
  }
  return false;
}

Handle ObjectShard::Insert(uint64_t hash, const NewObject& wanted) {
  const auto count = static_cast<uint8_t>(wanted.replicas.size());
  const Handle handle = arena_.Allocate(ObjectRecord::Bytes(count, wanted.key.size()));
  auto* slot = static_cast<ObjectRecord*>(arena_.At(handle));
  const SlotHeader header = slot->header;
  auto* object = new (slot) ObjectRecord;
  object->header = header;
  object->replica_count = count & 0x7f;
  object->durable = 0;
  object->replica_capacity = count;
  object->key_bytes = static_cast<uint16_t>(wanted.key.size());
  object->complete = 0;
  object->size_bytes = wanted.size_bytes;
  object->version = wanted.put.value;
  object->lease.store(0, std::memory_order_relaxed);
  std::memcpy(object->replicas() + count, wanted.key.data(), wanted.key.size());
  for (uint32_t i = 0; i < count; ++i) {
    auto* replica = new (object->replicas() + i) ReplicaRecord;
    replica->set_offset_bytes(wanted.replicas[i].range.offset_bytes);
    replica->slot = wanted.replicas[i].segment.slot & (kMaxSlots - 1);
    replica->ordinal = i & (kReplicasMax - 1);
    replica->range = wanted.replicas[i].range.index;
    LinkReplica(ObjectRecord::ReplicaHandle(handle, i));
  }
  PutRecord put;
  put.object = handle;
  put.owner = wanted.owner;
  put.request = wanted.request;
  put.started_ms = wanted.started_ms;
  if (wanted.ticket != TicketId()) {
    put.durable = true;
    object->durable = 1;
    durable_[handle] = {wanted.ticket, wanted.not_before_ms, /*published=*/false, {}};
    durable_count_.fetch_add(1, std::memory_order_relaxed);
  }
  object->put = AddPut(put);
  index_.insert(IndexEntry{static_cast<uint32_t>(hash), handle});
  objects_.fetch_add(1, std::memory_order_relaxed);
  replicas_.fetch_add(count, std::memory_order_relaxed);
  return handle;
}

void ObjectShard::Complete(Handle handle, absl::string_view checksum) {
  ObjectRecord& object = Mutable(handle);
  RemovePut(object.put);
  object.put = 0;
  object.complete = static_cast<uint16_t>((1u << object.replica_count) - 1);
  if (object.durable == 0) return;
  DurableReplica& durable = durable_.find(handle)->second;
  durable.published = true;
  durable.checksum = std::string(checksum);
}

void ObjectShard::DropDurable(Handle handle, UploadOutcome outcome, Freed* freed) {
  ObjectRecord& object = Mutable(handle);
  if (object.durable == 0) return;
  auto it = durable_.find(handle);
  DurableEnd end;
  end.ticket = it->second.ticket;
  end.published = it->second.published;
  end.outcome = outcome;
  end.leased_until_ms = object.lease_until_ms();
  freed->durable.push_back(end);
  durable_.erase(it);
  object.durable = 0;
  durable_count_.fetch_sub(1, std::memory_order_relaxed);
}

void ObjectShard::PointNeighboursAt(Handle handle) {
  const ReplicaRecord& replica = ReplicaAt(handle);
  if (replica.previous != 0) {
    ReplicaAt(replica.previous).next = handle;
  } else {
    heads_[replica.slot] = handle;
  }
  if (replica.next != 0) ReplicaAt(replica.next).previous = handle;
}

void ObjectShard::LinkReplica(Handle handle) {
  ReplicaRecord& replica = ReplicaAt(handle);
  if (heads_.size() <= replica.slot) heads_.resize(replica.slot + 1);
  replica.next = heads_[replica.slot];
  PointNeighboursAt(handle);
}

void ObjectShard::UnlinkReplica(Handle handle, uint32_t ordinal) {
  ObjectRecord& object = Mutable(handle);
  ReplicaRecord& gone = object.replicas()[ordinal];
  if (gone.previous != 0) {
    ReplicaAt(gone.previous).next = gone.next;
  } else {
    heads_[gone.slot] = gone.next;
  }
  if (gone.next != 0) ReplicaAt(gone.next).previous = gone.previous;
  // The last replica takes its place.
  const uint32_t last = --object.replica_count;
  const bool last_complete = object.IsComplete(last);
  object.complete &= static_cast<uint16_t>(~((1u << last) | (1u << ordinal)));
  if (ordinal != last) {
    gone = object.replicas()[last];
    gone.ordinal = ordinal & (kReplicasMax - 1);
    PointNeighboursAt(ObjectRecord::ReplicaHandle(handle, ordinal));
    if (last_complete) object.complete |= static_cast<uint16_t>(1u << ordinal);
  }
  replicas_.fetch_sub(1, std::memory_order_relaxed);
}

void ObjectShard::AddFreed(const ObjectRecord& object, uint32_t ordinal, bool writer_is_done,
                           int64_t now_ms, FreedRanges* freed) const {
  const ReplicaRecord& replica = object.replicas()[ordinal];
  FreedRange range;
  range.slot = replica.slot;
  range.range = replica.range;
  range.offset_bytes = replica.offset_bytes();
  range.size_bytes = object.size_bytes;
  if (object.Leased(now_ms)) range.touch_until_ms = object.lease_until_ms();
  if (const PutRecord* put = PutOf(object); put != nullptr && !writer_is_done) {
    const int64_t until_ms = ReleaseMs(*put);
    range.touch_until_ms = std::max(range.touch_until_ms, until_ms);
    range.may_be_written = until_ms > now_ms;
  }
  freed->push_back(range);
}

void ObjectShard::EraseRecord(Handle handle, uint64_t hash) {
  auto it = index_.find(KeyProbe{static_cast<uint32_t>(hash), At(handle).key()});
  HOLDFAST_CHECK(it != index_.end() && it->object == handle);
  index_.erase(it);
  if (index_.empty()) index_.clear();  // gives the memory back
  arena_.Free(handle);
  objects_.fetch_sub(1, std::memory_order_relaxed);
}

void ObjectShard::Erase(Handle handle, Writer writer, int64_t now_ms, Freed* freed) {
  ObjectRecord& object = Mutable(handle);
  while (object.replica_count > 0) {
    const uint32_t last = object.replica_count - 1u;
    AddFreed(object, last, writer.done, now_ms, &freed->ranges);
    UnlinkReplica(handle, last);
  }
  DropDurable(handle, writer.upload, freed);
  if (object.put != 0) RemovePut(object.put);
  EraseRecord(handle, HashKey(seed_, object.key()));
}

uint32_t ObjectShard::AddPut(const PutRecord& put) {
  uint32_t index = free_put_;
  if (index == 0) {
    index = static_cast<uint32_t>(puts_.size());
    puts_.emplace_back();
  } else {
    free_put_ = puts_[index].newer;
  }
  puts_[index] = put;
  PutQueue& queue = queues_[put.durable ? 1 : 0];
  puts_[index].older = queue.newest;
  (queue.newest != 0 ? puts_[queue.newest].newer : queue.oldest) = index;
  queue.newest = index;
  LinkSession(index);
  put_count_.fetch_add(1, std::memory_order_relaxed);
  UpdateNextDiscard();
  return index;
}

void ObjectShard::UpdateNextDiscard() {
  int64_t next_ms = kForever;
  for (const PutQueue& queue : queues_) {
    if (queue.oldest != 0) next_ms = std::min(next_ms, ReleaseMs(puts_[queue.oldest]));
  }
  next_discard_ms_.store(next_ms, std::memory_order_relaxed);
}

void ObjectShard::LinkSession(uint32_t index) {
  PutRecord& put = puts_[index];
  uint32_t& first = puts_by_session_[put.owner];
  put.session_previous = 0;
  put.session_next = first;
  if (first != 0) puts_[first].session_previous = index;
  first = index;
}

void ObjectShard::UnlinkSession(uint32_t index) {
  const PutRecord& put = puts_[index];
  if (put.session_next != 0) puts_[put.session_next].session_previous = put.session_previous;
  if (put.session_previous != 0) {
    puts_[put.session_previous].session_next = put.session_next;
  } else if (put.session_next != 0) {
    puts_by_session_[put.owner] = put.session_next;
  } else {
    puts_by_session_.erase(put.owner);
  }
}

void ObjectShard::ChangeOwner(Handle handle, ClientEpoch owner) {
  const uint32_t put = At(handle).put;
  UnlinkSession(put);
  puts_[put].owner = owner;
  LinkSession(put);
}

void ObjectShard::RemovePut(uint32_t index) {
  PutRecord& put = puts_[index];
  PutQueue& queue = queues_[put.durable ? 1 : 0];
  (put.older != 0 ? puts_[put.older].newer : queue.oldest) = put.newer;
  (put.newer != 0 ? puts_[put.newer].older : queue.newest) = put.older;
  UnlinkSession(index);
  put = PutRecord();
  put.newer = free_put_;
  free_put_ = index;
  put_count_.fetch_sub(1, std::memory_order_relaxed);
  UpdateNextDiscard();
}

void ObjectShard::PrefetchLists(absl::Span<const uint32_t> slots) const {
  arena_.Prefetch();
  for (uint32_t slot : slots) {
    if (slot < heads_.size()) __builtin_prefetch(&heads_[slot]);
  }
}

void ObjectShard::PrefetchFirst(absl::Span<const uint32_t> slots) const {
  for (uint32_t slot : slots) {
    if (slot < heads_.size()) arena_.PrefetchBackFrom(heads_[slot]);
  }
}

uint32_t ObjectShard::SweepLists(absl::Span<const uint32_t> slots, uint32_t max_steps,
                                 int64_t now_ms, Freed* freed, SweepCounts* counts) {
  // Most of the time is waiting for memory, so it is fetched while other work is done: several lists are walked side by side,
  // since each is a chain of such waits; the places in the index come a few records behind, then the work itself.
  struct Lane {
    uint32_t slot;
    Handle replica;
  };
  struct Victim {
    Handle object;
    uint32_t slot;
    uint64_t hash;
  };
  constexpr size_t kLanes = 8;
  absl::InlinedVector<Lane, kLanes> lanes;
  absl::InlinedVector<Victim, 64> victims;
  size_t next_slot = 0;
  size_t hashed = 0;
  auto fill_lanes = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu) {
    for (; lanes.size() < kLanes && next_slot < slots.size(); ++next_slot) {
      const uint32_t slot = slots[next_slot];
      if (slot < heads_.size() && heads_[slot] != 0) lanes.push_back({slot, heads_[slot]});
    }
  };
  auto hash_next = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu) {
    Victim& victim = victims[hashed++];
    victim.hash = HashKey(seed_, At(victim.object).key());
    index_.prefetch(HashProbe{static_cast<uint32_t>(victim.hash)});
  };
  fill_lanes();
  for (size_t i = 0; !lanes.empty() && victims.size() < max_steps; ++i) {
    Lane& lane = lanes[i % lanes.size()];
    const ReplicaRecord& replica = ReplicaAt(lane.replica);
    const Handle object = ObjectRecord::ObjectHandle(lane.replica, replica.ordinal);
    __builtin_prefetch(At(object).key().data() + At(object).key_bytes);
    victims.push_back({object, lane.slot, 0});
    if (victims.size() - hashed > kLanes) hash_next();
    if (replica.next != 0) {
      lane.replica = replica.next;
      __builtin_prefetch(arena_.At(lane.replica));
    } else {
      lane = lanes.back();
      lanes.pop_back();
      fill_lanes();
    }
  }
  while (hashed < victims.size()) hash_next();
  for (const Victim& victim : victims) {
    // An object may lie on several of the slots, and unlinking one of its replicas moves another.
    const uint32_t ordinal = At(victim.object).OrdinalOf(victim.slot);
    HOLDFAST_CHECK(ordinal < At(victim.object).replica_count);
    AddFreed(At(victim.object), ordinal, /*writer_is_done=*/false, now_ms, &freed->ranges);
    UnlinkReplica(victim.object, ordinal);
    // A put in progress keeps its record, so that its end is told what happened; a durable replica keeps its object.
    const ObjectRecord& object = At(victim.object);
    if (object.replica_count == 0 && object.put == 0 && object.durable == 0) {
      EraseRecord(victim.object, victim.hash);
      ++counts->erased_objects;
    }
  }
  counts->replicas += static_cast<uint32_t>(victims.size());
  return static_cast<uint32_t>(victims.size());
}

bool ObjectShard::Sweep(absl::Span<const uint32_t> slots, absl::Span<const ClientEpoch> sessions,
                        uint32_t max_steps, int64_t now_ms, Freed* freed, SweepCounts* counts) {
  uint32_t steps = SweepLists(slots, max_steps, now_ms, freed, counts);
  if (steps == max_steps) return true;
  for (const ClientEpoch& session : sessions) {
    for (auto it = puts_by_session_.find(session); it != puts_by_session_.end();
         it = puts_by_session_.find(session)) {
      const Handle object = puts_[it->second].object;
      if (!TakeSteps(object, max_steps, &steps)) return true;
      Erase(object, Writer{}, now_ms, freed);
      ++counts->discarded_puts;
    }
  }
  return false;
}

bool ObjectShard::TakeSteps(Handle object, uint32_t max_steps, uint32_t* steps) const {
  const uint32_t wanted = std::max<uint32_t>(At(object).replica_count, 1);
  if (*steps > 0 && *steps + wanted > max_steps) return false;
  *steps += wanted;
  return true;
}

uint32_t ObjectShard::DiscardDuePuts(uint32_t max_steps, int64_t now_ms, Freed* freed) {
  uint32_t steps = 0;
  uint32_t discarded = 0;
  for (PutQueue& queue : queues_) {
    while (queue.oldest != 0 && ReleaseMs(puts_[queue.oldest]) <= now_ms) {
      const Handle object = puts_[queue.oldest].object;
      if (!TakeSteps(object, max_steps, &steps)) break;
      Erase(object, Writer{/*done=*/true, UploadOutcome::kAmbiguous}, now_ms, freed);
      ++discarded;
    }
  }
  return discarded;
}

bool ObjectShard::List(bool filter_invalid, absl::string_view prefix, uint32_t shard,
                       uint32_t* record, std::vector<KeyListing>* rows) const {
  const uint32_t chunk = RecordArena::ChunkOf(*record);
  if (chunk >= arena_.chunks()) return false;
  for (Handle handle = arena_.FirstUsed(chunk); handle != 0; handle = arena_.NextUsed(handle)) {
    const ObjectRecord& object = At(handle);
    if (handle < *record || object.key().substr(0, prefix.size()) != prefix) continue;
    KeyListing row;
    row.replicas = object.replica_count;
    for (uint32_t i = 0; i < object.replica_count; ++i) {
      row.available_replicas += IsAvailable(object, i) ? 1 : 0;
    }
    row.durable = AvailableDurable(handle) != nullptr;
    if (filter_invalid && !AnyAvailable(handle)) continue;
    row.key = std::string(object.key());
    row.next = {shard, handle + 1};
    row.size_bytes = object.size_bytes;
    row.put_in_progress = object.put != 0;
    rows->push_back(std::move(row));
  }
  *record = RecordArena::FirstOf(chunk + 1);
  return true;
}

std::string ObjectShard::AuditLists(std::vector<SlotUse>* use_by_slot) const {
  uint64_t linked = 0;
  for (uint32_t slot = 0; slot < heads_.size(); ++slot) {
    Handle previous = 0;
    for (Handle handle = heads_[slot]; handle != 0;) {
      const auto& replica = *static_cast<const ReplicaRecord*>(arena_.At(handle));
      const ObjectRecord& object = At(ObjectRecord::ObjectHandle(handle, replica.ordinal));
      if (replica.slot != slot) return absl::StrCat("slot of a replica in list ", slot);
      if (replica.previous != previous) return absl::StrCat("back link in list ", slot);
      if (replica.ordinal >= object.replica_count) return "ordinal beyond the replicas";
      if (use_by_slot->size() <= slot) use_by_slot->resize(slot + 1);
      ++(*use_by_slot)[slot].ranges;
      (*use_by_slot)[slot].bytes += UnitsRoundedUp(object.size_bytes) * kUnitBytes;
      ++linked;
      previous = handle;
      handle = replica.next;
    }
  }
  if (linked != replicas()) return absl::StrCat(linked, " linked replicas, not ", replicas());
  return "";
}

std::string ObjectShard::Audit(std::vector<SlotUse>* use_by_slot,
                               std::vector<TicketId>* tickets) const {
  if (std::string error = AuditLists(use_by_slot); !error.empty()) return error;
  uint64_t records = 0;
  uint64_t with_put = 0;
  uint64_t in_objects = 0;
  uint64_t with_durable = 0;
  std::string error;
  for (uint32_t chunk = 0; chunk < arena_.chunks(); ++chunk) {
    for (Handle handle = arena_.FirstUsed(chunk); handle != 0; handle = arena_.NextUsed(handle)) {
      const ObjectRecord& object = At(handle);
      ++records;
      in_objects += object.replica_count;
      if (Find(HashKey(seed_, object.key()), object.key()) != handle) error = "lost in the index";
      if (object.put != 0) {
        ++with_put;
        if (puts_[object.put].object != handle) error = "put record of another object";
      } else if (object.replica_count == 0 && object.durable == 0) {
        error = "object without replicas and put";
      }
      if (object.durable != 0) {
        auto durable = durable_.find(handle);
        ++with_durable;
        if (durable == durable_.end() || durable->second.published == (object.put != 0)) {
          error = "durable replica of an object";
        } else if (!durable->second.published) {
          tickets->push_back(durable->second.ticket);
        }
      }
    }
  }
  if (records != objects() || records != index_.size()) error = "number of objects";
  if (in_objects != replicas()) error = "number of replicas";
  if (with_durable != durable_.size() || with_durable != durable_replicas()) {
    error = "number of durable replicas";
  }
  uint64_t in_order = 0;
  for (const PutQueue& queue : queues_) {
    for (uint32_t put = queue.oldest; put != 0; put = puts_[put].newer) ++in_order;
  }
  uint64_t by_session = 0;
  for (const auto& [session, first] : puts_by_session_) {
    for (uint32_t put = first; put != 0; put = puts_[put].session_next) ++by_session;
  }
  if (with_put != puts() || in_order != puts() || by_session != puts()) error = "number of puts";
  return error;
}

}  // namespace holdfast::core

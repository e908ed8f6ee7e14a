#include "server/core/segment_registry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"
#include "server/core/key_hash.h"
#include "server/core/size_class.h"

namespace holdfast::core {
namespace {

std::string Subject(absl::string_view operation, const SegmentSpec& spec) {
  return absl::StrCat(operation, " segment '", spec.name, "' (", spec.id.ToHex(), "): ");
}

}  // namespace

SegmentRegistry::SegmentRegistry(const MasterOptions& options, SlotTable* slots,
                                 Placement* placement)
    : options_(options),
      placement_(placement),
      slots_(*slots),
      next_registration_(FirstId(options.seed, /*stream=*/1)) {}

absl::Status SegmentRegistry::CheckSpec(const SegmentSpec& spec) const {
  if (spec.id.IsNone()) return Refuse(Reason::kBadId, "mount segment: segment_id is missing");
  if (spec.size_bytes < kUnitBytes || spec.size_bytes > kSegmentBytesMax) {
    return Refuse(Reason::kBadSize,
                  absl::StrCat(Subject("mount", spec), "size ", spec.size_bytes, " is not between ",
                               kUnitBytes, " and ", kSegmentBytesMax, " bytes"));
  }
  if (spec.base + spec.size_bytes < spec.base) {
    return Refuse(Reason::kBadSize, absl::StrCat(Subject("mount", spec), "base + size overflows"));
  }
  for (const std::string* label :
       {&spec.name, &spec.endpoint, &spec.transport, &spec.host, &spec.rack, &spec.pool_id}) {
    if (label->size() > options_.max_label_bytes) {
      return Refuse(Reason::kBadField,
                    absl::StrCat("mount segment ", spec.id.ToHex(), ": a label has ", label->size(),
                                 " bytes, at most ", options_.max_label_bytes, " are allowed"));
    }
  }
  return absl::OkStatus();
}

absl::Status SegmentRegistry::CheckOverlap(const ClientId& owner, const SegmentSpec& spec) const {
  auto it = by_owner_.find(owner);
  if (it == by_owner_.end()) return absl::OkStatus();
  for (uint32_t other : it->second) {
    const SegmentSpec& live = slots_.At(other).spec;
    if (!spec.pool_id.empty() && spec.pool_id == live.pool_id) continue;
    if (Overlap(spec.base, spec.size_bytes, live.base, live.size_bytes)) {
      return Refuse(Reason::kSegmentOverlap,
                    absl::StrCat(Subject("mount", spec), "overlaps the live segment '", live.name,
                                 "' (", live.id.ToHex(), ") of this client"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Pool>> SegmentRegistry::FindOrMakePool(const SegmentSpec& spec) {
  if (spec.pool_id.empty()) return std::make_shared<Pool>("");
  std::weak_ptr<Pool>& known = pools_[spec.pool_id];
  std::shared_ptr<Pool> pool = known.lock();
  if (pool == nullptr) {
    pool = std::make_shared<Pool>(spec.pool_id);
    pool->Open(spec.size_bytes, {});
    known = pool;
  } else if (pool->capacity_bytes() != spec.size_bytes / kUnitBytes * kUnitBytes) {
    return Refuse(Reason::kBadSize,
                  absl::StrCat(Subject("mount", spec), "pool '", spec.pool_id, "' has ",
                               pool->capacity_bytes(), " bytes, not ", spec.size_bytes));
  }
  return pool;
}

absl::StatusOr<uint32_t> SegmentRegistry::TakeSlot() {
  if (!free_slots_.empty()) {
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  if (slots_.size() == slots_.max_slots()) {
    return Refuse(Reason::kSegmentLimit,
                  absl::StrCat("mount segment: the limit of ", slots_.max_slots(), " is reached"));
  }
  controls_.emplace_back();
  return slots_.Grow();
}

absl::StatusOr<MountAnswer> SegmentRegistry::Mount(const Session& session, const SegmentSpec& spec,
                                                   int64_t now_ms,
                                                   std::vector<QuarantinedRange>* inherited) {
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  MountAnswer answer;
  uint32_t slot_number = 0;
  {
    absl::MutexLock lock(&mu_);
    if (auto it = by_segment_.find(spec.id); it != by_segment_.end()) {
      const Slot& live = slots_.At(it->second);
      if (live.owner == session.client && live.owner_epoch == session.epoch && live.spec == spec) {
        return MountAnswer{live.registration, true, controls_[it->second].waiting};
      }
      return Refuse(Reason::kSegmentExists,
                    absl::StrCat(Subject("mount", spec), "is mounted by client ",
                                 live.owner.ToHex(), " or with other parameters"));
    }
    if (absl::Status status = CheckOverlap(session.client, spec); !status.ok()) return status;
    absl::StatusOr<uint32_t> taken = TakeSlot();
    if (!taken.ok()) return taken.status();
    slot_number = *taken;
    absl::StatusOr<std::shared_ptr<Pool>> pool = FindOrMakePool(spec);
    if (!pool.ok()) {
      free_slots_.push_back(slot_number);
      return pool.status();
    }
    Slot& slot = slots_.At(slot_number);
    slot.registration = RegistrationId{next_registration_++};
    slot.spec = spec;
    slot.owner = session.client;
    slot.owner_epoch = session.epoch;
    slot.host_hash = spec.host.empty() ? 0 : (HashKey(options_.hash_seed, spec.host) | 1);
    slot.pool = *std::move(pool);
    slot.readable_until_ms.store(kForever, std::memory_order_relaxed);
    slot.Begin();
    slot.pool->AddMember(slot_number);
    controls_[slot_number] = Control();
    SetState(slot_number, SegmentState::kMounted);
    by_id_[slot.registration] = slot_number;
    by_segment_[spec.id] = slot_number;
    by_owner_[session.client].push_back(slot_number);
    if (slot.pool->is_private()) TryAdmit(slot_number, now_ms, inherited);
    answer = {slot.registration, false, controls_[slot_number].waiting};
  }
  placement_->Refresh(slot_number);
  return answer;
}

void SegmentRegistry::SetState(uint32_t slot, SegmentState state) {
  controls_[slot].state = state;
  slots_.At(slot).takes_objects.store(state == SegmentState::kMounted, std::memory_order_release);
}

absl::StatusOr<uint32_t> SegmentRegistry::FindLive(RegistrationId registration) const {
  auto it = by_id_.find(registration);
  if (it == by_id_.end() || !slots_.At(it->second).IsLive()) {
    return Refuse(Reason::kSegmentUnknown,
                  absl::StrCat("registration ", registration.value, " is not mounted"));
  }
  return it->second;
}

absl::Status SegmentRegistry::Unmount(const ClientId& owner, RegistrationId registration,
                                      int64_t grace_ms, int64_t now_ms) {
  if (grace_ms < 0 || grace_ms > options_.grace_max_ms) {
    return Refuse(Reason::kBadField,
                  absl::StrCat("unmount registration ", registration.value, ": grace of ", grace_ms,
                               " ms is not between 0 and ", options_.grace_max_ms));
  }
  uint32_t slot_number = 0;
  bool ended = false;
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<uint32_t> found = FindLive(registration);
    if (!found.ok()) return absl::OkStatus();
    slot_number = *found;
    Slot& slot = slots_.At(slot_number);
    if (!owner.IsNone() && slot.owner != owner) {
      return Refuse(
          Reason::kNotSegmentOwner,
          absl::StrCat("unmount registration ", registration.value, ": belongs to another client"));
    }
    if (grace_ms == 0) {
      ended = EndLocked(slot_number, now_ms);
    } else {
      Control& control = controls_[slot_number];
      deadlines_.erase({control.deadline_ms, slot_number});
      control.deadline_ms = std::min(control.deadline_ms, now_ms + grace_ms);
      deadlines_.insert({control.deadline_ms, slot_number});
      slot.readable_until_ms.store(control.deadline_ms, std::memory_order_relaxed);
      SetState(slot_number, SegmentState::kGraceful);
    }
  }
  if (ended) {
    Retire({slot_number});
  } else {
    placement_->Refresh(slot_number);
  }
  return absl::OkStatus();
}

absl::Status SegmentRegistry::SetDraining(RegistrationId registration, bool draining) {
  uint32_t slot_number = 0;
  {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<uint32_t> found = FindLive(registration);
    if (!found.ok()) return found.status();
    slot_number = *found;
    if (controls_[slot_number].state == SegmentState::kGraceful) {
      return Refuse(Reason::kSegmentState, absl::StrCat("registration ", registration.value,
                                                        " is leaving with a grace period"));
    }
    SetState(slot_number, draining ? SegmentState::kDraining : SegmentState::kMounted);
  }
  placement_->Refresh(slot_number);
  return absl::OkStatus();
}

bool SegmentRegistry::EndLocked(uint32_t slot_number, int64_t now_ms) {
  Slot& slot = slots_.At(slot_number);
  if (!slot.End()) return false;
  Control& control = controls_[slot_number];
  deadlines_.erase({control.deadline_ms, slot_number});
  waiting_.erase(slot_number);
  control.ended_at_ms = now_ms;
  SetState(slot_number, SegmentState::kEnded);
  by_segment_.erase(slot.spec.id);
  auto owned = by_owner_.find(slot.owner);
  owned->second.erase(std::find(owned->second.begin(), owned->second.end(), slot_number));
  if (owned->second.empty()) by_owner_.erase(owned);
  slot.pool->RemoveMember(slot_number);
  residues_.Open(slot.owner, slot.registration, slot.spec.base, slot.spec.size_bytes);
  return true;
}

void SegmentRegistry::Retire(absl::Span<const uint32_t> slots) {
  for (uint32_t slot : slots) placement_->Refresh(slot);
  absl::MutexLock lock(&mu_);
  ended_.insert(slots.begin(), slots.end());
  NoteOldestEnd();
}

void SegmentRegistry::NoteOldestEnd() {
  int64_t oldest_ms = kForever;
  for (uint32_t slot : ended_) oldest_ms = std::min(oldest_ms, controls_[slot].ended_at_ms);
  oldest_end_ms_.store(oldest_ms, std::memory_order_relaxed);
}

void SegmentRegistry::EndSession(const Session& session, int64_t now_ms) {
  std::vector<uint32_t> ended;
  {
    absl::MutexLock lock(&mu_);
    auto it = by_owner_.find(session.client);
    if (it == by_owner_.end()) return;
    const std::vector<uint32_t> owned = it->second;
    for (uint32_t slot : owned) {
      if (slots_.At(slot).owner_epoch == session.epoch && EndLocked(slot, now_ms)) {
        ended.push_back(slot);
      }
    }
  }
  Retire(ended);
}

size_t SegmentRegistry::EndDue(int64_t now_ms) {
  std::vector<uint32_t> ended;
  {
    absl::MutexLock lock(&mu_);
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_ms) {
      const uint32_t slot = deadlines_.begin()->second;
      EndLocked(slot, now_ms);
      ended.push_back(slot);
    }
  }
  if (!ended.empty()) Retire(ended);
  return ended.size();
}

std::vector<uint64_t> SegmentRegistry::NotLive(absl::Span<const uint64_t> registrations) const {
  std::vector<uint64_t> gone;
  absl::ReaderMutexLock lock(&mu_);
  for (uint64_t id : registrations) {
    auto it = by_id_.find(RegistrationId{id});
    if (it == by_id_.end() || !slots_.At(it->second).IsLive()) gone.push_back(id);
  }
  return gone;
}

void SegmentRegistry::RefreshMembers(const Pool& pool) {
  for (uint32_t slot : pool.Members()) placement_->Refresh(slot);
}

std::optional<AllocatedRange> SegmentRegistry::Allocate(const SegmentChoice& choice,
                                                        uint64_t size_bytes) {
  Slot& slot = slots_.At(choice.slot);
  if (!slot.TryHold(choice.lifetime)) return std::nullopt;
  bool bucket_changed = false;
  std::optional<AllocatedRange> range = slot.pool->Allocate(size_bytes, &bucket_changed);
  if (bucket_changed) RefreshMembers(*slot.pool);
  if (!range.has_value()) DropHolds(choice.slot, 1);
  return range;
}

void SegmentRegistry::Free(uint32_t slot_number, uint32_t range) {
  if (!DiesWithRegistration(slot_number)) {
    Pool& pool = *slots_.At(slot_number).pool;
    bool bucket_changed = false;
    pool.Free(range, &bucket_changed);
    if (bucket_changed) RefreshMembers(pool);
  }
  DropHolds(slot_number, 1);
}

void SegmentRegistry::DropHolds(uint32_t slot, uint32_t count) {
  if (count != 0 && slots_.At(slot).DropHolds(count)) FreeSlot(slot);
}

void SegmentRegistry::FreeSlot(uint32_t slot_number) {
  absl::MutexLock lock(&mu_);
  Slot& slot = slots_.At(slot_number);
  HOLDFAST_CHECK(!slot.IsLive() && controls_[slot_number].swept);
  residues_.Settle(slot.owner, slot.registration);
  by_id_.erase(slot.registration);
  unsettled_.erase(slot_number);
  if (slot.pool.use_count() == 1) {
    if (!slot.pool->is_private()) pools_.erase(slot.pool->pool_id());
    dead_pools_.push_back(std::move(slot.pool));
  }
  slot.pool.reset();
  slot.spec = SegmentSpec();
  slot.registration = RegistrationId();
  free_slots_.push_back(slot_number);
}

void SegmentRegistry::NoteResidue(uint32_t slot, int64_t leases_until_ms,
                                  absl::Span<const TouchedRange> ranges) {
  absl::MutexLock lock(&mu_);
  residues_.Note(slots_.At(slot).owner, slots_.At(slot).registration, leases_until_ms, ranges);
}

void SegmentRegistry::TryAdmit(uint32_t slot_number, int64_t now_ms,
                               std::vector<QuarantinedRange>* inherited) {
  Slot& slot = slots_.At(slot_number);
  const uint64_t size_bytes = slot.spec.size_bytes;
  const std::optional<std::vector<TouchedRange>> touched =
      residues_.Inherit(slot.owner, slot.spec.base, size_bytes, now_ms);
  controls_[slot_number].waiting = !touched.has_value();
  if (!touched.has_value()) {
    waiting_.insert(slot_number);
    return;
  }
  waiting_.erase(slot_number);
  std::vector<OffsetAllocator::Reserved> reserved;
  for (const TouchedRange& range : *touched) {
    reserved.push_back({range.offset_bytes, range.size_bytes});
  }
  for (const OffsetAllocator::ReservedRange& range : slot.pool->Open(size_bytes, reserved)) {
    QuarantinedRange held{0, slot_number, range.index, range.offset_bytes, range.size_bytes};
    for (const TouchedRange& cause : *touched) {
      if (Overlap(cause.offset_bytes, cause.size_bytes, range.offset_bytes, range.size_bytes)) {
        held.until_ms = std::max(held.until_ms, cause.until_ms);
      }
    }
    slot.AddHold();
    inherited->push_back(held);
  }
}

std::vector<QuarantinedRange> SegmentRegistry::AdmitWaiting(int64_t now_ms) {
  std::vector<QuarantinedRange> inherited;
  std::vector<uint32_t> admitted;
  {
    absl::MutexLock lock(&mu_);
    const std::vector<uint32_t> waiting(waiting_.begin(), waiting_.end());
    for (uint32_t slot : waiting) {
      TryAdmit(slot, now_ms, &inherited);
      if (!controls_[slot].waiting) admitted.push_back(slot);
    }
    residues_.Forget(now_ms);
  }
  for (uint32_t slot : admitted) placement_->Refresh(slot);
  return inherited;
}

std::vector<uint32_t> SegmentRegistry::Unsettled() const {
  std::vector<uint32_t> slots;
  absl::ReaderMutexLock lock(&mu_);
  for (uint32_t slot : unsettled_) {
    if (slots_.At(slot).pool->is_private()) slots.push_back(slot);
  }
  return slots;
}

std::vector<uint32_t> SegmentRegistry::EndedSlots() const {
  absl::ReaderMutexLock lock(&mu_);
  return {ended_.begin(), ended_.end()};
}

bool SegmentRegistry::HasEnded() const {
  absl::ReaderMutexLock lock(&mu_);
  return !ended_.empty();
}

void SegmentRegistry::FinishSweep(uint32_t slot) {
  {
    absl::MutexLock lock(&mu_);
    ended_.erase(slot);
    NoteOldestEnd();
    controls_[slot].swept = true;
    unsettled_.insert(slot);
    ++swept_registrations_;
  }
  DropHolds(slot, 1);
}

std::vector<std::shared_ptr<Pool>> SegmentRegistry::TakeDeadPools() {
  absl::MutexLock lock(&mu_);
  return std::exchange(dead_pools_, {});
}

SegmentListing SegmentRegistry::Describe(uint32_t slot_number, int64_t now_ms) const {
  const Slot& slot = slots_.At(slot_number);
  const Control& control = controls_[slot_number];
  SegmentListing row;
  row.spec = slot.spec;
  row.registration = slot.registration;
  row.slot = slot_number;
  row.state = control.state;
  row.owner = slot.owner;
  row.allocated_bytes = slot.pool->allocated_bytes();
  row.ranges = slot.holds() - (control.swept ? 0 : 1);
  row.grace_left_ms = control.state == SegmentState::kGraceful
                          ? std::max<int64_t>(0, control.deadline_ms - now_ms)
                          : 0;
  row.waits_for_earlier = control.waiting;
  return row;
}

std::vector<SegmentListing> SegmentRegistry::List(RegistrationId after, bool include_ended,
                                                  size_t max_rows, int64_t now_ms) const {
  std::vector<SegmentListing> rows;
  absl::ReaderMutexLock lock(&mu_);
  for (auto it = by_id_.upper_bound(after); it != by_id_.end() && rows.size() < max_rows; ++it) {
    if (include_ended || slots_.At(it->second).IsLive()) {
      rows.push_back(Describe(it->second, now_ms));
    }
  }
  return rows;
}

uint32_t SegmentRegistry::SegmentsOf(const ClientId& owner) const {
  absl::ReaderMutexLock lock(&mu_);
  auto it = by_owner_.find(owner);
  return it == by_owner_.end() ? 0 : static_cast<uint32_t>(it->second.size());
}

void SegmentRegistry::Count(int64_t now_ms, MasterCounts* counts) const {
  absl::ReaderMutexLock lock(&mu_);
  absl::flat_hash_map<const Pool*, bool> seen;
  for (const auto& [id, slot_number] : by_id_) {
    const Slot& slot = slots_.At(slot_number);
    if (!slot.IsLive()) continue;
    ++counts->segments;
    if (!slot.pool->is_private() && !seen.emplace(slot.pool.get(), true).second) continue;
    // A registration that waits has no allocator yet, but it does lend its memory.
    counts->capacity_bytes += slot.spec.size_bytes / kUnitBytes * kUnitBytes;
    counts->allocated_bytes += slot.pool->allocated_bytes();
  }
  for (uint32_t slot_number : ended_) {
    ++counts->cleanup.ended_registrations_waiting;
    counts->cleanup.ended_replicas_waiting += slots_.At(slot_number).holds() - 1;
    counts->cleanup.oldest_waiting_age_ms = std::max(counts->cleanup.oldest_waiting_age_ms,
                                                     now_ms - controls_[slot_number].ended_at_ms);
  }
  counts->cleanup.swept_registrations = swept_registrations_;
}

size_t SegmentRegistry::ResidueCount() const {
  absl::ReaderMutexLock lock(&mu_);
  return residues_.size();
}

}  // namespace holdfast::core

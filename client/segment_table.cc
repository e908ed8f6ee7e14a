#include "client/segment_table.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace holdfast::client {
namespace {

// A segment gets a new registration only when its session was lost, so this is hours of a bad network.
constexpr size_t kFormerIdsMax = 64;

absl::Status StillClaimed(absl::string_view operation, const SegmentOptions& segment) {
  return absl::DeadlineExceededError(absl::StrCat(
      operation, " '", segment.name, "': another call on this segment is in progress"));
}

}  // namespace

bool SegmentTable::AwaitUnclaimed(const SegmentId& id, Deadline deadline) {
  const auto unclaimed = [this, &id]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = entries_.find(id);
    return it == entries_.end() || !it->second.claimed;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&unclaimed), Remaining(deadline));
}

SegmentClaim SegmentTable::MakeClaim(Entry& entry) {
  entry.claimed = true;
  SegmentClaim claim;
  claim.segment = entry.segment;
  claim.registration_id = entry.registration_id;
  claim.epoch = entry.epoch;
  claim.grace_ms = entry.grace_ms;
  claim.uncertain_epoch = entry.uncertain_epoch;
  claim.was_known = true;
  claim.was_wanted = entry.wanted;
  return claim;
}

void SegmentTable::Forget(Entries::iterator it) {
  by_registration_.erase(it->second.registration_id);
  for (const uint64_t id : it->second.former_ids) by_registration_.erase(id);
  entries_.erase(it);
}

void SegmentTable::SetRegistration(Entry& entry, uint64_t registration_id) {
  if (entry.registration_id == registration_id) return;
  if (entry.registration_id != 0) {
    if (entry.former_ids.size() == kFormerIdsMax) {
      by_registration_.erase(entry.former_ids.front());
      entry.former_ids.erase(entry.former_ids.begin());
    }
    entry.former_ids.push_back(entry.registration_id);
  }
  entry.registration_id = registration_id;
  by_registration_[registration_id] = entry.segment.segment_id;
}

absl::StatusOr<SegmentClaim> SegmentTable::ClaimForMount(const SegmentOptions& segment,
                                                         Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  if (!AwaitUnclaimed(segment.segment_id, deadline)) return StillClaimed("mount", segment);
  const bool known = entries_.contains(segment.segment_id);
  Entry& entry = entries_[segment.segment_id];
  if (!known) entry.segment = segment;
  SegmentClaim claim = MakeClaim(entry);
  claim.segment = segment;
  claim.was_known = known;
  entry.wanted = true;
  return claim;
}

void SegmentTable::Mounted(const SegmentClaim& claim, uint64_t epoch, uint64_t registration_id) {
  absl::MutexLock lock(&mutex_);
  // A claimed entry is never forgotten, so it is there. It may have become unwanted: then its unmounter waits for this.
  Entry& entry = entries_[claim.segment.segment_id];
  entry.segment = claim.segment;
  SetRegistration(entry, registration_id);
  entry.epoch = epoch;
  entry.uncertain_epoch = 0;
  entry.leaving = false;
  entry.claimed = false;
}

void SegmentTable::MountFailed(const SegmentClaim& claim, uint64_t epoch, bool outcome_unknown) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(claim.segment.segment_id);
  Entry& entry = it->second;
  entry.claimed = false;
  if (!claim.was_wanted) entry.wanted = false;
  if (outcome_unknown) {
    entry.uncertain_epoch = epoch;
    if (!entry.wanted) {
      entry.segment = claim.segment;
      entry.leaving = false;
    }
  } else if (!claim.was_known) {
    Forget(it);
  }
}

absl::StatusOr<absl::optional<SegmentClaim>> SegmentTable::ClaimForUnmount(uint64_t registration_id,
                                                                           uint32_t grace_ms,
                                                                           Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_registration_.find(registration_id);
  if (found == by_registration_.end()) return absl::nullopt;
  const SegmentId id = found->second;
  const auto unwant = [this, &id, grace_ms]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> Entry* {
    const auto it = entries_.find(id);
    if (it == entries_.end()) return nullptr;
    it->second.wanted = false;
    it->second.grace_ms = grace_ms;
    return &it->second;
  };
  if (unwant() == nullptr) return absl::nullopt;
  const bool unclaimed = AwaitUnclaimed(id, deadline);
  Entry* entry = unwant();  // looked up again: it may be gone
  if (entry == nullptr) return absl::nullopt;
  if (!unclaimed) return StillClaimed("unmount", entry->segment);
  return MakeClaim(*entry);
}

void SegmentTable::Unmounted(const SegmentClaim& claim) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(claim.segment.segment_id);
  if (claim.grace_ms == 0) return Forget(it);
  Entry& entry = it->second;
  entry.epoch = claim.epoch;
  SetRegistration(entry, claim.registration_id);
  entry.uncertain_epoch = 0;
  entry.leaving = true;
  entry.claimed = false;
}

void SegmentTable::UnmountFailed(const SegmentClaim& claim) {
  absl::MutexLock lock(&mutex_);
  entries_.find(claim.segment.segment_id)->second.claimed = false;
}

std::vector<SegmentClaim> SegmentTable::ClaimForRemount(uint64_t epoch) {
  std::vector<SegmentClaim> claims;
  absl::MutexLock lock(&mutex_);
  for (auto& [id, entry] : entries_) {
    if (entry.wanted && !entry.claimed && entry.epoch != epoch) claims.push_back(MakeClaim(entry));
  }
  return claims;
}

void SegmentTable::RemountFailed(const SegmentClaim& claim, uint64_t epoch, bool outcome_unknown) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_.find(claim.segment.segment_id)->second;
  entry.claimed =
      false;  // its epoch is still the old one, which makes the next round mount it again
  if (outcome_unknown) entry.uncertain_epoch = epoch;
}

bool SegmentTable::RemountRefused(const SegmentClaim& claim) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(claim.segment.segment_id);
  const bool wanted = it->second.wanted;
  Forget(it);
  return wanted;
}

std::vector<SegmentClaim> SegmentTable::ClaimForSettling(uint64_t epoch) {
  std::vector<SegmentClaim> claims;
  absl::MutexLock lock(&mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto here = it++;
    Entry& entry = here->second;
    if (entry.wanted || entry.claimed) continue;
    if (entry.epoch != epoch && entry.uncertain_epoch != epoch) {
      Forget(here);
    } else if (!entry.leaving) {
      claims.push_back(MakeClaim(entry));
    }
  }
  return claims;
}

std::vector<uint64_t> SegmentTable::TakeEnded(const std::vector<uint64_t>& registration_ids) {
  std::vector<uint64_t> told;
  absl::MutexLock lock(&mutex_);
  for (const uint64_t registration_id : registration_ids) {
    const auto found = by_registration_.find(registration_id);
    if (found == by_registration_.end()) continue;
    const auto it = entries_.find(found->second);
    Entry& entry = it->second;
    // It has got another registration meanwhile, or somebody is at it and the next heartbeat tells again.
    if (entry.claimed || entry.registration_id != registration_id) continue;
    if (entry.wanted || entry.leaving) told.push_back(registration_id);
    if (entry.uncertain_epoch !=
        0) {  // it may have another registration that nobody has seen: one to unmount
      entry.wanted = false;
      entry.leaving = false;
    } else {
      Forget(it);
    }
  }
  return told;
}

std::vector<uint64_t> SegmentTable::Reported(uint64_t epoch) const {
  std::vector<uint64_t> ids;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if ((entry.wanted || entry.leaving) && entry.registration_id != 0 && entry.epoch == epoch) {
      ids.push_back(entry.registration_id);
    }
  }
  return ids;
}

std::vector<uint64_t> SegmentTable::MountedIds(uint64_t epoch) const {
  std::vector<uint64_t> ids;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (entry.wanted && entry.registration_id != 0 && entry.epoch == epoch)
      ids.push_back(entry.registration_id);
  }
  return ids;
}

std::vector<uint64_t> SegmentTable::WantedIds() const {
  std::vector<uint64_t> ids;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (entry.wanted && entry.registration_id != 0) ids.push_back(entry.registration_id);
  }
  return ids;
}

size_t SegmentTable::WantedCount() const {
  absl::MutexLock lock(&mutex_);
  size_t count = 0;
  for (const auto& [id, entry] : entries_) count += entry.wanted ? 1 : 0;
  return count;
}

}  // namespace holdfast::client

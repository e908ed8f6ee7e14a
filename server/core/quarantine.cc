#include "server/core/quarantine.h"

namespace holdfast::core {

void Quarantine::Add(const QuarantinedRange& range) {
  absl::MutexLock lock(&mu_);
  by_time_.insert(range);
  by_slot_[range.slot].insert(range);
  bytes_ += range.size_bytes;
}

std::vector<QuarantinedRange> Quarantine::TakeDue(int64_t now_ms, size_t max_ranges) {
  std::vector<QuarantinedRange> due;
  absl::MutexLock lock(&mu_);
  while (!by_time_.empty() && due.size() < max_ranges && by_time_.begin()->until_ms <= now_ms) {
    const QuarantinedRange range = *by_time_.begin();
    by_time_.erase(by_time_.begin());
    auto slot = by_slot_.find(range.slot);
    slot->second.erase(range);
    if (slot->second.empty()) by_slot_.erase(slot);
    bytes_ -= range.size_bytes;
    due.push_back(range);
  }
  return due;
}

std::vector<QuarantinedRange> Quarantine::TakeSlot(uint32_t slot) {
  absl::MutexLock lock(&mu_);
  auto it = by_slot_.find(slot);
  if (it == by_slot_.end()) return {};
  std::vector<QuarantinedRange> taken(it->second.begin(), it->second.end());
  by_slot_.erase(it);
  for (const QuarantinedRange& range : taken) {
    by_time_.erase(range);
    bytes_ -= range.size_bytes;
  }
  return taken;
}

std::vector<QuarantinedRange> Quarantine::Snapshot() const {
  absl::MutexLock lock(&mu_);
  return {by_time_.begin(), by_time_.end()};
}

uint64_t Quarantine::ranges() const {
  absl::MutexLock lock(&mu_);
  return by_time_.size();
}

uint64_t Quarantine::bytes() const {
  absl::MutexLock lock(&mu_);
  return bytes_;
}

}  // namespace holdfast::core

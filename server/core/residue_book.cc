#include "server/core/residue_book.h"

#include <algorithm>

#include "server/core/check.h"

namespace holdfast::core {

bool Overlap(uint64_t base_a, uint64_t size_a, uint64_t base_b, uint64_t size_b) {
  return base_a < base_b + size_b && base_b < base_a + size_a;
}

bool ResidueBook::Residue::IsOver(int64_t now_ms) const {
  int64_t until_ms = leases_until_ms;
  for (const TouchedRange& range : ranges) until_ms = std::max(until_ms, range.until_ms);
  return settled && until_ms <= now_ms;
}

ResidueBook::Residue& ResidueBook::Find(const ClientId& owner, RegistrationId registration) {
  auto it = by_owner_.find(owner);
  HOLDFAST_CHECK(it != by_owner_.end());
  auto residue =
      std::find_if(it->second.begin(), it->second.end(),
                   [registration](const Residue& one) { return one.registration == registration; });
  HOLDFAST_CHECK(residue != it->second.end());
  return *residue;
}

void ResidueBook::Open(const ClientId& owner, RegistrationId registration, uint64_t base,
                       uint64_t size_bytes) {
  Residue residue;
  residue.registration = registration;
  residue.base = base;
  residue.size_bytes = size_bytes;
  by_owner_[owner].push_back(std::move(residue));
}

void ResidueBook::Note(const ClientId& owner, RegistrationId registration, int64_t leases_until_ms,
                       absl::Span<const TouchedRange> ranges) {
  Residue& residue = Find(owner, registration);
  residue.leases_until_ms = std::max(residue.leases_until_ms, leases_until_ms);
  residue.ranges.insert(residue.ranges.end(), ranges.begin(), ranges.end());
}

void ResidueBook::Settle(const ClientId& owner, RegistrationId registration) {
  Find(owner, registration).settled = true;
}

std::optional<std::vector<TouchedRange>> ResidueBook::Inherit(const ClientId& owner, uint64_t base,
                                                              uint64_t size_bytes,
                                                              int64_t now_ms) const {
  std::vector<TouchedRange> touched;
  auto it = by_owner_.find(owner);
  if (it == by_owner_.end()) return touched;
  for (const Residue& residue : it->second) {
    if (!Overlap(base, size_bytes, residue.base, residue.size_bytes)) continue;
    if (!residue.settled || residue.leases_until_ms > now_ms) return std::nullopt;
    for (const TouchedRange& range : residue.ranges) {
      const uint64_t begin = residue.base + range.offset_bytes;
      if (range.until_ms <= now_ms || !Overlap(begin, range.size_bytes, base, size_bytes)) continue;
      const uint64_t from = std::max(begin, base) - base;
      const uint64_t to = std::min(begin + range.size_bytes, base + size_bytes) - base;
      touched.push_back({from, to - from, range.until_ms});
    }
  }
  return touched;
}

void ResidueBook::Forget(int64_t now_ms) {
  for (auto it = by_owner_.begin(); it != by_owner_.end();) {
    std::vector<Residue>& list = it->second;
    list.erase(std::remove_if(list.begin(), list.end(),
                              [now_ms](const Residue& one) { return one.IsOver(now_ms); }),
               list.end());
    if (list.empty()) {
      by_owner_.erase(it++);
    } else {
      ++it;
    }
  }
}

size_t ResidueBook::size() const {
  size_t count = 0;
  for (const auto& [owner, list] : by_owner_) count += list.size();
  return count;
}

}  // namespace holdfast::core

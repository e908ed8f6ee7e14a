#include "server/core/placement.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/core/check.h"
#include "server/core/size_class.h"

namespace holdfast::core {
namespace {

// Random looks before a stretch of the order is walked instead, and the length of that walk.
constexpr int kRandomTries = 8;
constexpr uint32_t kWalkMax = 64;

}  // namespace

uint32_t CallRandom::Below(uint32_t bound) {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<uint32_t>(((z >> 32) * bound) >> 32);
}

Placement::Placement(const SlotTable* slots) : slots_(slots) {}

void Placement::Put(uint32_t position, uint32_t slot) {
  order_[position] = slot;
  entries_[slot].position = position;
}

void Placement::MoveTo(uint32_t slot, uint16_t bucket) {
  Entry& entry = entries_[slot];
  // Each step swaps the slot with one end of its bucket and shifts the border by one.
  while (entry.bucket > bucket) {
    const uint32_t first = begins_[entry.bucket]++;
    const uint32_t other = order_[first];
    Put(entry.position, other);
    Put(first, slot);
    --entry.bucket;
  }
  while (entry.bucket < bucket) {
    const uint32_t last = --begins_[entry.bucket + 1];
    const uint32_t other = order_[last];
    Put(entry.position, other);
    Put(last, slot);
    ++entry.bucket;
  }
}

void Placement::Insert(uint32_t slot) {
  const Slot& truth = slots_->At(slot);
  Entry& entry = entries_[slot];
  entry.name = truth.spec.name;
  entry.owner = truth.owner;
  by_name_[entry.name].push_back(slot);
  by_owner_[entry.owner].push_back(slot);
  order_.push_back(slot);
  entry.position = static_cast<uint32_t>(order_.size()) - 1;
  entry.bucket = kBuckets - 1;
  begins_[kBuckets] = static_cast<uint32_t>(order_.size());
}

void Placement::Erase(uint32_t slot) {
  MoveTo(slot, kBuckets - 1);
  Entry& entry = entries_[slot];
  Put(entry.position, order_.back());
  order_.pop_back();
  begins_[kBuckets] = static_cast<uint32_t>(order_.size());
  auto drop = [slot](auto& lists, const auto& key) {
    auto it = lists.find(key);
    it->second.erase(std::find(it->second.begin(), it->second.end(), slot));
    if (it->second.empty()) lists.erase(it);
  };
  drop(by_name_, entry.name);
  drop(by_owner_, entry.owner);
  entry = Entry();
}

void Placement::Refresh(uint32_t slot) {
  absl::MutexLock lock(&mu_);
  if (entries_.size() <= slot) entries_.resize(slot + 1);
  const Slot& truth = slots_->At(slot);
  const bool wanted = truth.takes_objects.load(std::memory_order_acquire);
  const bool present = entries_[slot].position != kAbsent;
  if (!wanted) {
    if (present) Erase(slot);
    return;
  }
  if (!present) Insert(slot);
  MoveTo(slot, truth.pool->bucket());
}

uint32_t Placement::size() const {
  absl::ReaderMutexLock lock(&mu_);
  return static_cast<uint32_t>(order_.size());
}

bool Placement::Excluded(const Query& query, uint32_t slot) const {
  return absl::c_linear_search(query.excluded_slots, slot);
}

bool Placement::HostUsed(const Query& query, uint32_t slot) const {
  const uint64_t host = slots_->At(slot).host_hash;
  return host != 0 && absl::c_linear_search(query.used_hosts, host);
}

double Placement::FreeRatio(uint32_t slot) const {
  const Pool& pool = *slots_->At(slot).pool;
  const auto capacity = static_cast<double>(pool.capacity_bytes());
  if (capacity == 0) return 0;
  return 1.0 - static_cast<double>(pool.allocated_bytes()) / capacity;
}

uint32_t Placement::DrawByCapacity(uint32_t a, uint32_t b, CallRandom* random) const {
  const auto capacity_a = static_cast<double>(slots_->At(a).pool->capacity_bytes());
  const auto capacity_b = static_cast<double>(slots_->At(b).pool->capacity_bytes());
  if (capacity_a == capacity_b) return a;
  constexpr uint32_t kScale = 1u << 20;
  return random->Below(kScale) * (capacity_a + capacity_b) < kScale * capacity_a ? a : b;
}

std::optional<uint32_t> Placement::FromList(const Query& query, const std::vector<uint32_t>& slots,
                                            uint16_t bucket) const {
  for (uint32_t slot : slots) {
    if (entries_[slot].bucket >= bucket && !Excluded(query, slot)) return slot;
  }
  return std::nullopt;
}

std::optional<uint32_t> Placement::FromRange(const Query& query, uint32_t begin, uint32_t end,
                                             int samples, CallRandom* random) const {
  const uint32_t count = end - begin;
  if (count == 0) return std::nullopt;
  std::optional<uint32_t> best;
  std::optional<uint32_t> shares_host;
  double best_ratio = -1;
  int seen = 0;
  auto look = [&](uint32_t slot) {
    if (Excluded(query, slot)) return;
    if (HostUsed(query, slot)) {
      if (!shares_host.has_value()) shares_host = slot;
      return;
    }
    ++seen;
    const double ratio = samples > 1 ? FreeRatio(slot) : 0;
    if (ratio > best_ratio) {
      best_ratio = ratio;
      best = slot;
    }
  };
  for (int i = 0; i < kRandomTries && seen < samples; ++i) {
    uint32_t slot = order_[begin + random->Below(count)];
    if (samples > 1) slot = DrawByCapacity(slot, order_[begin + random->Below(count)], random);
    look(slot);
  }
  if (!best.has_value()) {
    const uint32_t start = random->Below(count);
    const uint32_t walk = std::min(count, kWalkMax);
    for (uint32_t i = 0; i < walk && !best.has_value(); ++i)
      look(order_[begin + (start + i) % count]);
  }
  return best.has_value() ? best : shares_host;
}

std::optional<uint32_t> Placement::ChooseSlot(const Query& query, CallRandom* random) const {
  const uint16_t bucket = PlacementClass(UnitsRoundedUp(query.size_bytes));
  for (absl::string_view name : query.preferred_segments) {
    auto it = by_name_.find(name);
    if (it == by_name_.end()) continue;
    if (auto slot = FromList(query, it->second, bucket)) return slot;
  }
  if (!query.local_client.IsNone()) {
    auto it = by_owner_.find(query.local_client);
    if (it != by_owner_.end()) {
      if (auto slot = FromList(query, it->second, bucket)) return slot;
    }
  }
  const int samples = query.strategy == PlacementStrategy::kRandom ? 1 : 2;
  // First those that surely have room, then those of the same bucket, which may.
  const uint32_t sure = begins_[bucket + 1];
  const auto roomy = FromRange(query, sure, begins_[kBuckets], samples, random);
  if (roomy.has_value() && !HostUsed(query, *roomy)) return roomy;
  const auto tight = FromRange(query, begins_[bucket], sure, samples, random);
  if (!roomy.has_value() || (tight.has_value() && !HostUsed(query, *tight))) return tight;
  return roomy;
}

std::optional<SegmentChoice> Placement::Choose(const Query& query, CallRandom* random) const {
  absl::ReaderMutexLock lock(&mu_);
  const std::optional<uint32_t> slot = ChooseSlot(query, random);
  if (!slot.has_value()) return std::nullopt;
  return SegmentChoice{*slot, slots_->At(*slot).lifetime()};
}

std::string Placement::Audit() const {
  absl::ReaderMutexLock lock(&mu_);
  if (begins_[kBuckets] != order_.size()) return "last border is not the size";
  for (uint32_t b = 0; b < kBuckets; ++b) {
    if (begins_[b] > begins_[b + 1]) return absl::StrCat("border ", b, " above the next");
    for (uint32_t i = begins_[b]; i < begins_[b + 1]; ++i) {
      const Entry& entry = entries_[order_[i]];
      if (entry.position != i) return absl::StrCat("position of slot ", order_[i]);
      if (entry.bucket != b) return absl::StrCat("bucket of slot ", order_[i]);
      const Slot& truth = slots_->At(order_[i]);
      if (!truth.takes_objects) return absl::StrCat("slot ", order_[i], " takes no objects");
      if (truth.pool->bucket() != b) return absl::StrCat("bucket lags at slot ", order_[i]);
    }
  }
  return "";
}

}  // namespace holdfast::core

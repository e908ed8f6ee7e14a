#include "server/core/segment_slot.h"

#include <algorithm>

#include "server/core/check.h"

namespace holdfast::core {

std::vector<OffsetAllocator::ReservedRange> Pool::Open(
    uint64_t size_bytes, absl::Span<const OffsetAllocator::Reserved> reserved) {
  absl::MutexLock lock(&mu_);
  HOLDFAST_CHECK(!allocator_.has_value());
  allocator_.emplace(size_bytes, reserved);
  PublishFigures();
  return allocator_->TakeReservedRanges();
}

std::optional<AllocatedRange> Pool::Allocate(uint64_t size_bytes, bool* bucket_changed) {
  absl::MutexLock lock(&mu_);
  if (!allocator_.has_value()) return std::nullopt;
  std::optional<AllocatedRange> range = allocator_->Allocate(size_bytes);
  *bucket_changed = range.has_value() && PublishFigures();
  return range;
}

void Pool::Free(uint32_t range, bool* bucket_changed) {
  OffsetAllocator::ReleasedStorage released;  // dies after the lock
  absl::MutexLock lock(&mu_);
  HOLDFAST_CHECK(allocator_.has_value());
  released = allocator_->Free(range);
  *bucket_changed = PublishFigures();
}

void Pool::AddMember(uint32_t slot) {
  absl::MutexLock lock(&mu_);
  members_.push_back(slot);
}

void Pool::RemoveMember(uint32_t slot) {
  absl::MutexLock lock(&mu_);
  members_.erase(std::remove(members_.begin(), members_.end(), slot), members_.end());
}

std::vector<uint32_t> Pool::Members() const {
  absl::MutexLock lock(&mu_);
  return members_;
}

std::string Pool::Audit() const {
  absl::MutexLock lock(&mu_);
  return allocator_.has_value() ? allocator_->Audit() : std::string();
}

bool Pool::PublishFigures() {
  allocated_bytes_.store(allocator_->allocated_bytes(), std::memory_order_relaxed);
  capacity_bytes_.store(allocator_->capacity_bytes(), std::memory_order_relaxed);
  const uint16_t bucket = allocator_->LargestFreePlacementClass();
  return bucket_.exchange(bucket, std::memory_order_relaxed) != bucket;
}

SlotTable::SlotTable(uint32_t max_slots)
    : max_slots_(std::min(max_slots, kMaxSlots)),
      chunks_(std::make_unique<std::atomic<Slot*>[]>(max_slots_ / kChunkSlots + 1)) {}

SlotTable::~SlotTable() {
  for (uint32_t i = 0; i <= max_slots_ / kChunkSlots; ++i) delete[] chunks_[i].load();
}

uint32_t SlotTable::Grow() {
  const uint32_t slot = size_.load(std::memory_order_relaxed);
  HOLDFAST_CHECK(slot < max_slots_);
  std::atomic<Slot*>& chunk = chunks_[slot / kChunkSlots];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    chunk.store(new Slot[kChunkSlots], std::memory_order_release);
  }
  size_.store(slot + 1, std::memory_order_release);
  return slot;
}

}  // namespace holdfast::core

#include "server/core/record_arena.h"

#include <bit>

#include "server/core/check.h"

namespace holdfast::core {

RecordArena::~RecordArena() {
  for (std::byte* chunk : chunks_) pool_.GiveBack(chunk);
}

Handle RecordArena::Allocate(size_t bytes) {
  HOLDFAST_CHECK(bytes <= kMaxSlotBytes);
  const auto units = static_cast<uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
  Handle handle = TakeFree(units);
  if (handle == 0) handle = Carve(units);
  ++used_slots_;
  static_cast<SlotHeader*>(At(handle))->kind = SlotHeader::kUsed;
  return handle;
}

Handle RecordArena::Carve(uint32_t units) {
  const uint32_t steps = units * (kUnitBytes / kStepBytes);
  if (carved_ + steps > kChunkSteps) AddChunk();
  const Handle handle = (chunks() - 1) * kChunkSteps + carved_;
  carved_ += steps;
  static_cast<SlotHeader*>(At(handle))->units = static_cast<uint8_t>(units);
  return handle;
}

void RecordArena::AddChunk() {
  const uint32_t rest = kChunkSteps - carved_;
  if (!chunks_.empty() && rest > 0) {
    const Handle handle = (chunks() - 1) * kChunkSteps + carved_;
    const uint32_t units = rest / (kUnitBytes / kStepBytes);
    if (units >= kMinUnits && units < kClasses) {
      PushFree(handle, units);
    } else {
      static_cast<SlotHeader*>(At(handle))->kind = SlotHeader::kEnd;
    }
  }
  chunks_.push_back(pool_.Take());
  carved_ = chunks_.size() == 1 ? kFirstStep : 0;
}

Handle RecordArena::TakeFree(uint32_t units) {
  if (free_.empty()) return 0;
  // The exact size, or one whose rest is a slot of its own.
  uint32_t found = kClasses;
  auto first_from = [this](uint32_t from) -> uint32_t {
    for (uint32_t word = from / 64; word < free_bits_.size(); ++word) {
      uint64_t bits = free_bits_[word];
      if (word == from / 64) bits &= ~uint64_t{0} << (from % 64);
      if (bits != 0) return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
    }
    return kClasses;
  };
  if (units < free_.size() && free_[units] != 0) {
    found = units;
  } else if (units + kMinUnits < kClasses) {
    found = first_from(units + kMinUnits);
  }
  if (found == kClasses) return 0;
  const Handle handle = free_[found];
  auto* slot = static_cast<FreeSlot*>(At(handle));
  free_[found] = slot->next;
  if (slot->next == 0) free_bits_[found / 64] &= ~(uint64_t{1} << (found % 64));
  if (found > units) {
    slot->header.units = static_cast<uint8_t>(units);
    PushFree(handle + units * (kUnitBytes / kStepBytes), found - units);
  }
  return handle;
}

void RecordArena::PushFree(Handle handle, uint32_t units) {
  if (free_.size() <= units) free_.resize(units + 1);
  auto* slot = static_cast<FreeSlot*>(At(handle));
  slot->header = {SlotHeader::kFree, static_cast<uint8_t>(units)};
  slot->next = free_[units];
  free_[units] = handle;
  free_bits_[units / 64] |= uint64_t{1} << (units % 64);
}

void RecordArena::Free(Handle handle) {
  auto* header = static_cast<SlotHeader*>(At(handle));
  HOLDFAST_CHECK(header->kind == SlotHeader::kUsed);
  if (--used_slots_ == 0) {
    Clear();
    return;
  }
  PushFree(handle, header->units);
}

void RecordArena::PrefetchBackFrom(Handle handle) const {
  if (handle == 0) return;
  constexpr size_t kLineBytes = 64;
  constexpr size_t kLines = 24;
  const std::byte* chunk = chunks_[handle / kChunkSteps];
  const size_t at = (handle % kChunkSteps) * kStepBytes;
  for (size_t line = 0; line < kLines && line * kLineBytes <= at; ++line) {
    __builtin_prefetch(chunk + at - line * kLineBytes);
  }
}

Handle RecordArena::UsedFrom(uint32_t chunk, uint32_t step) const {
  const uint32_t end = chunk + 1 == chunks() ? carved_ : kChunkSteps;
  while (step < end) {
    const Handle handle = chunk * kChunkSteps + step;
    const auto* header = static_cast<const SlotHeader*>(At(handle));
    if (header->kind == SlotHeader::kUsed) return handle;
    if (header->kind == SlotHeader::kEnd) return 0;
    step += header->units * (kUnitBytes / kStepBytes);
  }
  return 0;
}

Handle RecordArena::FirstUsed(uint32_t chunk) const {
  return UsedFrom(chunk, chunk == 0 ? kFirstStep : 0);
}

Handle RecordArena::NextUsed(Handle handle) const {
  const auto* header = static_cast<const SlotHeader*>(At(handle));
  return UsedFrom(handle / kChunkSteps,
                  handle % kChunkSteps + header->units * (kUnitBytes / kStepBytes));
}

void RecordArena::Clear() {
  // One chunk stays, so that a shard that goes between none and one object does not go to the allocator each time.
  while (chunks_.size() > 1) {
    pool_.GiveBack(chunks_.back());
    chunks_.pop_back();
  }
  chunks_.shrink_to_fit();
  carved_ = kFirstStep;
  free_ = {};
  free_bits_ = {};
}

}  // namespace holdfast::core

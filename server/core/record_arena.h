// Memory for the records of one shard: slots of a few sizes, cut from chunks and named by 32 bits, which is what keeps
// an object small (a pointer costs twice as much, and an object has four links or more).

#ifndef HOLDFAST_SERVER_CORE_RECORD_ARENA_H_
#define HOLDFAST_SERVER_CORE_RECORD_ARENA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/core/chunk_pool.h"

namespace holdfast::core {

// Names a place in an arena, in steps of 4 bytes. 0 names nothing.
using Handle = uint32_t;

// The first bytes of every slot, used or free, so that a chunk can be walked.
struct SlotHeader {
  enum Kind : uint8_t { kEnd = 0, kFree = 1, kUsed = 2 };
  uint8_t kind;
  uint8_t units;  // size of the slot in steps of 8 bytes
};

// Thread rule: the shard's lock.
// Invariants: slots tile a chunk from its start; a slot does not move; a slot may be cut into smaller ones, never joined
// with others. When the last slot is freed all memory goes back.
class RecordArena {
 public:
  static constexpr size_t kStepBytes = 4;
  static constexpr size_t kUnitBytes = 8;
  static constexpr size_t kMaxSlotBytes = 255 * kUnitBytes;

  // `chunks` outlives the arena.
  explicit RecordArena(ChunkPool* chunks) : pool_(*chunks) {}
  ~RecordArena();
  RecordArena(const RecordArena&) = delete;
  RecordArena& operator=(const RecordArena&) = delete;

  // A slot of at least `bytes` (at most kMaxSlotBytes), aligned to 8, with its header filled in. The rest is whatever it was.
  Handle Allocate(size_t bytes);
  void Free(Handle handle);

  void* At(Handle handle) {
    return chunks_[handle / kChunkSteps] + (handle % kChunkSteps) * kStepBytes;
  }
  const void* At(Handle handle) const {
    return chunks_[handle / kChunkSteps] + (handle % kChunkSteps) * kStepBytes;
  }

  // Bring into the cache: the table that At() goes by; the place of the next new slot; a slot with
  // those that were cut before it.
  void Prefetch() const { __builtin_prefetch(chunks_.data()); }
  void PrefetchNext() const {
    if (!chunks_.empty()) __builtin_prefetch(chunks_.back() + carved_ * kStepBytes);
  }
  void PrefetchBackFrom(Handle handle) const;

  uint32_t chunks() const { return static_cast<uint32_t>(chunks_.size()); }
  static uint32_t ChunkOf(Handle handle) { return handle / kChunkSteps; }
  static Handle FirstOf(uint32_t chunk) { return chunk * kChunkSteps; }
  // The used slots of a chunk, in order: the first, and the one behind `handle`; 0 when there is none.
  Handle FirstUsed(uint32_t chunk) const;
  Handle NextUsed(Handle handle) const;

 private:
  // Small enough that 1,024 shards with one object each are 16 MiB, and that a walk of one is short.
  static constexpr size_t kChunkBytes = ChunkPool::kChunkBytes;
  static constexpr uint32_t kChunkSteps = kChunkBytes / kStepBytes;
  static constexpr uint32_t kFirstStep = kUnitBytes / kStepBytes;  // handle 0 stays unused
  static constexpr size_t kClasses = 256;
  // A rest that is smaller than any record is left with the slot that it is cut from.
  static constexpr uint32_t kMinUnits = 6;

  struct FreeSlot {
    SlotHeader header;
    Handle next;
  };

  // The first used slot at or behind a slot's place in a chunk.
  Handle UsedFrom(uint32_t chunk, uint32_t step) const;
  Handle Carve(uint32_t units);
  Handle TakeFree(uint32_t units);
  void PushFree(Handle handle, uint32_t units);
  void AddChunk();
  void Clear();

  ChunkPool& pool_;
  std::vector<std::byte*> chunks_;
  uint32_t carved_ = kChunkSteps;  // steps of the last chunk that are slots
  uint32_t used_slots_ = 0;
  // Heads of the lists of free slots by size, as far as sizes were freed.
  std::vector<Handle> free_;
  std::array<uint64_t, kClasses / 64> free_bits_ = {};
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_RECORD_ARENA_H_

// Memory for records, taken from the system in large blocks by somebody who may wait for it, so that a put, which holds a
// shard's lock, hardly ever does: the first touch of 2 MiB takes 0.1 ms on a good day, and 5 ms on a virtual machine.

#ifndef HOLDFAST_SERVER_CORE_CHUNK_POOL_H_
#define HOLDFAST_SERVER_CORE_CHUNK_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace holdfast::core {

// Thread-safe. The lock is a leaf, taken under a shard's, and is held for less than a microsecond, once for some hundred
// objects; the system is called without it. Everything goes back to the system when the pool is destroyed.
// Invariant: a block lies at a multiple of its size, so that a chunk leads to it.
class ChunkPool {
 public:
  static constexpr size_t kChunkBytes = size_t{16} * 1024;
  static constexpr size_t kBlockBytes = size_t{2} * 1024 * 1024;
  static constexpr uint32_t kBlockChunks = kBlockBytes / kChunkBytes;

  // Replenish keeps so many free blocks ready.
  explicit ChunkPool(uint32_t spare_blocks) : spare_blocks_(spare_blocks) {}
  ~ChunkPool();

  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  // A chunk, aligned to its size, with whatever is in it. From a block that is in use if one has a free chunk, and from the
  // lowest such block, so that others come free. Aborts when the system has no memory.
  std::byte* Take();
  void GiveBack(std::byte* chunk);

  // Makes the spare blocks ready to be used, and gives those beyond twice their number back. Waits for the system.
  void Replenish();

  uint64_t block_bytes() const { return uint64_t{blocks_count_.load()} * kBlockBytes; }
  // Recounts; empty if the books agree. *taken_chunks: how many are taken.
  std::string Audit(uint64_t* taken_chunks) const;

 private:
  static_assert(kBlockChunks == 128);
  struct Block {
    std::array<uint64_t, 2> free;  // one bit a chunk
    uint32_t free_chunks = 0;
  };

  std::byte* TakeFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // nullptr if there is none
  void AddBlock(std::byte* begin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint32_t spare_blocks_;
  std::atomic<uint32_t> blocks_count_{0};

  mutable absl::Mutex mu_;
  absl::flat_hash_map<std::byte*, Block> blocks_ ABSL_GUARDED_BY(mu_);
  // Blocks with free chunks: those with taken ones too, and the others.
  absl::btree_set<std::byte*> partial_ ABSL_GUARDED_BY(mu_);
  absl::btree_set<std::byte*> empty_ ABSL_GUARDED_BY(mu_);
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_CHUNK_POOL_H_

// All objects, in shards by the hash of their key, each with a lock of its own.

#ifndef HOLDFAST_SERVER_CORE_OBJECT_TABLE_H_
#define HOLDFAST_SERVER_CORE_OBJECT_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/fixed_array.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/core/chunk_pool.h"
#include "server/core/key_hash.h"
#include "server/core/object_shard.h"
#include "server/core/operations.h"

namespace holdfast::core {

// Thread-safe: the table itself never changes, each shard has its lock.
class ObjectTable {
 public:
  // options.shard_count is a power of two.
  ObjectTable(const MasterOptions& options, const SegmentRegistry* registry);

  uint64_t Hash(absl::string_view key) const { return HashKey(seed_, key); }
  // By the high bits; the shard's own index goes by the low ones.
  ObjectShard& ShardOf(uint64_t hash) { return *shards_[(hash >> 32) & mask_]; }
  const ObjectShard& ShardOf(uint64_t hash) const { return *shards_[(hash >> 32) & mask_]; }

  ChunkPool& chunks() { return chunks_; }
  const ChunkPool& chunks() const { return chunks_; }

  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  ObjectShard& shard(uint32_t index) { return *shards_[index]; }
  const ObjectShard& shard(uint32_t index) const { return *shards_[index]; }

  // Brings what every visit of a shard touches into the cache.
  void Prefetch(uint32_t index) const {
    const auto* begin = reinterpret_cast<const char*>(shards_[index].get());
    for (size_t at = 0; at < sizeof(ObjectShard); at += 64) __builtin_prefetch(begin + at);
  }

  // Calls visit(i, hash) for each of `count` items, in order, with key_of(i) its key. While an item is visited, what the
  // next ones will touch is on its way into the cache: without that a batch spends most of its time waiting for memory,
  // one key after another. `writer`: of the session whose puts begin or end; none for reads.
  template <typename KeyOf, typename Visit>
  void ForEach(size_t count, KeyOf key_of, Visit visit, ClientEpoch writer = {}) const;

  // Fills objects, replicas, puts and the memory of records. Takes no lock; cost: shards.
  void Count(MasterCounts* counts) const;

 private:
  const uint64_t seed_;
  const uint64_t mask_;
  ChunkPool chunks_;
  std::vector<std::unique_ptr<ObjectShard>> shards_;
};

template <typename KeyOf, typename Visit>
void ObjectTable::ForEach(size_t count, KeyOf key_of, Visit visit, ClientEpoch writer) const {
  constexpr size_t kAhead = 4;  // items between two steps of one item
  absl::FixedArray<uint64_t, 256> hashes(count);
  for (size_t i = 0; i < count + 3 * kAhead; ++i) {
    if (i < count) {
      hashes[i] = Hash(key_of(i));
      __builtin_prefetch(&ShardOf(hashes[i]));
    }
    // A batch of one has nothing to overlap with.
    if (count > 1 && i >= kAhead && i - kAhead < count) {
      const ObjectShard& shard = ShardOf(hashes[i - kAhead]);
      absl::ReaderMutexLock lock(&shard.mu);
      shard.PrefetchIndex(hashes[i - kAhead]);
      if (writer != ClientEpoch()) shard.PrefetchPuts(writer);
    }
    if (count > 1 && i >= 2 * kAhead && i - 2 * kAhead < count) {
      const ObjectShard& shard = ShardOf(hashes[i - 2 * kAhead]);
      absl::ReaderMutexLock lock(&shard.mu);
      shard.PrefetchRecord(hashes[i - 2 * kAhead]);
    }
    if (i >= 3 * kAhead) visit(i - 3 * kAhead, hashes[i - 3 * kAhead]);
  }
}

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OBJECT_TABLE_H_

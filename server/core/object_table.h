// All objects, in shards by the hash of their key, each with a lock of its own.

#ifndef HOLDFAST_SERVER_CORE_OBJECT_TABLE_H_
#define HOLDFAST_SERVER_CORE_OBJECT_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
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

  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  ObjectShard& shard(uint32_t index) { return *shards_[index]; }
  const ObjectShard& shard(uint32_t index) const { return *shards_[index]; }

  // Fills objects, replicas and puts. Takes no lock; cost: shards.
  void Count(MasterCounts* counts) const;

 private:
  const uint64_t seed_;
  const uint64_t mask_;
  std::vector<std::unique_ptr<ObjectShard>> shards_;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OBJECT_TABLE_H_

#include "server/core/object_table.h"

#include <bit>

#include "server/core/check.h"

namespace holdfast::core {

ObjectTable::ObjectTable(const MasterOptions& options, const SegmentRegistry* registry)
    : seed_(options.hash_seed),
      mask_(options.shard_count - 1),
      chunks_(options.spare_memory_bytes / ChunkPool::kBlockBytes) {
  HOLDFAST_CHECK(std::has_single_bit(options.shard_count));
  shards_.reserve(options.shard_count);
  for (uint32_t i = 0; i < options.shard_count; ++i) {
    shards_.push_back(std::make_unique<ObjectShard>(options, registry, &chunks_));
  }
}

void ObjectTable::Count(MasterCounts* counts) const {
  counts->record_memory_bytes = chunks_.block_bytes();
  for (const auto& shard : shards_) {
    counts->objects += shard->objects();
    counts->replicas += shard->replicas();
    counts->puts_in_progress += shard->puts();
    counts->durable_replicas += shard->durable_replicas();
  }
}

}  // namespace holdfast::core

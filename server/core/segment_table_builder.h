// Builds the table of segments that the replicas of one answer point into, and checks at the end that they still are
// what they were.

#ifndef HOLDFAST_SERVER_CORE_SEGMENT_TABLE_BUILDER_H_
#define HOLDFAST_SERVER_CORE_SEGMENT_TABLE_BUILDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "server/core/operations.h"
#include "server/core/segment_registry.h"

namespace holdfast::core {

// For one call on one thread.
class SegmentTableBuilder {
 public:
  SegmentTableBuilder(const SegmentRegistry* registry, ReplicaTable* table)
      : registry_(registry), table_(table) {}

  // Appends a replica. The caller makes sure that the slot is held: by the shard's lock, under which a replica of it is
  // linked, or by a range of its own.
  void Add(uint32_t slot, uint64_t offset_bytes);

 private:
  uint32_t IndexOf(uint32_t slot);

  const SegmentRegistry* const registry_;
  ReplicaTable* const table_;
  absl::flat_hash_map<uint32_t, uint32_t> index_by_slot_;
};

// Compares the lifetime of each segment of an answer as a whole with what it was when it was copied, so that a successor
// in the same slot is not taken for it. False if one has ended since: then some replicas have to go.
bool AllSegmentsLive(const SegmentRegistry& registry, const ReplicaTable& table);

// Takes the replicas on ended segments, and these segments, out of an answer. A row that loses its last replica is given
// to `lose`. Rows are GetRow or PutStartRow.
template <typename Row, typename Lose>
void DropEnded(const SegmentRegistry& registry, ReplicaTable* table, absl::Span<Row> rows,
               Lose lose) {
  ReplicaTable kept;
  std::vector<uint32_t> new_index(table->segments.size(), UINT32_MAX);
  for (size_t i = 0; i < table->segments.size(); ++i) {
    SegmentRow& segment = table->segments[i];
    const uint32_t lifetime = registry.slot(segment.slot).lifetime();
    if (lifetime != segment.lifetime || !Slot::IsLive(lifetime)) continue;
    new_index[i] = static_cast<uint32_t>(kept.segments.size());
    kept.segments.push_back(std::move(segment));
  }
  for (Row& row : rows) {
    const uint32_t first = row.first_replica;
    const uint32_t count = row.replica_count;
    row.first_replica = static_cast<uint32_t>(kept.replicas.size());
    row.replica_count = 0;
    for (uint32_t i = first; i < first + count; ++i) {
      ReplicaRow replica = table->replicas[i];
      replica.segment = new_index[replica.segment];
      if (replica.segment == UINT32_MAX) continue;
      kept.replicas.push_back(replica);
      ++row.replica_count;
    }
    if (count > 0 && row.replica_count == 0) lose(&row);
  }
  *table = std::move(kept);
}

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_SEGMENT_TABLE_BUILDER_H_

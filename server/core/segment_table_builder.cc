#include "server/core/segment_table_builder.h"

namespace holdfast::core {

uint32_t SegmentTableBuilder::IndexOf(uint32_t slot_number) {
  const Slot& slot = registry_->slot(slot_number);
  const uint32_t lifetime = slot.lifetime();
  const auto fresh = static_cast<uint32_t>(table_->segments.size());
  auto [it, is_new] = index_by_slot_.try_emplace(slot_number, fresh);
  // The slot may have gone to a successor since an earlier item: that is another segment.
  if (!is_new && table_->segments[it->second].lifetime == lifetime) return it->second;
  it->second = fresh;
  table_->segments.push_back({slot.registration, slot.spec.endpoint, slot.spec.transport,
                              slot.spec.base, slot_number, lifetime});
  return fresh;
}

void SegmentTableBuilder::Add(uint32_t slot, uint64_t offset_bytes) {
  const uint32_t segment = IndexOf(slot);
  table_->replicas.push_back({segment, offset_bytes});
}

bool AllSegmentsLive(const SegmentRegistry& registry, const ReplicaTable& table) {
  for (const SegmentRow& segment : table.segments) {
    const uint32_t lifetime = registry.slot(segment.slot).lifetime();
    if (lifetime != segment.lifetime || !Slot::IsLive(lifetime)) return false;
  }
  return true;
}

}  // namespace holdfast::core

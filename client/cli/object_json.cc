#include "client/cli/object_json.h"

#include <map>

#include "absl/time/time.h"
#include "client/deadline.h"

namespace holdfast::cli {
namespace {

// Names each segment once, in the order of first use.
class SegmentRefs {
 public:
  explicit SegmentRefs(google::protobuf::RepeatedPtrField<v1::SegmentRef>* refs) : refs_(refs) {}

  void Fill(const ReplicaLocations& replicas,
            google::protobuf::RepeatedPtrField<v1::Replica>* messages) {
    for (const ReplicaLocation& replica : replicas) {
      v1::Replica* message = messages->Add();
      message->set_segment(IndexOf(*replica.segment));
      message->set_offset(replica.offset_bytes);
    }
  }

 private:
  uint32_t IndexOf(const SegmentLocation& segment) {
    const auto [it, is_new] =
        indexes_.emplace(segment.registration_id, static_cast<uint32_t>(indexes_.size()));
    if (is_new) {
      v1::SegmentRef* ref = refs_->Add();
      ref->set_registration_id(segment.registration_id);
      ref->set_endpoint(segment.endpoint);
      ref->set_transport(segment.transport);
      ref->set_base(segment.base);
    }
    return it->second;
  }

  google::protobuf::RepeatedPtrField<v1::SegmentRef>* const refs_;
  std::map<uint64_t, uint32_t> indexes_;
};

}  // namespace

v1::PutStartResponse ToMessage(absl::Span<const StartedPut> puts) {
  v1::PutStartResponse response;
  SegmentRefs segments(response.mutable_segments());
  for (const StartedPut& put : puts) {
    v1::PutStartResult* result = response.add_results();
    result->set_code(static_cast<int>(put.status.code));
    result->set_reason(static_cast<v1::Reason>(put.status.reason));
    result->set_message(put.status.message);
    result->set_put_id(put.put_id);
    result->set_object_name(put.object_name);
    segments.Fill(put.replicas, result->mutable_replicas());
  }
  return response;
}

v1::GetResponse ToMessage(absl::Span<const FoundObject> objects) {
  v1::GetResponse response;
  SegmentRefs segments(response.mutable_segments());
  for (const FoundObject& object : objects) {
    v1::GetResult* result = response.add_results();
    result->set_code(static_cast<int>(object.status.code));
    result->set_reason(static_cast<v1::Reason>(object.status.reason));
    result->set_message(object.status.message);
    if (!object.status.ok()) continue;
    result->set_size(object.size_bytes);
    result->set_version(object.version);
    result->set_lease_ms(
        static_cast<uint32_t>(absl::ToInt64Milliseconds(client::Remaining(object.lease_end))));
    segments.Fill(object.replicas, result->mutable_replicas());
    if (object.object_name.empty()) continue;
    result->mutable_durable()->set_object_name(object.object_name);
    result->mutable_durable()->set_checksum(object.checksum);
  }
  return response;
}

void FillResults(absl::Span<const ItemStatus> statuses,
                 google::protobuf::RepeatedPtrField<v1::ItemResult>* results) {
  for (const ItemStatus& status : statuses) {
    v1::ItemResult* result = results->Add();
    result->set_code(static_cast<int>(status.code));
    result->set_reason(static_cast<v1::Reason>(status.reason));
    result->set_message(status.message);
  }
}

}  // namespace holdfast::cli

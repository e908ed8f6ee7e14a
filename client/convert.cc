#include "client/convert.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/status.h"

namespace holdfast::client {
namespace {

using SegmentRefs = google::protobuf::RepeatedPtrField<v1::SegmentRef>;
using Replicas = google::protobuf::RepeatedPtrField<v1::Replica>;
using Locations = std::shared_ptr<const std::vector<SegmentLocation>>;

absl::Status Mismatch(size_t results, size_t count) {
  return absl::InternalError(
      absl::StrCat("the master answered ", results, " of ", count, " items"));
}

absl::Status UnknownSegment() {
  return absl::InternalError("the master named a replica on a segment that it did not name");
}

// All segments of an answer are one allocation; each replica points into it and shares its ownership.
Locations TakeSegments(SegmentRefs* refs) {
  if (refs->empty()) return nullptr;
  auto locations = std::make_shared<std::vector<SegmentLocation>>();
  locations->reserve(refs->size());
  for (v1::SegmentRef& ref : *refs) {
    locations->push_back(SegmentLocation{.registration_id = ref.registration_id(),
                                         .endpoint = std::move(*ref.mutable_endpoint()),
                                         .transport = std::move(*ref.mutable_transport()),
                                         .base = ref.base()});
  }
  return locations;
}

bool FillReplicas(const Replicas& replicas, const Locations& segments,
                  ReplicaLocations* locations) {
  const size_t segment_count = segments == nullptr ? 0 : segments->size();
  for (const v1::Replica& replica : replicas) {
    if (replica.segment() >= segment_count) return false;
    locations->push_back(ReplicaLocation{.segment = std::shared_ptr<const SegmentLocation>(
                                             segments, &(*segments)[replica.segment()]),
                                         .offset_bytes = replica.offset()});
  }
  return true;
}

}  // namespace

void ToWire(const SegmentOptions& segment, v1::SegmentSpec* spec) {
  spec->set_segment_id(segment.segment_id.data(), segment.segment_id.size());
  spec->set_name(segment.name);
  spec->set_endpoint(segment.endpoint);
  spec->set_transport(segment.transport);
  spec->set_base(segment.base);
  spec->set_size(segment.size_bytes);
  spec->set_host(segment.host);
  spec->set_rack(segment.rack);
  spec->set_pool_id(segment.pool_id);
}

void ToWire(absl::Span<const PutRef> puts, google::protobuf::RepeatedPtrField<v1::PutRef>* items) {
  items->Reserve(static_cast<int>(puts.size()));
  for (const PutRef& put : puts) {
    v1::PutRef* item = items->Add();
    item->set_key(put.key);
    item->set_put_id(put.put_id);
    item->set_upload(static_cast<v1::UploadOutcome>(put.upload));
    item->set_checksum(put.checksum);
  }
}

void ToWire(absl::Span<const std::string> keys,
            google::protobuf::RepeatedPtrField<std::string>* items) {
  items->Reserve(static_cast<int>(keys.size()));
  for (const std::string& key : keys) items->Add()->assign(key);
}

absl::StatusOr<std::vector<StartedPut>> FromWire(v1::PutStartResponse* response, size_t count,
                                                 std::chrono::steady_clock::time_point sent) {
  if (static_cast<size_t>(response->results_size()) != count)
    return Mismatch(response->results_size(), count);
  const Locations segments = TakeSegments(response->mutable_segments());
  std::vector<StartedPut> puts(count);
  for (size_t i = 0; i < count; ++i) {
    v1::PutStartResult& result = *response->mutable_results(static_cast<int>(i));
    StartedPut& put = puts[i];
    if (result.code() != 0) {
      put.status = ItemStatus{.code = CodeFromWire(result.code()),
                              .reason = ReasonFromWire(result.reason()),
                              .message = std::move(*result.mutable_message())};
    }
    put.put_id = result.put_id();
    if (!result.object_name().empty()) {
      put.object_name = std::move(*result.mutable_object_name());
      put.upload_deadline = sent + std::chrono::milliseconds(result.upload_left_ms());
    }
    if (!FillReplicas(result.replicas(), segments, &put.replicas)) return UnknownSegment();
  }
  return puts;
}

absl::StatusOr<std::vector<FoundObject>> FromWire(v1::GetResponse* response, size_t count,
                                                  std::chrono::steady_clock::time_point sent) {
  if (static_cast<size_t>(response->results_size()) != count)
    return Mismatch(response->results_size(), count);
  const Locations segments = TakeSegments(response->mutable_segments());
  std::vector<FoundObject> objects(count);
  for (size_t i = 0; i < count; ++i) {
    v1::GetResult& result = *response->mutable_results(static_cast<int>(i));
    FoundObject& object = objects[i];
    if (result.code() != 0) {
      object.status = ItemStatus{.code = CodeFromWire(result.code()),
                                 .reason = ReasonFromWire(result.reason()),
                                 .message = std::move(*result.mutable_message())};
      continue;
    }
    object.size_bytes = result.size();
    object.version = result.version();
    object.lease_end = sent + std::chrono::milliseconds(result.lease_ms());
    if (!FillReplicas(result.replicas(), segments, &object.replicas)) return UnknownSegment();
    if (!result.has_durable()) continue;
    object.object_name = std::move(*result.mutable_durable()->mutable_object_name());
    object.checksum = std::move(*result.mutable_durable()->mutable_checksum());
  }
  return objects;
}

absl::StatusOr<std::vector<ItemStatus>> FromWire(
    google::protobuf::RepeatedPtrField<v1::ItemResult>* results, size_t count) {
  if (static_cast<size_t>(results->size()) != count) return Mismatch(results->size(), count);
  std::vector<ItemStatus> statuses(count);
  for (size_t i = 0; i < count; ++i) {
    v1::ItemResult& result = *results->Mutable(static_cast<int>(i));
    if (result.code() == 0) continue;
    statuses[i] = ItemStatus{.code = CodeFromWire(result.code()),
                             .reason = ReasonFromWire(result.reason()),
                             .message = std::move(*result.mutable_message())};
  }
  return statuses;
}

std::vector<OfferedPut> FromWire(google::protobuf::RepeatedPtrField<v1::Offer>* offers) {
  std::vector<OfferedPut> puts;
  puts.reserve(static_cast<size_t>(offers->size()));
  for (v1::Offer& offer : *offers) {
    OfferedPut put;
    // An id of another length cannot be answered.
    if (offer.from_client_id().size() != put.from_client_id.size()) continue;
    std::copy(offer.from_client_id().begin(), offer.from_client_id().end(),
              put.from_client_id.begin());
    put.handover_id = offer.handover_id();
    put.sequence = offer.seq();
    put.open = offer.open();
    put.key = std::move(*offer.mutable_key());
    put.put_id = offer.put_id();
    put.size_bytes = offer.size();
    put.object_name = std::move(*offer.mutable_object_name());
    put.checksum = std::move(*offer.mutable_checksum());
    puts.push_back(std::move(put));
  }
  return puts;
}

}  // namespace holdfast::client

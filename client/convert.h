// Between the public types and the messages of the wire.

#ifndef HOLDFAST_CLIENT_CONVERT_H_
#define HOLDFAST_CLIENT_CONVERT_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "holdfast/client.h"
#include "holdfast/v1/store.pb.h"

namespace holdfast::client {

void ToWire(const SegmentOptions& segment, v1::SegmentSpec* spec);
void ToWire(absl::Span<const PutRef> puts, google::protobuf::RepeatedPtrField<v1::PutRef>* items);
void ToWire(absl::Span<const std::string> keys,
            google::protobuf::RepeatedPtrField<std::string>* items);

// The answers of batches. They empty the message, whose strings they take. INTERNAL when the answer does not fit the
// request: another number of results than `count`, or a replica on a segment that the answer does not name.
// `sent` is a moment before the request was sent.
absl::StatusOr<std::vector<StartedPut>> FromWire(v1::PutStartResponse* response, size_t count,
                                                 std::chrono::steady_clock::time_point sent);
absl::StatusOr<std::vector<FoundObject>> FromWire(v1::GetResponse* response, size_t count,
                                                  std::chrono::steady_clock::time_point sent);
absl::StatusOr<std::vector<ItemStatus>> FromWire(
    google::protobuf::RepeatedPtrField<v1::ItemResult>* results, size_t count);

std::vector<OfferedPut> FromWire(google::protobuf::RepeatedPtrField<v1::Offer>* offers);

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_CONVERT_H_

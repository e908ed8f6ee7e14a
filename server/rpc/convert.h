// Between the protocol's messages and the core's plain data. Nothing is decided here.

#ifndef HOLDFAST_SERVER_RPC_CONVERT_H_
#define HOLDFAST_SERVER_RPC_CONVERT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/store.pb.h"
#include "server/core/operations.h"

namespace holdfast::rpc {

v1::Reason ToProto(core::Reason reason);

// A short sentence for people; empty where the reason says it all.
absl::string_view Explain(core::Reason reason);

// BAD_ID unless the client id has 16 bytes.
absl::StatusOr<core::Session> FromProto(const v1::Session& session);
// BAD_ID unless the segment id has 16 bytes.
absl::StatusOr<core::SegmentSpec> FromProto(const v1::SegmentSpec& spec);
void ToProto(const core::SegmentSpec& spec, v1::SegmentSpec* out);

// The items of a call, pointing into the request.
std::vector<absl::string_view> Keys(const google::protobuf::RepeatedPtrField<std::string>& keys);
std::vector<core::PutRef> Puts(const google::protobuf::RepeatedPtrField<v1::PutRef>& puts);
std::vector<core::PutStartItem> Items(
    const google::protobuf::RepeatedPtrField<v1::PutStartItem>& items);

void ToProto(const std::vector<core::Outcome>& outcomes,
             google::protobuf::RepeatedPtrField<v1::ItemResult>* out);
void ToProto(const core::GetAnswer& answer, v1::GetResponse* out);
void ToProto(const core::PutStartAnswer& answer, v1::PutStartResponse* out);

void ToProto(const core::SegmentListing& row, v1::SegmentInfo* out);
void ToProto(const core::ClientListing& row, v1::ClientInfo* out);
void ToProto(const core::KeyListing& row, v1::ListedKey* out);
void ToProto(const core::ObjectListing& row, v1::GetObjectResponse* out);
void ToProto(const core::OfferRow& row, v1::Offer* out);
void ToProto(const core::TicketListing& row, v1::UnpublishedName* out);
void ToProto(const core::LedgerCounts& counts, v1::LedgerStatus* out);
void ToProto(const core::CleanupCounts& counts, v1::CleanupStatus* out);

// A resume token is the cursor in 8 bytes.
std::string ToToken(const core::KeyCursor& cursor);
// False when it is not one; an empty token is the start.
bool FromToken(absl::string_view token, core::KeyCursor* cursor);

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_CONVERT_H_

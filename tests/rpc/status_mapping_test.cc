#include "server/rpc/status_mapping.h"

#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <string>

#include "holdfast/v1/types.pb.h"
#include "server/core/outcome.h"

namespace holdfast::rpc {
namespace {

v1::ErrorDetail DetailOf(const grpc::Status& status) {
  v1::RequestStatus full;
  EXPECT_TRUE(full.ParseFromString(status.error_details()));
  v1::ErrorDetail detail;
  EXPECT_EQ(full.details_size(), 1);
  if (full.details_size() == 1) {
    EXPECT_TRUE(full.details(0).UnpackTo(&detail));
  }
  return detail;
}

TEST(StatusMapping, SuccessCarriesNothing) {
  const grpc::Status status = ToGrpc(absl::OkStatus());
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.error_details(), "");
}

TEST(StatusMapping, CodeMessageAndReasonArriveTogether) {
  const grpc::Status status =
      ToGrpc(core::Refuse(core::Reason::kSessionStale, "put start: epoch 7 is not the live one"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "put start: epoch 7 is not the live one");
  EXPECT_EQ(DetailOf(status).reason(), v1::REASON_SESSION_STALE);
  v1::RequestStatus full;
  ASSERT_TRUE(full.ParseFromString(status.error_details()));
  EXPECT_EQ(full.code(), status.error_code());
  EXPECT_EQ(full.message(), status.error_message());
}

// Tools know google.rpc.Status, not our copy of it. Its numbers are looked at on the wire, so that the copy cannot drift.
TEST(StatusMapping, DetailsAreGoogleRpcStatusOnTheWire) {
  const grpc::Status status = ToGrpc(core::Refuse(core::Reason::kEmptyKey, "text"));
  google::protobuf::Empty wire;
  ASSERT_TRUE(wire.ParseFromString(status.error_details()));
  const auto& fields = wire.GetReflection()->GetUnknownFields(wire);
  ASSERT_EQ(fields.field_count(), 3);
  EXPECT_EQ(fields.field(0).number(), 1);
  EXPECT_EQ(fields.field(0).varint(), uint64_t{grpc::StatusCode::INVALID_ARGUMENT});
  EXPECT_EQ(fields.field(1).number(), 2);
  EXPECT_EQ(fields.field(1).length_delimited(), "text");
  EXPECT_EQ(fields.field(2).number(), 3);
  google::protobuf::Empty any;
  ASSERT_TRUE(any.ParseFromString(fields.field(2).length_delimited()));
  const auto& parts = any.GetReflection()->GetUnknownFields(any);
  ASSERT_EQ(parts.field_count(), 2);
  EXPECT_EQ(parts.field(0).number(), 1);
  EXPECT_EQ(parts.field(0).length_delimited(), "type.googleapis.com/holdfast.v1.ErrorDetail");
  EXPECT_EQ(parts.field(1).number(), 2);
}

TEST(StatusMapping, StatusWithoutReasonHasNoDetails) {
  const grpc::Status status = ToGrpc(absl::InternalError("broken"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "broken");
  EXPECT_EQ(status.error_details(), "");
}

// A client that is refused because of load has to know for how long to stay away.
TEST(StatusMapping, BusySaysWhenToComeAgain) {
  EXPECT_GT(DetailOf(ToGrpc(core::Refuse(core::Reason::kServerBusy, ""))).retry_after_ms(), 0u);
  EXPECT_EQ(DetailOf(ToGrpc(core::Refuse(core::Reason::kNoSpace, ""))).retry_after_ms(), 0u);
}

}  // namespace
}  // namespace holdfast::rpc

#include "client/status.h"

#include <gtest/gtest.h>

#include <map>

#include "holdfast/v1/types.pb.h"
#include "tests/client/fake_master.h"

namespace holdfast {
namespace {

// The names of the public enum, spelled as C++ spells them. A reason that is missing here or in the header fails below.
const std::map<std::string, Reason>& PublicReasons() {
  static const auto* const reasons = new std::map<std::string, Reason>{
      {"UNSPECIFIED", Reason::kNone},
      {"OBJECT_NOT_FOUND", Reason::kObjectNotFound},
      {"OBJECT_EXISTS", Reason::kObjectExists},
      {"PUT_IN_PROGRESS_BY_OTHER", Reason::kPutInProgressByOther},
      {"PUT_IN_PROGRESS_BY_YOU", Reason::kPutInProgressByYou},
      {"LEASED", Reason::kLeased},
      {"STALE_PUT", Reason::kStalePut},
      {"PUT_COMPLETE", Reason::kPutComplete},
      {"NOT_PUT_OWNER", Reason::kNotPutOwner},
      {"UNKNOWN_PUT", Reason::kUnknownPut},
      {"REPLICA_LOST", Reason::kReplicaLost},
      {"NO_SEGMENT", Reason::kNoSegment},
      {"NO_SPACE", Reason::kNoSpace},
      {"TOO_FEW_SEGMENTS", Reason::kTooFewSegments},
      {"SEGMENT_LIMIT", Reason::kSegmentLimit},
      {"CLIENT_LIMIT", Reason::kClientLimit},
      {"LEDGER_FULL", Reason::kLedgerFull},
      {"CLIENT_QUOTA", Reason::kClientQuota},
      {"NO_DURABLE_TIER", Reason::kNoDurableTier},
      {"OFFERED", Reason::kOffered},
      {"HANDOVER_UNKNOWN", Reason::kHandoverUnknown},
      {"SESSION_UNKNOWN", Reason::kSessionUnknown},
      {"SESSION_STALE", Reason::kSessionStale},
      {"PROTOCOL_MISMATCH", Reason::kProtocolMismatch},
      {"SEGMENT_EXISTS", Reason::kSegmentExists},
      {"SEGMENT_OVERLAP", Reason::kSegmentOverlap},
      {"SEGMENT_UNKNOWN", Reason::kSegmentUnknown},
      {"NOT_SEGMENT_OWNER", Reason::kNotSegmentOwner},
      {"SEGMENT_STATE", Reason::kSegmentState},
      {"EMPTY_KEY", Reason::kEmptyKey},
      {"KEY_TOO_LONG", Reason::kKeyTooLong},
      {"BAD_SIZE", Reason::kBadSize},
      {"BAD_REPLICA_COUNT", Reason::kBadReplicaCount},
      {"BATCH_EMPTY", Reason::kBatchEmpty},
      {"BATCH_TOO_LARGE", Reason::kBatchTooLarge},
      {"BAD_ID", Reason::kBadId},
      {"BAD_FIELD", Reason::kBadField},
      {"SERVER_BUSY", Reason::kServerBusy},
  };
  return *reasons;
}

TEST(ReasonTest, PublicReasonsAreThoseOfTheProtocol) {
  const google::protobuf::EnumDescriptor* const wire = v1::Reason_descriptor();
  EXPECT_EQ(static_cast<size_t>(wire->value_count()), PublicReasons().size());
  for (int i = 0; i < wire->value_count(); ++i) {
    const std::string name = wire->value(i)->name().substr(std::string("REASON_").size());
    const auto it = PublicReasons().find(name);
    ASSERT_NE(it, PublicReasons().end()) << name;
    EXPECT_EQ(static_cast<int>(it->second), wire->value(i)->number()) << name;
    EXPECT_EQ(ReasonName(it->second), name);
  }
}

TEST(ReasonTest, ReasonOfANewerMasterHasSomeName) {
  EXPECT_FALSE(ReasonName(static_cast<Reason>(9999)).empty());
}

TEST(StatusTest, RefusalKeepsCodeMessageAndReason) {
  const absl::Status status =
      client::FromGrpc(testing::Refusal(grpc::StatusCode::NOT_FOUND, v1::REASON_SEGMENT_UNKNOWN,
                                        "drain 7: no such segment"),
                       "drain", "host:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "drain 7: no such segment");
  EXPECT_EQ(ReasonOf(status), Reason::kSegmentUnknown);
  EXPECT_FALSE(client::OutcomeUnknown(status));
}

TEST(StatusTest, ErrorOfTheTransportNamesOperationAndMaster) {
  const absl::Status status = client::FromGrpc(
      grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused"), "get", "host:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "get at host:1: connection refused");
  EXPECT_EQ(ReasonOf(status), Reason::kNone);
  EXPECT_TRUE(client::OutcomeUnknown(status));
}

TEST(StatusTest, DetailsThatAreNotOursAreNoReason) {
  for (const std::string& details : {std::string("\xff\xff\xff"), std::string("\x08\x05", 2)}) {
    const absl::Status status =
        client::FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "x", details), "get", "host:1");
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ReasonOf(status), Reason::kNone);
  }
}

TEST(StatusTest, OnlyARefusedSessionIsOne) {
  const auto refused = [](grpc::StatusCode code, v1::Reason reason) {
    return client::SessionRefused(
        client::FromGrpc(testing::Refusal(code, reason, "x"), "put", "host:1"));
  };
  EXPECT_TRUE(refused(grpc::StatusCode::FAILED_PRECONDITION, v1::REASON_SESSION_UNKNOWN));
  EXPECT_TRUE(refused(grpc::StatusCode::FAILED_PRECONDITION, v1::REASON_SESSION_STALE));
  EXPECT_FALSE(refused(grpc::StatusCode::FAILED_PRECONDITION, v1::REASON_LEASED));
  EXPECT_FALSE(client::SessionRefused(absl::OkStatus()));
}

TEST(StatusTest, CodeOutOfRangeIsUnknown) {
  EXPECT_EQ(client::CodeFromWire(-1), absl::StatusCode::kUnknown);
  EXPECT_EQ(client::CodeFromWire(99), absl::StatusCode::kUnknown);
  EXPECT_EQ(client::CodeFromWire(5), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast

#include "server/rpc/convert.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace holdfast::rpc {
namespace {

// A reason that only one side knows would reach clients as a number without a meaning.
TEST(Convert, ReasonsOfCoreAndProtocolAreOneList) {
  const auto* reasons = v1::Reason_descriptor();
  for (int i = 0; i < reasons->value_count(); ++i) {
    const int number = reasons->value(i)->number();
    if (number == 0) continue;
    const auto reason = static_cast<core::Reason>(number);
    EXPECT_EQ(reasons->value(i)->name(),
              absl::StrCat("REASON_", absl::string_view(core::NameOf(reason))));
    EXPECT_EQ(ToProto(reason), number);
  }
  for (int number = 1; number < 256; ++number) {
    const bool in_core = core::NameOf(static_cast<core::Reason>(number)) != "NONE";
    EXPECT_EQ(in_core, v1::Reason_IsValid(number)) << number;
  }
}

TEST(Convert, IdsOfAnyOtherLengthAreRefused) {
  for (const size_t size : {0u, 1u, 15u, 17u, 32u}) {
    v1::Session session;
    session.set_client_id(std::string(size, 'c'));
    EXPECT_EQ(core::ReasonOf(FromProto(session).status()), core::Reason::kBadId) << size;
    v1::SegmentSpec spec;
    spec.set_segment_id(std::string(size, 's'));
    EXPECT_EQ(core::ReasonOf(FromProto(spec).status()), core::Reason::kBadId) << size;
  }
}

TEST(Convert, MissingSessionIsABadId) {
  EXPECT_EQ(core::ReasonOf(FromProto(v1::PutStartRequest().session()).status()),
            core::Reason::kBadId);
}

TEST(Convert, SegmentSpecSurvivesTheRoundTrip) {
  v1::SegmentSpec spec;
  spec.set_segment_id("0123456789abcdef");
  spec.set_name("name");
  spec.set_endpoint("host:1");
  spec.set_transport("tcp");
  spec.set_base(uint64_t{1} << 63);
  spec.set_size(4096);
  spec.set_host("host");
  spec.set_rack("rack");
  spec.set_pool_id("pool");
  // A field that is added to the message has to be carried over, too.
  ASSERT_EQ(v1::SegmentSpec::descriptor()->field_count(), 9);
  const auto parsed = FromProto(spec);
  ASSERT_TRUE(parsed.ok());
  v1::SegmentSpec again;
  ToProto(*parsed, &again);
  EXPECT_EQ(again.SerializeAsString(), spec.SerializeAsString());
}

// Keys are not copied: a batch of 128 must not cost 128 allocations.
TEST(Convert, KeysPointIntoTheRequest) {
  v1::GetRequest get;
  get.add_keys("with\0zero", 9);
  get.add_keys(std::string(1000, 'k'));
  const std::vector<absl::string_view> keys = Keys(get.keys());
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].data(), get.keys(0).data());
  EXPECT_EQ(keys[0].size(), 9u);
  EXPECT_EQ(keys[1].data(), get.keys(1).data());

  v1::PutStartRequest put;
  v1::PutStartItem* item = put.add_items();
  item->set_key("key");
  item->set_size(7);
  item->set_replicas(2);
  item->set_request_id(9);
  const std::vector<core::PutStartItem> items = Items(put.items());
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].key.data(), put.items(0).key().data());
  EXPECT_EQ(items[0].size_bytes, 7u);
  EXPECT_EQ(items[0].replicas, 2u);
  EXPECT_EQ(items[0].request.value, 9u);
}

// What every miss would repeat costs bytes and says nothing; what a person has to act upon is explained.
TEST(Convert, OutcomesAreExplainedWhereThatHelps) {
  v1::PutEndResponse response;
  ToProto({{core::Reason::kNone}, {core::Reason::kObjectNotFound}, {core::Reason::kReplicaLost}},
          response.mutable_results());
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_EQ(response.results(0).ByteSizeLong(), 0u);
  EXPECT_EQ(response.results(1).code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_EQ(response.results(1).reason(), v1::REASON_OBJECT_NOT_FOUND);
  EXPECT_EQ(response.results(1).message(), "");
  EXPECT_EQ(response.results(2).code(), static_cast<int>(absl::StatusCode::kAborted));
  EXPECT_EQ(response.results(2).reason(), v1::REASON_REPLICA_LOST);
  EXPECT_NE(response.results(2).message(), "");
}

TEST(Convert, ReplicasPointIntoTheTableOfSegments) {
  core::GetAnswer answer;
  answer.segments = {{core::RegistrationId{11}, "a:1", "tcp", 100, 0, 0},
                     {core::RegistrationId{12}, "b:1", "rdma", 200, 1, 0}};
  answer.replicas = {{0, 64}, {1, 128}, {1, 192}};
  core::GetRow missing;
  missing.reason = core::Reason::kObjectNotFound;
  answer.rows = {{core::Reason::kNone, 64, core::PutId{5}, 1000, 0, 2},
                 missing,
                 {core::Reason::kNone, 32, core::PutId{6}, 2000, 2, 1}};
  v1::GetResponse response;
  ToProto(answer, &response);
  ASSERT_EQ(response.segments_size(), 2);
  EXPECT_EQ(response.segments(1).registration_id(), 12u);
  EXPECT_EQ(response.segments(1).endpoint(), "b:1");
  EXPECT_EQ(response.segments(1).transport(), "rdma");
  EXPECT_EQ(response.segments(1).base(), 200u);
  ASSERT_EQ(response.results_size(), 3);
  ASSERT_EQ(response.results(0).replicas_size(), 2);
  EXPECT_EQ(response.results(0).replicas(1).segment(), 1u);
  EXPECT_EQ(response.results(0).replicas(1).offset(), 128u);
  EXPECT_EQ(response.results(0).version(), 5u);
  EXPECT_EQ(response.results(1).reason(), v1::REASON_OBJECT_NOT_FOUND);
  EXPECT_EQ(response.results(1).replicas_size(), 0);
  ASSERT_EQ(response.results(2).replicas_size(), 1);
  EXPECT_EQ(response.results(2).replicas(0).offset(), 192u);
  EXPECT_EQ(response.results(2).lease_ms(), 2000u);
}

TEST(Convert, ResumeTokenIsTheCursor) {
  for (const core::KeyCursor cursor :
       {core::KeyCursor{0, 0}, {1, 2}, {1023, 0xffffffff}, {0xffffffff, 0x80000000}}) {
    const std::string token = ToToken(cursor);
    EXPECT_EQ(token.size(), 8u);
    core::KeyCursor again;
    ASSERT_TRUE(FromToken(token, &again));
    EXPECT_EQ(again.shard, cursor.shard);
    EXPECT_EQ(again.record, cursor.record);
  }
  core::KeyCursor start{7, 7};
  ASSERT_TRUE(FromToken("", &start));
  EXPECT_EQ(start.shard, 0u);
  EXPECT_EQ(start.record, 0u);
}

TEST(Convert, AnythingElseIsNoResumeToken) {
  core::KeyCursor cursor;
  EXPECT_FALSE(FromToken("1234567", &cursor));
  EXPECT_FALSE(FromToken("123456789", &cursor));
}

}  // namespace
}  // namespace holdfast::rpc

// What clients and operators see through the network between an unmount and its sweep. The sweep is not run, so the
// window stays open as long as a test looks.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/testing/net/served_master.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class VisibilityTest : public testing::ServedMasterTest {
 protected:
  void SetUp() override {
    ServedMasterTest::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
    leaving_ = Mount(*client_, "leaving");
    staying_ = Mount(*client_, "staying");
  }

  FoundObject GetOne(const std::string& key) {
    auto found = client_->Get({&key, 1});
    EXPECT_TRUE(found.ok()) << found.status();
    return found->front();
  }
  ItemStatus ExistsOne(const std::string& key) {
    auto exists = client_->Exists({&key, 1});
    EXPECT_TRUE(exists.ok()) << exists.status();
    return exists->front();
  }

  std::unique_ptr<Client> client_;
  uint64_t leaving_ = 0;
  uint64_t staying_ = 0;
};

// Every read path has the same answer: what was lost is absent, with the same code, before anything was cleaned up.
TEST_F(VisibilityTest, R2_R3_EveryReadPathAgreesThatALostKeyIsAbsent) {
  PutOn(*client_, "lost", "leaving");
  PutOn(*client_, "kept", "staying");
  ASSERT_TRUE(client_->UnmountSegment(leaving_).ok());

  EXPECT_EQ(GetOne("lost").status.code, absl::StatusCode::kNotFound);
  EXPECT_EQ(ExistsOne("lost").code, absl::StatusCode::kNotFound);
  EXPECT_EQ(GetOne("lost").status.reason, ExistsOne("lost").reason);
  const std::vector<std::string> both = {"lost", "kept"};
  auto found = client_->Get(both);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE((*found)[0].status.ok());
  EXPECT_TRUE((*found)[1].status.ok());
  auto exists = client_->Exists(both);
  ASSERT_TRUE(exists.ok());
  EXPECT_FALSE((*exists)[0].ok());
  EXPECT_TRUE((*exists)[1].ok());
  EXPECT_THAT(ListKeys(true), ElementsAre("kept"));
  auto removed = client_->Remove(std::vector<std::string>{"lost"});
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(removed->front().code, absl::StatusCode::kNotFound);
  EXPECT_EQ(Status().cleanup().ended_registrations_waiting(), 1u) << "the window was not open";
}

// The physical view is for operators who ask for it, and the flag has to reach the core through the network.
TEST_F(VisibilityTest, R13_FilterInvalidIsHonouredEndToEndAndOnByDefault) {
  PutOn(*client_, "lost", "leaving");
  PutOn(*client_, "kept", "staying");
  ASSERT_TRUE(client_->UnmountSegment(leaving_).ok());
  EXPECT_THAT(ListKeys(std::nullopt), ElementsAre("kept"));
  EXPECT_THAT(ListKeys(true), ElementsAre("kept"));
  EXPECT_THAT(ListKeys(false), ElementsAre("kept", "lost"));
  Sweep();
  EXPECT_THAT(ListKeys(false), ElementsAre("kept"));
}

// One copy less is no loss.
TEST_F(VisibilityTest, R8_AnObjectWithACopyElsewhereStaysReadable) {
  Put(*client_, "twice", 2);
  ASSERT_TRUE(client_->UnmountSegment(leaving_).ok());
  const FoundObject found = GetOne("twice");
  ASSERT_TRUE(found.status.ok());
  ASSERT_EQ(found.replicas.size(), 1u);
  EXPECT_EQ(found.replicas[0].segment->registration_id, staying_);
  EXPECT_TRUE(ExistsOne("twice").ok());

  grpc::ClientContext context;
  v1::GetObjectRequest request;
  request.set_key("twice");
  v1::GetObjectResponse shown;
  ASSERT_TRUE(admin_->GetObject(&context, request, &shown).ok());
  int available = 0;
  for (const v1::ReplicaInfo& replica : shown.replicas()) available += replica.available() ? 1 : 0;
  EXPECT_EQ(available, 1);
}

// A key that was lost can be put again at once, without waiting for the sweep, and the sweep does not take it away.
TEST_F(VisibilityTest, F4_ALostKeyCanBePutAgainBeforeTheSweep) {
  PutOn(*client_, "key", "leaving");
  ASSERT_TRUE(client_->UnmountSegment(leaving_).ok());
  EXPECT_THAT(Put(*client_, "key"), ElementsAre(staying_));
  Sweep();
  EXPECT_TRUE(GetOne("key").status.ok());
  EXPECT_EQ(Status().objects(), 1u);
}

// The end of a put whose segments have left says so; the put is not half done.
TEST_F(VisibilityTest, R18_PutEndAfterTheSegmentLeftSaysReplicaLost) {
  const PutItem item{"key", 4096, 1};
  PutOptions options;
  options.preferred_segments = {"leaving"};
  auto started = client_->PutStart({&item, 1}, options);
  ASSERT_TRUE(started.ok());
  ASSERT_TRUE(client_->UnmountSegment(leaving_).ok());
  const PutRef put{"key", started->front().put_id};
  for (int i = 0; i < 2; ++i) {
    auto ended = client_->PutEnd({&put, 1});
    ASSERT_TRUE(ended.ok());
    EXPECT_EQ(ended->front().reason, Reason::kReplicaLost);
    Sweep();
  }
  EXPECT_FALSE(ExistsOne("key").ok());
  auto revoked = client_->PutRevoke({&put, 1});
  ASSERT_TRUE(revoked.ok());
  EXPECT_TRUE(revoked->front().ok());
  EXPECT_EQ(Status().objects(), 0u);
}

// A delayed retry of an unmount must not hit what was mounted since.
TEST_F(VisibilityTest, R20_ARepeatedUnmountIsOkAndSparesTheSuccessor) {
  ASSERT_TRUE(client_->UnmountSegment(staying_).ok());
  ASSERT_TRUE(client_->UnmountSegment(leaving_).ok());
  const uint64_t again = Mount(*client_, "leaving");
  PutOn(*client_, "key", "leaving");
  v1::UnmountSegmentRequest request;
  const auto id = client_->client_id();
  request.mutable_session()->set_client_id(std::string(id.begin(), id.end()));
  request.mutable_session()->set_client_epoch(client_->client_epoch());
  request.set_registration_id(leaving_);
  grpc::ClientContext context;
  v1::UnmountSegmentResponse response;
  EXPECT_TRUE(store_->UnmountSegment(&context, request, &response).ok());
  EXPECT_NE(again, leaving_);
  EXPECT_TRUE(ExistsOne("key").ok());
}

// Drained: readable, and nothing new comes.
TEST_F(VisibilityTest, R7_ADrainedSegmentIsReadableAndTakesNothingNew) {
  PutOn(*client_, "old", "leaving");
  grpc::ClientContext context;
  v1::DrainSegmentRequest request;
  request.set_registration_id(leaving_);
  v1::DrainSegmentResponse response;
  ASSERT_TRUE(admin_->DrainSegment(&context, request, &response).ok());
  EXPECT_TRUE(GetOne("old").status.ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(PutOn(*client_, "new-" + std::to_string(i), "leaving"), ElementsAre(staying_));
  }
}

// A client that says goodbye is gone at once, with all that hung on it, and counts as nobody's failure.
TEST_F(VisibilityTest, AClosedSessionEndsItsSegmentsAndPutsAtOnce) {
  auto other = Connect();
  Mount(*other, "short visit");
  PutOn(*client_, "key", "short visit");
  const PutItem item{"unfinished", 4096, 1};
  ASSERT_TRUE(other->PutStart({&item, 1}).ok());
  ASSERT_TRUE(other->Close().ok());
  EXPECT_FALSE(ExistsOne("key").ok());
  Sweep();
  EXPECT_EQ(Status().clients(), 1u);
  EXPECT_EQ(Status().segments(), 2u);
  EXPECT_EQ(Status().objects(), 0u);
  EXPECT_EQ(Status().puts_in_progress(), 0u);
  EXPECT_EQ(Status().cleanup().expired_clients(), 0u);
  EXPECT_FALSE(other->PutStart({&item, 1}).ok());
  EXPECT_TRUE(other->Close().ok());
}

// A long listing goes on where a limit cut it, and tells each key once.
TEST_F(VisibilityTest, F52_AListingCutByALimitGoesOnWithItsToken) {
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) {
    keys.push_back("key-" + std::to_string(i));
    Put(*client_, keys.back());
  }
  std::vector<std::string> listed;
  std::string token;
  do {
    grpc::ClientContext context;
    v1::ListKeysRequest request;
    request.set_limit(7);
    request.set_resume_token(token);
    auto reader = admin_->ListKeys(&context, request);
    for (v1::ListKeysResponse page; reader->Read(&page);) {
      for (const v1::ListedKey& key : page.keys()) listed.push_back(key.key());
      token = page.resume_token();
    }
    ASSERT_TRUE(reader->Finish().ok());
  } while (!token.empty() && listed.size() <= keys.size());
  std::sort(keys.begin(), keys.end());
  std::sort(listed.begin(), listed.end());
  EXPECT_EQ(listed, keys);
}

}  // namespace
}  // namespace holdfast

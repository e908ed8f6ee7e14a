// Bad input through the network: a clear error with its reason, and nothing done.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/net/served_master.h"

namespace holdfast {
namespace {

class BadInputTest : public testing::ServedMasterTest {
 protected:
  void SetUp() override {
    ServedMasterTest::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
    Mount(*client_, "one");
    Mount(*client_, "two");
  }

  void SetSession(v1::Session* session) const {
    const auto id = client_->client_id();
    session->set_client_id(std::string(id.begin(), id.end()));
    session->set_client_epoch(client_->client_epoch());
  }
  v1::PutStartRequest PutStartRequest() const {
    v1::PutStartRequest request;
    SetSession(request.mutable_session());
    return request;
  }
  void AddItem(v1::PutStartRequest* request, const std::string& key, uint64_t size,
               uint32_t replicas = 1) {
    v1::PutStartItem* item = request->add_items();
    item->set_key(key);
    item->set_size(size);
    item->set_replicas(replicas);
    item->set_request_id(++next_request_);
  }
  grpc::Status PutStart(const v1::PutStartRequest& request, v1::PutStartResponse* response) {
    grpc::ClientContext context;
    return store_->PutStart(&context, request, response);
  }
  // The reason in the details of a refused request.
  static v1::Reason ReasonOf(const grpc::Status& status) {
    v1::RequestStatus full;
    v1::ErrorDetail detail;
    if (!full.ParseFromString(status.error_details()) || full.details_size() != 1 ||
        !detail.ParseFromString(full.details(0).value())) {
      return v1::REASON_UNSPECIFIED;
    }
    return detail.reason();
  }
  void ExpectNothingLeft() {
    EXPECT_EQ(Status().objects(), 0u);
    EXPECT_EQ(Status().allocated_bytes(), 0u);
    EXPECT_EQ(app_->master().Audit(), "");
  }

  std::unique_ptr<Client> client_;
  uint64_t next_request_ = 0;
};

// A batch is independent items: each has its own answer, in order, and the bad ones leave nothing behind.
TEST_F(BadInputTest, F53_EachBadItemHasItsOwnErrorAndTheOthersGoOn) {
  v1::PutStartRequest request = PutStartRequest();
  AddItem(&request, "good", 4096);
  AddItem(&request, "", 4096);
  AddItem(&request, std::string(1025, 'k'), 4096);
  AddItem(&request, "zero", 0);
  AddItem(&request, "huge", UINT64_MAX);
  AddItem(&request, "copies", 4096, 17);
  AddItem(&request, "more copies than segments", 4096, 3);
  AddItem(&request, "good", 4096);
  AddItem(&request, std::string("\xff\x00\xfe", 3), 4096);
  v1::PutStartResponse response;
  ASSERT_TRUE(PutStart(request, &response).ok());
  ASSERT_EQ(response.results_size(), 9);
  const v1::Reason wanted[] = {v1::REASON_UNSPECIFIED,      v1::REASON_EMPTY_KEY,
                               v1::REASON_KEY_TOO_LONG,     v1::REASON_BAD_SIZE,
                               v1::REASON_BAD_SIZE,         v1::REASON_BAD_REPLICA_COUNT,
                               v1::REASON_TOO_FEW_SEGMENTS, v1::REASON_PUT_IN_PROGRESS_BY_YOU,
                               v1::REASON_UNSPECIFIED};
  for (int i = 0; i < 9; ++i) EXPECT_EQ(response.results(i).reason(), wanted[i]) << "item " << i;
  EXPECT_EQ(Status().objects(), 2u);
  EXPECT_EQ(Status().allocated_bytes(), 2 * 4096u);
  EXPECT_EQ(app_->master().Audit(), "");
}

// Too many items: refused whole, with the reason, before anything was allocated.
TEST_F(BadInputTest, F52_ABatchOverTheLimitIsRefusedBeforeAnythingIsDone) {
  v1::PutStartRequest request = PutStartRequest();
  for (int i = 0; i < 4097; ++i) AddItem(&request, "key-" + std::to_string(i), 64);
  v1::PutStartResponse response;
  const grpc::Status status = PutStart(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), v1::REASON_BATCH_TOO_LARGE);
  ExpectNothingLeft();
}

// The largest batch that is allowed has an answer that fits a message.
TEST_F(BadInputTest, F52_TheLargestBatchFitsTheMessageLimitBothWays) {
  v1::PutStartRequest request = PutStartRequest();
  for (int i = 0; i < 4096; ++i) {
    std::string key = std::to_string(i);
    key.resize(1024, 'k');
    AddItem(&request, key, 64, 2);
  }
  v1::PutStartResponse response;
  const grpc::Status status = PutStart(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 4096);
  for (const v1::PutStartResult& result : response.results()) ASSERT_EQ(result.replicas_size(), 2);
}

TEST_F(BadInputTest, F53_AnEmptyBatchIsAnError) {
  v1::PutStartResponse response;
  const grpc::Status status = PutStart(PutStartRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), v1::REASON_BATCH_EMPTY);
}

// Ids of the wrong length, unknown clients and old epochs change nothing.
TEST_F(BadInputTest, F50_CallsOfUnknownAndStaleSessionsAreRefused) {
  v1::PutStartRequest request = PutStartRequest();
  AddItem(&request, "key", 4096);
  v1::PutStartResponse response;

  request.mutable_session()->set_client_id("short");
  EXPECT_EQ(ReasonOf(PutStart(request, &response)), v1::REASON_BAD_ID);
  request.mutable_session()->set_client_id(std::string(16, 'x'));
  EXPECT_EQ(ReasonOf(PutStart(request, &response)), v1::REASON_SESSION_UNKNOWN);
  SetSession(request.mutable_session());
  request.mutable_session()->set_client_epoch(client_->client_epoch() - 1);
  const grpc::Status stale = PutStart(request, &response);
  EXPECT_EQ(stale.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(stale), v1::REASON_SESSION_STALE);
  ExpectNothingLeft();
}

// Put ids: of another put, of another client, never issued.
TEST_F(BadInputTest, F17_ForeignAndUnknownPutIdsChangeNothing) {
  const PutItem item{"key", 4096, 1};
  auto started = client_->PutStart({&item, 1});
  ASSERT_TRUE(started.ok());
  const uint64_t put_id = started->front().put_id;
  auto other = Connect();
  const PutRef foreign{"key", put_id};
  EXPECT_EQ(other->PutEnd({&foreign, 1})->front().reason, Reason::kNotPutOwner);
  EXPECT_EQ(other->PutRevoke({&foreign, 1})->front().reason, Reason::kNotPutOwner);
  const PutRef unknown{"key", put_id + 1000};
  EXPECT_EQ(client_->PutEnd({&unknown, 1})->front().reason, Reason::kUnknownPut);
  EXPECT_EQ(client_->PutRevoke({&unknown, 1})->front().reason, Reason::kUnknownPut);
  EXPECT_FALSE(client_->Exists(std::vector<std::string>{"key"})->front().ok());
  const PutRef right{"key", put_id};
  EXPECT_TRUE(client_->PutEnd({&right, 1})->front().ok());
  EXPECT_EQ(client_->PutRevoke({&right, 1})->front().reason, Reason::kPutComplete);
  EXPECT_TRUE(client_->Exists(std::vector<std::string>{"key"})->front().ok());
}

// Segments: sizes that overflow, memory that is lent already, somebody else's registration.
TEST_F(BadInputTest, BadMountsAndForeignUnmountsAreRefused) {
  SegmentOptions segment;
  segment.name = "bad";
  segment.base = UINT64_MAX - 1000;
  segment.size_bytes = 1 << 20;
  EXPECT_EQ(holdfast::ReasonOf(client_->MountSegment(segment).status()), Reason::kBadSize);
  segment.base = 1ull << 50;
  segment.size_bytes = 0;
  EXPECT_EQ(holdfast::ReasonOf(client_->MountSegment(segment).status()), Reason::kBadSize);
  segment.size_bytes = 1 << 20;
  segment.name = std::string(257, 'n');
  EXPECT_EQ(holdfast::ReasonOf(client_->MountSegment(segment).status()), Reason::kBadField);
  segment.name = "good";
  auto registration = client_->MountSegment(segment);
  ASSERT_TRUE(registration.ok()) << registration.status();
  segment.base += 4096;
  EXPECT_EQ(holdfast::ReasonOf(client_->MountSegment(segment).status()), Reason::kSegmentOverlap);

  auto other = Connect();
  EXPECT_EQ(holdfast::ReasonOf(other->UnmountSegment(*registration)), Reason::kNotSegmentOwner);
  EXPECT_EQ(Status().segments(), 3u);
}

// A token that is not one of ours is an error, not the start of the list.
TEST_F(BadInputTest, ABadResumeTokenIsRefused) {
  grpc::ClientContext context;
  v1::ListKeysRequest request;
  request.set_resume_token("nonsense token");
  auto reader = admin_->ListKeys(&context, request);
  v1::ListKeysResponse page;
  EXPECT_FALSE(reader->Read(&page));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace holdfast

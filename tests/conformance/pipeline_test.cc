// The pipeline: the same calls as the unary ones over one stream, with the same answers and the same refusals.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/net/served_master.h"

namespace holdfast {
namespace {

using Stream = grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>;

class PipelineTest : public testing::ServedMasterTest {
 protected:
  void SetUp() override {
    ServedMasterTest::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
    segment_ = Mount(*client_, "segment");
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = store_->Pipeline(&context_);
  }

  v1::PipelineCall* Add(v1::PipelineRequest* request, uint64_t id) {
    v1::PipelineCall* call = request->add_calls();
    call->set_id(id);
    return call;
  }
  void FillSession(v1::Session* session) {
    const auto id = client_->client_id();
    session->set_client_id(std::string(id.begin(), id.end()));
    session->set_client_epoch(client_->client_epoch());
  }
  // Sends one message; the results of its calls by id.
  std::map<uint64_t, v1::PipelineResult> Exchange(const v1::PipelineRequest& request) {
    std::map<uint64_t, v1::PipelineResult> results;
    EXPECT_TRUE(stream_->Write(request));
    v1::PipelineResponse response;
    while (results.size() < static_cast<size_t>(request.calls_size()) && stream_->Read(&response)) {
      for (const v1::PipelineResult& result : response.results()) results[result.id()] = result;
    }
    return results;
  }

  std::unique_ptr<Client> client_;
  uint64_t segment_ = 0;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
};

// A whole put and every read of it, with the answers of the unary calls.
TEST_F(PipelineTest, EveryCallAnswersAsItsUnaryTwin) {
  v1::PipelineRequest request;
  v1::PutStartRequest* start = Add(&request, 1)->mutable_put_start();
  FillSession(start->mutable_session());
  for (const char* key : {"a", "b"}) {
    v1::PutStartItem* item = start->add_items();
    item->set_key(key);
    item->set_size(64);
    item->set_request_id(key[0]);
  }
  auto results = Exchange(request);
  ASSERT_FALSE(results[1].has_status()) << results[1].status().message();
  ASSERT_EQ(results[1].put_start().results_size(), 2);
  EXPECT_EQ(results[1].put_start().segments(0).registration_id(), segment_);

  request.Clear();
  v1::PutEndRequest* end = Add(&request, 2)->mutable_put_end();
  FillSession(end->mutable_session());
  end->add_items()->set_key("a");
  end->mutable_items(0)->set_put_id(results[1].put_start().results(0).put_id());
  v1::PutRevokeRequest* revoke = Add(&request, 3)->mutable_put_revoke();
  FillSession(revoke->mutable_session());
  revoke->add_items()->set_key("b");
  revoke->mutable_items(0)->set_put_id(results[1].put_start().results(1).put_id());
  for (const char* key : {"a", "b"}) {
    Add(&request, 10 + static_cast<uint64_t>(key[0]))->mutable_get()->add_keys(key);
    Add(&request, 1000 + static_cast<uint64_t>(key[0]))->mutable_exists()->add_keys(key);
  }
  results = Exchange(request);
  EXPECT_EQ(results[2].put_end().results(0).code(), 0);
  EXPECT_EQ(results[3].put_revoke().results(0).code(), 0);
  for (const char* key : {"a", "b"}) {
    grpc::ClientContext unary;
    v1::GetRequest get;
    v1::GetResponse got;
    get.add_keys(key);
    ASSERT_TRUE(store_->Get(&unary, get, &got).ok());
    EXPECT_EQ(results[10 + static_cast<uint64_t>(key[0])].get().SerializeAsString(),
              got.SerializeAsString());
    EXPECT_EQ(results[1000 + static_cast<uint64_t>(key[0])].exists().results(0).reason(),
              got.results(0).reason());
  }

  request.Clear();
  v1::RemoveRequest* remove = Add(&request, 4)->mutable_remove();
  FillSession(remove->mutable_session());
  remove->add_keys("a");
  remove->set_force(true);
  results = Exchange(request);
  EXPECT_EQ(results[4].remove().results(0).code(), 0);
  EXPECT_EQ(Status().objects(), 0u);
}

// R2 on this path too: the next answer after the unmount does not know the segment.
TEST_F(PipelineTest, R2_AnUnmountHidesItsReplicasOnAnOpenStream) {
  Put(*client_, "k");
  v1::PipelineRequest request;
  Add(&request, 1)->mutable_get()->add_keys("k");
  EXPECT_EQ(Exchange(request)[1].get().results(0).replicas_size(), 1);
  ASSERT_TRUE(client_->UnmountSegment(segment_).ok());
  EXPECT_EQ(Exchange(request)[1].get().results(0).reason(), v1::REASON_OBJECT_NOT_FOUND);
}

// An error is that of its call: the others, and the stream, go on.
TEST_F(PipelineTest, ARefusedCallTellsItsReasonAndTouchesNoOther) {
  Put(*client_, "k");
  v1::PipelineRequest request;
  Add(&request, 1);  // no request
  Add(&request, 2)->mutable_get();
  v1::PutEndRequest* end = Add(&request, 3)->mutable_put_end();  // of nobody
  end->add_items()->set_key("k");
  Add(&request, 4)->mutable_exists()->add_keys("k");
  v1::PipelineCall* broken = Add(&request, 5);
  broken->mutable_remove()->mutable_session()->set_client_id("short");
  broken->mutable_remove()->add_keys("k");
  auto results = Exchange(request);
  const auto reason = [&results](uint64_t id) {
    v1::ErrorDetail detail;
    EXPECT_EQ(results[id].response_case(), v1::PipelineResult::RESPONSE_NOT_SET);
    EXPECT_TRUE(results[id].status().details_size() == 1 &&
                results[id].status().details(0).UnpackTo(&detail));
    return detail.reason();
  };
  EXPECT_EQ(reason(1), v1::REASON_BAD_FIELD);
  EXPECT_EQ(reason(2), v1::REASON_BATCH_EMPTY);
  EXPECT_EQ(reason(3), v1::REASON_BAD_ID);
  EXPECT_EQ(reason(5), v1::REASON_BAD_ID);
  EXPECT_FALSE(results[4].has_status());
  EXPECT_EQ(results[4].exists().results(0).code(), 0) << "nothing was removed";
}

// One message costs a handler no more than one call may.
TEST_F(PipelineTest, ItemsOfAMessageAreBoundedTogether) {
  v1::PipelineRequest request;
  for (uint64_t id = 1; id <= 3; ++id) {
    v1::ExistsRequest* exists = Add(&request, id)->mutable_exists();
    for (int i = 0; i < 2000; ++i) exists->add_keys("k");
  }
  auto results = Exchange(request);
  EXPECT_FALSE(results[1].has_status());
  EXPECT_FALSE(results[2].has_status());
  EXPECT_EQ(results[3].status().code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
}

// A client that never reads is not read from: what the master holds for it does not grow with what it sends.
TEST_F(PipelineTest, ASlowReaderIsNotReadFromAndHurtsNobody) {
  v1::PipelineRequest request;
  v1::GetRequest* get = Add(&request, 1)->mutable_get();
  for (int i = 0; i < 4000; ++i) get->add_keys(absl::StrCat("missing key number ", i));
  constexpr int kMessages = 4000;  // 100 MB, which no buffer on the way takes
  std::atomic<int> sent{0};
  std::thread writer([&] {
    while (sent < kMessages && stream_->Write(request)) ++sent;
  });
  // Until nothing moves any more.
  for (int last = -1; last != sent || sent == 0;) {
    last = sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_LT(sent, kMessages / 2) << "somebody took all that without an answer being read";
  const std::string key = "k";
  EXPECT_TRUE(client_->Exists({&key, 1}).ok()) << "others are served";
  context_.TryCancel();
  writer.join();
}

// F100: an open stream does not hold up the end.
TEST_F(PipelineTest, F100_AStopEndsOpenStreamsWithUnavailable) {
  v1::PipelineRequest request;
  Add(&request, 1)->mutable_exists()->add_keys("k");
  ASSERT_EQ(Exchange(request).size(), 1u);
  const auto start = std::chrono::steady_clock::now();
  app_->Stop();
  // The budget for calls in flight is not used up by a stream that is only open.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  v1::PipelineResponse response;
  EXPECT_FALSE(stream_->Read(&response));
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// A client that has said all gets all its answers, and a clean end.
TEST_F(PipelineTest, AHalfClosedStreamIsAnsweredToTheEnd) {
  constexpr uint64_t kCalls = 500;
  for (uint64_t id = 1; id <= kCalls; ++id) {
    v1::PipelineRequest request;
    Add(&request, id)->mutable_exists()->add_keys("k");
    ASSERT_TRUE(stream_->Write(request));
  }
  stream_->WritesDone();
  uint64_t answers = 0;
  for (v1::PipelineResponse response; stream_->Read(&response);) {
    answers += static_cast<uint64_t>(response.results_size());
  }
  EXPECT_EQ(answers, kCalls);
  EXPECT_TRUE(stream_->Finish().ok());
}

}  // namespace
}  // namespace holdfast

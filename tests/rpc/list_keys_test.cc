// Lists for operators over the wire: resume tokens, limits and what is refused.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "holdfast/v1/admin.grpc.pb.h"
#include "server/app.h"

namespace holdfast {
namespace {

constexpr int kKeys = 5000;

class ListKeysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.grpc.listen = "127.0.0.1:0";
    options.metrics_listen = "127.0.0.1:0";
    options.start_workers = false;
    options.master.shard_count = 4;
    auto app = App::Start(options);
    ASSERT_TRUE(app.ok()) << app.status();
    app_ = *std::move(app);
    stub_ = v1::AdminService::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", app_->port()),
                                                          grpc::InsecureChannelCredentials()));
    Fill();
  }

  // Straight into the core: what is tested is the listing.
  void Fill() {
    core::HeartbeatRequest open;
    open.client.bytes[0] = 1;
    open.incarnation = 1;
    const auto opened = app_->master().Heartbeat(open, 0);
    ASSERT_TRUE(opened.ok());
    const core::Session session{open.client, opened->epoch};
    core::SegmentSpec spec;
    spec.id.bytes[0] = 1;
    spec.name = "segment";
    spec.endpoint = "127.0.0.1:1";
    spec.transport = "tcp";
    spec.size_bytes = 64 * (kKeys + 1);
    const auto mounted = app_->master().MountSegment(session, spec, 0);
    ASSERT_TRUE(mounted.ok()) << mounted.status();
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = absl::StrCat(i % 2 == 0 ? "even/" : "odd/", i);
      const core::PutStartItem item{key, 1, 1, core::RequestId{uint64_t(i) + 1}};
      core::PutStartAnswer answer;
      ASSERT_TRUE(
          app_->master().PutStart({session, {&item, 1}, {}, false, uint64_t(i)}, 0, &answer).ok());
      ASSERT_EQ(answer.rows[0].reason, core::Reason::kNone);
      const core::PutRef end{key, answer.rows[0].put};
      std::vector<core::Outcome> ended;
      ASSERT_TRUE(app_->master().PutEnd(session, {&end, 1}, 0, &ended).ok());
    }
  }

  struct Listing {
    std::vector<std::string> keys;
    std::string token;
    int largest_page = 0;
    grpc::Status status;
  };
  Listing List(const std::string& prefix, uint64_t limit, const std::string& token) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::ListKeysRequest request;
    request.set_prefix(prefix);
    request.set_limit(limit);
    request.set_resume_token(token);
    auto reader = stub_->ListKeys(&context, request);
    Listing listing;
    v1::ListKeysResponse page;
    while (reader->Read(&page)) {
      for (const v1::ListedKey& key : page.keys()) listing.keys.push_back(key.key());
      listing.token = page.resume_token();
      listing.largest_page = std::max(listing.largest_page, page.keys_size());
    }
    listing.status = reader->Finish();
    return listing;
  }

  std::unique_ptr<App> app_;
  std::unique_ptr<v1::AdminService::Stub> stub_;
};

TEST_F(ListKeysTest, ListsEveryKeyOnceInPagesOfAThousand) {
  const Listing listing = List("", 0, "");
  ASSERT_TRUE(listing.status.ok()) << listing.status.error_message();
  EXPECT_EQ(listing.keys.size(), size_t{kKeys});
  EXPECT_EQ(std::set<std::string>(listing.keys.begin(), listing.keys.end()).size(), size_t{kKeys});
  EXPECT_EQ(listing.token, "");
  EXPECT_LE(listing.largest_page, 1000);
}

// Limits that cut pages and steps anywhere: whoever resumes sees each key once.
TEST_F(ListKeysTest, ResumedListingRepeatsAndLosesNothing) {
  for (const uint64_t limit : {uint64_t{7}, uint64_t{333}, uint64_t{1000}, uint64_t{1700}}) {
    std::vector<std::string> keys;
    std::string token;
    do {
      const Listing listing = List("odd/", limit, token);
      ASSERT_TRUE(listing.status.ok()) << listing.status.error_message();
      EXPECT_LE(listing.keys.size(), limit);
      keys.insert(keys.end(), listing.keys.begin(), listing.keys.end());
      token = listing.token;
    } while (!token.empty());
    EXPECT_EQ(keys.size(), size_t{kKeys} / 2) << limit;
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), size_t{kKeys} / 2) << limit;
  }
}

TEST_F(ListKeysTest, ForeignTokenIsRefused) {
  for (const std::string& token : {std::string("x"), std::string(8, '\xff')}) {
    const Listing listing = List("", 0, token);
    EXPECT_EQ(listing.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(listing.keys.empty());
  }
}

TEST_F(ListKeysTest, StopDoesNotWaitForAListThatNobodyReads) {
  grpc::ClientContext context;
  auto reader = stub_->ListKeys(&context, v1::ListKeysRequest());
  v1::ListKeysResponse page;
  ASSERT_TRUE(reader->Read(&page));
  app_->Stop();
  while (reader->Read(&page)) {
  }
  EXPECT_FALSE(reader->Finish().error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
}

// Each list may hold a page in memory, so their number is bounded.
TEST(ListWorker, RefusesMoreListsThanItsBound) {
  rpc::ListWorker worker;
  for (int i = 0; i < rpc::ListWorker::kListsMax; ++i) EXPECT_TRUE(worker.Enter());
  EXPECT_FALSE(worker.Enter());
  worker.Leave();
  EXPECT_TRUE(worker.Enter());
}

}  // namespace
}  // namespace holdfast

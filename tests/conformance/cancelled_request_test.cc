// Cleanup is the master's own work, with deadlines of its own: it does not depend on whether somebody still waits for the request
// that it came from.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/proxied_store.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using testing::ProxyFault;

class CancelledRequestTest : public testing::ProxiedStoreTest {
 protected:
  void Configure(Options* options) override {
    ProxiedStoreTest::Configure(options);
    options->master.upload_timeout_ms = 700;
    options->master.upload_grace_ms = 500;
    options->delete_timeout_ms = 700;
  }

  v1::Session Session() const {
    const auto id = client_->client_id();
    v1::Session session;
    session.set_client_id(std::string(id.begin(), id.end()));
    session.set_client_epoch(client_->client_epoch());
    return session;
  }
  // A revoke whose caller goes away after so many turns of this thread. Whether it was told of the end is not the point.
  void RevokeAndCancel(const std::string& key, uint64_t put_id, int turns) {
    v1::PutRevokeRequest request;
    *request.mutable_session() = Session();
    v1::PutRef* const put = request.add_items();
    put->set_key(key);
    put->set_put_id(put_id);
    put->set_upload(v1::UPLOAD_OUTCOME_FINISHED);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    v1::PutRevokeResponse response;
    grpc::Status status;
    auto call = store_->AsyncPutRevoke(&context, request, &queue);
    call->Finish(&response, &status, nullptr);
    for (int i = 0; i < turns; ++i) std::this_thread::yield();
    context.TryCancel();
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    if (!status.ok()) ++cancelled_;
  }
  bool Drain() {
    for (int i = 0; i < 1500 && Ledger().tickets_used() > 0; ++i) {
      Retry();
      std::this_thread::sleep_for(milliseconds(10));
    }
    return Ledger().tickets_used() == 0;
  }

  int cancelled_ = 0;
};

// The pass has not run by the time that the request is cancelled, at whatever moment that is: the name is owed all the same, and
// what is published is not touched.
TEST_F(CancelledRequestTest, R47_R54_ARevokeThatIsCancelledAtAnyMomentIsCleanedUpAfter) {
  ASSERT_TRUE(client_->PutDurable("kept", "bytes").status.ok());
  for (int round = 0; round < 15; ++round) {
    const std::string key = absl::StrCat("k", round);
    const StartedPut put = StartDurable(*client_, key);
    ASSERT_TRUE(put.status.ok()) << put.status.message;
    ASSERT_EQ(client_->Upload(put, "bytes").outcome, UploadOutcome::kFinished);
    RevokeAndCancel(key, put.put_id, round * 10);
    ASSERT_EQ(Ledger().tickets_used(), 1u) << "a name without an owner";
    if (Unpublished()[0].state() == v1::TICKET_STATE_RESERVED) {
      // Nobody has heard it: the put is still the client's, and may be revoked.
      const PutRef again{key, put.put_id, UploadOutcome::kFinished, ""};
      ASSERT_TRUE(client_->PutRevoke({&again, 1})->front().ok());
    }
    Retry();
    ASSERT_EQ(Ledger().tickets_used(), 0u) << "round " << round;
    ASSERT_EQ(StoredIn(direct_), std::vector<std::string>{Get("kept").object_name});
  }
  EXPECT_GT(cancelled_, 0) << "no request was cancelled";
}

// A caller whose time is over in the middle of a failing upload: taking the put back has a deadline of its own, so the master is
// told at once and does not have to wait until the put is given up.
TEST_F(CancelledRequestTest, R47_R54_AnUploadThatOutlivesItsCallersDeadlineIsTakenBackAllTheSame) {
  ClientOptions options;
  options.master = address();
  options.deadline = milliseconds(300);
  auto hasty = Client::Connect(options);
  ASSERT_TRUE(hasty.ok()) << hasty.status();
  proxy_->Fail(ProxyFault::kHang, "PUT");
  const DurablePutResult put = (*hasty)->PutDurable("k", "bytes");
  EXPECT_FALSE(put.status.ok());
  EXPECT_TRUE(put.cleanup.ok()) << put.cleanup.message;
  EXPECT_EQ(Ledger().quarantined_names(), 1u) << "the master has not been told";
  proxy_->Heal();
  EXPECT_TRUE(Drain());
  EXPECT_TRUE(StoredIn(direct_).empty());
}

}  // namespace
}  // namespace holdfast

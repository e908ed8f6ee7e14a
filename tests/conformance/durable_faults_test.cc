// Whatever goes wrong between the programs and a real S3 server: nothing that is owned is lost, nothing that is published is
// deleted, and once the store is well again the ledger empties.

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

struct FaultCase {
  const char* name;
  ProxyFault fault;
};

class StoreFaultTest : public testing::ProxiedStoreTest,
                       public ::testing::WithParamInterface<FaultCase> {
 protected:
  void Configure(Options* options) override {
    ProxiedStoreTest::Configure(options);
    options->master.upload_grace_ms = 500;
    options->delete_timeout_ms = 700;
  }

  std::vector<std::string> StoredNames() { return StoredIn(direct_); }
  // Runs the worker's passes until no ticket is left.
  bool Drain() {
    for (int i = 0; i < 1500; ++i) {
      Retry();
      if (Ledger().tickets_used() == 0) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Faults, StoreFaultTest,
    ::testing::Values(FaultCase{"Hang", ProxyFault::kHang}, FaultCase{"Reset", ProxyFault::kReset},
                      FaultCase{"SlowDown", ProxyFault::kSlowDown},
                      FaultCase{"AccessDenied", ProxyFault::kAccessDenied},
                      FaultCase{"SuccessThenTimeout", ProxyFault::kSuccessThenTimeout},
                      FaultCase{"SuccessThenReset", ProxyFault::kSuccessThenReset},
                      FaultCase{"TimeoutThenSuccess", ProxyFault::kTimeoutThenSuccess},
                      FaultCase{"Truncated", ProxyFault::kTruncated}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(StoreFaultTest, R35_R54_AFailedUploadLeavesAnOwnedNameOrNone) {
  ASSERT_TRUE(client_->PutDurable("kept", "bytes").status.ok());
  const StartedPut put = StartDurable(*client_, "k", milliseconds(700));
  ASSERT_TRUE(put.status.ok()) << put.status.message;
  proxy_->Fail(GetParam().fault, "PUT");
  const UploadResult uploaded = client_->Upload(put, "bytes");
  EXPECT_GT(proxy_->faults(), 0u);
  EXPECT_NE(uploaded.outcome, UploadOutcome::kFinished);
  EXPECT_FALSE(uploaded.status.ok());
  const PutRef revoke{"k", put.put_id, uploaded.outcome, ""};
  ASSERT_TRUE(client_->PutRevoke({&revoke, 1})->front().ok());
  proxy_->Heal();
  proxy_->Land();
  const bool landed = StoredNames().size() == 2;
  // R50: what may be in the store has an owner.
  if (landed) {
    ASSERT_EQ(Unpublished().size(), 1u);
    EXPECT_EQ(Unpublished()[0].object_name(), put.object_name);
  }
  EXPECT_TRUE(Drain());
  EXPECT_EQ(StoredNames(), std::vector<std::string>{Get("kept").object_name});
  EXPECT_EQ(Get("k").status.reason, Reason::kObjectNotFound);
}

TEST_P(StoreFaultTest, R36_R54_AFailedDeleteIsOwedUntilItIsConfirmed) {
  for (const std::string key : {"kept", "a", "b"}) {
    ASSERT_TRUE(client_->PutDurable(key, "bytes").status.ok());
  }
  proxy_->Fail(GetParam().fault, "POST");
  const std::vector<std::string> gone = {"a", "b"};
  ASSERT_TRUE(client_->Remove(gone).ok()) << "a removal does not ask the store";
  Retry();
  EXPECT_GT(proxy_->faults(), 0u);
  EXPECT_EQ(Ledger().tickets_used(), 2u) << "nothing is released on an answer in doubt";
  EXPECT_EQ(Ledger().deleted_names(), 0u);
  proxy_->Heal();
  proxy_->Land();
  EXPECT_TRUE(Drain());
  EXPECT_EQ(Ledger().deleted_names(), 2u);
  EXPECT_EQ(StoredNames(), std::vector<std::string>{Get("kept").object_name});
  EXPECT_EQ(*client_->ReadDurable(Get("kept")), "bytes");
}

// The list of unfinished uploads, without which no delete is sound, fails in all the same ways.
TEST_P(StoreFaultTest, R36_WithoutTheListOfUploadsNothingIsReleased) {
  ASSERT_TRUE(client_->PutDurable("k", "bytes").status.ok());
  proxy_->Fail(GetParam().fault, "GET");
  const std::string key = "k";
  ASSERT_TRUE(client_->Remove({&key, 1}).ok());
  Retry();
  EXPECT_EQ(Ledger().tickets_used(), 1u);
  proxy_->Heal();
  proxy_->Land();
  EXPECT_TRUE(Drain());
  EXPECT_TRUE(StoredNames().empty());
}

}  // namespace
}  // namespace holdfast

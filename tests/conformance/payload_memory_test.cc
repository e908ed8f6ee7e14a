// What clients keep of the bytes that they have uploaded: nothing, whatever became of the upload.

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/conformance/durable_master.h"

namespace holdfast {
namespace {

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Client and master are this process, so its memory is all that anybody can have kept.
class PayloadMemoryTest : public testing::DurableMasterTest {
 protected:
  static constexpr size_t kPayload = 8 << 20;

  std::string StoreUri() override { return FileUri(); }
  void Configure(Options* options) override {
    DurableMasterTest::Configure(options);
    options->master.ledger_tickets = 1000;
  }
  // What `rounds` of it leave in memory, after a few that fill caches and pools.
  template <typename Round>
  int64_t Growth(int rounds, Round round) {
    constexpr int kFirst = 5;
    for (int i = 0; i < kFirst; ++i) round(i);
    const uint64_t before = ResidentBytes();
    for (int i = kFirst; i < kFirst + rounds; ++i) round(i);
    return static_cast<int64_t>(ResidentBytes()) - static_cast<int64_t>(before);
  }
};

// Two hundred spills in one session: each is freed when it has ended, not when the session does.
TEST_F(PayloadMemoryTest, R43_TwoHundredUploadsOfOneSessionKeepNoPayload) {
  const std::string key = "k";
  const int64_t growth = Growth(200, [&](int /*i*/) {
    ASSERT_TRUE(client_->PutDurable(key, std::string(kPayload, 'x')).status.ok());
    ASSERT_TRUE(client_->Remove({&key, 1})->front().ok());
    Retry();
  });
  EXPECT_LE(growth, int64_t{kPayload}) << "1,600 MiB went through";
}

// A hundred uploads that fail: their names are the master's, and nothing else is left of them.
TEST_F(PayloadMemoryTest, R42_AHundredFailedUploadsKeepNamesOnly) {
  std::ofstream(directory_ + "/00000000") << "in the way of the directory";
  const int64_t growth = Growth(100, [&](int i) {
    const StartedPut put = StartDurable(*client_, absl::StrCat("k", i));
    const UploadResult uploaded = client_->Upload(put, std::string(kPayload, 'x'));
    EXPECT_EQ(uploaded.outcome, UploadOutcome::kNotStarted);
    // The worst that a client may say: the name waits until nothing can land any more.
    const PutRef revoke{absl::StrCat("k", i), put.put_id, UploadOutcome::kAmbiguous, ""};
    EXPECT_TRUE(client_->PutRevoke({&revoke, 1})->front().ok());
  });
  EXPECT_LE(growth, int64_t{kPayload}) << "800 MiB went through";
  EXPECT_EQ(Ledger().quarantined_names(), 105u);
}

}  // namespace
}  // namespace holdfast

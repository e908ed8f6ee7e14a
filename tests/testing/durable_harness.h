// A master with a durable tier: the core's harness, a store with faults, and the pass that deletes.

#ifndef HOLDFAST_TESTS_TESTING_DURABLE_HARNESS_H_
#define HOLDFAST_TESTS_TESTING_DURABLE_HARNESS_H_

#include <string>

#include "server/cleanup/retry_pass.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/fake_store.h"

namespace holdfast::testing {

// Small numbers of tickets, so that tests come to the edge.
inline core::MasterOptions DurableOptions(uint32_t tickets = 64) {
  core::MasterOptions options = SmallOptions();
  options.durable_tier = true;
  options.ledger_tickets = tickets;
  options.ledger_client_percent = 100;
  return options;
}

class DurableHarness : public CoreHarness {
 public:
  explicit DurableHarness(const core::MasterOptions& options)
      : CoreHarness(options),
        retry_pass_(&master().ledger(), &store_, &clock(), &retry_statistics_, {}) {}

  FakeStore& store() { return store_; }
  cleanup::RetryPass& retry_pass() { return retry_pass_; }
  cleanup::RetryStatistics& retry_statistics() { return retry_statistics_; }
  core::LedgerCounts Ledger() { return master().ledger().Count(Now()); }

  // A put with a durable replica alone.
  Started StartDurable(const core::Session& session, const std::string& key,
                       int64_t upload_timeout_ms = 0) {
    return Start(
        session, key,
        {.durability = core::Durability::kDurable, .upload_timeout_ms = upload_timeout_ms});
  }
  void Upload(const Started& started) {
    store_.Upload(started.upload, "payload", absl::InfiniteFuture());
  }
  core::Reason Publish(const core::Session& session, const std::string& key,
                       const Started& started) {
    return End(session, key, started.put, core::UploadOutcome::kFinished, "sum");
  }
  Started PutDurable(const core::Session& session, const std::string& key) {
    Started started = StartDurable(session, key);
    EXPECT_EQ(started.reason, core::Reason::kNone) << key;
    Upload(started);
    EXPECT_EQ(Publish(session, key, started), core::Reason::kNone) << key;
    return started;
  }
  // Runs the pass until it has nothing more to do at once; how many rounds it took.
  int Retry() {
    int rounds = 1;
    while (retry_pass_.Run().wait_ms() == 0) ++rounds;
    ExpectBooksBalance();
    return rounds;
  }
  // Time passes, and the pass is run, until nothing is owed.
  void Drain() {
    for (int i = 0; i < 10'000 && Ledger().tickets_used > 0; ++i) {
      clock().AdvanceMs(1000);
      Retry();
    }
    EXPECT_EQ(Ledger().tickets_used, 0u) << "R54: the ledger is not empty";
  }

 private:
  FakeStore store_;
  cleanup::RetryStatistics retry_statistics_;
  cleanup::RetryPass retry_pass_;
};

class DurableTest : public ::testing::Test, public DurableHarness {
 protected:
  DurableTest() : DurableHarness(DurableOptions()) {}
  explicit DurableTest(const core::MasterOptions& options) : DurableHarness(options) {}

  void TearDown() override { EXPECT_EQ(master().Audit(), ""); }
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_DURABLE_HARNESS_H_

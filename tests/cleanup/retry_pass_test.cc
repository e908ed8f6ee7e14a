// The worker that deletes what the ledger owes, round by round.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/testing/durable_harness.h"

namespace holdfast::testing {
namespace {

using core::Reason;
using core::UploadOutcome;

class RetryPassTest : public DurableTest {
 protected:
  RetryPassTest() : DurableTest(DurableOptions(/*tickets=*/4096)) { AuditOnlyAtTheEnd(); }

  // One finished upload that is revoked: one task. Returns its name.
  std::string Owe(const std::string& key) {
    const Started started = StartDurable(client_, key);
    Upload(started);
    EXPECT_EQ(Revoke(client_, key, started.put, UploadOutcome::kFinished), Reason::kNone);
    return started.upload;
  }
  // Many of them revoked in one call: one task of many names.
  std::vector<std::string> OweTogether(const std::string& prefix, int count) {
    std::vector<std::string> names;
    std::vector<std::string> keys;
    std::vector<core::PutRef> puts;
    keys.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      keys.push_back(prefix + std::to_string(i));
      const Started started = StartDurable(client_, keys.back());
      Upload(started);
      names.push_back(started.upload);
      puts.push_back({keys.back(), started.put, UploadOutcome::kFinished, {}});
    }
    std::vector<core::Outcome> answer;
    EXPECT_TRUE(master().PutRevoke(client_, puts, Now(), &answer).ok());
    return names;
  }

  core::Session client_ = Open("client");
};

// R44: nothing owed, nothing asked of the store.
TEST_F(RetryPassTest, R44_AnEmptyLedgerAsksNothingOfTheStore) {
  EXPECT_EQ(retry_pass().Run().wait_ms(), base::PassVerdict::kNever);
  EXPECT_TRUE(store().deletes().empty());
}

// The pass sleeps exactly until the first name may be deleted.
TEST_F(RetryPassTest, R44_ThePassWaitsForTheFirstNameThatBecomesReady) {
  const Started started = StartDurable(client_, "k", /*upload_timeout_ms=*/5'000);
  ASSERT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kAmbiguous), Reason::kNone);
  EXPECT_EQ(retry_pass().Run().wait_ms(), 125'000);
  clock().AdvanceMs(124'999);
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1);
  clock().AdvanceMs(1);
  EXPECT_EQ(retry_pass().Run().wait_ms(), 0);
  EXPECT_EQ(Ledger().tickets_used, 0u);
}

// Thousands of small tasks must not cost a request each once the store works.
TEST_F(RetryPassTest, R44_AfterASuccessTasksAreSentTogetherBackToBack) {
  for (int i = 0; i < 2'500; ++i) Owe("k" + std::to_string(i));
  EXPECT_EQ(Ledger().pending_tasks, 2'500u);
  EXPECT_EQ(Retry(), 4) << "three requests and one look";
  const auto deletes = store().deletes();
  ASSERT_EQ(deletes.size(), 3u);
  EXPECT_EQ(deletes[0].size(), 1'000u);
  EXPECT_EQ(deletes[2].size(), 500u);
  EXPECT_EQ(Ledger().tickets_used, 0u);
}

// R44: order and sleeps, exactly.
TEST_F(RetryPassTest, R44_AFailedTaskGoesToTheTailAndTheWorkerWaitsOneSecond) {
  const std::string a = Owe("a");
  const std::string b = Owe("b");
  const std::string c = Owe("c");
  store().FailNextDelete({});
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000) << "all three, coalesced, failed";
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000) << "a request for a round shortens nothing";
  EXPECT_EQ(store().deletes().size(), 1u);
  clock().AdvanceMs(400);
  EXPECT_EQ(retry_pass().Run().wait_ms(), 600);
  clock().AdvanceMs(600);
  store().Poison(a);
  // One task a request from now on, so that a bad name is found and holds up nobody else.
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000);
  EXPECT_EQ(store().deletes().back(), std::vector<std::string>{a});
  clock().AdvanceMs(1000);
  EXPECT_EQ(retry_pass().Run().wait_ms(), 0);
  EXPECT_EQ(store().deletes().back(), std::vector<std::string>{b});
  // And together again after the success, with the failed one at the tail.
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000);
  EXPECT_EQ(store().deletes().back(), (std::vector<std::string>{c, a}));
  EXPECT_EQ(store().names(), std::set<std::string>{a});
  EXPECT_EQ(Ledger().tickets_used, 1u);
}

// R45: good = within one second for each visit of the poisoned one.
TEST_F(RetryPassTest, R45_APoisonedNameDoesNotStarveAThousandGoodOnes) {
  const std::string bad = Owe("bad");
  for (int i = 0; i < 1'000; ++i) Owe("good" + std::to_string(i));
  store().Poison(bad);
  int seconds = 0;
  while (Ledger().tickets_used > 1 && seconds < 10) {
    while (retry_pass().Run().wait_ms() == 0) {
    }
    clock().AdvanceMs(1000);
    ++seconds;
  }
  EXPECT_LE(seconds, 3);
  EXPECT_EQ(store().names(), std::set<std::string>{bad});
  EXPECT_GT(retry_statistics().failures().at("SlowDown"), 0u);
  store().Heal();
  Drain();
  EXPECT_TRUE(store().names().empty());
}

// R36: the delete took effect, its answer was lost.
TEST_F(RetryPassTest, R36_AnAmbiguousDeleteIsRetainedAndReleasedWhenTheNameIsAbsent) {
  const std::string name = Owe("k");
  store().FailNextDelete({.applied = true});
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000);
  EXPECT_FALSE(store().Holds(name));
  EXPECT_EQ(Ledger().tickets_used, 1u) << "nobody has confirmed it";
  clock().AdvanceMs(1000);
  Retry();
  EXPECT_EQ(Ledger().tickets_used, 0u);
  EXPECT_EQ(Ledger().deleted_names, 1u);
  EXPECT_EQ(Ledger().retried_names, 1u);
}

// R37: progress is kept batch by batch.
TEST_F(RetryPassTest, R37_AFailedSecondBatchLeavesExactlyTheRestAndSendsNothingTwice) {
  const std::vector<std::string> names = OweTogether("k", 2'500);
  EXPECT_EQ(Ledger().pending_tasks, 1u);
  EXPECT_EQ(retry_pass().Run().wait_ms(), 0);
  EXPECT_EQ(Ledger().tickets_used, 1'500u);
  store().FailNextDelete({});
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000);
  EXPECT_EQ(Ledger().tickets_used, 1'500u);
  EXPECT_EQ(Ledger().pending_tasks, 1u) << "it is one task still";
  clock().AdvanceMs(1000);
  Retry();
  EXPECT_EQ(Ledger().tickets_used, 0u);
  std::set<std::string> first(names.begin(), names.begin() + 1'000);
  const auto deletes = store().deletes();
  for (size_t i = 1; i < deletes.size(); ++i) {
    for (const std::string& name : deletes[i]) EXPECT_FALSE(first.contains(name));
  }
}

// R38, with the refinement: what the store has confirmed inside a failed answer is released.
TEST_F(RetryPassTest, R38_NamesConfirmedInsideAPartlyFailedAnswerAreReleased) {
  const std::vector<std::string> names = OweTogether("k", 10);
  store().FailNextDelete({.answered = true, .failing = {names[3], names[7]}});
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000);
  EXPECT_EQ(Ledger().tickets_used, 2u);
  clock().AdvanceMs(1000);
  EXPECT_EQ(retry_pass().Run().wait_ms(), 0);
  EXPECT_EQ(store().deletes().back(), (std::vector<std::string>{names[3], names[7]}));
}

// A partial failure in a request of many tasks must not mix them: the one that is whole goes on alone.
TEST_F(RetryPassTest, R45_TasksThatWereSentTogetherAreRetriedApart) {
  const std::vector<std::string> a = OweTogether("a", 3);
  const std::vector<std::string> b = OweTogether("b", 3);
  store().FailNextDelete({.answered = true, .failing = {a[0], b[0], b[2]}});
  EXPECT_EQ(retry_pass().Run().wait_ms(), 1000);
  EXPECT_EQ(Ledger().pending_tasks, 2u);
  clock().AdvanceMs(1000);
  retry_pass().Run();
  EXPECT_EQ(store().deletes().back(), std::vector<std::string>{a[0]});
  retry_pass().Run();
  EXPECT_EQ(store().deletes().back(), (std::vector<std::string>{b[0], b[2]}));
}

// A store that never answers must not make a name's age look young: the oldest debt is what an operator asks for.
TEST_F(RetryPassTest, R48_TheOldestAgeIsThatOfTheOldestNameNotOfTheHeadOfTheQueue) {
  Owe("old");
  clock().AdvanceMs(5000);
  Owe("young");
  store().FailNextDelete({});
  store().FailNextDelete({});
  retry_pass().Run();
  clock().AdvanceMs(1000);
  retry_pass().Run();
  EXPECT_EQ(Ledger().oldest_owed_age_ms, 6000);
  clock().AdvanceMs(1000);
  Drain();
  EXPECT_EQ(Ledger().oldest_owed_age_ms, 0);
}

// A store that answers less than it was asked has confirmed nothing about the rest.
class ShortStore : public FakeStore {
 public:
  std::vector<tier::DeleteResult> Delete(absl::Span<const std::string> names,
                                         absl::Time deadline) override {
    std::vector<tier::DeleteResult> results = FakeStore::Delete(names, deadline);
    results.pop_back();
    return results;
  }
};
TEST_F(RetryPassTest, R36_ANameThatTheAnswerDoesNotMentionIsRetained) {
  ShortStore store;
  cleanup::RetryPass pass(&master().ledger(), &store, &clock(), &retry_statistics(), {});
  OweTogether("k", 3);
  EXPECT_EQ(pass.Run().wait_ms(), 1000);
  EXPECT_EQ(Ledger().tickets_used, 1u);
  EXPECT_EQ(retry_statistics().failures().at("unknown"), 1u);
}

// Codes come from outside and become a label of a metric.
TEST(RetryStatisticsTest, R48_CodesBeyondAFewDozenAreCountedTogether) {
  cleanup::RetryStatistics statistics;
  for (int i = 0; i < 100; ++i) statistics.RecordFailure("code" + std::to_string(i));
  EXPECT_EQ(statistics.failures().size(), 33u);
  EXPECT_EQ(statistics.failures().at("other"), 68u);
}

}  // namespace
}  // namespace holdfast::testing

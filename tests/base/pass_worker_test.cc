#include "server/base/pass_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace holdfast::base {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);  // only a failing test waits so long

// Counts rounds. Thread-safe.
class RoundCounter {
 public:
  int Begin() {
    absl::MutexLock lock(&mu_);
    return ++rounds_;
  }
  int rounds() const {
    absl::MutexLock lock(&mu_);
    return rounds_;
  }
  bool WaitFor(int rounds, absl::Duration timeout) const {
    absl::MutexLock lock(&mu_);
    const auto reached = [this, rounds]()
                             ABSL_SHARED_LOCKS_REQUIRED(mu_) { return rounds_ >= rounds; };
    return mu_.AwaitWithTimeout(absl::Condition(&reached), timeout);
  }

 private:
  mutable absl::Mutex mu_;
  int rounds_ ABSL_GUARDED_BY(mu_) = 0;
};

// Many unmounts at once must cost one sweep, not one each.
TEST(PassWorkerTest, R9_RequestsCoalesce) {
  RoundCounter counter;
  absl::Notification first_began;
  absl::Notification release;
  PassWorker worker("test", {}, [&] {
    if (counter.Begin() == 1) {
      first_began.Notify();
      release.WaitForNotification();
    }
    return PassVerdict::Idle();
  });
  worker.Request();
  ASSERT_TRUE(first_began.WaitForNotificationWithTimeout(kLong));

  std::vector<std::thread> requesters;
  requesters.reserve(8);
  for (int i = 0; i < 8; ++i) requesters.emplace_back([&] { worker.Request(); });
  for (std::thread& requester : requesters) requester.join();
  release.Notify();

  // One was running: one more covers all eight. That a third does not come can only be waited for.
  EXPECT_TRUE(counter.WaitFor(2, kLong));
  EXPECT_FALSE(counter.WaitFor(3, absl::Milliseconds(100)));
}

// A request that comes while a round runs must not be taken for covered by it: its work may lie behind the round.
TEST(PassWorkerTest, R9_ARoundThatBeginsAfterARequestCoversIt) {
  constexpr int kThreads = 8;
  constexpr int kRequests = 2'000;
  std::atomic<int> asked{0};
  RoundCounter covered_all;
  PassWorker worker("test", {}, [&] {
    if (asked.load() == kThreads * kRequests) covered_all.Begin();
    return PassVerdict::Idle();
  });
  std::vector<std::thread> requesters;
  requesters.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    requesters.emplace_back([&] {
      for (int j = 0; j < kRequests; ++j) {
        asked.fetch_add(1);
        worker.Request();
      }
    });
  }
  for (std::thread& requester : requesters) requester.join();
  EXPECT_TRUE(covered_all.WaitFor(1, kLong));
}

// The callback's state goes away right after Stop: a late round would be a use after free, which the sanitizers see.
TEST(PassWorkerTest, R10_NoRoundAfterStopInAThousandCycles) {
  for (int i = 0; i < 1'000; ++i) {
    auto rounds = std::make_unique<RoundCounter>();
    PassWorker worker("test", {.first_round_after_ms = i % 3}, [&rounds, i] {
      rounds->Begin();
      return i % 2 == 0 ? PassVerdict::More() : PassVerdict::After(i % 3);
    });
    worker.Request();
    if (i % 4 == 0) {
      ASSERT_TRUE(rounds->WaitFor(1, kLong));
    }
    worker.Stop();
    rounds.reset();
    worker.Request();
  }
}

// The same by destruction alone, with requests that come until the last moment.
TEST(PassWorkerTest, R10_DestructionStopsWhileOthersRequest) {
  for (int i = 0; i < 200; ++i) {
    RoundCounter counter;
    auto worker = std::make_unique<PassWorker>("test", PassWorker::Options{}, [&] {
      counter.Begin();
      return PassVerdict::Idle();
    });
    std::thread requester([&] {
      for (int j = 0; j < 20; ++j) worker->Request();
    });
    worker->Stop();
    requester.join();
    worker.reset();
  }
}

TEST(PassWorkerTest, R10_StopWaitsForTheRoundThatRuns) {
  absl::Notification began;
  absl::Notification release;
  bool finished = false;  // deliberately plain: Stop is what orders it
  PassWorker worker("test", {}, [&] {
    began.Notify();
    release.WaitForNotification();
    finished = true;
    return PassVerdict::Idle();
  });
  worker.Request();
  ASSERT_TRUE(began.WaitForNotificationWithTimeout(kLong));
  std::thread stopper([&] {
    worker.Stop();
    EXPECT_TRUE(finished);
  });
  release.Notify();
  stopper.join();
}

TEST(PassWorkerTest, R10_StopMayBeCalledAgainAndByManyAtOnce) {
  RoundCounter counter;
  PassWorker worker("test", {}, [&] {
    counter.Begin();
    return PassVerdict::More();
  });
  worker.Request();
  ASSERT_TRUE(counter.WaitFor(1, kLong));
  std::vector<int> seen(4);
  std::vector<std::thread> stoppers;
  stoppers.reserve(seen.size());
  for (int& rounds : seen) {
    stoppers.emplace_back([&worker, &counter, &rounds] {
      worker.Stop();
      rounds = counter.rounds();
    });
  }
  for (std::thread& stopper : stoppers) stopper.join();
  worker.Stop();
  // Whoever returns from Stop, not only the one who joined, sees the last round.
  for (const int rounds : seen) EXPECT_EQ(rounds, counter.rounds());
}

// A pass with a bounded round says that it has more; it must not wait for the next request with it.
TEST(PassWorkerTest, MoreRunsTheNextRoundAtOnce) {
  RoundCounter counter;
  PassWorker worker(
      "test", {}, [&] { return counter.Begin() < 5 ? PassVerdict::More() : PassVerdict::Idle(); });
  worker.Request();
  EXPECT_TRUE(counter.WaitFor(5, kLong));
}

TEST(PassWorkerTest, ARoundSaysWhenTheNextOneIsDue) {
  RoundCounter counter;
  PassWorker worker("test", {.first_round_after_ms = 1}, [&] {
    counter.Begin();
    return PassVerdict::After(1);
  });
  EXPECT_TRUE(counter.WaitFor(3, kLong));
}

// A worker whose next round is far away must hear a request all the same.
TEST(PassWorkerTest, ARequestDoesNotWaitForTheNextRoundToBeDue) {
  RoundCounter counter;
  PassWorker worker("test", {}, [&] {
    counter.Begin();
    return PassVerdict::After(3'600'000);
  });
  worker.Request();
  ASSERT_TRUE(counter.WaitFor(1, kLong));
  worker.Request();
  EXPECT_TRUE(counter.WaitFor(2, kLong));
}

}  // namespace
}  // namespace holdfast::base

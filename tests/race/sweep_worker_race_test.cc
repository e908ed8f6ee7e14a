// The worker of the sweep against those who request it and the one who stops it.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/base/pass_worker.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);  // only a failing test waits so long

class SweepWorkerRaceTest : public testing::CoreTest {
 protected:
  static constexpr int kUnmounters = 8;

  SweepWorkerRaceTest() { AuditOnlyAtTheEnd(); }

  RegistrationId MountFilled(const std::string& name) {
    const RegistrationId id = Mount(client_, Spec(name));
    for (int i = 0; i < 5; ++i) PutOn(client_, absl::StrCat(id.value, "-", i), name);
    return id;
  }

  const Session client_ = Open("client");
};

// Nobody calls again after the last unmount: what that request does not cover would stay for ever.
TEST_F(SweepWorkerRaceTest, R9_NothingIsLeftAfterTheLastOfManyRequests) {
  for (int repetition = 0; repetition < 15; ++repetition) {
    std::vector<RegistrationId> ids;
    for (int i = 0; i < kUnmounters; ++i) ids.push_back(MountFilled(absl::StrCat("s-", i)));
    std::atomic<int> unmounted{0};
    absl::Notification clean;
    base::PassWorker worker("sweep", {}, [&] {
      const bool all = unmounted.load() == kUnmounters;
      if (sweep_pass().Run()) return base::PassVerdict::More();
      if (all && !clean.HasBeenNotified()) clean.Notify();
      return base::PassVerdict::Idle();
    });
    testing::Parallel threads;
    for (const RegistrationId id : ids) {
      threads.Add([&, id] {
        ASSERT_EQ(Unmount(client_, id), Reason::kNone);
        unmounted.fetch_add(1);
        worker.Request();
      });
    }
    threads.Run();
    ASSERT_TRUE(clean.WaitForNotificationWithTimeout(kLong));
    worker.Stop();
    ASSERT_FALSE(master().SweepPending());
    ASSERT_EQ(Count().objects, 0u);
    ASSERT_TRUE(master().ListSegments({}, /*include_ended=*/true, 100, Now()).empty());
  }
}

// The pass is not thread-safe and used by hand right after Stop: a round that still ran would be a race that TSan sees.
TEST_F(SweepWorkerRaceTest, R10_NoSweepRunsAfterStopWhoeverRequests) {
  for (int cycle = 0; cycle < 200; ++cycle) {
    const RegistrationId id = MountFilled("s");
    auto rounds = std::make_unique<int>(0);  // deliberately plain: Stop is what orders it
    base::PassWorker worker("sweep", {}, [&] {
      ++*rounds;
      return sweep_pass().Run() ? base::PassVerdict::More() : base::PassVerdict::Idle();
    });
    std::thread unmounter([&] {
      worker.Request();
      EXPECT_EQ(Unmount(client_, id), Reason::kNone);
      for (int i = 0; i < 5; ++i) worker.Request();
    });
    if (cycle % 2 == 0) unmounter.join();
    worker.Stop();
    rounds.reset();
    sweep_pass().Run();
    if (cycle % 2 != 0) unmounter.join();
    worker.Request();
    Sweep();
    ASSERT_EQ(Count().objects, 0u);
  }
}

}  // namespace
}  // namespace holdfast::core

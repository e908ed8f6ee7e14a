#include "server/base/clock.h"

#include <gtest/gtest.h>

#include "tests/testing/manual_clock.h"

namespace holdfast::base {
namespace {

// Leases and time-outs compare differences: one step back would end or revive them.
TEST(ClockTest, SteadyClockStartsNearZeroAndNeverGoesBack) {
  const SteadyClock clock;
  int64_t last_ms = clock.NowMs();
  EXPECT_GE(last_ms, 0);
  EXPECT_LT(last_ms, 60'000);
  for (int i = 0; i < 100'000; ++i) {
    const int64_t now_ms = clock.NowMs();
    ASSERT_GE(now_ms, last_ms);
    last_ms = now_ms;
  }
}

// Every test of a lease or a time-out stands on this.
TEST(ClockTest, ManualClockMovesOnlyWhenTold) {
  testing::ManualClock clock;
  const int64_t start_ms = clock.NowMs();
  EXPECT_EQ(clock.NowMs(), start_ms);
  clock.AdvanceMs(250);
  clock.AdvanceMs(0);
  EXPECT_EQ(clock.NowMs(), start_ms + 250);
}

}  // namespace
}  // namespace holdfast::base

// A clock that stands still until a test moves it.

#ifndef HOLDFAST_TESTS_TESTING_MANUAL_CLOCK_H_
#define HOLDFAST_TESTS_TESTING_MANUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "server/base/clock.h"

namespace holdfast::testing {

// Thread-safe.
class ManualClock : public base::Clock {
 public:
  // Not at zero, so that a time that was never set is not taken for now.
  static constexpr int64_t kStartMs = 1'000'000;

  int64_t NowMs() const override { return now_ms_.load(std::memory_order_relaxed); }
  void AdvanceMs(int64_t ms) { now_ms_.fetch_add(ms, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_ms_{kStartMs};
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_MANUAL_CLOCK_H_

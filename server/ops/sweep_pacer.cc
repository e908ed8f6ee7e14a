#include "server/ops/sweep_pacer.h"

#include <algorithm>

namespace holdfast::ops {
namespace {

// Traffic is what has called in the last few milliseconds: a round is shorter than the time between two calls.
constexpr int64_t kBusyMs = 5;
// Pause for each nanosecond of work: five sixths of the time for others.
constexpr int64_t kPauseFactor = 5;
// Long enough to be worth a switch of threads, short enough for the sweep to be done in time.
constexpr int64_t kPauseMinNs = 100'000;
constexpr int64_t kPauseMaxNs = 1'000'000;
// When the oldest end waits for so long, half of the pause is left; after twice the time none.
constexpr int64_t kLateMs = 4'000;

}  // namespace

int64_t SweepPacer::PauseNs(int64_t round_ns, int64_t now_ms) {
  const uint64_t calls = observer_.data_calls.load(std::memory_order_relaxed);
  // Calls since a round of long ago were made while nothing was swept, and say nothing about now.
  if (calls != calls_ && now_ms <= last_ms_ + kBusyMs) busy_until_ms_ = now_ms + kBusyMs;
  calls_ = calls;
  last_ms_ = now_ms;
  if (now_ms > busy_until_ms_) return 0;
  const int64_t late = (now_ms - std::min(master_.registry().OldestEndMs(), now_ms)) / kLateMs;
  if (late >= 2) return 0;
  return std::clamp(round_ns * kPauseFactor, kPauseMinNs, kPauseMaxNs) / (late + 1);
}

}  // namespace holdfast::ops

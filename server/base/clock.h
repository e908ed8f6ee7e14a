// Time as an argument: the core is told what time it is, so that a test can choose it.

#ifndef HOLDFAST_SERVER_BASE_CLOCK_H_
#define HOLDFAST_SERVER_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace holdfast::base {

// Thread-safe. Never goes back; has nothing to do with the time of day.
class Clock {
 public:
  virtual ~Clock() = default;
  // Milliseconds since some moment before the first call.
  virtual int64_t NowMs() const = 0;
};

// The machine's monotonic clock, from the construction on.
class SteadyClock : public Clock {
 public:
  SteadyClock();
  int64_t NowMs() const override;

 private:
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace holdfast::base

#endif  // HOLDFAST_SERVER_BASE_CLOCK_H_

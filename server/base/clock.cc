#include "server/base/clock.h"

namespace holdfast::base {

SteadyClock::SteadyClock() : start_(std::chrono::steady_clock::now()) {}

int64_t SteadyClock::NowMs() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start_)
      .count();
}

}  // namespace holdfast::base

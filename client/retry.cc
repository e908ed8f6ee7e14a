#include "client/retry.h"

#include "absl/random/random.h"

namespace holdfast::client {

void RetryBudget::Earn() {
  if (tenths_.load(std::memory_order_relaxed) < kRetriesMax * kCallsPerRetry) {
    tenths_.fetch_add(1, std::memory_order_relaxed);
  }
}

bool RetryBudget::Spend() {
  int64_t tenths = tenths_.load(std::memory_order_relaxed);
  while (tenths >= kCallsPerRetry) {
    if (tenths_.compare_exchange_weak(tenths, tenths - kCallsPerRetry, std::memory_order_relaxed))
      return true;
  }
  return false;
}

absl::Duration RetryDelay() {
  absl::InsecureBitGen random;
  return absl::Milliseconds(absl::Uniform(random, 20, 120));
}

}  // namespace holdfast::client

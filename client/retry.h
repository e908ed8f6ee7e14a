// Retries of calls that are safe to repeat: at most one, after UNAVAILABLE, with jitter, and not more than a tenth of
// all calls, so that retries cannot multiply the load of a master that is in trouble.

#ifndef HOLDFAST_CLIENT_RETRY_H_
#define HOLDFAST_CLIENT_RETRY_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace holdfast::client {

// Tokens of a tenth of a retry. Thread-safe. With many threads the cap may be passed by as many tenths as there are threads.
class RetryBudget {
 public:
  // Retries that a quiet client has in hand.
  static constexpr int64_t kRetriesMax = 10;
  static constexpr int64_t kCallsPerRetry = 10;

  // To be told of every first attempt.
  void Earn();
  // True if a retry may be made; takes it from the budget.
  bool Spend();

 private:
  // Orders nothing: it is only a count.
  std::atomic<int64_t> tenths_{kRetriesMax * kCallsPerRetry};
};

// How long to wait before the retry: random, so that the clients of a master that failed do not come back together.
absl::Duration RetryDelay();

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_RETRY_H_

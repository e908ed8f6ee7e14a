// Deadlines of calls, on the steady clock: a step of the wall clock neither cuts a call short nor stretches it.

#ifndef HOLDFAST_CLIENT_DEADLINE_H_
#define HOLDFAST_CLIENT_DEADLINE_H_

#include <grpc/support/time.h>

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace holdfast::client {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline After(std::chrono::milliseconds duration) {
  return std::chrono::steady_clock::now() + duration;
}

// Never negative.
inline absl::Duration Remaining(Deadline deadline) {
  return std::max(absl::ZeroDuration(),
                  absl::FromChrono(deadline - std::chrono::steady_clock::now()));
}

inline gpr_timespec ToGrpc(Deadline deadline) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_micros(absl::ToInt64Microseconds(Remaining(deadline)), GPR_TIMESPAN));
}

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_DEADLINE_H_

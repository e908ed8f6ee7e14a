// How long the sweep holds a shard's lock: what other threads may have to wait for.

#ifndef HOLDFAST_SERVER_CLEANUP_SWEEP_STATISTICS_H_
#define HOLDFAST_SERVER_CLEANUP_SWEEP_STATISTICS_H_

#include <cstdint>

#include "server/base/duration_histogram.h"

namespace holdfast::cleanup {

// Thread-safe.
class SweepStatistics {
 public:
  // One lock hold, measured inside the lock.
  void Record(int64_t wall_ns, int64_t cpu_ns) {
    wall_.Record(wall_ns);
    cpu_.Record(cpu_ns);
  }

  const base::DurationHistogram& wall() const { return wall_; }
  const base::DurationHistogram& cpu() const { return cpu_; }

 private:
  base::DurationHistogram wall_;
  base::DurationHistogram cpu_;
};

}  // namespace holdfast::cleanup

#endif  // HOLDFAST_SERVER_CLEANUP_SWEEP_STATISTICS_H_

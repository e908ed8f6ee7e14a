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
  void RecordWall(int64_t ns) { wall_.Record(ns); }
  // Processor time of one, of a sample of them.
  void RecordCpu(int64_t ns) { cpu_.Record(ns); }

  const base::DurationHistogram& wall() const { return wall_; }
  const base::DurationHistogram& cpu() const { return cpu_; }

 private:
  base::DurationHistogram wall_;
  base::DurationHistogram cpu_;
};

}  // namespace holdfast::cleanup

#endif  // HOLDFAST_SERVER_CLEANUP_SWEEP_STATISTICS_H_

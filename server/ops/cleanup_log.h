// What the log is told of background work: clients that were lost, what the sweep has done, and that the master was
// stopped itself.

#ifndef HOLDFAST_SERVER_OPS_CLEANUP_LOG_H_
#define HOLDFAST_SERVER_OPS_CLEANUP_LOG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "server/core/master.h"

namespace holdfast::ops {

// For one thread, after each round of the monitor. At most one line in ten seconds; a line covers all since the one
// before, so nothing is left out.
class CleanupLog {
 public:
  struct Line {
    bool warning = false;  // something was lost, or nearly
    std::string text;
  };

  // The master outlives it.
  explicit CleanupLog(core::Master* master) : master_(*master) {}

  // `walks`: how often the sweep has found nothing more to do, since the start.
  std::optional<Line> Round(uint64_t walks, int64_t now_ms);

 private:
  bool Changed(uint64_t walks, int64_t now_ms);

  core::Master& master_;
  core::CleanupCounts told_;
  int64_t told_ms_ = -1;  // none yet
  int64_t round_ms_ = 0;
  uint64_t walks_ = 0;
  uint64_t expired_ = 0;
  uint64_t deferred_ = 0;
  bool pending_ = false;
};

}  // namespace holdfast::ops

#endif  // HOLDFAST_SERVER_OPS_CLEANUP_LOG_H_

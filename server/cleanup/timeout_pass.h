// What ends by itself when its time is over: silent clients, grace periods, quarantines and abandoned puts.

#ifndef HOLDFAST_SERVER_CLEANUP_TIMEOUT_PASS_H_
#define HOLDFAST_SERVER_CLEANUP_TIMEOUT_PASS_H_

#include <cstdint>

#include "server/base/clock.h"
#include "server/core/master.h"

namespace holdfast::cleanup {

// One thread at a time. To be run several times a second.
class TimeoutPass {
 public:
  TimeoutPass(core::Master* master, const base::Clock* clock);

  // One bounded round. True if the sweep has something to do.
  bool Run();

 private:
  core::Master* const master_;
  const base::Clock* const clock_;
  uint32_t next_shard_ = 0;
};

}  // namespace holdfast::cleanup

#endif  // HOLDFAST_SERVER_CLEANUP_TIMEOUT_PASS_H_

// How much of the processor the sweep takes: all of it when nobody else wants it, a share of it under traffic, and more
// when what has to be cleaned up waits for too long.

#ifndef HOLDFAST_SERVER_OPS_SWEEP_PACER_H_
#define HOLDFAST_SERVER_OPS_SWEEP_PACER_H_

#include <cstdint>

#include "server/base/rpc_observer.h"
#include "server/core/master.h"

namespace holdfast::ops {

// For the sweep's thread, after each round.
class SweepPacer {
 public:
  SweepPacer(const core::Master* master, const base::RpcObserver* observer)
      : master_(*master), observer_(*observer) {}

  // Nanoseconds to pause after a round that took `round_ns`.
  int64_t PauseNs(int64_t round_ns, int64_t now_ms);

 private:
  const core::Master& master_;
  const base::RpcObserver& observer_;
  uint64_t calls_ = 0;  // calls at the last round
  int64_t last_ms_ = 0;
  int64_t busy_until_ms_ = 0;
};

}  // namespace holdfast::ops

#endif  // HOLDFAST_SERVER_OPS_SWEEP_PACER_H_

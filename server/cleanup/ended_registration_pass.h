// Cleans up after registrations and sessions that have ended: unlinks their replicas and discards their puts, shard by
// shard, in short lock holds, at a cost proportional to what lay on them.

#ifndef HOLDFAST_SERVER_CLEANUP_ENDED_REGISTRATION_PASS_H_
#define HOLDFAST_SERVER_CLEANUP_ENDED_REGISTRATION_PASS_H_

#include <cstdint>
#include <vector>

#include "server/base/clock.h"
#include "server/cleanup/sweep_statistics.h"
#include "server/core/ids.h"
#include "server/core/master.h"

namespace holdfast::cleanup {

// One thread at a time. A walk goes once through all shards for everything that had ended when it began; what ends
// during a walk is covered by the next one, so nothing that had ended before a call of Run is missed when Run says that
// there is no more.
class EndedRegistrationPass {
 public:
  struct Options {
    // Replicas unlinked under one lock hold: 30 us of work with warm caches, up to 100 with cold ones.
    uint32_t steps_per_hold = 40;
    // Replicas of one round, after which the worker looks whether others need the processor.
    uint32_t steps_per_round = 256;
    // Shards looked at in one round. Most have little, or nothing, to do for a small segment.
    uint32_t shards_per_round = 64;
  };

  EndedRegistrationPass(core::Master* master, const base::Clock* clock, SweepStatistics* statistics,
                        Options options);

  // One bounded round. True if there is more to do at once.
  bool Run();

 private:
  bool BeginWalk();
  void EndWalk();
  // One lock hold; true if the shard has more.
  bool SweepOnce(uint32_t shard, uint32_t* steps);
  // Before a shard is swept: what the next ones will need.
  void Prefetch(uint32_t shard) const;

  core::Master* const master_;
  const base::Clock* const clock_;
  SweepStatistics* const statistics_;
  const Options options_;

  bool walking_ = false;
  uint32_t next_shard_ = 0;
  uint64_t holds_ = 0;
  std::vector<uint32_t> slots_;
  std::vector<core::ClientEpoch> sessions_;
  core::Freed freed_;  // of one lock hold; kept for its memory
};

}  // namespace holdfast::cleanup

#endif  // HOLDFAST_SERVER_CLEANUP_ENDED_REGISTRATION_PASS_H_

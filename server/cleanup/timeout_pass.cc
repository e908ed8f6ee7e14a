#include "server/cleanup/timeout_pass.h"

namespace holdfast::cleanup {
namespace {

// Shards whose abandoned puts are looked for in one round.
constexpr uint32_t kShardsPerRound = 256;

}  // namespace

TimeoutPass::TimeoutPass(core::Master* master, const base::Clock* clock)
    : master_(master), clock_(clock) {}

bool TimeoutPass::Run() {
  const int64_t now_ms = clock_->NowMs();
  master_->DiscardDuePuts(next_shard_, kShardsPerRound, now_ms);
  next_shard_ += kShardsPerRound;
  if (next_shard_ >= master_->table().shard_count()) next_shard_ = 0;
  return master_->ExpireStep(now_ms);
}

}  // namespace holdfast::cleanup

#include "server/cleanup/ended_registration_pass.h"

#include <algorithm>
#include <ctime>

#include "absl/synchronization/mutex.h"

namespace holdfast::cleanup {
namespace {

constexpr uint64_t kHoldsPerCpuSample = 16;

int64_t ReadNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

EndedRegistrationPass::EndedRegistrationPass(core::Master* master, const base::Clock* clock,
                                             SweepStatistics* statistics, Options options)
    : master_(master), clock_(clock), statistics_(statistics), options_(options) {}

bool EndedRegistrationPass::BeginWalk() {
  slots_ = master_->registry().EndedSlots();
  sessions_ = master_->sessions().EndedEpochs();
  walking_ = !slots_.empty() || !sessions_.empty();
  next_shard_ = 0;
  return walking_;
}

void EndedRegistrationPass::EndWalk() {
  walking_ = false;
  for (uint32_t slot : slots_) master_->registry().FinishSweep(slot);
  for (const core::ClientEpoch& session : sessions_) master_->EndHandovers(session);
  master_->sessions().FinishDiscard(sessions_);
  // Allocators of millions of ranges die here, on the thread that has time for it.
  master_->registry().TakeDeadPools();
}

bool EndedRegistrationPass::SweepOnce(uint32_t shard_index, uint32_t* steps) {
  core::ObjectShard& shard = master_->table().shard(shard_index);
  freed_.clear();
  core::ObjectShard::SweepCounts counts;
  const int64_t now_ms = clock_->NowMs();
  bool more = false;
  // Reading the time of a thread is a call of the kernel, and may cost as much as a hold that finds little: a sample does.
  const bool with_cpu = holds_++ % kHoldsPerCpuSample == 0;
  int64_t wall_ns = 0;
  int64_t cpu_ns = 0;
  {
    absl::MutexLock lock(&shard.mu);
    wall_ns = ReadNs(CLOCK_MONOTONIC);
    if (with_cpu) cpu_ns = ReadNs(CLOCK_THREAD_CPUTIME_ID);
    more = shard.Sweep(slots_, sessions_, options_.steps_per_hold, now_ms, &freed_, &counts);
    if (with_cpu) cpu_ns = ReadNs(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    wall_ns = ReadNs(CLOCK_MONOTONIC) - wall_ns;
  }
  if (!freed_.ranges.empty() || counts.discarded_puts > 0) {
    statistics_->RecordWall(wall_ns);
    if (with_cpu) statistics_->RecordCpu(cpu_ns);
  }
  *steps += static_cast<uint32_t>(freed_.ranges.size()) + counts.discarded_puts;
  master_->NoteSwept(counts);
  master_->Release(freed_, now_ms);
  return more;
}

void EndedRegistrationPass::Prefetch(uint32_t shard_index) const {
  // Of a small registration a shard holds little, and most of a visit is waiting for memory.
  const core::ObjectTable& table = master_->table();
  if (shard_index + 3 < table.shard_count()) table.Prefetch(shard_index + 3);
  if (shard_index + 2 < table.shard_count()) {
    const core::ObjectShard& shard = table.shard(shard_index + 2);
    absl::ReaderMutexLock lock(&shard.mu);
    shard.PrefetchLists(slots_);
  }
  if (shard_index + 1 < table.shard_count()) {
    const core::ObjectShard& shard = table.shard(shard_index + 1);
    absl::ReaderMutexLock lock(&shard.mu);
    shard.PrefetchFirst(slots_);
  }
}

bool EndedRegistrationPass::Run() {
  if (!walking_ && !BeginWalk()) return false;
  const uint32_t last_shard =
      std::min(next_shard_ + options_.shards_per_round, master_->table().shard_count());
  uint32_t steps = 0;
  while (next_shard_ < last_shard && steps < options_.steps_per_round) {
    if (SweepOnce(next_shard_, &steps)) continue;
    Prefetch(++next_shard_);
  }
  if (next_shard_ == master_->table().shard_count()) EndWalk();
  return true;
}

}  // namespace holdfast::cleanup

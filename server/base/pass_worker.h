// The thread of a background job. The job itself is a pass: something with one bounded round, which tests run by hand.

#ifndef HOLDFAST_SERVER_BASE_PASS_WORKER_H_
#define HOLDFAST_SERVER_BASE_PASS_WORKER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace holdfast::base {

// When the next round is due if nobody asks for one before.
class PassVerdict {
 public:
  static constexpr PassVerdict More() { return PassVerdict(0); }
  static constexpr PassVerdict After(int64_t ms) { return PassVerdict(ms); }
  static constexpr PassVerdict Idle() { return PassVerdict(kNever); }

  // 0: at once; kNever: only on request.
  int64_t wait_ms() const { return wait_ms_; }
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

 private:
  constexpr explicit PassVerdict(int64_t wait_ms) : wait_ms_(wait_ms) {}

  int64_t wait_ms_;
};

// Runs rounds on a thread of its own from construction to Stop. Thread-safe.
//
// Requests coalesce: any number of them before a round begins asks for one round, and a request that comes during a round
// asks for another, so a round that begins after a request always covers it.
class PassWorker {
 public:
  struct Options {
    int64_t first_round_after_ms = PassVerdict::kNever;
    // Not in a hurry: waking up does not take the processor from a thread that has it, and short pauses are short. The
    // priority stays as it is, since a low one would be preempted for long while it holds a lock.
    bool background = false;
  };

  PassWorker(std::string name, Options options, std::function<PassVerdict()> run_round);
  ~PassWorker();

  PassWorker(const PassWorker&) = delete;
  PassWorker& operator=(const PassWorker&) = delete;

  // Asks for a round. Nothing happens after Stop.
  void Request();
  // For a round that gives way to others: sleeps about so long.
  static void Pause(int64_t ns);

  // Waits for the round that runs, if any; none runs afterwards. Idempotent. Not to be called from a round.
  void Stop();

 private:
  void Loop();
  // Waits until a round is due; false: stopped.
  bool WaitForWork(int64_t wait_ms);
  bool Wanted() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return requested_ || stopped_; }

  const std::string name_;
  const Options options_;
  const std::function<PassVerdict()> run_round_;

  absl::Mutex mu_;
  bool requested_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;

  absl::Mutex join_mu_;  // one thread joins, others wait for it
  std::thread thread_ ABSL_GUARDED_BY(join_mu_);
};

}  // namespace holdfast::base

#endif  // HOLDFAST_SERVER_BASE_PASS_WORKER_H_

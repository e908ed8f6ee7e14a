#include "server/base/pass_worker.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <ctime>
#include <utility>

#include "absl/time/time.h"

namespace holdfast::base {

namespace {

// Best effort: without it the worker is a thread like any other.
void BecomeBackground() {
  const sched_param parameters{};
  sched_setscheduler(0, SCHED_BATCH, &parameters);
  prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; by default a sleep may be 50 us too long
}

}  // namespace

PassWorker::PassWorker(std::string name, Options options, std::function<PassVerdict()> run_round)
    : name_(std::move(name)), options_(options), run_round_(std::move(run_round)) {
  absl::MutexLock lock(&join_mu_);
  thread_ = std::thread([this] { Loop(); });
}

PassWorker::~PassWorker() { Stop(); }

void PassWorker::Request() {
  absl::MutexLock lock(&mu_);
  requested_ = true;
}

void PassWorker::Pause(int64_t ns) {
  const timespec pause{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&pause, nullptr);
}

void PassWorker::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  absl::MutexLock lock(&join_mu_);
  if (thread_.joinable()) thread_.join();
}

bool PassWorker::WaitForWork(int64_t wait_ms) {
  absl::MutexLock lock(&mu_);
  if (wait_ms > 0 && !Wanted()) {
    const absl::Condition wanted(this, &PassWorker::Wanted);
    if (wait_ms == PassVerdict::kNever) {
      mu_.Await(wanted);
    } else {
      mu_.AwaitWithTimeout(wanted, absl::Milliseconds(wait_ms));
    }
  }
  requested_ = false;
  return !stopped_;
}

void PassWorker::Loop() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  if (options_.background) BecomeBackground();
  int64_t wait_ms = options_.first_round_after_ms;
  while (WaitForWork(wait_ms)) wait_ms = run_round_().wait_ms();
}

}  // namespace holdfast::base

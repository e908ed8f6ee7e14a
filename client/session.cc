#include "client/session.h"

#include <algorithm>

namespace holdfast::client {

Session::Session(const std::array<uint8_t, 16>& client_id)
    : client_id_(reinterpret_cast<const char*>(client_id.data()), client_id.size()) {}

void Session::Kick() {
  absl::MutexLock lock(&mutex_);
  kicked_ = true;
}

uint64_t Session::AwaitRound(uint64_t stale_epoch, Deadline deadline) {
  absl::MutexLock lock(&mutex_);
  if (epoch() != stale_epoch) return epoch();
  kicked_ = true;
  // A round that has begun may have asked the master before it lost the session: only the one after it is sure to see it.
  const uint64_t target = rounds_begun_ + 1;
  const auto done = [this, stale_epoch, target]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || epoch() != stale_epoch || rounds_ended_ >= target;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&done), Remaining(deadline));
  return epoch();
}

bool Session::AwaitTurn(Deadline earliest, Deadline next) {
  const auto stopped = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_; };
  const auto wanted = [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_ || kicked_; };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&stopped), Remaining(std::min(earliest, next)));
  mutex_.AwaitWithTimeout(absl::Condition(&wanted), Remaining(next));
  return !stopped_;
}

void Session::BeginRound() {
  absl::MutexLock lock(&mutex_);
  kicked_ = false;
  ++rounds_begun_;
}

void Session::EndRound(uint64_t epoch) {
  absl::MutexLock lock(&mutex_);
  epoch_.store(epoch, std::memory_order_release);
  rounds_ended_ = rounds_begun_;
}

void Session::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

}  // namespace holdfast::client

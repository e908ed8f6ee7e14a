#include "server/ops/cleanup_log.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace holdfast::ops {
namespace {

constexpr int64_t kPeriodMs = 10'000;
// Rounds further apart than this may mean that the master was stopped.
constexpr int64_t kLongRoundMs = 500;

}  // namespace

// Looks at what is cheap to read; the counts themselves cost a walk over the registrations.
bool CleanupLog::Changed(uint64_t walks, int64_t now_ms) {
  const uint64_t expired = master_.sessions().expired();
  const uint64_t deferred = master_.sessions().deferred();
  const bool stopped = now_ms - std::exchange(round_ms_, now_ms) > kLongRoundMs;
  const bool swept = std::exchange(walks_, walks) != walks;
  const bool lost = std::exchange(expired_, expired) != expired;
  const bool nearly_lost = std::exchange(deferred_, deferred) != deferred;
  return stopped || swept || lost || nearly_lost;
}

std::optional<CleanupLog::Line> CleanupLog::Round(uint64_t walks, int64_t now_ms) {
  if (Changed(walks, now_ms)) pending_ = true;
  if (!pending_ || (told_ms_ >= 0 && now_ms - told_ms_ < kPeriodMs)) return std::nullopt;
  pending_ = false;
  const core::CleanupCounts now = master_.Count(now_ms).cleanup;
  const core::CleanupCounts& before = told_;
  const uint64_t expired = now.expired_clients - before.expired_clients;
  const uint64_t deferred = now.deferred_expiries - before.deferred_expiries;
  const uint64_t stalls = now.master_stalls - before.master_stalls;
  const uint64_t registrations = now.swept_registrations - before.swept_registrations;
  if (expired + deferred + stalls + registrations == 0) return std::nullopt;
  Line line{expired + deferred + stalls > 0,
            absl::StrCat("event=cleanup expired_clients=", expired, " deferred_expiries=", deferred,
                         " stalls=", stalls, " swept_registrations=", registrations,
                         " swept_replicas=", now.swept_replicas - before.swept_replicas,
                         " erased_objects=", now.erased_objects - before.erased_objects,
                         " registrations_waiting=", now.ended_registrations_waiting)};
  told_ = now;
  told_ms_ = now_ms;
  return line;
}

}  // namespace holdfast::ops

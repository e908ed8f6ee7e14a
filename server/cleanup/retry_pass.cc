#include "server/cleanup/retry_pass.h"

#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "server/core/segment_slot.h"

namespace holdfast::cleanup {
namespace {

constexpr size_t kCodesMax = 32;

bool IsConfirmed(const tier::DeleteResult& result) {
  return result.state == tier::DeleteState::kDeleted || result.state == tier::DeleteState::kAbsent;
}

}  // namespace

void RetryStatistics::RecordFailure(std::string code) {
  // It comes from outside, and becomes a label.
  for (char& c : code) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  absl::MutexLock lock(&mu_);
  const bool known = failures_.size() < kCodesMax || failures_.count(code) > 0;
  ++failures_[known ? code : "other"];
}

std::map<std::string, uint64_t> RetryStatistics::failures() const {
  absl::MutexLock lock(&mu_);
  return failures_;
}

RetryPass::RetryPass(core::UnpublishedLedger* ledger, tier::ObjectStore* store,
                     const base::Clock* clock, RetryStatistics* statistics, Options options)
    : ledger_(ledger), store_(store), clock_(clock), statistics_(statistics), options_(options) {}

bool RetryPass::Send(const core::UnpublishedLedger::Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<tier::DeleteResult> results =
      store_->Delete(batch.names, absl::Now() + options_.request_timeout);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  statistics_->RecordRequest(took.count());
  results.resize(batch.names.size());  // what a store does not answer is not known
  std::vector<bool> confirmed(results.size());
  bool all = true;
  for (size_t i = 0; i < results.size(); ++i) {
    confirmed[i] = IsConfirmed(results[i]);
    if (confirmed[i]) continue;
    all = false;
    statistics_->RecordFailure(results[i].code.empty() ? "unknown" : results[i].code);
  }
  ledger_->Finish(batch, confirmed, clock_->NowMs());
  return all;
}

base::PassVerdict RetryPass::Run() {
  const int64_t now_ms = clock_->NowMs();
  // A request for a round does not shorten the pause: the store is given its rest.
  if (now_ms < paused_until_ms_) return base::PassVerdict::After(paused_until_ms_ - now_ms);
  const core::UnpublishedLedger::Batch batch =
      ledger_->Take(options_.names_per_request, /*one_task=*/failed_, now_ms);
  if (batch.names.empty()) {
    const int64_t due_ms = ledger_->NextDueMs();
    if (due_ms == core::kForever) return base::PassVerdict::Idle();
    return base::PassVerdict::After(std::max<int64_t>(0, due_ms - now_ms));
  }
  failed_ = !Send(batch);
  if (!failed_) return base::PassVerdict::More();
  paused_until_ms_ = clock_->NowMs() + options_.failure_pause_ms;
  return base::PassVerdict::After(options_.failure_pause_ms);
}

}  // namespace holdfast::cleanup

// Deletes what the ledger owes: names in the durable tier that nobody will publish, and those of removed objects.

#ifndef HOLDFAST_SERVER_CLEANUP_RETRY_PASS_H_
#define HOLDFAST_SERVER_CLEANUP_RETRY_PASS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/duration_histogram.h"
#include "server/base/pass_worker.h"
#include "server/core/unpublished_ledger.h"
#include "server/tier/object_store.h"

namespace holdfast::cleanup {

// How the requests to the store ended. Thread-safe.
class RetryStatistics {
 public:
  void RecordRequest(int64_t ns) { requests_.Record(ns); }
  // A name that was not confirmed, by the store's code. Codes beyond a few dozen are counted as "other".
  void RecordFailure(std::string code);

  const base::DurationHistogram& requests() const { return requests_; }
  std::map<std::string, uint64_t> failures() const;

 private:
  base::DurationHistogram requests_;
  mutable absl::Mutex mu_;
  std::map<std::string, uint64_t> failures_ ABSL_GUARDED_BY(mu_);
};

// One thread at a time; blocks on the store, for as long as one request may take.
//
// After a success the next request follows at once and carries names of many tasks. After a failure the failed names are
// at the tail of the queue, the pass waits, and then sends one task a request, so that a bad name holds up only its own.
class RetryPass {
 public:
  struct Options {
    size_t names_per_request = tier::ObjectStore::kNamesPerDelete;
    absl::Duration request_timeout = absl::Seconds(10);
    int64_t failure_pause_ms = 1000;
  };

  // All outlive the pass.
  RetryPass(core::UnpublishedLedger* ledger, tier::ObjectStore* store, const base::Clock* clock,
            RetryStatistics* statistics, Options options);

  // At most one request.
  base::PassVerdict Run();

 private:
  // Whether all names were confirmed.
  bool Send(const core::UnpublishedLedger::Batch& batch);

  core::UnpublishedLedger* const ledger_;
  tier::ObjectStore* const store_;
  const base::Clock* const clock_;
  RetryStatistics* const statistics_;
  const Options options_;

  bool failed_ = false;  // the last request
  int64_t paused_until_ms_ = 0;
};

}  // namespace holdfast::cleanup

#endif  // HOLDFAST_SERVER_CLEANUP_RETRY_PASS_H_

// The daemon: all parts wired together, and the order in which they start and stop.

#ifndef HOLDFAST_SERVER_APP_H_
#define HOLDFAST_SERVER_APP_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/pass_worker.h"
#include "server/cleanup/ended_registration_pass.h"
#include "server/cleanup/retry_pass.h"
#include "server/cleanup/sweep_statistics.h"
#include "server/cleanup/timeout_pass.h"
#include "server/core/master.h"
#include "server/ops/cleanup_log.h"
#include "server/ops/exporter.h"
#include "server/ops/rpc_metrics.h"
#include "server/ops/sweep_pacer.h"
#include "server/options.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/ownership_service.h"
#include "server/rpc/store_service.h"
#include "server/tier/object_store.h"

namespace holdfast {

// Serves from Start to Stop. Stop is for one thread, once or more often.
class App {
 public:
  // UNAVAILABLE when an address cannot be bound, INTERNAL when the port file cannot be written.
  // INVALID_ARGUMENT for a durable store that cannot be used. `clock` none: the machine's; `store` none: that of the options.
  static absl::StatusOr<std::unique_ptr<App>> Start(const Options& options,
                                                    const base::Clock* clock = nullptr,
                                                    tier::ObjectStore* store = nullptr);
  ~App();

  App(const App&) = delete;
  App& operator=(const App&) = delete;

  void Stop();

  int port() const { return server_->port(); }
  // 0 without metrics.
  int metrics_port() const { return exporter_ == nullptr ? 0 : exporter_->port(); }
  core::Master& master() { return master_; }
  // The passes of the workers, to be run by hand when these were not started.
  cleanup::EndedRegistrationPass& sweep_pass() { return sweep_pass_; }
  cleanup::TimeoutPass& timeout_pass() { return timeout_pass_; }
  cleanup::RetryPass& retry_pass() { return retry_pass_; }

 private:
  App(const Options& options, const base::Clock* clock,
      std::unique_ptr<tier::ObjectStore> own_store, tier::ObjectStore* store);

  absl::Status Serve();
  void StartWorkers();
  absl::Status WritePortFile() const;
  rpc::ServiceContext MakeContext();
  base::PassVerdict SweepRound();
  base::PassVerdict MonitorRound();
  void RequestSweep();
  void RequestRetry();
  void RequestRetryIfOwed();
  // Gives the retry worker time to delete what can be deleted, stops it, and says what is left.
  void StopRetrying();

  const Options options_;
  const base::SteadyClock steady_clock_;
  const base::Clock* const clock_;
  // Not made from the seed: who can work that out can choose keys that collide.
  const uint64_t master_id_;

  core::Master master_;
  cleanup::SweepStatistics sweep_statistics_;
  ops::RpcMetrics rpc_metrics_;
  cleanup::EndedRegistrationPass sweep_pass_;
  cleanup::TimeoutPass timeout_pass_;
  const std::unique_ptr<tier::ObjectStore> own_store_;
  tier::ObjectStore* const store_;  // nullptr: no durable tier
  cleanup::RetryStatistics retry_statistics_;
  cleanup::RetryPass retry_pass_;
  std::atomic<uint64_t> sweep_walks_{0};  // ended ones
  ops::CleanupLog cleanup_log_;           // the monitor's
  rpc::StoreService store_service_;
  rpc::AdminService admin_service_;
  rpc::OwnershipService ownership_service_;
  ops::SweepPacer sweep_pacer_;  // the sweep worker's
  std::unique_ptr<ops::Exporter> exporter_;
  std::unique_ptr<rpc::GrpcServer> server_;
  bool stopped_ = false;
  // Threads last.
  std::unique_ptr<base::PassWorker> sweep_worker_;
  std::unique_ptr<base::PassWorker> retry_worker_;
  std::unique_ptr<base::PassWorker> monitor_worker_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_APP_H_

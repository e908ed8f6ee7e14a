// The page of metrics for Prometheus.

#ifndef HOLDFAST_SERVER_OPS_EXPORTER_H_
#define HOLDFAST_SERVER_OPS_EXPORTER_H_

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/cleanup/retry_pass.h"
#include "server/cleanup/sweep_statistics.h"
#include "server/core/master.h"
#include "server/ops/rpc_metrics.h"

namespace holdfast::ops {

// What the figures are read from; all outlive the exporter.
struct MetricSources {
  const core::Master* master = nullptr;
  const base::Clock* clock = nullptr;
  const cleanup::SweepStatistics* sweep = nullptr;
  const cleanup::RetryStatistics* retry = nullptr;
  const RpcMetrics* rpc = nullptr;
};

// Reads everything at the scrape. Cost: number of series and registrations, never of keys; takes no shard's lock.
// Thread-safe.
class MetricsCollector : public prometheus::Collectable {
 public:
  explicit MetricsCollector(const MetricSources& sources) : sources_(sources) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const MetricSources sources_;
};

// Serves /metrics from Start to destruction.
class Exporter {
 public:
  // UNAVAILABLE with the address and the reason when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<Exporter>> Start(const std::string& listen,
                                                         const MetricSources& sources);
  ~Exporter();

  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  int port() const { return port_; }

 private:
  Exporter(std::string host, std::unique_ptr<prometheus::Exposer> exposer,
           std::shared_ptr<MetricsCollector> collector);

  const std::string host_;
  const std::shared_ptr<MetricsCollector> collector_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
};

}  // namespace holdfast::ops

#endif  // HOLDFAST_SERVER_OPS_EXPORTER_H_

#include "server/ops/exporter.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/listen_address.h"
#include "server/ops/heap.h"

namespace holdfast::ops {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Everything that the simple rows read, taken once a scrape.
struct Snapshot {
  core::MasterCounts counts;
  double uptime_seconds = 0;
  double resident_bytes = 0;
  double heap_bytes = 0;
  double open_files = 0;
  double rpc_in_flight = 0;
};

struct Row {
  const char* name;
  MetricType type;
  const char* help;
  double (*read)(const Snapshot&);
};

constexpr MetricType kGauge = MetricType::Gauge;
constexpr MetricType kCounter = MetricType::Counter;

template <auto Member>
double Count(const Snapshot& snapshot) {
  return static_cast<double>(snapshot.counts.*Member);
}

template <auto Member>
double Cleanup(const Snapshot& snapshot) {
  return static_cast<double>(snapshot.counts.cleanup.*Member);
}

template <auto Member>
double Ledger(const Snapshot& snapshot) {
  return static_cast<double>(snapshot.counts.ledger.*Member);
}

using core::CleanupCounts;
using core::LedgerCounts;
using core::MasterCounts;

constexpr Row kRows[] = {
    {"holdfast_uptime_seconds", kGauge, "Time since the start of the master.",
     [](const Snapshot& s) { return s.uptime_seconds; }},
    {"holdfast_clients", kGauge, "Clients with a live session.", Count<&MasterCounts::clients>},
    {"holdfast_segments", kGauge, "Live registrations.", Count<&MasterCounts::segments>},
    {"holdfast_capacity_bytes", kGauge, "Memory lent by live registrations, a pool once.",
     Count<&MasterCounts::capacity_bytes>},
    {"holdfast_allocated_bytes", kGauge, "Memory given out, ranges in quarantine included.",
     Count<&MasterCounts::allocated_bytes>},
    {"holdfast_objects", kGauge, "Objects in the table, those that wait for cleanup included.",
     Count<&MasterCounts::objects>},
    {"holdfast_replicas", kGauge, "Replicas in the table, those that wait for cleanup included.",
     Count<&MasterCounts::replicas>},
    {"holdfast_puts_in_progress", kGauge, "Puts that have started and not ended.",
     Count<&MasterCounts::puts_in_progress>},
    {"holdfast_record_memory_bytes", kGauge, "Memory for objects, what is kept ready included.",
     Count<&MasterCounts::record_memory_bytes>},
    {"holdfast_rpc_in_flight", kGauge, "Calls that are being handled.",
     [](const Snapshot& s) { return s.rpc_in_flight; }},
    {"holdfast_cleanup_registrations_waiting", kGauge,
     "Ended registrations that were not swept yet.",
     Cleanup<&CleanupCounts::ended_registrations_waiting>},
    {"holdfast_cleanup_replicas_waiting", kGauge, "Ranges that still lie on ended registrations.",
     Cleanup<&CleanupCounts::ended_replicas_waiting>},
    {"holdfast_cleanup_oldest_waiting_seconds", kGauge,
     "Age of the oldest end that was not swept yet.",
     [](const Snapshot& s) {
       return static_cast<double>(s.counts.cleanup.oldest_waiting_age_ms) / 1000;
     }},
    {"holdfast_cleanup_swept_replicas_total", kCounter, "Replicas unlinked by the sweep.",
     Cleanup<&CleanupCounts::swept_replicas>},
    {"holdfast_cleanup_swept_registrations_total", kCounter, "Registrations swept.",
     Cleanup<&CleanupCounts::swept_registrations>},
    {"holdfast_cleanup_erased_objects_total", kCounter,
     "Objects erased because their last replica was swept.",
     Cleanup<&CleanupCounts::erased_objects>},
    {"holdfast_quarantined_ranges", kGauge,
     "Ranges that wait because somebody may still touch them.",
     Cleanup<&CleanupCounts::quarantined_ranges>},
    {"holdfast_quarantined_bytes", kGauge, "Bytes of these ranges.",
     Cleanup<&CleanupCounts::quarantined_bytes>},
    {"holdfast_discarded_puts_total", kCounter, "Puts given up for their writer.",
     Cleanup<&CleanupCounts::discarded_puts>},
    {"holdfast_expired_clients_total", kCounter, "Clients that were silent for too long.",
     Cleanup<&CleanupCounts::expired_clients>},
    {"holdfast_deferred_expiries_total", kCounter,
     "Times that expiry was put off because most clients were silent at once.",
     Cleanup<&CleanupCounts::deferred_expiries>},
    {"holdfast_master_stalls_total", kCounter,
     "Times that the master found that it had been stopped itself.",
     Cleanup<&CleanupCounts::master_stalls>},
    {"holdfast_durable_replicas", kGauge,
     "Replicas in the durable tier, published or of puts in progress.",
     Count<&MasterCounts::durable_replicas>},
    {"holdfast_ledger_tickets", kGauge, "Tickets for unpublished names.",
     Ledger<&LedgerCounts::tickets_capacity>},
    {"holdfast_ledger_tickets_used", kGauge, "Tickets in use: unpublished names.",
     Ledger<&LedgerCounts::tickets_used>},
    {"holdfast_ledger_tickets_high_water", kGauge, "Most tickets in use since the start.",
     Ledger<&LedgerCounts::tickets_high_water>},
    {"holdfast_ledger_removal_debt", kGauge,
     "Names of removed objects that wait for a ticket to be deleted under.",
     Ledger<&LedgerCounts::removal_debt>},
    {"holdfast_cleanup_pending_tasks", kGauge, "Tasks of the worker that deletes durable names.",
     Ledger<&LedgerCounts::pending_tasks>},
    {"holdfast_cleanup_pending_names", kGauge, "Names of these tasks.",
     Ledger<&LedgerCounts::pending_names>},
    {"holdfast_cleanup_quarantined", kGauge,
     "Names that are deleted when no upload can land any more.",
     Ledger<&LedgerCounts::quarantined_names>},
    {"holdfast_cleanup_oldest_age_seconds", kGauge,
     "Age of the oldest durable name that is owed a deletion.",
     [](const Snapshot& s) {
       return static_cast<double>(s.counts.ledger.oldest_owed_age_ms) / 1000;
     }},
    {"holdfast_ledger_published_names_total", kCounter, "Names that were published.",
     Ledger<&LedgerCounts::published_names>},
    {"holdfast_ledger_unused_names_total", kCounter, "Names whose upload never started.",
     Ledger<&LedgerCounts::unused_names>},
    {"holdfast_cleanup_deleted_names_total", kCounter, "Names whose deletion was confirmed.",
     Ledger<&LedgerCounts::deleted_names>},
    {"holdfast_cleanup_retried_names_total", kCounter,
     "Names that an attempt did not delete, or not for certain.",
     Ledger<&LedgerCounts::retried_names>},
    {"process_resident_memory_bytes", kGauge, "Resident memory.",
     [](const Snapshot& s) { return s.resident_bytes; }},
    {"holdfast_heap_bytes", kGauge, "Memory that the allocator holds, in use or kept for later.",
     [](const Snapshot& s) { return s.heap_bytes; }},
    {"process_open_fds", kGauge, "Open file descriptors.",
     [](const Snapshot& s) { return s.open_files; }},
};

constexpr double kBucketsSeconds[] = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
                                      1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,  1.0};

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

MetricFamily SimpleFamily(const Row& row, const Snapshot& snapshot) {
  ClientMetric metric;
  (row.type == kCounter ? metric.counter.value : metric.gauge.value) = row.read(snapshot);
  return {row.name, row.help, row.type, {metric}};
}

ClientMetric ToHistogram(const base::DurationHistogram& histogram,
                         std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.histogram.sample_sum = histogram.sum_seconds();
  for (const double bound : kBucketsSeconds) {
    metric.histogram.bucket.push_back(
        {histogram.CountUpTo(static_cast<int64_t>(bound * 1e9)), bound});
  }
  metric.histogram.sample_count = histogram.count();
  metric.histogram.bucket.push_back(
      {metric.histogram.sample_count, std::numeric_limits<double>::infinity()});
  return metric;
}

MetricFamily RpcFamily(const RpcMetrics& metrics) {
  static constexpr const char* kCodeNames[RpcMetrics::kCodes] = {"OK",
                                                                 "CANCELLED",
                                                                 "UNKNOWN",
                                                                 "INVALID_ARGUMENT",
                                                                 "DEADLINE_EXCEEDED",
                                                                 "NOT_FOUND",
                                                                 "ALREADY_EXISTS",
                                                                 "PERMISSION_DENIED",
                                                                 "RESOURCE_EXHAUSTED",
                                                                 "FAILED_PRECONDITION",
                                                                 "ABORTED",
                                                                 "OUT_OF_RANGE",
                                                                 "UNIMPLEMENTED",
                                                                 "INTERNAL",
                                                                 "UNAVAILABLE",
                                                                 "DATA_LOSS",
                                                                 "UNAUTHENTICATED"};
  MetricFamily family{
      "holdfast_rpc_seconds", "Time that the master took for calls.", MetricType::Histogram, {}};
  for (size_t method = 0; method < base::kMethodNames.size(); ++method) {
    for (size_t code = 0; code < RpcMetrics::kCodes; ++code) {
      const base::DurationHistogram& histogram = metrics.table()[method][code];
      if (histogram.count() == 0) continue;
      family.metric.push_back(ToHistogram(
          histogram,
          {{"method", std::string(base::kMethodNames[method])}, {"code", kCodeNames[code]}}));
    }
  }
  return family;
}

ClientMetric LabelledCounter(const char* label, const std::string& value, uint64_t count) {
  ClientMetric metric;
  metric.label = {{label, value}};
  metric.counter.value = static_cast<double>(count);
  return metric;
}

MetricFamily AdmissionFamily(const LedgerCounts& ledger) {
  return {"holdfast_ledger_admission_failures_total",
          "Puts that were refused before their upload for want of a ticket.",
          MetricType::Counter,
          {LabelledCounter("reason", "LEDGER_FULL", ledger.full_refusals),
           LabelledCounter("reason", "CLIENT_QUOTA", ledger.quota_refusals)}};
}

MetricFamily DeleteFailureFamily(const cleanup::RetryStatistics& statistics) {
  MetricFamily family{"holdfast_cleanup_delete_failures_total",
                      "Names that an attempt did not delete, by the store's code.",
                      MetricType::Counter,
                      {}};
  for (const auto& [code, count] : statistics.failures()) {
    family.metric.push_back(LabelledCounter("code", code, count));
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> MetricsCollector::Collect() const {
  Snapshot snapshot;
  const int64_t now_ms = sources_.clock->NowMs();
  snapshot.counts = sources_.master->Count(now_ms);
  snapshot.uptime_seconds = static_cast<double>(now_ms) / 1000;
  snapshot.resident_bytes = ResidentBytes();
  snapshot.heap_bytes = static_cast<double>(HeapBytes());
  snapshot.open_files = OpenFiles();
  snapshot.rpc_in_flight = static_cast<double>(sources_.rpc->in_flight.load());

  std::vector<MetricFamily> families;
  for (const Row& row : kRows) families.push_back(SimpleFamily(row, snapshot));
  families.push_back(RpcFamily(*sources_.rpc));
  families.push_back(AdmissionFamily(snapshot.counts.ledger));
  families.push_back(DeleteFailureFamily(*sources_.retry));
  families.push_back({"holdfast_cleanup_delete_seconds",
                      "Time of the requests to the store that delete names.",
                      MetricType::Histogram,
                      {ToHistogram(sources_.retry->requests(), {})}});
  families.push_back({"holdfast_sweep_lock_hold_seconds",
                      "Time that the sweep held a shard's lock.",
                      MetricType::Histogram,
                      {ToHistogram(sources_.sweep->wall(), {})}});
  families.push_back({"holdfast_sweep_lock_hold_cpu_seconds",
                      "The same, in time on the processor.",
                      MetricType::Histogram,
                      {ToHistogram(sources_.sweep->cpu(), {})}});
  return families;
}

Exporter::Exporter(std::string host, std::unique_ptr<prometheus::Exposer> exposer,
                   std::shared_ptr<MetricsCollector> collector)
    : host_(std::move(host)),
      collector_(std::move(collector)),
      exposer_(std::move(exposer)),
      port_(exposer_->GetListeningPorts().front()) {
  exposer_->RegisterCollectable(collector_);
}

Exporter::~Exporter() {
  // The library looks whether it is to stop every two seconds, or when somebody connects: so somebody does.
  std::atomic<bool> stopped{false};
  std::thread stop([&] {
    exposer_.reset();
    stopped = true;
  });
  while (!stopped && base::Ring({host_, absl::StrCat(port_)})) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stop.join();
}

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Start(const std::string& listen,
                                                          const MetricSources& sources) {
  base::ListenAddress address;
  if (!base::ParseListenAddress(listen, &address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", listen, " for metrics: not HOST:PORT"));
  }
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(listen, 1);
    return std::unique_ptr<Exporter>(new Exporter(std::move(address.host), std::move(exposer),
                                                  std::make_shared<MetricsCollector>(sources)));
  } catch (const std::exception&) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen, " for metrics: ", base::WhyNotListening(listen)));
  }
}

}  // namespace holdfast::ops

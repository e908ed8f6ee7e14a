#include "server/app.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/tier/open_object_store.h"

namespace holdfast {
namespace {

// The monitor's rounds: often enough that time-outs are exact to a tenth of a second.
constexpr int64_t kMonitorIntervalMs = 100;

uint64_t RandomId() {
  std::random_device random;
  return uint64_t{random()} << 32 | random() | 1;
}

}  // namespace

App::App(const Options& options, const base::Clock* clock,
         std::unique_ptr<tier::ObjectStore> own_store, tier::ObjectStore* store)
    : options_(options),
      clock_(clock != nullptr ? clock : &steady_clock_),
      master_id_(RandomId()),
      master_(options.master),
      sweep_pass_(&master_, clock_, &sweep_statistics_, {}),
      timeout_pass_(&master_, clock_),
      own_store_(std::move(own_store)),
      store_(own_store_ != nullptr ? own_store_.get() : store),
      retry_pass_(&master_.ledger(), store_, clock_, &retry_statistics_,
                  {.request_timeout = absl::Milliseconds(options.delete_timeout_ms)}),
      cleanup_log_(&master_),
      store_service_(MakeContext()),
      admin_service_(MakeContext()),
      ownership_service_(MakeContext()),
      sweep_pacer_(&master_, &rpc_metrics_) {}

App::~App() { Stop(); }

rpc::ServiceContext App::MakeContext() {
  rpc::ServiceContext context;
  context.master = &master_;
  context.clock = clock_;
  context.observer = &rpc_metrics_;
  context.sweep_statistics = &sweep_statistics_;
  context.retry_statistics = &retry_statistics_;
  context.request_sweep = [this] { RequestSweep(); };
  context.request_retry = [this] { RequestRetry(); };
  context.durable_store = options_.durable_store;
  context.master_id = master_id_;
  return context;
}

absl::StatusOr<std::unique_ptr<App>> App::Start(const Options& options, const base::Clock* clock,
                                                tier::ObjectStore* store) {
  std::unique_ptr<tier::ObjectStore> own_store;
  if (store == nullptr && !options.durable_store.empty()) {
    auto opened = tier::OpenObjectStore(options.durable_store);
    if (!opened.ok()) return opened.status();
    own_store = *std::move(opened);
  }
  std::unique_ptr<App> app(new App(options, clock, std::move(own_store), store));
  // The workers come first: what a call asks of them must have somebody to ask.
  app->StartWorkers();
  if (absl::Status status = app->Serve(); !status.ok()) return status;
  return app;
}

void App::StartWorkers() {
  if (!options_.start_workers) return;
  // From now on a pause of the monitor is noticed, also one before its first round.
  timeout_pass_.Run();
  sweep_worker_ = std::make_unique<base::PassWorker>(
      "sweep", base::PassWorker::Options{.background = true}, [this] { return SweepRound(); });
  if (store_ != nullptr) {
    retry_worker_ = std::make_unique<base::PassWorker>("retry", base::PassWorker::Options{},
                                                       [this] { return retry_pass_.Run(); });
  }
  monitor_worker_ = std::make_unique<base::PassWorker>(
      "monitor", base::PassWorker::Options{.first_round_after_ms = kMonitorIntervalMs},
      [this] { return MonitorRound(); });
}

absl::Status App::Serve() {
  // A file of an earlier run would send whoever waits for it to a port that nobody serves.
  if (!options_.port_file.empty()) std::remove(options_.port_file.c_str());
  if (options_.metrics_listen != "off") {
    auto exporter = ops::Exporter::Start(
        options_.metrics_listen,
        {&master_, clock_, &sweep_statistics_, &retry_statistics_, &rpc_metrics_});
    if (!exporter.ok()) return exporter.status();
    exporter_ = *std::move(exporter);
  }
  auto server = rpc::GrpcServer::Start(options_.grpc,
                                       {&store_service_, &admin_service_, &ownership_service_});
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  spdlog::info("event=serving port={} metrics_port={}", server_->port(), metrics_port());
  return WritePortFile();
}

absl::Status App::WritePortFile() const {
  if (options_.port_file.empty()) return absl::OkStatus();
  // Whoever waits for the file never sees half of it.
  const std::string temporary = options_.port_file + ".tmp";
  std::ofstream file(temporary);
  file << server_->port() << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), options_.port_file.c_str()) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot write port file ", options_.port_file, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void App::RequestSweep() {
  if (sweep_worker_ != nullptr) sweep_worker_->Request();
}

void App::RequestRetry() {
  if (retry_worker_ != nullptr) retry_worker_->Request();
}

void App::RequestRetryIfOwed() {
  if (master_.ledger().TakeAttention()) RequestRetry();
}

base::PassVerdict App::SweepRound() {
  const auto start = std::chrono::steady_clock::now();
  const bool more = sweep_pass_.Run();
  RequestRetryIfOwed();
  if (!more) {
    sweep_walks_.fetch_add(1, std::memory_order_relaxed);
    return base::PassVerdict::Idle();
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  if (const int64_t pause_ns = sweep_pacer_.PauseNs(took.count(), clock_->NowMs()); pause_ns > 0) {
    base::PassWorker::Pause(pause_ns);
  }
  return base::PassVerdict::More();
}

base::PassVerdict App::MonitorRound() {
  if (timeout_pass_.Run()) RequestSweep();
  RequestRetryIfOwed();
  master_.ReplenishMemory();
  const auto line =
      cleanup_log_.Round(sweep_walks_.load(std::memory_order_relaxed), clock_->NowMs());
  if (line.has_value()) {
    spdlog::log(line->warning ? spdlog::level::warn : spdlog::level::info, "{}", line->text);
  }
  return base::PassVerdict::After(kMonitorIntervalMs);
}

void App::StopRetrying() {
  if (retry_worker_ == nullptr) return;
  // Without any progress for so long the store is not worth waiting for.
  constexpr absl::Duration kPatience = absl::Seconds(3);
  const absl::Time deadline = absl::Now() + absl::Milliseconds(options_.cleanup_budget_ms);
  absl::Time patient_until = absl::Now() + kPatience;
  core::LedgerCounts last = master_.ledger().Count(clock_->NowMs());
  for (core::LedgerCounts now = last;
       now.pending_names + now.removal_debt > 0 && absl::Now() < std::min(deadline, patient_until);
       now = master_.ledger().Count(clock_->NowMs())) {
    if (now.deleted_names != last.deleted_names) patient_until = absl::Now() + kPatience;
    last = now;
    absl::SleepFor(absl::Milliseconds(2));
  }
  store_->Cancel();
  retry_worker_->Stop();
  const core::LedgerCounts left = master_.ledger().Count(clock_->NowMs());
  if (left.tickets_used + left.removal_debt == 0) return;
  // An operator can find them: whatever lies below the prefix and is in no later master's metadata.
  spdlog::warn(
      "event=names_left prefix={} tickets={} ready={} quarantined={} removal_debt={} store={}",
      master_.ledger().name_prefix(), left.tickets_used, left.pending_names, left.quarantined_names,
      left.removal_debt, options_.durable_store);
}

void App::Stop() {
  if (stopped_) return;
  stopped_ = true;
  if (server_ != nullptr) {
    spdlog::info("event=stopping budget_ms={}", options_.shutdown_budget_ms);
    store_service_.Stop();
    server_->Shutdown(options_.shutdown_budget_ms);
  }
  admin_service_.Stop();
  if (monitor_worker_ != nullptr) monitor_worker_->Stop();
  if (sweep_worker_ != nullptr) sweep_worker_->Stop();
  StopRetrying();
  if (server_ != nullptr) {
    const core::MasterCounts counts = master_.Count(clock_->NowMs());
    spdlog::info("event=stopped objects={} replicas={} puts_in_progress={} not_swept={}",
                 counts.objects, counts.replicas, counts.puts_in_progress,
                 counts.cleanup.ended_replicas_waiting);
  }
}

}  // namespace holdfast

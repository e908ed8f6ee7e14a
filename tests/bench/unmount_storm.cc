#include <algorithm>
#include <stdexcept>
#include <thread>

#include "tests/bench/bench_master.h"
#include "tests/bench/traffic.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {
namespace {

constexpr uint64_t kSegmentBytes = 1ull << 42;
constexpr double kMaxMs = 1e9;

// call(i) for the first `count` lenders at once, each by its owner. Milliseconds of each, sorted.
template <typename Call>
std::vector<double> Together(uint32_t count, Call call) {
  std::vector<double> ms(count);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&ms, &call, i] { ms[i] = call(i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (double& one : ms) one = one < 0 ? kMaxMs : one;
  std::sort(ms.begin(), ms.end());
  return ms;
}

// What a call that has next to nothing to do takes.
double Probe(Client& client) {
  const Clock::time_point start = Clock::now();
  return client.Exists({KeyOf(0)}).ok() ? SecondsSince(start) * 1000 : -1;
}

}  // namespace

Report RunUnmountStorm(const CommonFlags& common, const UnmountStormFlags& flags) {
  if (flags.unmount >= flags.segments) {
    throw std::runtime_error("--unmount must be below --segments: somebody has to stay");
  }
  const BenchMaster master(common.master);
  Lenders lenders(master.address(), flags.segments, kSegmentBytes);
  FillOptions fill;
  fill.keys = flags.keys;
  std::vector<uint32_t> masks = Fill(master.address(), lenders, fill);

  TrafficOptions options;
  options.master = master.address();
  options.clients = flags.clients;
  options.batch = flags.batch;
  options.resident_keys = flags.keys;
  options.first_new_key = flags.keys;
  Traffic traffic(options, std::move(masks));
  const double saturated = SetLoad(&traffic, flags.load);
  Sleep(flags.before_seconds);
  TrafficCounts before = traffic.Take();

  // The lenders were silent but for heartbeats, and what a client does then waits for caches and sleeping processors. The
  // probe says how long, and wakes them up.
  const std::vector<double> probe_ms =
      Together(flags.unmount, [&lenders](uint32_t i) { return Probe(lenders.client(i)); });
  const uint64_t swept_before = master.Cleanup().swept_replicas();
  traffic.SetLeaving((1u << flags.unmount) - 1);
  const Clock::time_point start = Clock::now();
  const std::vector<double> unmount_ms =
      Together(flags.unmount, [&lenders](uint32_t i) { return lenders.Unmount(i); });
  master.WaitSwept();
  const double sweep_seconds = SecondsSince(start);
  TrafficCounts during = traffic.Take();
  const v1::CleanupStatus cleanup = master.Cleanup();
  const auto swept = static_cast<double>(cleanup.swept_replicas() - swept_before);
  const double p99_before = before.latencies.Percentile(0.99);
  const double p99_during = during.latencies.Percentile(0.99);

  Report report;
  report.Add("keys", flags.keys);
  report.Add("segments", uint64_t{flags.segments});
  report.Add("unmount", uint64_t{flags.unmount});
  report.Add("clients", uint64_t{flags.clients});
  report.Add("load", flags.load);
  report.Add("saturated_rpcs_per_s", saturated);
  report.Add("rpcs_per_s_during", static_cast<double>(during.rpcs) / sweep_seconds);
  report.Add("unmount_p50_ms", unmount_ms[unmount_ms.size() / 2]);
  report.Add("unmount_max_ms", unmount_ms.back());
  report.Add("probe_max_ms", probe_ms.back());
  report.Add("traffic_p50_before_ms", before.latencies.Percentile(0.5));
  report.Add("traffic_p50_during_ms", during.latencies.Percentile(0.5));
  report.Add("traffic_p99_before_ms", p99_before);
  report.Add("traffic_p99_during_ms", p99_during);
  report.Add("traffic_max_during_ms", during.latencies.Percentile(1));
  report.Add("p99_ratio", p99_during / p99_before);
  report.Add("timeouts", before.timeouts + during.timeouts);
  report.Add("errors", before.errors + during.errors);
  report.Add("errors_on_survivors", before.errors_on_survivors + during.errors_on_survivors);
  report.Add("sweep_seconds", sweep_seconds);
  report.Add("swept_replicas_per_s", swept / sweep_seconds);
  report.Add("lock_hold_p999_us", cleanup.lock_hold_p999_us());
  report.Add("lock_hold_cpu_p999_us", cleanup.lock_hold_cpu_p999_us());
  return report;
}

}  // namespace holdfast::bench

#include <stdexcept>
#include <thread>

#include "tests/bench/bench_master.h"
#include "tests/bench/traffic.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {
namespace {

Op ParseOp(const std::string& op) {
  if (op == "put") return Op::kPut;
  if (op == "get") return Op::kGet;
  return op == "exists" ? Op::kExists : Op::kMixed;
}

}  // namespace

TrafficOptions TrafficOf(const std::string& master, const ThroughputFlags& flags) {
  TrafficOptions options;
  options.master = master;
  options.op = ParseOp(flags.op);
  options.clients = flags.clients;
  options.in_flight = flags.in_flight;
  options.batch = flags.mode == "unary" ? 1 : flags.batch;
  options.resident_keys = flags.keys;
  options.first_new_key = flags.keys;
  return options;
}

ThroughputSlice RunSlice(const TrafficOptions& options, double warm_up_seconds, double seconds) {
  Traffic traffic(options, {});
  std::this_thread::sleep_for(std::chrono::duration<double>(warm_up_seconds));
  traffic.Take();
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  ThroughputSlice slice;
  slice.counts = traffic.Take();
  slice.seconds = SecondsSince(start);
  return slice;
}

void AddParameters(const ThroughputFlags& flags, const TrafficOptions& options, Report* report) {
  report->Add("op", flags.op);
  report->Add("mode", flags.mode);
  report->Add("batch", uint64_t{options.batch});
  report->Add("clients", uint64_t{flags.clients});
  report->Add("in_flight", uint64_t{flags.in_flight});
}

Report RunThroughput(const CommonFlags& common, const ThroughputFlags& flags) {
  const BenchMaster master(common.master);
  Lenders lenders(master.address(), flags.segments, kThroughputSegmentBytes);
  FillOptions fill;
  fill.keys = flags.keys;
  Fill(master.address(), lenders, fill);
  const TrafficOptions options = TrafficOf(master.address(), flags);
  ThroughputSlice slice = RunSlice(options, /*warm_up_seconds=*/1, flags.seconds);

  Report report;
  AddParameters(flags, options, &report);
  report.Add("keys_per_s", static_cast<double>(slice.counts.keys) / slice.seconds);
  report.Add("rpcs_per_s", static_cast<double>(slice.counts.rpcs) / slice.seconds);
  report.Add("p50_us", slice.counts.latencies.Percentile(0.5) * 1000);
  report.Add("p99_us", slice.counts.latencies.Percentile(0.99) * 1000);
  report.Add("errors", slice.counts.errors);
  return report;
}

}  // namespace holdfast::bench

#include <stdexcept>
#include <thread>

#include "tests/bench/bench_master.h"
#include "tests/bench/traffic.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {
namespace {

// Far more than a benchmark can fill with objects of 4 KiB.
constexpr uint64_t kSegmentBytes = 1ull << 42;

Op ParseOp(const std::string& op) {
  if (op == "put") return Op::kPut;
  if (op == "get") return Op::kGet;
  return op == "exists" ? Op::kExists : Op::kMixed;
}

}  // namespace

Report RunThroughput(const CommonFlags& common, const ThroughputFlags& flags) {
  const BenchMaster master(common.master);
  Lenders lenders(master.address(), flags.segments, kSegmentBytes);
  FillOptions fill;
  fill.keys = flags.keys;
  Fill(master.address(), lenders, fill);

  TrafficOptions options;
  options.master = master.address();
  options.op = ParseOp(flags.op);
  options.clients = flags.clients;
  options.in_flight = flags.in_flight;
  options.batch = flags.mode == "unary" ? 1 : flags.batch;
  options.resident_keys = flags.keys;
  Traffic traffic(options, {});
  std::this_thread::sleep_for(std::chrono::seconds(1));  // warm-up
  traffic.Take();
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(flags.seconds));
  TrafficCounts counts = traffic.Take();
  const double seconds = SecondsSince(start);

  Report report;
  report.Add("op", flags.op);
  report.Add("mode", flags.mode);
  report.Add("batch", uint64_t{options.batch});
  report.Add("clients", uint64_t{flags.clients});
  report.Add("in_flight", uint64_t{flags.in_flight});
  report.Add("keys_per_s", static_cast<double>(counts.keys) / seconds);
  report.Add("rpcs_per_s", static_cast<double>(counts.rpcs) / seconds);
  report.Add("p50_us", counts.latencies.Percentile(0.5) * 1000);
  report.Add("p99_us", counts.latencies.Percentile(0.99) * 1000);
  report.Add("errors", counts.errors);
  return report;
}

}  // namespace holdfast::bench

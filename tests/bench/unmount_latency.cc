#include <stdexcept>

#include "tests/bench/bench_master.h"
#include "tests/bench/load.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {

Report RunUnmountLatency(const CommonFlags& common, const UnmountLatencyFlags& flags) {
  std::vector<double> p50_ms;
  std::vector<double> p99_ms;
  for (const uint64_t keys : flags.keys) {
    // A master of its own for each number, or the keys of the ones before would be there too.
    const BenchMaster master(common.master);
    Lenders lenders(master.address(), flags.segments, 1ull << 42);
    FillOptions fill;
    fill.keys = keys;
    Fill(master.address(), lenders, fill);
    Latencies latencies;
    for (uint32_t i = 0; i < lenders.size(); ++i) {
      const double ms = lenders.Unmount(i);
      if (ms < 0) throw std::runtime_error("unmount failed");
      latencies.Add(ms);
      // The next one is measured alone, not beside this one's sweep.
      master.WaitSwept();
    }
    p50_ms.push_back(latencies.Percentile(0.5));
    p99_ms.push_back(latencies.Percentile(0.99));
  }
  Report report;
  report.Add("keys", std::vector<double>(flags.keys.begin(), flags.keys.end()));
  report.Add("segments", uint64_t{flags.segments});
  report.Add("p50_ms", p50_ms);
  report.Add("p99_ms", p99_ms);
  report.Add("slope", p99_ms.back() / p99_ms.front());
  report.Add("slope_p50", p50_ms.back() / p50_ms.front());
  return report;
}

}  // namespace holdfast::bench

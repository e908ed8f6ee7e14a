#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/bench/bench_master.h"
#include "tests/bench/load.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {
namespace {

constexpr uint32_t kSegments = 5;  // a small one and four large ones

// Seconds until what lay on segments [first, last) is cleaned up.
double SweepSeconds(const BenchMaster& master, Lenders& lenders, uint32_t first, uint32_t last) {
  const Clock::time_point start = Clock::now();
  for (uint32_t i = first; i < last; ++i) {
    if (lenders.Unmount(i) < 0) throw std::runtime_error("unmount failed");
  }
  master.WaitSwept();
  return SecondsSince(start);
}

}  // namespace

Report RunSweep(const CommonFlags& common, const SweepFlags& flags) {
  const BenchMaster master(common.master);
  Lenders lenders(master.address(), kSegments, 1ull << 42);
  // Mixed over the table as they would be in life: the small segment's keys come among the others.
  const auto small_keys = static_cast<uint64_t>(static_cast<double>(flags.keys) * flags.share);
  FillOptions fill;
  fill.keys = small_keys;
  fill.preferred_segments = {"segment-0"};
  Fill(master.address(), lenders, fill);
  const uint64_t large_keys = flags.keys - small_keys;
  for (uint32_t i = 1; i < kSegments; ++i) {
    fill.first_key = small_keys + (i - 1) * large_keys / (kSegments - 1);
    fill.keys = small_keys + i * large_keys / (kSegments - 1) - fill.first_key;
    fill.preferred_segments = {absl::StrCat("segment-", i)};
    Fill(master.address(), lenders, fill);
  }
  const double seconds_small = SweepSeconds(master, lenders, 0, 1);
  const uint64_t swept_small = master.Cleanup().swept_replicas();
  const double seconds_rest = SweepSeconds(master, lenders, 1, kSegments);
  const uint64_t swept_all = master.Cleanup().swept_replicas();

  Report report;
  report.Add("keys", flags.keys);
  report.Add("share", flags.share);
  report.Add("swept_small", swept_small);
  report.Add("swept_all", swept_all);
  report.Add("seconds_small", seconds_small);
  report.Add("seconds_all", seconds_small + seconds_rest);
  report.Add("ratio", seconds_small / (seconds_small + seconds_rest));
  report.Add("replicas_per_s", static_cast<double>(swept_all - swept_small) / seconds_rest);
  return report;
}

}  // namespace holdfast::bench

#include <stdexcept>

#include "tests/bench/bench_master.h"
#include "tests/bench/load.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {

Report RunMemory(const CommonFlags& common, const MemoryFlags& flags) {
  if (!common.master.empty()) throw std::runtime_error("memory measures a master of its own");
  const BenchMaster master(common.master);
  Lenders lenders(master.address(), 16, 1ull << 42);
  // Connections, arenas of messages and threads are there before the first figure is read.
  FillOptions fill;
  fill.first_key = 1ull << 40;
  fill.keys = 50'000;
  fill.key_bytes = flags.key_bytes;
  Fill(master.address(), lenders, fill);
  const uint64_t before = master.ResidentBytes();
  fill.first_key = 0;
  fill.keys = flags.keys;
  Fill(master.address(), lenders, fill);
  const uint64_t after = master.ResidentBytes();
  const v1::GetStatusResponse status = master.Status();
  if (status.objects() != flags.keys + 50'000) throw std::runtime_error("objects are missing");

  Report report;
  report.Add("keys", flags.keys);
  report.Add("key_bytes", uint64_t{flags.key_bytes});
  report.Add("resident_mib", static_cast<double>(after) / (1 << 20));
  report.Add("bytes_per_object",
             static_cast<double>(after - before) / static_cast<double>(flags.keys));
  return report;
}

}  // namespace holdfast::bench

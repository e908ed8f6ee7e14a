// The verbs of holdfast-bench. Each prints what it measured and fills the fields of the JSON line. They throw when a
// measurement cannot be made; a figure that is worse than hoped is a figure, not an error.

#ifndef HOLDFAST_TESTS_BENCH_VERBS_H_
#define HOLDFAST_TESTS_BENCH_VERBS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::bench {

// Fields of one JSON object, in order. Values are JSON already.
class Report {
 public:
  void Add(const std::string& name, double value);
  void Add(const std::string& name, uint64_t value);
  void Add(const std::string& name, const std::string& value);
  void Add(const std::string& name, const std::vector<double>& values);
  void Add(const std::string& name, const std::vector<Report>& rows);
  std::string ToJson() const;
  // One aligned line a field.
  std::string ToText() const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct CommonFlags {
  std::string master;  // empty: start one
};

struct ThroughputFlags {
  std::string op = "get";
  std::string mode = "batch";
  uint32_t batch = 128;
  uint32_t clients = 4;
  uint32_t in_flight = 1;
  double seconds = 10;
  uint32_t segments = 16;
  uint64_t keys = 1'000'000;
};
Report RunThroughput(const CommonFlags& common, const ThroughputFlags& flags);
// The same against an echo server with messages of the same size, alternating.
Report RunCeiling(const CommonFlags& common, const ThroughputFlags& flags);

struct UnmountStormFlags {
  uint64_t keys = 8'000'000;
  uint32_t segments = 16;
  uint32_t unmount = 8;
  uint32_t clients = 10;
  uint32_t batch = 128;
  double load = 0.5;
  double before_seconds = 8;
};
Report RunUnmountStorm(const CommonFlags& common, const UnmountStormFlags& flags);

struct UnmountLatencyFlags {
  std::vector<uint64_t> keys = {100'000, 1'000'000, 8'000'000};
  uint32_t segments = 200;
};
Report RunUnmountLatency(const CommonFlags& common, const UnmountLatencyFlags& flags);

struct SweepFlags {
  uint64_t keys = 4'000'000;
  double share = 0.01;
};
Report RunSweep(const CommonFlags& common, const SweepFlags& flags);

struct MemoryFlags {
  uint64_t keys = 2'000'000;
  uint32_t key_bytes = 40;
};
Report RunMemory(const CommonFlags& common, const MemoryFlags& flags);

struct StoreOutageFlags {
  double seconds = 60;
  uint32_t tickets = 65'536;
  uint64_t keys = 1'000'000;
  double load = 0.5;
  uint32_t delete_ms = 100;
};
// Always with a master and a store of its own. Throws when a name is lost, an upload is admitted to a full ledger, or it does
// not empty afterwards.
Report RunStoreOutage(const CommonFlags& common, const StoreOutageFlags& flags);

// In this process: the ledger alone.
Report RunLedgerCapacity(const CommonFlags& common);

struct LedgerOverheadFlags {
  std::string directory =
      "/dev/shm";  // of the file store: in memory, so that the disk's noise is not measured
  uint32_t store_latency_ms = 0;
  uint32_t rounds_max = 40;
};
Report RunLedgerOverhead(const CommonFlags& common, const LedgerOverheadFlags& flags);

}  // namespace holdfast::bench

#endif  // HOLDFAST_TESTS_BENCH_VERBS_H_

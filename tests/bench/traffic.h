// Clients that put, get and probe in batches, as fast as it goes or at a given rate.

#ifndef HOLDFAST_TESTS_BENCH_TRAFFIC_H_
#define HOLDFAST_TESTS_BENCH_TRAFFIC_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/bench/load.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {

enum class Op { kPut, kGet, kExists, kMixed };

struct TrafficOptions {
  std::string master;
  Op op = Op::kMixed;      // kMixed: a put, a get and an exists in turn
  uint32_t clients = 4;    // each with a connection of its own
  uint32_t in_flight = 1;  // threads that share a client
  uint32_t batch = 128;    // keys of a call
  uint32_t key_bytes = 40;
  uint64_t object_bytes = 4096;
  uint64_t resident_keys = 0;  // get and exists choose among [0, resident_keys)
  uint64_t first_new_key = 0;  // puts go on from there
  std::chrono::milliseconds deadline{1000};
};

struct TrafficCounts {
  uint64_t keys = 0;  // a put (start and end) is one
  uint64_t rpcs = 0;
  uint64_t errors = 0;               // items or calls that failed and should not have
  uint64_t timeouts = 0;             // calls
  uint64_t errors_on_survivors = 0;  // a resident key that must be there was not
  Latencies latencies;               // of calls
};

// Runs from construction to destruction.
class Traffic {
 public:
  // `masks`: segments of each resident key, as Fill returns them; empty: unknown.
  Traffic(const TrafficOptions& options, std::vector<uint32_t> masks);
  ~Traffic();

  // Calls a second of all clients together; 0: as fast as it goes.
  void SetRate(double rpcs_per_s);
  // Segments that leave: keys that lie on others too must still be found.
  void SetLeaving(uint32_t segment_mask) { leaving_ = segment_mask; }
  // Counts since the last call.
  TrafficCounts Take();

 private:
  class Worker;

  const TrafficOptions options_;
  const std::vector<uint32_t> masks_;
  std::atomic<bool> stop_{false};
  std::atomic<double> interval_s_{0};  // between calls of one worker
  std::atomic<uint32_t> leaving_{0};
  std::atomic<uint64_t> next_key_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
};

// Measures what the clients reach as fast as it goes, calls a second, and then lets them make that share of it. Returns when the
// queues of the full load are gone.
double SetLoad(Traffic* traffic, double load);

// The load of `throughput` and `ceiling`.

// Far more than a benchmark can fill with objects of 4 KiB.
inline constexpr uint64_t kThroughputSegmentBytes = 1ull << 42;

TrafficOptions TrafficOf(const std::string& master, const ThroughputFlags& flags);

struct ThroughputSlice {
  TrafficCounts counts;
  double seconds = 0;
};
// Runs the traffic, and counts after the warm-up.
ThroughputSlice RunSlice(const TrafficOptions& options, double warm_up_seconds, double seconds);

void AddParameters(const ThroughputFlags& flags, const TrafficOptions& options, Report* report);

}  // namespace holdfast::bench

#endif  // HOLDFAST_TESTS_BENCH_TRAFFIC_H_

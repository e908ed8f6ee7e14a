// Clients, keys and latencies of the benchmarks.

#ifndef HOLDFAST_TESTS_BENCH_LOAD_H_
#define HOLDFAST_TESTS_BENCH_LOAD_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/client.h"

namespace holdfast::bench {

using Clock = std::chrono::steady_clock;

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Sleep(double seconds);

// The key of a number: `bytes` characters that look like the hash of a block, different for each number.
std::string KeyOf(uint64_t number, uint32_t bytes = 40);

// Store clients that lend one segment each, with heartbeats. Segment i is named "segment-i".
class Lenders {
 public:
  // Throws on failure.
  Lenders(const std::string& master, uint32_t segments, uint64_t segment_bytes);

  uint32_t size() const { return static_cast<uint32_t>(clients_.size()); }
  Client& client(uint32_t i) { return *clients_[i]; }
  uint64_t registration(uint32_t i) const { return registrations_[i]; }
  // Milliseconds that the unmount of segment i took; negative when it failed.
  double Unmount(uint32_t i);
  // The number of the segment of a registration; size() if it is none of these.
  uint32_t IndexOf(uint64_t registration) const;

 private:
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<uint64_t> registrations_;
};

std::unique_ptr<Client> ConnectOrThrow(const std::string& master,
                                       std::chrono::milliseconds deadline);

double Median(std::vector<double> values);
// The least and the most.
std::vector<double> Range(const std::vector<double>& values);

// Milliseconds of many calls.
class Latencies {
 public:
  void Add(double ms) { ms_.push_back(static_cast<float>(ms)); }
  void Merge(const Latencies& other) { ms_.insert(ms_.end(), other.ms_.begin(), other.ms_.end()); }
  // 0 when there is none. Sorts.
  double Percentile(double share);
  size_t count() const { return ms_.size(); }

 private:
  std::vector<float> ms_;
};

struct FillOptions {
  uint64_t first_key = 0;
  uint64_t keys = 0;
  uint32_t key_bytes = 40;
  uint64_t object_bytes = 4096;
  uint32_t replicas = 1;
  std::vector<std::string> preferred_segments;
  uint32_t clients = 4;
  uint32_t batch = 512;
};

// Puts the keys [first_key, first_key + keys). Returns for each a mask of the segments that it lies on (bit 31: any from 31 on).
// Throws when a put fails.
std::vector<uint32_t> Fill(const std::string& master, const Lenders& lenders,
                           const FillOptions& options);

}  // namespace holdfast::bench

#endif  // HOLDFAST_TESTS_BENCH_LOAD_H_

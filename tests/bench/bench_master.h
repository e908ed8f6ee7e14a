// The master that a benchmark measures: one that it starts itself, or one that runs already.

#ifndef HOLDFAST_TESTS_BENCH_BENCH_MASTER_H_
#define HOLDFAST_TESTS_BENCH_BENCH_MASTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/v1/admin.grpc.pb.h"
#include "tests/testing/net/daemon.h"

namespace holdfast::bench {

// A master and the administrator's view of it. Stops the process that it started.
class BenchMaster {
 public:
  // `address` empty: starts one, with these flags. Throws on failure.
  explicit BenchMaster(const std::string& address, const std::vector<std::string>& flags = {});

  const std::string& address() const { return address_; }
  v1::CleanupStatus Cleanup() const;
  v1::GetStatusResponse Status() const;
  // Waits until nothing waits for the sweep; seconds since the call. Throws when it takes more than two minutes.
  double WaitSwept() const;
  // Resident memory of the process; 0 when it was not started here.
  uint64_t ResidentBytes() const;

 private:
  std::unique_ptr<testing::Daemon> daemon_;  // none: it runs elsewhere
  std::string address_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

}  // namespace holdfast::bench

#endif  // HOLDFAST_TESTS_BENCH_BENCH_MASTER_H_

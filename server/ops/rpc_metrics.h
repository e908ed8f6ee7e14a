// Latencies of calls by method and code.

#ifndef HOLDFAST_SERVER_OPS_RPC_METRICS_H_
#define HOLDFAST_SERVER_OPS_RPC_METRICS_H_

#include <array>
#include <memory>

#include "server/base/duration_histogram.h"
#include "server/base/rpc_observer.h"

namespace holdfast::ops {

// Thread-safe, lock-free.
class RpcMetrics : public base::RpcObserver {
 public:
  static constexpr size_t kCodes = 17;  // of gRPC
  using Table = std::array<std::array<base::DurationHistogram, kCodes>, base::kMethodNames.size()>;

  void OnCall(base::Method method, absl::StatusCode code, double seconds) override {
    const auto row = static_cast<size_t>(method);
    const auto column = static_cast<size_t>(code);
    if (column >= kCodes) return;
    (*table_)[row][column].Record(static_cast<int64_t>(seconds * 1e9));
  }

  const Table& table() const { return *table_; }

 private:
  const std::unique_ptr<Table> table_ = std::make_unique<Table>();
};

}  // namespace holdfast::ops

#endif  // HOLDFAST_SERVER_OPS_RPC_METRICS_H_

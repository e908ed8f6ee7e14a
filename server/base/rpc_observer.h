// Who wants to know about calls: the metrics.

#ifndef HOLDFAST_SERVER_BASE_RPC_OBSERVER_H_
#define HOLDFAST_SERVER_BASE_RPC_OBSERVER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace holdfast::base {

enum class Method : uint8_t {
  kHeartbeat,
  kMountSegment,
  kUnmountSegment,
  kRemountSegments,
  kPutStart,
  kPutEnd,
  kPutRevoke,
  kGet,
  kExists,
  kRemove,
  kGetStatus,
  kListSegments,
  kListClients,
  kListKeys,
  kGetObject,
  kDrainSegment,
  kUndrainSegment,
  kUnmountSegmentByOperator,
  kGetCleanupStatus,
  kListUnpublished,
  kOfferTickets,
  kAckTickets,
  kWithdrawOffer,
};

inline constexpr std::array<absl::string_view, 23> kMethodNames = {
    "Heartbeat",        "MountSegment",
    "UnmountSegment",   "RemountSegments",
    "PutStart",         "PutEnd",
    "PutRevoke",        "Get",
    "Exists",           "Remove",
    "GetStatus",        "ListSegments",
    "ListClients",      "ListKeys",
    "GetObject",        "DrainSegment",
    "UndrainSegment",   "UnmountSegmentByOperator",
    "GetCleanupStatus", "ListUnpublished",
    "OfferTickets",     "AckTickets",
    "WithdrawOffer"};

// Thread-safe.
class RpcObserver {
 public:
  virtual ~RpcObserver() = default;
  // A call has been handled. Must be quick.
  virtual void OnCall(Method method, absl::StatusCode code, double seconds) = 0;

  // Calls that are being handled now.
  std::atomic<int64_t> in_flight{0};
  // Calls on objects handled since start.
  std::atomic<uint64_t> data_calls{0};
};

// One call, from construction to Done.
class ObservedCall {
 public:
  ObservedCall(RpcObserver* observer, Method method)
      : observer_(*observer), method_(method), start_(std::chrono::steady_clock::now()) {
    observer_.in_flight.fetch_add(1, std::memory_order_relaxed);
  }

  void Done(absl::StatusCode code) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    observer_.OnCall(method_, code, seconds.count());
    observer_.in_flight.fetch_sub(1, std::memory_order_relaxed);
    if (method_ >= Method::kPutStart && method_ <= Method::kRemove) {
      observer_.data_calls.fetch_add(1, std::memory_order_relaxed);
    }
  }

 private:
  RpcObserver& observer_;
  const Method method_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace holdfast::base

#endif  // HOLDFAST_SERVER_BASE_RPC_OBSERVER_H_

// An HTTP proxy in front of a real S3 server that loses, delays, refuses or spoils what goes through it.

#ifndef HOLDFAST_TESTS_TESTING_STORE_FAULT_PROXY_H_
#define HOLDFAST_TESTS_TESTING_STORE_FAULT_PROXY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/store/scripted_server.h"

namespace holdfast::testing {

enum class ProxyFault {
  kNone,
  kHang,                // the server hears nothing, the caller neither
  kReset,               // the connection breaks before the server hears it
  kSlowDown,            // 503 without asking the server
  kAccessDenied,        // 403 without asking the server
  kSuccessThenTimeout,  // the server does it, the caller never hears so
  kSuccessThenReset,    // the same, and the connection breaks
  kTimeoutThenSuccess,  // the caller hears nothing; the server does it when `Land` is called
  kTruncated,           // the server does it; half of its answer arrives
};

// Thread-safe. Requests are passed on with the headers that they came with, so that signatures stay right.
class FaultProxy {
 public:
  // `upstream`: http://HOST:PORT.
  explicit FaultProxy(std::string upstream);

  std::string endpoint() const { return server_.endpoint(); }
  // From now on, for requests of `method` ("PUT", "POST", ...; empty: all).
  void Fail(ProxyFault fault, std::string method);
  void Heal() { Fail(ProxyFault::kNone, ""); }
  // Passes on what kTimeoutThenSuccess has kept. Returns how many requests that were.
  size_t Land();
  // Requests that a fault was made of.
  size_t faults() const;

 private:
  ScriptedReply Reply(const ScriptedRequest& request);
  ScriptedReply PassOn(const ScriptedRequest& request) const;

  const std::string upstream_;
  mutable absl::Mutex mu_;
  ProxyFault fault_ ABSL_GUARDED_BY(mu_) = ProxyFault::kNone;
  std::string method_ ABSL_GUARDED_BY(mu_);
  std::vector<ScriptedRequest> late_ ABSL_GUARDED_BY(mu_);
  size_t faults_ ABSL_GUARDED_BY(mu_) = 0;
  ScriptedServer server_;  // the last: it uses the rest
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_STORE_FAULT_PROXY_H_

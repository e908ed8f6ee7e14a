// What every service needs, and the frame of a call that is answered inline.

#ifndef HOLDFAST_SERVER_RPC_SERVICE_CONTEXT_H_
#define HOLDFAST_SERVER_RPC_SERVICE_CONTEXT_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "server/base/clock.h"
#include "server/base/rpc_observer.h"
#include "server/cleanup/retry_pass.h"
#include "server/cleanup/sweep_statistics.h"
#include "server/core/master.h"
#include "server/rpc/status_mapping.h"

namespace holdfast::rpc {

// All are owned by others and outlive the services.
struct ServiceContext {
  core::Master* master = nullptr;
  const base::Clock* clock = nullptr;
  base::RpcObserver* observer = nullptr;
  const cleanup::SweepStatistics* sweep_statistics = nullptr;
  const cleanup::RetryStatistics* retry_statistics = nullptr;
  std::function<void()> request_sweep;  // something has ended
  std::function<void()> request_retry;  // names in the durable tier are to be deleted
  std::string durable_store;            // what clients are told of it; empty: there is none
  uint64_t master_id = 0;               // random for each start
};

// Finishes a call with what `work` returns, unless the caller has given up already. `work` takes the time in milliseconds.
template <typename Work>
void FinishWith(const ServiceContext& service, const grpc::CallbackServerContext& call,
                base::Method method, const Work& work, grpc::ServerUnaryReactor* reactor) {
  base::ObservedCall observed(service.observer, method);
  if (call.IsCancelled() || call.deadline() < std::chrono::system_clock::now()) {
    observed.Done(absl::StatusCode::kDeadlineExceeded);
    reactor->Finish({grpc::StatusCode::DEADLINE_EXCEEDED, "the caller's deadline is over"});
    return;
  }
  const absl::Status status = work(service.clock->NowMs());
  if (service.master->ledger().TakeAttention()) service.request_retry();
  observed.Done(status.code());
  reactor->Finish(ToGrpc(status));
}

// The same, inline: `work` must not block.
template <typename Work>
grpc::ServerUnaryReactor* Answer(const ServiceContext& service, grpc::CallbackServerContext* call,
                                 base::Method method, const Work& work) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  FinishWith(service, *call, method, work, reactor);
  return reactor;
}

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_SERVICE_CONTEXT_H_

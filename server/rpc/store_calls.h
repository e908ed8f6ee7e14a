// The calls on objects, from message to message: what a unary handler and a pipeline do alike.

#ifndef HOLDFAST_SERVER_RPC_STORE_CALLS_H_
#define HOLDFAST_SERVER_RPC_STORE_CALLS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "holdfast/v1/store.pb.h"
#include "server/core/master.h"

namespace holdfast::rpc {

// Thread-safe; blocks on nothing. A status other than OK refuses the whole call, and `response` is to be left unsent.
class StoreCalls {
 public:
  explicit StoreCalls(core::Master* master) : master_(*master) {}

  absl::Status Do(const v1::PutStartRequest& request, int64_t now_ms,
                  v1::PutStartResponse* response);
  absl::Status Do(const v1::PutEndRequest& request, int64_t now_ms, v1::PutEndResponse* response);
  absl::Status Do(const v1::PutRevokeRequest& request, int64_t now_ms,
                  v1::PutRevokeResponse* response);
  absl::Status Do(const v1::GetRequest& request, int64_t now_ms, v1::GetResponse* response);
  absl::Status Do(const v1::ExistsRequest& request, int64_t now_ms, v1::ExistsResponse* response);
  absl::Status Do(const v1::RemoveRequest& request, int64_t now_ms, v1::RemoveResponse* response);

 private:
  core::Master& master_;
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_STORE_CALLS_H_

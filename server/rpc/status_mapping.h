// Refused requests on the wire: the one place where a status becomes a gRPC status.

#ifndef HOLDFAST_SERVER_RPC_STATUS_MAPPING_H_
#define HOLDFAST_SERVER_RPC_STATUS_MAPPING_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "holdfast/v1/types.pb.h"

namespace holdfast::rpc {

// Code and message as they are; the reason, if the core gave one, as an ErrorDetail in the status details, encoded as
// google.rpc.Status (https://google.aip.dev/193).
grpc::Status ToGrpc(const absl::Status& status);
// The same for a call on a pipeline, which has no trailers of its own. `status` is not OK.
v1::RequestStatus ToWire(const absl::Status& status);

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_STATUS_MAPPING_H_

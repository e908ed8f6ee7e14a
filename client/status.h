// From gRPC's status to absl::Status: the one place where a refusal of the master is decoded.

#ifndef HOLDFAST_CLIENT_STATUS_H_
#define HOLDFAST_CLIENT_STATUS_H_

#include <grpcpp/support/status.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "holdfast/client.h"

namespace holdfast::client {

// `operation` and `master` name the subject of errors that the transport made; the master's own messages name theirs.
// The reason of a refusal is found again by ReasonOf.
absl::Status FromGrpc(const grpc::Status& status, absl::string_view operation,
                      absl::string_view master);

// Codes and reasons of the wire. Values that this library does not know become kUnknown and are kept, respectively.
absl::StatusCode CodeFromWire(int code);
Reason ReasonFromWire(int reason);

// The master does not know the session that the call carried: nothing was done.
bool SessionRefused(const absl::Status& status);

// The call may have been carried out although it failed: the master itself did not refuse it.
bool OutcomeUnknown(const absl::Status& status);

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_STATUS_H_

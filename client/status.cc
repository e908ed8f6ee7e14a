#include "client/status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "holdfast/v1/types.pb.h"

namespace holdfast {
namespace {

// The payload of an absl::Status that carries the master's ErrorDetail.
constexpr char kDetailUrl[] = "type.googleapis.com/holdfast.v1.ErrorDetail";

}  // namespace

absl::string_view ReasonName(Reason reason) {
  absl::string_view name = v1::Reason_Name(static_cast<v1::Reason>(reason));
  if (name.empty()) return "UNKNOWN_REASON";
  absl::ConsumePrefix(&name, "REASON_");
  return name;
}

Reason ReasonOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kDetailUrl);
  v1::ErrorDetail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return Reason::kNone;
  return client::ReasonFromWire(detail.reason());
}

namespace client {

absl::Status FromGrpc(const grpc::Status& status, absl::string_view operation,
                      absl::string_view master) {
  if (status.ok()) return absl::OkStatus();
  v1::RequestStatus wire;
  v1::ErrorDetail detail;
  bool has_detail = false;
  if (!status.error_details().empty() && wire.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& any : wire.details()) {
      if (any.Is<v1::ErrorDetail>() && any.UnpackTo(&detail)) {
        has_detail = true;
        break;
      }
    }
  }
  const absl::StatusCode code = CodeFromWire(status.error_code());
  if (!has_detail) {
    return absl::Status(code,
                        absl::StrCat(operation, " at ", master, ": ", status.error_message()));
  }
  absl::Status result(code, status.error_message());
  result.SetPayload(kDetailUrl, absl::Cord(detail.SerializeAsString()));
  return result;
}

absl::StatusCode CodeFromWire(int code) {
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated))
    return absl::StatusCode::kUnknown;
  return static_cast<absl::StatusCode>(code);
}

Reason ReasonFromWire(int reason) { return static_cast<Reason>(reason); }

bool SessionRefused(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kFailedPrecondition) return false;
  const Reason reason = ReasonOf(status);
  return reason == Reason::kSessionUnknown || reason == Reason::kSessionStale;
}

bool OutcomeUnknown(const absl::Status& status) {
  return !status.ok() && ReasonOf(status) == Reason::kNone;
}

}  // namespace client
}  // namespace holdfast

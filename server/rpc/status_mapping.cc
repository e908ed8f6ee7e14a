#include "server/rpc/status_mapping.h"

#include <string>

#include "server/core/outcome.h"
#include "server/rpc/convert.h"

namespace holdfast::rpc {
namespace {

constexpr uint32_t kBusyRetryMs = 1000;

}  // namespace

v1::RequestStatus ToWire(const absl::Status& status) {
  v1::RequestStatus full;
  full.set_code(static_cast<int>(status.code()));
  full.set_message(std::string(status.message()));
  const core::Reason reason = core::ReasonOf(status);
  if (reason == core::Reason::kNone) return full;
  v1::ErrorDetail detail;
  detail.set_reason(ToProto(reason));
  if (reason == core::Reason::kServerBusy) detail.set_retry_after_ms(kBusyRetryMs);
  google::protobuf::Any* any = full.add_details();
  any->set_type_url("type.googleapis.com/holdfast.v1.ErrorDetail");
  any->set_value(detail.SerializeAsString());
  return full;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const v1::RequestStatus full = ToWire(status);
  return {static_cast<grpc::StatusCode>(full.code()), full.message(),
          full.details().empty() ? std::string() : full.SerializeAsString()};
}

}  // namespace holdfast::rpc

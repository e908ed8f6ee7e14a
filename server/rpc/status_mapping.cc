#include "server/rpc/status_mapping.h"

#include <string>

#include "holdfast/v1/types.pb.h"
#include "server/core/outcome.h"
#include "server/rpc/convert.h"

namespace holdfast::rpc {
namespace {

constexpr uint32_t kBusyRetryMs = 1000;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(status.message());
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const core::Reason reason = core::ReasonOf(status);
  if (reason == core::Reason::kNone) return {code, message};
  v1::ErrorDetail detail;
  detail.set_reason(ToProto(reason));
  if (reason == core::Reason::kServerBusy) detail.set_retry_after_ms(kBusyRetryMs);
  v1::RequestStatus full;
  full.set_code(code);
  full.set_message(message);
  google::protobuf::Any* any = full.add_details();
  any->set_type_url("type.googleapis.com/holdfast.v1.ErrorDetail");
  any->set_value(detail.SerializeAsString());
  return {code, message, full.SerializeAsString()};
}

}  // namespace holdfast::rpc

#include "server/rpc/pipeline_calls.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/status_mapping.h"

namespace holdfast::rpc {
namespace {

int ItemsOf(const v1::PipelineCall& call) {
  switch (call.request_case()) {
    case v1::PipelineCall::kPutStart:
      return call.put_start().items_size();
    case v1::PipelineCall::kPutEnd:
      return call.put_end().items_size();
    case v1::PipelineCall::kPutRevoke:
      return call.put_revoke().items_size();
    case v1::PipelineCall::kGet:
      return call.get().keys_size();
    case v1::PipelineCall::kExists:
      return call.exists().keys_size();
    case v1::PipelineCall::kRemove:
      return call.remove().keys_size();
    case v1::PipelineCall::REQUEST_NOT_SET:
      return 0;
  }
  return 0;
}

}  // namespace

template <typename Request, typename Response>
absl::Status PipelineCalls::Do(base::Method method, const Request& request, Response* response) {
  base::ObservedCall observed(context_.observer, method);
  absl::Status status = calls_.Do(request, context_.clock->NowMs(), response);
  observed.Done(status.code());
  return status;
}

absl::Status PipelineCalls::AnswerOne(const v1::PipelineCall& call, v1::PipelineResult* result) {
  switch (call.request_case()) {
    case v1::PipelineCall::kPutStart:
      return Do(base::Method::kPutStart, call.put_start(), result->mutable_put_start());
    case v1::PipelineCall::kPutEnd:
      return Do(base::Method::kPutEnd, call.put_end(), result->mutable_put_end());
    case v1::PipelineCall::kPutRevoke:
      return Do(base::Method::kPutRevoke, call.put_revoke(), result->mutable_put_revoke());
    case v1::PipelineCall::kGet:
      return Do(base::Method::kGet, call.get(), result->mutable_get());
    case v1::PipelineCall::kExists:
      return Do(base::Method::kExists, call.exists(), result->mutable_exists());
    case v1::PipelineCall::kRemove:
      return Do(base::Method::kRemove, call.remove(), result->mutable_remove());
    case v1::PipelineCall::REQUEST_NOT_SET:
      break;
  }
  return core::Refuse(core::Reason::kBadField, "pipeline: a call without a request that is known");
}

void PipelineCalls::Answer(const v1::PipelineRequest& request, v1::PipelineResponse* response) {
  const int64_t arrived_ms = context_.clock->NowMs();
  const auto items_max = static_cast<int64_t>(context_.master->options().max_batch_items);
  int64_t items = 0;
  response->mutable_results()->Reserve(request.calls_size());
  for (const v1::PipelineCall& call : request.calls()) {
    v1::PipelineResult* result = response->add_results();
    result->set_id(call.id());
    items += ItemsOf(call);
    absl::Status status;
    if (items > items_max && request.calls_size() > 1) {
      status = core::Refuse(core::Reason::kBatchTooLarge,
                            absl::StrCat("pipeline: more than ", items_max, " items in a message"));
    } else if (call.timeout_ms() != 0 &&
               context_.clock->NowMs() - arrived_ms > int64_t{call.timeout_ms()}) {
      status = absl::DeadlineExceededError("the caller's deadline is over");
    } else {
      status = AnswerOne(call, result);
    }
    if (status.ok()) continue;
    result->clear_response();
    *result->mutable_status() = ToWire(status);
  }
  if (context_.master->ledger().TakeAttention()) context_.request_retry();
}

}  // namespace holdfast::rpc

// The master's side of a pipeline: its calls, one after another, as their unary handlers would answer them.

#ifndef HOLDFAST_SERVER_RPC_PIPELINE_CALLS_H_
#define HOLDFAST_SERVER_RPC_PIPELINE_CALLS_H_

#include <cstdint>

#include "server/rpc/pipeline.h"
#include "server/rpc/service_context.h"
#include "server/rpc/store_calls.h"

namespace holdfast::rpc {

// Thread-safe.
class PipelineCalls : public PipelineHandler {
 public:
  // `calls` outlives it.
  PipelineCalls(const ServiceContext& context, StoreCalls* calls)
      : context_(context), calls_(*calls) {}

  void Answer(const v1::PipelineRequest& request, v1::PipelineResponse* response) override;

 private:
  absl::Status AnswerOne(const v1::PipelineCall& call, v1::PipelineResult* result);
  template <typename Request, typename Response>
  absl::Status Do(base::Method method, const Request& request, Response* response);

  const ServiceContext context_;
  StoreCalls& calls_;
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_PIPELINE_CALLS_H_

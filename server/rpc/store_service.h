// StoreService: translation between messages and the core. Every handler runs inline and blocks on nothing.

#ifndef HOLDFAST_SERVER_RPC_STORE_SERVICE_H_
#define HOLDFAST_SERVER_RPC_STORE_SERVICE_H_

#include "holdfast/v1/store.grpc.pb.h"
#include "server/rpc/message_arena.h"
#include "server/rpc/pipeline.h"
#include "server/rpc/pipeline_calls.h"
#include "server/rpc/service_context.h"
#include "server/rpc/store_calls.h"

namespace holdfast::rpc {

inline constexpr uint32_t kProtocolVersion = 1;

// Thread-safe.
class StoreService : public v1::StoreService::CallbackService {
 public:
  explicit StoreService(const ServiceContext& context);

  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* call,
                                      const v1::HeartbeatRequest* request,
                                      v1::HeartbeatResponse* response) override;
  grpc::ServerUnaryReactor* MountSegment(grpc::CallbackServerContext* call,
                                         const v1::MountSegmentRequest* request,
                                         v1::MountSegmentResponse* response) override;
  grpc::ServerUnaryReactor* UnmountSegment(grpc::CallbackServerContext* call,
                                           const v1::UnmountSegmentRequest* request,
                                           v1::UnmountSegmentResponse* response) override;
  grpc::ServerUnaryReactor* RemountSegments(grpc::CallbackServerContext* call,
                                            const v1::RemountSegmentsRequest* request,
                                            v1::RemountSegmentsResponse* response) override;
  grpc::ServerUnaryReactor* PutStart(grpc::CallbackServerContext* call,
                                     const v1::PutStartRequest* request,
                                     v1::PutStartResponse* response) override;
  grpc::ServerUnaryReactor* PutEnd(grpc::CallbackServerContext* call,
                                   const v1::PutEndRequest* request,
                                   v1::PutEndResponse* response) override;
  grpc::ServerUnaryReactor* PutRevoke(grpc::CallbackServerContext* call,
                                      const v1::PutRevokeRequest* request,
                                      v1::PutRevokeResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* call, const v1::GetRequest* request,
                                v1::GetResponse* response) override;
  grpc::ServerUnaryReactor* Exists(grpc::CallbackServerContext* call,
                                   const v1::ExistsRequest* request,
                                   v1::ExistsResponse* response) override;
  grpc::ServerUnaryReactor* Remove(grpc::CallbackServerContext* call,
                                   const v1::RemoveRequest* request,
                                   v1::RemoveResponse* response) override;
  grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* Pipeline(
      grpc::CallbackServerContext* call) override;

  // Ends all pipelines, and those to come at once; a server that shuts down would wait for them.
  void Stop() { pipelines_.Close(); }

 private:
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* AnswerInline(grpc::CallbackServerContext* call, base::Method method,
                                         const Request& request, Response* response) {
    return Answer(context_, call, method,
                  [&](int64_t now_ms) { return calls_.Do(request, now_ms, response); });
  }

  const ServiceContext context_;
  core::Master& master_;
  StoreCalls calls_;
  PipelineCalls pipeline_calls_;
  PipelineSet pipelines_;
  ArenaAllocator<v1::PutStartRequest, v1::PutStartResponse> put_start_arenas_;
  ArenaAllocator<v1::PutEndRequest, v1::PutEndResponse> put_end_arenas_;
  ArenaAllocator<v1::PutRevokeRequest, v1::PutRevokeResponse> put_revoke_arenas_;
  ArenaAllocator<v1::GetRequest, v1::GetResponse> get_arenas_;
  ArenaAllocator<v1::ExistsRequest, v1::ExistsResponse> exists_arenas_;
  ArenaAllocator<v1::RemoveRequest, v1::RemoveResponse> remove_arenas_;
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_STORE_SERVICE_H_

// AdminService: translation for operators. What looks at one thing is answered inline; what looks at all registrations, and
// lists, page by page, on the list worker.

#ifndef HOLDFAST_SERVER_RPC_ADMIN_SERVICE_H_
#define HOLDFAST_SERVER_RPC_ADMIN_SERVICE_H_

#include "holdfast/v1/admin.grpc.pb.h"
#include "server/rpc/list_stream.h"
#include "server/rpc/service_context.h"

namespace holdfast::rpc {

// Thread-safe. `Stop` after the server has shut down.
class AdminService : public v1::AdminService::CallbackService {
 public:
  explicit AdminService(const ServiceContext& context);

  void Stop() { lists_.Stop(); }

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* call,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerWriteReactor<v1::ListSegmentsResponse>* ListSegments(
      grpc::CallbackServerContext* call, const v1::ListSegmentsRequest* request) override;
  grpc::ServerWriteReactor<v1::ListClientsResponse>* ListClients(
      grpc::CallbackServerContext* call, const v1::ListClientsRequest* request) override;
  grpc::ServerWriteReactor<v1::ListKeysResponse>* ListKeys(
      grpc::CallbackServerContext* call, const v1::ListKeysRequest* request) override;
  grpc::ServerUnaryReactor* GetObject(grpc::CallbackServerContext* call,
                                      const v1::GetObjectRequest* request,
                                      v1::GetObjectResponse* response) override;
  grpc::ServerUnaryReactor* DrainSegment(grpc::CallbackServerContext* call,
                                         const v1::DrainSegmentRequest* request,
                                         v1::DrainSegmentResponse* response) override;
  grpc::ServerUnaryReactor* UndrainSegment(grpc::CallbackServerContext* call,
                                           const v1::UndrainSegmentRequest* request,
                                           v1::UndrainSegmentResponse* response) override;
  grpc::ServerUnaryReactor* UnmountSegmentByOperator(
      grpc::CallbackServerContext* call, const v1::UnmountSegmentByOperatorRequest* request,
      v1::UnmountSegmentByOperatorResponse* response) override;
  grpc::ServerUnaryReactor* GetCleanupStatus(grpc::CallbackServerContext* call,
                                             const v1::GetCleanupStatusRequest* request,
                                             v1::GetCleanupStatusResponse* response) override;
  grpc::ServerWriteReactor<v1::ListUnpublishedResponse>* ListUnpublished(
      grpc::CallbackServerContext* call, const v1::ListUnpublishedRequest* request) override;

 private:
  template <typename Response>
  grpc::ServerWriteReactor<Response>* Refused(base::Method method, const absl::Status& status);
  template <typename Response>
  grpc::ServerWriteReactor<Response>* Stream(base::Method method,
                                             typename ListStream<Response>::Next next);
  template <typename Work>
  grpc::ServerUnaryReactor* AnswerQueued(grpc::CallbackServerContext* call, base::Method method,
                                         Work work);
  void FillLedger(const core::LedgerCounts& counts, v1::LedgerStatus* out) const;
  void FillCleanup(const core::CleanupCounts& counts, v1::CleanupStatus* out) const;

  const ServiceContext context_;
  core::Master& master_;
  ListWorker lists_;
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_ADMIN_SERVICE_H_

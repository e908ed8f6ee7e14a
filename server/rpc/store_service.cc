#include "server/rpc/store_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/convert.h"

namespace holdfast::rpc {
namespace {

static_assert(int(core::SessionState::kLive) == v1::HeartbeatResponse::STATE_LIVE);
static_assert(int(core::SessionState::kOpened) == v1::HeartbeatResponse::STATE_OPENED);
static_assert(int(core::SessionState::kLost) == v1::HeartbeatResponse::STATE_LOST);

absl::Status CheckOpen(const v1::HeartbeatRequest& request) {
  if (request.client_epoch() != 0 || request.protocol_version() == kProtocolVersion) {
    return absl::OkStatus();
  }
  return core::Refuse(
      core::Reason::kProtocolMismatch,
      absl::StrCat("open session: the client speaks version ", request.protocol_version(),
                   ", this master version ", kProtocolVersion));
}

}  // namespace

StoreService::StoreService(const ServiceContext& context)
    : context_(context),
      master_(*context.master),
      calls_(context.master),
      pipeline_calls_(context, &calls_),
      pipelines_(&pipeline_calls_) {
  SetMessageAllocatorFor_PutStart(&put_start_arenas_);
  SetMessageAllocatorFor_PutEnd(&put_end_arenas_);
  SetMessageAllocatorFor_PutRevoke(&put_revoke_arenas_);
  SetMessageAllocatorFor_Get(&get_arenas_);
  SetMessageAllocatorFor_Exists(&exists_arenas_);
  SetMessageAllocatorFor_Remove(&remove_arenas_);
}

grpc::ServerUnaryReactor* StoreService::Heartbeat(grpc::CallbackServerContext* call,
                                                  const v1::HeartbeatRequest* request,
                                                  v1::HeartbeatResponse* response) {
  return Answer(context_, call, base::Method::kHeartbeat, [&](int64_t now_ms) {
    if (absl::Status status = CheckOpen(*request); !status.ok()) return status;
    core::HeartbeatRequest heartbeat;
    if (!core::ClientId::Parse(request->client_id(), &heartbeat.client)) {
      return core::Refuse(core::Reason::kBadId, "heartbeat: client_id is not 16 bytes");
    }
    heartbeat.epoch.value = request->client_epoch();
    heartbeat.incarnation = request->incarnation();
    heartbeat.ttl_ms = request->ttl_ms();
    heartbeat.host = request->host();
    heartbeat.close = request->close();
    if (request->client_epoch() == 0) heartbeat.peer = call->peer();
    heartbeat.registration_ids = absl::MakeConstSpan(
        request->registration_ids().data(), static_cast<size_t>(request->registration_ids_size()));
    const auto answer = master_.Heartbeat(heartbeat, now_ms);
    if (!answer.ok()) return answer.status();
    // An earlier session may have ended by this.
    if (answer->state != core::SessionState::kLive) context_.request_sweep();
    response->set_state(static_cast<v1::HeartbeatResponse::State>(answer->state));
    response->set_client_epoch(answer->epoch.value);
    response->set_ttl_ms(static_cast<uint32_t>(answer->ttl_ms));
    response->set_heartbeat_interval_ms(
        static_cast<uint32_t>(master_.options().heartbeat_interval_ms));
    for (const uint64_t id : answer->ended_registration_ids) {
      response->add_ended_registration_ids(id);
    }
    response->set_master_id(context_.master_id);
    if (context_.durable_store.empty()) return absl::OkStatus();
    response->set_durable_store(context_.durable_store);
    response->set_ledger_used(master_.ledger().used());
    response->set_ledger_capacity(master_.ledger().capacity());
    for (const core::OfferRow& offer : answer->offers) ToProto(offer, response->add_offers());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* StoreService::MountSegment(grpc::CallbackServerContext* call,
                                                     const v1::MountSegmentRequest* request,
                                                     v1::MountSegmentResponse* response) {
  return Answer(context_, call, base::Method::kMountSegment, [&](int64_t now_ms) {
    const auto session = FromProto(request->session());
    if (!session.ok()) return session.status();
    const auto spec = FromProto(request->segment());
    if (!spec.ok()) return spec.status();
    const auto answer = master_.MountSegment(*session, *spec, now_ms);
    if (!answer.ok()) return answer.status();
    response->set_registration_id(answer->registration.value);
    response->set_already_mounted(answer->already_mounted);
    response->set_waits_for_earlier_registration(answer->waits_for_earlier);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* StoreService::UnmountSegment(grpc::CallbackServerContext* call,
                                                       const v1::UnmountSegmentRequest* request,
                                                       v1::UnmountSegmentResponse* /*response*/) {
  return Answer(context_, call, base::Method::kUnmountSegment, [&](int64_t now_ms) {
    const auto session = FromProto(request->session());
    if (!session.ok()) return session.status();
    absl::Status status = master_.UnmountSegment(
        *session, core::RegistrationId{request->registration_id()}, request->grace_ms(), now_ms);
    if (status.ok()) context_.request_sweep();
    return status;
  });
}

grpc::ServerUnaryReactor* StoreService::RemountSegments(grpc::CallbackServerContext* call,
                                                        const v1::RemountSegmentsRequest* request,
                                                        v1::RemountSegmentsResponse* response) {
  return Answer(context_, call, base::Method::kRemountSegments, [&](int64_t now_ms) {
    const auto session = FromProto(request->session());
    if (!session.ok()) return session.status();
    if (absl::Status status =
            master_.CheckBatch("remount segments", static_cast<size_t>(request->segments_size()));
        !status.ok()) {
      return status;
    }
    if (absl::Status status = master_.CheckSession(*session); !status.ok()) return status;
    for (const v1::SegmentSpec& segment : request->segments()) {
      v1::RemountResult* result = response->add_results();
      const auto spec = FromProto(segment);
      const auto answer = spec.ok() ? master_.MountSegment(*session, *spec, now_ms) : spec.status();
      if (!answer.ok()) {
        result->set_code(static_cast<int>(answer.status().code()));
        result->set_reason(ToProto(core::ReasonOf(answer.status())));
        result->set_message(std::string(answer.status().message()));
        continue;
      }
      result->set_registration_id(answer->registration.value);
      result->set_already_mounted(answer->already_mounted);
      result->set_waits_for_earlier_registration(answer->waits_for_earlier);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* StoreService::PutStart(grpc::CallbackServerContext* call,
                                                 const v1::PutStartRequest* request,
                                                 v1::PutStartResponse* response) {
  return AnswerInline(call, base::Method::kPutStart, *request, response);
}

grpc::ServerUnaryReactor* StoreService::PutEnd(grpc::CallbackServerContext* call,
                                               const v1::PutEndRequest* request,
                                               v1::PutEndResponse* response) {
  return AnswerInline(call, base::Method::kPutEnd, *request, response);
}

grpc::ServerUnaryReactor* StoreService::PutRevoke(grpc::CallbackServerContext* call,
                                                  const v1::PutRevokeRequest* request,
                                                  v1::PutRevokeResponse* response) {
  return AnswerInline(call, base::Method::kPutRevoke, *request, response);
}

grpc::ServerUnaryReactor* StoreService::Get(grpc::CallbackServerContext* call,
                                            const v1::GetRequest* request,
                                            v1::GetResponse* response) {
  return AnswerInline(call, base::Method::kGet, *request, response);
}

grpc::ServerUnaryReactor* StoreService::Exists(grpc::CallbackServerContext* call,
                                               const v1::ExistsRequest* request,
                                               v1::ExistsResponse* response) {
  return AnswerInline(call, base::Method::kExists, *request, response);
}

grpc::ServerUnaryReactor* StoreService::Remove(grpc::CallbackServerContext* call,
                                               const v1::RemoveRequest* request,
                                               v1::RemoveResponse* response) {
  return AnswerInline(call, base::Method::kRemove, *request, response);
}

grpc::ServerBidiReactor<v1::PipelineRequest, v1::PipelineResponse>* StoreService::Pipeline(
    grpc::CallbackServerContext* /*call*/) {
  return pipelines_.Open();
}

}  // namespace holdfast::rpc

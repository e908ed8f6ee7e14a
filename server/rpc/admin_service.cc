#include "server/rpc/admin_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/convert.h"
#include "server/rpc/version.h"

namespace holdfast::rpc {
namespace {

constexpr size_t kSegmentsPerPage = 256;
// A page of keys has so many at most, and is put aside for other lists after so many steps.
constexpr size_t kKeysPerPage = 1000;
constexpr int kStepsPerPage = 64;

// What is left of a listing of keys.
struct KeyList {
  bool filter_invalid = true;
  std::string prefix;
  core::KeyCursor cursor;
  uint64_t left = 0;  // keys still wanted
};

// Makes one page; true if another follows.
bool NextKeys(const core::Master& master, KeyList* list, v1::ListKeysResponse* page,
              bool* worth_sending) {
  std::vector<core::KeyListing> rows;
  bool more = true;
  for (int i = 0; more && i < kStepsPerPage && rows.size() < kKeysPerPage; ++i) {
    more = master.ListKeys(list->filter_invalid, list->prefix, &list->cursor, &rows);
  }
  const size_t wanted = std::min<uint64_t>(list->left, kKeysPerPage);
  if (rows.size() > wanted) {
    // A step finds several keys. What this page does not tell is looked for again from here.
    rows.resize(wanted);
    list->cursor = rows.back().next;
    more = true;
  }
  list->left -= rows.size();
  for (const core::KeyListing& row : rows) ToProto(row, page->add_keys());
  if (more) page->set_resume_token(ToToken(list->cursor));
  *worth_sending = !rows.empty();
  return more && list->left > 0;
}

// What is left of a listing of unpublished names.
struct NameList {
  uint32_t slot = 0;
  uint64_t left = 0;  // names still wanted
};

bool NextNames(const core::UnpublishedLedger& ledger, NameList* list, int64_t now_ms,
               v1::ListUnpublishedResponse* page, bool* worth_sending) {
  std::vector<core::TicketListing> rows;
  const bool more =
      ledger.List(&list->slot, std::min<uint64_t>(list->left, kKeysPerPage), now_ms, &rows);
  list->left -= rows.size();
  for (const core::TicketListing& row : rows) ToProto(row, page->add_names());
  if (more) page->set_resume_token(ToToken({list->slot, 0}));
  *worth_sending = !rows.empty();
  return more && list->left > 0;
}

absl::Status Busy() {
  return core::Refuse(core::Reason::kServerBusy, "too many lists are being made; try again");
}

absl::Status Success(const std::function<void()>& request_sweep, absl::Status status) {
  if (status.ok()) request_sweep();
  return status;
}

}  // namespace

AdminService::AdminService(const ServiceContext& context)
    : context_(context), master_(*context.master) {}

template <typename Response>
grpc::ServerWriteReactor<Response>* AdminService::Refused(base::Method method,
                                                          const absl::Status& status) {
  return new RefusedStream<Response>(context_.observer, method, ToGrpc(status));
}

template <typename Response>
grpc::ServerWriteReactor<Response>* AdminService::Stream(base::Method method,
                                                         typename ListStream<Response>::Next next) {
  if (!lists_.Enter()) {
    return Refused<Response>(method, Busy());
  }
  return new ListStream<Response>(&lists_, context_.observer, method, std::move(next));
}

template <typename Work>
grpc::ServerUnaryReactor* AdminService::AnswerQueued(grpc::CallbackServerContext* call,
                                                     base::Method method, Work work) {
  if (!lists_.Enter()) {
    return Answer(context_, call, method, [](int64_t /*now_ms*/) { return Busy(); });
  }
  // The call and its messages live until the reactor is finished, which may be before this returns.
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  lists_.Enqueue([this, call, method, work, reactor] {
    FinishWith(context_, *call, method, work, reactor);
    lists_.Leave();
  });
  return reactor;
}

void AdminService::FillCleanup(const core::CleanupCounts& counts, v1::CleanupStatus* out) const {
  ToProto(counts, out);
  out->set_lock_hold_p999_us(context_.sweep_statistics->wall().PercentileUs(0.999));
  out->set_lock_hold_cpu_p999_us(context_.sweep_statistics->cpu().PercentileUs(0.999));
}

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* call,
                                                  const v1::GetStatusRequest* /*request*/,
                                                  v1::GetStatusResponse* response) {
  return AnswerQueued(call, base::Method::kGetStatus, [this, response](int64_t now_ms) {
    const core::MasterCounts counts = master_.Count(now_ms);
    response->set_version(kVersion);
    response->set_master_id(context_.master_id);
    response->set_uptime_ms(static_cast<uint64_t>(now_ms));
    response->set_clients(counts.clients);
    response->set_segments(counts.segments);
    response->set_capacity_bytes(counts.capacity_bytes);
    response->set_allocated_bytes(counts.allocated_bytes);
    response->set_objects(counts.objects);
    response->set_replicas(counts.replicas);
    response->set_puts_in_progress(counts.puts_in_progress);
    response->set_rpc_in_flight(static_cast<uint64_t>(context_.observer->in_flight.load()));
    FillCleanup(counts.cleanup, response->mutable_cleanup());
    response->set_durable_replicas(counts.durable_replicas);
    FillLedger(counts.ledger, response->mutable_ledger());
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::ListSegmentsResponse>* AdminService::ListSegments(
    grpc::CallbackServerContext* /*call*/, const v1::ListSegmentsRequest* request) {
  core::RegistrationId after;
  auto next = [this, after, name = request->name(), ended = request->include_ended()](
                  v1::ListSegmentsResponse* page, bool* worth_sending) mutable {
    const std::vector<core::SegmentListing> rows =
        master_.ListSegments(after, ended, kSegmentsPerPage, context_.clock->NowMs());
    for (const core::SegmentListing& row : rows) {
      after = row.registration;
      if (name.empty() || row.spec.name == name) ToProto(row, page->add_segments());
    }
    *worth_sending = page->segments_size() > 0;
    return !rows.empty();
  };
  return Stream<v1::ListSegmentsResponse>(base::Method::kListSegments, std::move(next));
}

grpc::ServerWriteReactor<v1::ListClientsResponse>* AdminService::ListClients(
    grpc::CallbackServerContext* /*call*/, const v1::ListClientsRequest* /*request*/) {
  uint32_t stripe = 0;
  auto next = [this, stripe](v1::ListClientsResponse* page, bool* worth_sending) mutable {
    for (const core::ClientListing& row : master_.ListClients(stripe++, context_.clock->NowMs())) {
      ToProto(row, page->add_clients());
    }
    *worth_sending = page->clients_size() > 0;
    return stripe < master_.client_stripes();
  };
  return Stream<v1::ListClientsResponse>(base::Method::kListClients, std::move(next));
}

grpc::ServerWriteReactor<v1::ListKeysResponse>* AdminService::ListKeys(
    grpc::CallbackServerContext* /*call*/, const v1::ListKeysRequest* request) {
  KeyList list;
  list.filter_invalid = request->has_filter_invalid() ? request->filter_invalid() : true;
  list.prefix = request->prefix();
  list.left = request->limit() == 0 ? UINT64_MAX : request->limit();
  // A token of the end is one behind the last shard.
  if (!FromToken(request->resume_token(), &list.cursor) ||
      list.cursor.shard > master_.options().shard_count) {
    return Refused<v1::ListKeysResponse>(
        base::Method::kListKeys,
        core::Refuse(core::Reason::kBadField,
                     "list keys: resume_token is not one of this service"));
  }
  auto next = [this, list](v1::ListKeysResponse* page, bool* worth_sending) mutable {
    return NextKeys(master_, &list, page, worth_sending);
  };
  return Stream<v1::ListKeysResponse>(base::Method::kListKeys, std::move(next));
}

grpc::ServerUnaryReactor* AdminService::GetObject(grpc::CallbackServerContext* call,
                                                  const v1::GetObjectRequest* request,
                                                  v1::GetObjectResponse* response) {
  return Answer(context_, call, base::Method::kGetObject, [&](int64_t now_ms) {
    const auto object = master_.GetObject(request->key(), now_ms);
    if (!object.ok()) return object.status();
    response->set_key(request->key());
    ToProto(*object, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::DrainSegment(grpc::CallbackServerContext* call,
                                                     const v1::DrainSegmentRequest* request,
                                                     v1::DrainSegmentResponse* /*response*/) {
  return Answer(context_, call, base::Method::kDrainSegment, [&](int64_t /*now_ms*/) {
    return master_.DrainSegment(core::RegistrationId{request->registration_id()});
  });
}

grpc::ServerUnaryReactor* AdminService::UndrainSegment(grpc::CallbackServerContext* call,
                                                       const v1::UndrainSegmentRequest* request,
                                                       v1::UndrainSegmentResponse* /*response*/) {
  return Answer(context_, call, base::Method::kUndrainSegment, [&](int64_t /*now_ms*/) {
    return master_.UndrainSegment(core::RegistrationId{request->registration_id()});
  });
}

grpc::ServerUnaryReactor* AdminService::UnmountSegmentByOperator(
    grpc::CallbackServerContext* call, const v1::UnmountSegmentByOperatorRequest* request,
    v1::UnmountSegmentByOperatorResponse* /*response*/) {
  return Answer(context_, call, base::Method::kUnmountSegmentByOperator, [&](int64_t now_ms) {
    return Success(context_.request_sweep, master_.UnmountSegmentByOperator(
                                               core::RegistrationId{request->registration_id()},
                                               request->grace_ms(), now_ms));
  });
}

grpc::ServerUnaryReactor* AdminService::GetCleanupStatus(
    grpc::CallbackServerContext* call, const v1::GetCleanupStatusRequest* /*request*/,
    v1::GetCleanupStatusResponse* response) {
  return AnswerQueued(call, base::Method::kGetCleanupStatus, [this, response](int64_t now_ms) {
    const core::MasterCounts counts = master_.Count(now_ms);
    FillCleanup(counts.cleanup, response->mutable_cleanup());
    FillLedger(counts.ledger, response->mutable_ledger());
    return absl::OkStatus();
  });
}

void AdminService::FillLedger(const core::LedgerCounts& counts, v1::LedgerStatus* out) const {
  ToProto(counts, out);
  for (const auto& [code, count] : context_.retry_statistics->failures()) {
    (*out->mutable_delete_failures())[code] = count;
  }
}

grpc::ServerWriteReactor<v1::ListUnpublishedResponse>* AdminService::ListUnpublished(
    grpc::CallbackServerContext* /*call*/, const v1::ListUnpublishedRequest* request) {
  core::KeyCursor cursor;
  if (!FromToken(request->resume_token(), &cursor)) {
    return Refused<v1::ListUnpublishedResponse>(
        base::Method::kListUnpublished,
        core::Refuse(core::Reason::kBadField,
                     "list unpublished names: resume_token is not one of this service"));
  }
  NameList list{cursor.shard, request->limit() == 0 ? UINT64_MAX : request->limit()};
  auto next = [this, list](v1::ListUnpublishedResponse* page, bool* worth_sending) mutable {
    return NextNames(master_.ledger(), &list, context_.clock->NowMs(), page, worth_sending);
  };
  return Stream<v1::ListUnpublishedResponse>(base::Method::kListUnpublished, std::move(next));
}

}  // namespace holdfast::rpc

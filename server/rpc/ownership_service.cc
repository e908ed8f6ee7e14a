#include "server/rpc/ownership_service.h"

#include <vector>

#include "server/rpc/convert.h"

namespace holdfast::rpc {

OwnershipService::OwnershipService(const ServiceContext& context)
    : context_(context), master_(*context.master) {}

grpc::ServerUnaryReactor* OwnershipService::OfferTickets(grpc::CallbackServerContext* call,
                                                         const v1::OfferTicketsRequest* request,
                                                         v1::OfferTicketsResponse* response) {
  return Answer(context_, call, base::Method::kOfferTickets, [&](int64_t /*now_ms*/) {
    const auto session = FromProto(request->session());
    if (!session.ok()) return session.status();
    core::OfferRequest offer;
    offer.session = *session;
    if (!core::ClientId::Parse(request->to_client_id(), &offer.to)) {
      return core::Refuse(core::Reason::kBadId, "offer: to_client_id is not 16 bytes");
    }
    offer.handover_id = request->handover_id();
    offer.first_sequence = request->seq();
    std::vector<core::OfferItem> items;
    items.reserve(static_cast<size_t>(request->items_size()));
    for (const v1::OfferItem& item : request->items()) {
      items.push_back({item.key(), core::PutId{item.put_id()}, item.checksum()});
    }
    offer.items = items;
    core::OfferAnswer answer;
    if (absl::Status status = master_.OfferTickets(offer, &answer); !status.ok()) return status;
    ToProto(answer.rows, response->mutable_results());
    response->set_next_seq(answer.next_sequence);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* OwnershipService::AckTickets(grpc::CallbackServerContext* call,
                                                       const v1::AckTicketsRequest* request,
                                                       v1::AckTicketsResponse* response) {
  return Answer(context_, call, base::Method::kAckTickets, [&](int64_t now_ms) {
    const auto session = FromProto(request->session());
    if (!session.ok()) return session.status();
    core::ClientId from;
    if (!core::ClientId::Parse(request->from_client_id(), &from)) {
      return core::Refuse(core::Reason::kBadId, "acknowledge: from_client_id is not 16 bytes");
    }
    uint64_t acknowledged = 0;
    absl::Status status = master_.AckTickets(*session, from, request->handover_id(),
                                             request->next_expected_seq(), now_ms, &acknowledged);
    response->set_next_expected_seq(acknowledged);
    return status;
  });
}

grpc::ServerUnaryReactor* OwnershipService::WithdrawOffer(grpc::CallbackServerContext* call,
                                                          const v1::WithdrawOfferRequest* request,
                                                          v1::WithdrawOfferResponse* response) {
  return Answer(context_, call, base::Method::kWithdrawOffer, [&](int64_t /*now_ms*/) {
    const auto session = FromProto(request->session());
    if (!session.ok()) return session.status();
    uint64_t withdrawn = 0;
    absl::Status status = master_.WithdrawOffer(*session, request->handover_id(), request->seq(),
                                                request->count(), &withdrawn);
    response->set_withdrawn(withdrawn);
    return status;
  });
}

}  // namespace holdfast::rpc

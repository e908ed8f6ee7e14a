// OwnershipService: translation of the hand-over calls. Every handler runs inline and blocks on nothing.

#ifndef HOLDFAST_SERVER_RPC_OWNERSHIP_SERVICE_H_
#define HOLDFAST_SERVER_RPC_OWNERSHIP_SERVICE_H_

#include "holdfast/v1/ownership.grpc.pb.h"
#include "server/rpc/service_context.h"

namespace holdfast::rpc {

// Thread-safe.
class OwnershipService : public v1::OwnershipService::CallbackService {
 public:
  explicit OwnershipService(const ServiceContext& context);

  grpc::ServerUnaryReactor* OfferTickets(grpc::CallbackServerContext* call,
                                         const v1::OfferTicketsRequest* request,
                                         v1::OfferTicketsResponse* response) override;
  grpc::ServerUnaryReactor* AckTickets(grpc::CallbackServerContext* call,
                                       const v1::AckTicketsRequest* request,
                                       v1::AckTicketsResponse* response) override;
  grpc::ServerUnaryReactor* WithdrawOffer(grpc::CallbackServerContext* call,
                                          const v1::WithdrawOfferRequest* request,
                                          v1::WithdrawOfferResponse* response) override;

 private:
  const ServiceContext context_;
  core::Master& master_;
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_OWNERSHIP_SERVICE_H_

// The gRPC server with all its limits.

#ifndef HOLDFAST_SERVER_RPC_GRPC_SERVER_H_
#define HOLDFAST_SERVER_RPC_GRPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast::rpc {

struct GrpcServerOptions {
  std::string listen = "127.0.0.1:50051";
  int max_message_bytes = 8 << 20;   // a full batch of the longest keys, with room
  int max_concurrent_streams = 256;  // of one connection; more wait at the client
  int64_t transport_memory_bytes = 512ll << 20;
  int ping_interval_min_ms = 10'000;  // clients that ping more often are told to stop, and cut off
};

// Serves from Start to Shutdown. The services outlive it.
class GrpcServer {
 public:
  // UNAVAILABLE with the address and the reason when it cannot be bound, also when another process listens there.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const GrpcServerOptions& options, const std::vector<grpc::Service*>& services);

  int port() const { return port_; }
  // Says NOT_SERVING, takes no new calls, waits for those in flight, and cuts off what is left at the deadline.
  void Shutdown(int64_t deadline_ms);

 private:
  GrpcServer(std::unique_ptr<grpc::Server> server, int port);

  const std::unique_ptr<grpc::Server> server_;
  const int port_;
};

}  // namespace holdfast::rpc

#endif  // HOLDFAST_SERVER_RPC_GRPC_SERVER_H_

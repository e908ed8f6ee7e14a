#include "client/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/strings/str_cat.h"

namespace holdfast::client {
namespace {

constexpr int kMessageBytesMax = 8 << 20;  // the master's own limit
// The master cuts off clients that ping more often than every 10 s; 20 s is the documented minimum.
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kReconnectInitialMs = 100;
constexpr int kReconnectMaxMs = 2'000;
constexpr int kConnectAttemptMs =
    2'000;  // gRPC's default of 20 s would hang on an address that swallows packets

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& master) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectInitialMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  return grpc::CreateCustomChannel(master, grpc::InsecureChannelCredentials(), arguments);
}

absl::Status AwaitConnected(grpc::Channel* channel, const std::string& master, Deadline deadline) {
  if (channel->WaitForConnected(ToGrpc(deadline))) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("connect to ", master, ": no answer before the deadline"));
}

void ConnectSoon(grpc::Channel* channel) {
  grpc::experimental::ChannelResetConnectionBackoff(channel);
  channel->GetState(/*try_to_connect=*/true);
}

}  // namespace holdfast::client

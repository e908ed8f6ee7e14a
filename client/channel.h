// Channels to the master, with the settings that HARDENING asks of clients.

#ifndef HOLDFAST_CLIENT_CHANNEL_H_
#define HOLDFAST_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/deadline.h"

namespace holdfast::client {

// A channel with a connection of its own (two channels never share one, so a heartbeat cannot queue behind bulk data).
// Environment proxies are ignored; a master that restarts is found again within about two seconds.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& master);

// UNAVAILABLE when no connection stands before the deadline.
absl::Status AwaitConnected(grpc::Channel* channel, const std::string& master, Deadline deadline);

// Lets the channel try again at once instead of after its back-off. Does not block.
void ConnectSoon(grpc::Channel* channel);

}  // namespace holdfast::client

#endif  // HOLDFAST_CLIENT_CHANNEL_H_

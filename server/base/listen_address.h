// Addresses to listen on, and why one cannot be had: the libraries only say that it went wrong.

#ifndef HOLDFAST_SERVER_BASE_LISTEN_ADDRESS_H_
#define HOLDFAST_SERVER_BASE_LISTEN_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace holdfast::base {

struct ListenAddress {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;  // 0 to 65535
};

// "HOST:PORT" or "[IPV6]:PORT". False when `text` is neither; *address is undefined then.
bool ParseListenAddress(absl::string_view text, ListenAddress* address);

// Connects to whoever listens on `address` and hangs up at once, so that he looks up. False when it cannot be tried.
bool Ring(const ListenAddress& address);

// The system's words for the failure to listen on `address`, "Address already in use" for one. To be called after the
// failure: it tries again.
std::string WhyNotListening(absl::string_view address);

}  // namespace holdfast::base

#endif  // HOLDFAST_SERVER_BASE_LISTEN_ADDRESS_H_

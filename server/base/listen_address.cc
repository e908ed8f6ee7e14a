#include "server/base/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace holdfast::base {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// *failure is a code of getaddrinfo, 0 for none.
AddressList Resolve(const ListenAddress& address, int* failure) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  *failure = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  return {found, &freeaddrinfo};
}

int OpenSocket(const addrinfo& info) {
  return socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, info.ai_protocol);
}

// The error of listening there as the libraries do; 0: it works.
int TryToListen(const addrinfo& info) {
  const int listener = OpenSocket(info);
  if (listener < 0) return errno;
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int error = 0;
  if (bind(listener, info.ai_addr, info.ai_addrlen) != 0 || listen(listener, 1) != 0) error = errno;
  close(listener);
  return error;
}

}  // namespace

bool ParseListenAddress(absl::string_view text, ListenAddress* address) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return false;
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port = text.substr(colon + 1);
  int number = 0;
  if (port.empty() || !std::all_of(port.begin(), port.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(port, &number) || number > 65535) {
    return false;
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != absl::string_view::npos) {
    return false;
  }
  *address = {std::string(host), std::string(port)};
  return !host.empty();
}

bool Ring(const ListenAddress& address) {
  int failure = 0;
  const AddressList found = Resolve(address, &failure);
  if (failure != 0) return false;
  const int caller = OpenSocket(*found);
  if (caller < 0) return false;
  const bool tried =
      connect(caller, found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS;
  close(caller);
  return tried;
}

std::string WhyNotListening(absl::string_view text) {
  ListenAddress address;
  if (!ParseListenAddress(text, &address)) return "not HOST:PORT";
  int failure = 0;
  const AddressList found = Resolve(address, &failure);
  if (failure != 0) return gai_strerror(failure);
  int error = 0;
  for (const addrinfo* info = found.get(); info != nullptr && error == 0; info = info->ai_next) {
    error = TryToListen(*info);
  }
  return error == 0 ? "the address is free now" : std::strerror(error);
}

}  // namespace holdfast::base

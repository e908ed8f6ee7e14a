#include "tests/testing/store/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace holdfast::testing {

ScriptedServer::ScriptedServer(std::function<ScriptedReply(const ScriptedRequest&)> reply)
    : reply_(std::move(reply)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  listen(listener_, 16);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
    for (const int connection : open_) shutdown(connection, SHUT_RDWR);
  }
  shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  std::vector<std::thread> serving;
  {
    absl::MutexLock lock(&mu_);
    serving.swap(serving_);
  }
  for (std::thread& thread : serving) thread.join();
  close(listener_);
  absl::MutexLock lock(&mu_);
  for (const int connection : open_) close(connection);
}

std::string ScriptedServer::endpoint() const { return absl::StrCat("http://127.0.0.1:", port_); }

std::vector<ScriptedRequest> ScriptedServer::requests() const {
  absl::MutexLock lock(&mu_);
  return requests_;
}

size_t ScriptedServer::connections() const {
  absl::MutexLock lock(&mu_);
  return open_.size();
}

void ScriptedServer::Accept() {
  for (int connection = accept(listener_, nullptr, nullptr); connection >= 0;
       connection = accept(listener_, nullptr, nullptr)) {
    absl::MutexLock lock(&mu_);
    open_.push_back(connection);
    if (stopped_) return;
    serving_.emplace_back([this, connection] { Serve(connection); });
  }
}

bool ScriptedServer::ReadRequest(int connection, std::string* buffer, ScriptedRequest* request) {
  size_t head_end = std::string::npos;
  size_t body_bytes = 0;
  char block[65536];
  while (true) {
    if (head_end == std::string::npos) {
      head_end = buffer->find("\r\n\r\n");
      if (head_end != std::string::npos) {
        const std::vector<std::string> lines = absl::StrSplit(buffer->substr(0, head_end), "\r\n");
        const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
        request->method = first[0];
        request->target = first[1];
        for (size_t i = 1; i < lines.size(); ++i) {
          const size_t colon = lines[i].find(':');
          request->headers[absl::AsciiStrToLower(lines[i].substr(0, colon))] =
              std::string(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)));
        }
        body_bytes = std::strtoull(request->headers["content-length"].c_str(), nullptr, 10);
      }
    }
    if (head_end != std::string::npos && buffer->size() >= head_end + 4 + body_bytes) {
      request->body = buffer->substr(head_end + 4, body_bytes);
      buffer->erase(0, head_end + 4 + body_bytes);
      return true;
    }
    const ssize_t got = recv(connection, block, sizeof(block), 0);
    if (got <= 0) return false;
    buffer->append(block, static_cast<size_t>(got));
  }
}

void ScriptedServer::Serve(int connection) {
  std::string buffer;
  ScriptedRequest request;
  while (ReadRequest(connection, &buffer, &request)) {
    ScriptedReply reply;
    {
      absl::MutexLock lock(&mu_);
      requests_.push_back(request);
      reply = reply_(request);
    }
    request = {};
    if (reply.hang) continue;  // until the other side has enough
    std::string answer = absl::StrCat("HTTP/1.1 ", reply.status, " Scripted\r\nContent-Length: ",
                                      reply.body.size() + reply.missing_bytes, "\r\n");
    for (const std::string& header : reply.headers) absl::StrAppend(&answer, header, "\r\n");
    absl::StrAppend(&answer, "\r\n", reply.body);
    if (!reply.reset) send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    if (reply.reset || reply.missing_bytes > 0) {
      shutdown(connection, SHUT_RDWR);
      return;
    }
  }
}

}  // namespace holdfast::testing

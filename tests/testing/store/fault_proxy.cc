#include "tests/testing/store/fault_proxy.h"

#include <curl/curl.h>

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace holdfast::testing {
namespace {

size_t AppendTo(char* data, size_t size, size_t count, void* out) {
  static_cast<std::string*>(out)->append(data, size * count);
  return size * count;
}

// Headers that ScriptedServer or the connection sets itself are left out.
size_t KeepHeader(char* data, size_t size, size_t count, void* out) {
  const absl::string_view line = absl::StripSuffix(absl::string_view(data, size * count), "\r\n");
  const bool own = absl::StartsWithIgnoreCase(line, "content-length") ||
                   absl::StartsWithIgnoreCase(line, "transfer-encoding") ||
                   absl::StartsWithIgnoreCase(line, "connection") ||
                   absl::StartsWithIgnoreCase(line, "keep-alive") ||
                   absl::StartsWith(line, "HTTP/");
  if (!own && !line.empty()) static_cast<std::vector<std::string>*>(out)->emplace_back(line);
  return size * count;
}

}  // namespace

FaultProxy::FaultProxy(std::string upstream)
    : upstream_(std::move(upstream)),
      server_([this](const ScriptedRequest& request) { return Reply(request); }) {}

void FaultProxy::Fail(ProxyFault fault, std::string method) {
  absl::MutexLock lock(&mu_);
  fault_ = fault;
  method_ = std::move(method);
}

size_t FaultProxy::Land() {
  std::vector<ScriptedRequest> late;
  {
    absl::MutexLock lock(&mu_);
    late.swap(late_);
  }
  for (const ScriptedRequest& request : late) PassOn(request);
  return late.size();
}

size_t FaultProxy::faults() const {
  absl::MutexLock lock(&mu_);
  return faults_;
}

ScriptedReply FaultProxy::Reply(const ScriptedRequest& request) {
  ProxyFault fault = ProxyFault::kNone;
  {
    absl::MutexLock lock(&mu_);
    if (method_.empty() || method_ == request.method) fault = fault_;
    if (fault != ProxyFault::kNone) ++faults_;
    if (fault == ProxyFault::kTimeoutThenSuccess) late_.push_back(request);
  }
  ScriptedReply reply;
  switch (fault) {
    case ProxyFault::kNone:
      return PassOn(request);
    case ProxyFault::kHang:
    case ProxyFault::kTimeoutThenSuccess:
      reply.hang = true;
      return reply;
    case ProxyFault::kReset:
      reply.reset = true;
      return reply;
    case ProxyFault::kSlowDown:
      reply.status = 503;
      reply.body = "<Error><Code>SlowDown</Code></Error>";
      return reply;
    case ProxyFault::kAccessDenied:
      reply.status = 403;
      reply.body = "<Error><Code>AccessDenied</Code></Error>";
      return reply;
    case ProxyFault::kSuccessThenTimeout:
      PassOn(request);
      reply.hang = true;
      return reply;
    case ProxyFault::kSuccessThenReset:
      PassOn(request);
      reply.reset = true;
      return reply;
    case ProxyFault::kTruncated: {
      reply = PassOn(request);
      const size_t kept = reply.body.size() / 2;
      reply.missing_bytes = reply.body.size() - kept + (reply.body.empty() ? 1 : 0);
      reply.body.resize(kept);
      return reply;
    }
  }
  return reply;
}

ScriptedReply FaultProxy::PassOn(const ScriptedRequest& request) const {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(),
                                                                   &curl_easy_cleanup);
  curl_slist* list = nullptr;
  for (const auto& [name, value] : request.headers) {
    list = curl_slist_append(list, absl::StrCat(name, ": ", value).c_str());
  }
  list = curl_slist_append(list, "expect:");
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                            &curl_slist_free_all);
  ScriptedReply reply;
  CURL* const curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, absl::StrCat(upstream_, request.target).c_str());
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  if (!request.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
  }
  if (request.method == "HEAD") curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &AppendTo);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply.body);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &KeepHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &reply.headers);
  if (curl_easy_perform(curl) != CURLE_OK) {
    reply.reset = true;
    return reply;
  }
  int64_t status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  return reply;
}

}  // namespace holdfast::testing

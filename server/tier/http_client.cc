#include "server/tier/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace holdfast::tier {
namespace {

constexpr size_t kIdleHandlesMax = 16;

// Everything that the callbacks of one request work on.
struct Transfer {
  const HttpRequest* request = nullptr;
  HttpAnswer* answer = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
  size_t answer_bytes_max = 0;
  size_t sent = 0;
  int status = 0;
  bool too_large = false;
};

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  HttpAnswer& answer = *transfer.answer;
  const absl::Span<char> into = transfer.request->into;
  const bool direct = !into.empty() && (transfer.status == 200 || transfer.status == 206);
  const size_t room = direct ? into.size() : transfer.answer_bytes_max;
  if (bytes > room - std::min(room, answer.received_bytes)) {
    transfer.too_large = true;
    return 0;
  }
  if (direct) {
    std::memcpy(into.data() + answer.received_bytes, data, bytes);
  } else {
    answer.body.append(data, bytes);
  }
  answer.received_bytes += bytes;
  return bytes;
}

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view line = absl::StripAsciiWhitespace({data, size * count});
  if (absl::StartsWith(line, "HTTP/")) {
    // Of the last of several answers, as after "100 Continue".
    const size_t space = line.find(' ');
    transfer.status = space == absl::string_view::npos ? 0 : std::atoi(line.data() + space + 1);
    transfer.answer->headers.clear();
  } else if (const size_t colon = line.find(':'); colon != absl::string_view::npos) {
    transfer.answer->headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return size * count;
}

size_t OnRead(char* out, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const absl::string_view left = transfer.request->body.substr(transfer.sent);
  const size_t bytes = std::min(left.size(), size * count);
  std::memcpy(out, left.data(), bytes);
  transfer.sent += bytes;
  return bytes;
}

// For a request that is sent again on a new connection.
int OnSeek(void* user, curl_off_t offset, int origin) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  transfer.sent = static_cast<size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<const Transfer*>(user)->cancelled ? 1 : 0;
}

HttpAnswer::Failure FailureOf(CURLcode code, const Transfer& transfer) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
      return HttpAnswer::Failure::kNotSent;
    case CURLE_OPERATION_TIMEDOUT:
      return HttpAnswer::Failure::kTimeout;
    case CURLE_ABORTED_BY_CALLBACK:
      return *transfer.cancelled ? HttpAnswer::Failure::kCancelled : HttpAnswer::Failure::kBroken;
    default:
      return HttpAnswer::Failure::kBroken;
  }
}

void SetMethod(CURL* curl, const HttpRequest& request) {
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method == "PUT") {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  } else if (request.method == "POST") {
    // Not nullptr, which would have it read from a callback.
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
  } else {
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void SetCallbacks(CURL* curl, Transfer* transfer) {
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, OnRead);
  curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, OnSeek);
  curl_easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

std::string Encode(absl::string_view text, bool keep_slash) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~' ||
                       (keep_slash && c == '/');
    if (plain) {
      out.push_back(static_cast<char>(c));
    } else {
      absl::StrAppend(&out, "%",
                      absl::AsciiStrToUpper(absl::StrCat(absl::Hex(c, absl::kZeroPad2))));
    }
  }
  return out;
}

}  // namespace

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {
  static const bool initialised = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  static_cast<void>(initialised);
}

HttpClient::~HttpClient() {
  absl::MutexLock lock(&mu_);
  for (void* handle : idle_) curl_easy_cleanup(handle);
}

void* HttpClient::TakeHandle() {
  absl::MutexLock lock(&mu_);
  if (idle_.empty()) return curl_easy_init();
  void* handle = idle_.back();
  idle_.pop_back();
  return handle;
}

void HttpClient::GiveBack(void* handle) {
  curl_easy_reset(handle);  // its connection stays
  absl::MutexLock lock(&mu_);
  if (idle_.size() < kIdleHandlesMax) {
    idle_.push_back(handle);
  } else {
    curl_easy_cleanup(handle);
  }
}

HttpAnswer HttpClient::Send(const HttpRequest& request) {
  HttpAnswer answer;
  const absl::Duration left = request.deadline - absl::Now();
  if (cancelled_ || left <= absl::ZeroDuration()) {
    answer.failure = cancelled_ ? HttpAnswer::Failure::kCancelled : HttpAnswer::Failure::kNotSent;
    answer.error = cancelled_ ? "the store is shutting down" : "the deadline is over";
    return answer;
  }
  CURL* curl = TakeHandle();
  Transfer transfer;
  transfer.request = &request;
  transfer.answer = &answer;
  transfer.cancelled = &cancelled_;
  transfer.answer_bytes_max = options_.answer_bytes_max;
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY,
                   "");  // never through a proxy that the environment happens to name
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout_ms));
  // An endless deadline must not become "no time-out at all", which is 0.
  curl_easy_setopt(
      curl, CURLOPT_TIMEOUT_MS,
      static_cast<long>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, 86'400'000)));
  // Large bodies do not wait for "100 Continue". (The header cannot be suppressed: its absence would be signed.)
  curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
  curl_easy_setopt(curl, CURLOPT_USERPWD, options_.user.c_str());
  curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, options_.provider.c_str());
  SetMethod(curl, request);
  SetCallbacks(curl, &transfer);
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(list);
  if (code == CURLE_OK) {
    answer.status = transfer.status;
  } else {
    answer.failure = FailureOf(code, transfer);
    answer.error = error[0] != '\0' ? error : curl_easy_strerror(code);
    if (transfer.too_large) answer.error = "the answer is larger than expected";
  }
  GiveBack(curl);
  return answer;
}

std::string EncodePath(absl::string_view path) { return Encode(path, /*keep_slash=*/true); }
std::string EncodeQuery(absl::string_view word) { return Encode(word, /*keep_slash=*/false); }

}  // namespace holdfast::tier

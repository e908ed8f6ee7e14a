// Signed HTTP requests, by libcurl, over connections that are used again.

#ifndef HOLDFAST_SERVER_TIER_HTTP_CLIENT_H_
#define HOLDFAST_SERVER_TIER_HTTP_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace holdfast::tier {

struct HttpRequest {
  std::string method;  // GET, PUT, POST, DELETE
  std::string url;     // path and query percent-encoded; parameters sorted, each with a '='
  std::vector<std::string> headers;
  absl::string_view body;  // lives until the answer is there
  absl::Span<char>
      into;  // where a body of a success goes, when it has this size; empty: into HttpAnswer::body
  absl::Time deadline;
};

struct HttpAnswer {
  // What happened when `status` is 0: there was no whole answer.
  enum class Failure { kNone, kNotSent, kTimeout, kCancelled, kBroken };

  int status = 0;
  Failure failure = Failure::kNone;
  std::string error;                           // of the transport, without credentials
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  size_t received_bytes = 0;  // of the body
};

struct HttpOptions {
  std::string user;      // for signing, "KEY_ID:SECRET"
  std::string provider;  // libcurl's word for the signature, "aws:amz:REGION:s3"
  int64_t connect_timeout_ms = 5'000;
  size_t answer_bytes_max = 16 << 20;  // of an answer that is kept in memory
};

// Thread-safe. As many connections as calls at a time.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpAnswer Send(const HttpRequest& request);
  // Requests in progress end within a second, later ones at once.
  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  void* TakeHandle();
  void GiveBack(void* handle);

  const HttpOptions options_;
  std::atomic<bool> cancelled_{false};
  absl::Mutex mu_;
  std::vector<void*> idle_ ABSL_GUARDED_BY(mu_);  // CURL handles
};

// A word as it stands in a path (which keeps its slashes) or a query.
std::string EncodePath(absl::string_view path);
std::string EncodeQuery(absl::string_view word);

}  // namespace holdfast::tier

#endif  // HOLDFAST_SERVER_TIER_HTTP_CLIENT_H_

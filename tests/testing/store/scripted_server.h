// An HTTP server that answers as a test says, also wrongly, late, or not at all.

#ifndef HOLDFAST_TESTS_TESTING_STORE_SCRIPTED_SERVER_H_
#define HOLDFAST_TESTS_TESTING_STORE_SCRIPTED_SERVER_H_

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace holdfast::testing {

struct ScriptedRequest {
  std::string method;
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct ScriptedReply {
  int status = 200;
  std::string body = {};
  std::vector<std::string> headers = {};
  size_t missing_bytes = 0;  // so many are announced more than are sent, then the connection breaks
  bool reset = false;        // breaks the connection instead of answering
  bool hang = false;         // never answers
};

// Serves on loopback until destruction.
class ScriptedServer {
 public:
  // `reply` is called for one request at a time.
  explicit ScriptedServer(std::function<ScriptedReply(const ScriptedRequest&)> reply);
  ~ScriptedServer();

  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string endpoint() const;
  std::vector<ScriptedRequest> requests() const;
  size_t connections() const;

 private:
  void Accept();
  void Serve(int connection);
  bool ReadRequest(int connection, std::string* buffer, ScriptedRequest* request);

  const std::function<ScriptedReply(const ScriptedRequest&)> reply_;
  int listener_ = -1;
  int port_ = 0;

  mutable absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<int> open_ ABSL_GUARDED_BY(mu_);
  std::vector<ScriptedRequest> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> serving_ ABSL_GUARDED_BY(mu_);
  std::thread accepting_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_STORE_SCRIPTED_SERVER_H_

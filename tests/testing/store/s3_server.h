// A real S3 server that checks signatures, with one bucket: s3rver as a child process, or one that runs already.

#ifndef HOLDFAST_TESTS_TESTING_STORE_S3_SERVER_H_
#define HOLDFAST_TESTS_TESTING_STORE_S3_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace holdfast::testing {

// The child runs until destruction, over a temporary directory. With HOLDFAST_S3_ENDPOINT (http://HOST:PORT) in the
// environment nothing is started: the tests use the bucket HOLDFAST_S3_BUCKET of that server with the credentials in
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and leave in it what they do not delete. Not thread-safe.
class S3Server {
 public:
  // Credentials for it are in the environment afterwards. UNAVAILABLE when it does not serve in time, with what it
  // printed; INVALID_ARGUMENT when the variables above are not complete.
  static absl::StatusOr<std::unique_ptr<S3Server>> Start();
  // One for all tests of the program; null when it does not serve.
  static S3Server* Shared();
  // A prefix of the test that runs, different for each run, also of other programs on the same bucket.
  static std::string UniquePrefix();
  ~S3Server();

  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // For --durable-store and OpenObjectStore; with `endpoint`, through a proxy there.
  std::string Uri(const std::string& prefix) const { return Uri(prefix, endpoint_); }
  std::string Uri(const std::string& prefix, const std::string& endpoint) const;

 private:
  S3Server(pid_t pid, std::string directory, std::string endpoint, std::string bucket);

  static absl::StatusOr<std::unique_ptr<S3Server>> StartChild();

  const pid_t pid_;  // 0: not a child
  const std::string directory_;
  std::string endpoint_;
  const std::string bucket_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_STORE_S3_SERVER_H_

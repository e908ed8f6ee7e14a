// A real S3 server (s3rver) as a child process, with one bucket. It checks signatures.

#ifndef HOLDFAST_TESTS_TESTING_STORE_S3_SERVER_H_
#define HOLDFAST_TESTS_TESTING_STORE_S3_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace holdfast::testing {

// Runs until destruction, over a temporary directory. Not thread-safe.
class S3Server {
 public:
  static constexpr const char* kBucket = "holdfast-test";
  static constexpr const char* kKeyId = "S3RVER";  // what this server takes
  static constexpr const char* kSecret = "S3RVER";

  // UNAVAILABLE when it does not serve in time, with what it printed.
  static absl::StatusOr<std::unique_ptr<S3Server>> Start();
  // One for all tests of the program, with credentials for it in the environment; null when it does not serve.
  static S3Server* Shared();
  // A prefix of the test that runs, different for each run.
  static std::string UniquePrefix();
  ~S3Server();

  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // For --durable-store and OpenObjectStore.
  std::string Uri(const std::string& prefix) const;

 private:
  S3Server(pid_t pid, std::string directory);

  const pid_t pid_;
  const std::string directory_;
  std::string endpoint_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_STORE_S3_SERVER_H_

#include "tests/testing/store/s3_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace holdfast::testing {
namespace {

constexpr char kChildBucket[] = "holdfast-test";
constexpr char kChildCredential[] = "S3RVER";  // what s3rver takes as key id and as secret

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Empty when it is not set.
std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

S3Server::S3Server(pid_t pid, std::string directory, std::string endpoint, std::string bucket)
    : pid_(pid),
      directory_(std::move(directory)),
      endpoint_(std::move(endpoint)),
      bucket_(std::move(bucket)) {}

S3Server::~S3Server() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string S3Server::Uri(const std::string& prefix, const std::string& endpoint) const {
  return absl::StrCat("s3://", bucket_, "/", prefix, "?endpoint=", endpoint, "&path_style=true");
}

S3Server* S3Server::Shared() {
  static const std::unique_ptr<S3Server> server = [] {
    auto started = Start();
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() ? *std::move(started) : nullptr;
  }();
  return server.get();
}

std::string S3Server::UniquePrefix() {
  static const unsigned program = std::random_device()();
  static std::atomic<int> runs{0};
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(name.begin(), name.end(), '/', '-');
  return absl::StrCat(name, "-", absl::Hex(program), "-", ++runs);
}

absl::StatusOr<std::unique_ptr<S3Server>> S3Server::Start() {
  std::string endpoint = Variable("HOLDFAST_S3_ENDPOINT");
  if (endpoint.empty()) return StartChild();
  for (const char* name : {"HOLDFAST_S3_BUCKET", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}) {
    if (Variable(name).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("HOLDFAST_S3_ENDPOINT is set, and ", name, " is not"));
    }
  }
  return std::unique_ptr<S3Server>(
      new S3Server(0, "", std::move(endpoint), Variable("HOLDFAST_S3_BUCKET")));
}

absl::StatusOr<std::unique_ptr<S3Server>> S3Server::StartChild() {
  setenv("AWS_ACCESS_KEY_ID", kChildCredential, 1);
  setenv("AWS_SECRET_ACCESS_KEY", kChildCredential, 1);
  char pattern[] = "/tmp/holdfast-s3-XXXXXX";
  if (mkdtemp(pattern) == nullptr) return absl::InternalError("mkdtemp failed");
  const std::string directory = pattern;
  const std::string log = directory + "/log";
  const std::string data = directory + "/data";
  const std::string program =
      absl::StrCat(HOLDFAST_SOURCE_DIR, "/tests/tools/node_modules/.bin/s3rver");
  const pid_t pid = fork();
  if (pid < 0) return absl::InternalError("fork failed");  // the destructor would kill everything
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive a test that crashes
    const int out = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    // Its page tokens use a cipher that OpenSSL counts as old.
    setenv("NODE_OPTIONS", "--openssl-legacy-provider", 1);
    execl(program.c_str(), "s3rver", "-d", data.c_str(), "-a", "127.0.0.1", "-p", "0",
          "--configure-bucket", kChildBucket, static_cast<char*>(nullptr));
    _exit(127);
  }
  std::unique_ptr<S3Server> server(new S3Server(pid, directory, "", kChildBucket));
  const std::regex listening("listening on [^:]*:([0-9]+)");
  for (int i = 0; i < 3000; ++i) {
    const std::string output = Contents(log);
    std::smatch match;
    if (std::regex_search(output, match, listening)) {
      server->endpoint_ = absl::StrCat("http://127.0.0.1:", match[1].str());
      return server;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  return absl::UnavailableError(absl::StrCat(program, " does not serve: ", Contents(log)));
}

}  // namespace holdfast::testing

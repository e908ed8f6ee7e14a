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
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace holdfast::testing {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

S3Server::S3Server(pid_t pid, std::string directory)
    : pid_(pid), directory_(std::move(directory)) {}

S3Server::~S3Server() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string S3Server::Uri(const std::string& prefix) const {
  return absl::StrCat("s3://", kBucket, "/", prefix, "?endpoint=", endpoint_, "&path_style=true");
}

S3Server* S3Server::Shared() {
  static const std::unique_ptr<S3Server> server = [] {
    setenv("AWS_ACCESS_KEY_ID", kKeyId, 1);
    setenv("AWS_SECRET_ACCESS_KEY", kSecret, 1);
    auto started = Start();
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() ? *std::move(started) : nullptr;
  }();
  return server.get();
}

std::string S3Server::UniquePrefix() {
  static std::atomic<int> runs{0};
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(name.begin(), name.end(), '/', '-');
  return absl::StrCat(name, "-", ++runs);
}

absl::StatusOr<std::unique_ptr<S3Server>> S3Server::Start() {
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
          "--configure-bucket", kBucket, static_cast<char*>(nullptr));
    _exit(127);
  }
  std::unique_ptr<S3Server> server(new S3Server(pid, directory));
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

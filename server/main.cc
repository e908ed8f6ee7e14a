// holdfast-master: the daemon.

#include <signal.h>
#include <sys/resource.h>

#include <cstdio>

#include "absl/synchronization/mutex.h"
#include "server/app.h"
#include "server/ops/heap.h"
#include "server/ops/logging.h"
#include "server/options.h"

namespace holdfast {
namespace {

// Each client is a connection, and the soft limit of many systems is 1,024.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(int argc, char** argv) {
  ops::UseHugePages();
  const ParsedOptions parsed = ParseOptions(argc, argv);
  if (parsed.exit_code.has_value()) {
    std::fputs(parsed.text.c_str(), *parsed.exit_code == 0 ? stdout : stderr);
    return *parsed.exit_code;
  }
  // Debian builds the library with deadlock detection, which every lock of every call would pay for, gRPC's included. The
  // tests keep it on.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  ops::SetUpLogging(parsed.options.log_level);
  RaiseFileLimit();
  // Blocked in all threads, and waited for in this one. A second signal finds nobody and does no harm.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  auto app = App::Start(parsed.options);
  if (!app.ok()) {
    std::fprintf(stderr, "holdfast-master: %s\n", std::string(app.status().message()).c_str());
    return 1;
  }
  int received = 0;
  sigwait(&signals, &received);
  (*app)->Stop();
  return 0;
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) { return holdfast::Main(argc, argv); }

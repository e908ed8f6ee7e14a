// The real holdfast-master as a child process, for tests and benchmarks.

#ifndef HOLDFAST_TESTS_TESTING_NET_DAEMON_H_
#define HOLDFAST_TESTS_TESTING_NET_DAEMON_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast::testing {

// Runs until Stop or destruction. Not thread-safe.
class Daemon {
 public:
  // Starts the master from the directory of this program with a free port, unless a flag says otherwise, and waits until
  // it serves. UNAVAILABLE with its output when it ends or does not serve in time.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(std::vector<std::string> flags = {});
  // Starts it and waits for its end, for runs that are expected to fail.
  struct Ended {
    int exit_code = -1;
    std::string output;  // stdout and stderr
  };
  static Ended RunToEnd(std::vector<std::string> flags);
  ~Daemon();

  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& address() const { return address_; }
  int port() const { return port_; }
  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Waits for its end; the exit code, 128 + signal, or nothing when it does not end in time.
  std::optional<int> Wait(std::chrono::milliseconds timeout);
  // What it has printed so far.
  std::string Output() const;
  // Resident memory in bytes.
  uint64_t ResidentBytes() const;

 private:
  Daemon(pid_t pid, std::string directory);

  pid_t pid_;  // 0 when it has ended
  const std::string directory_;
  int port_ = 0;
  std::string address_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_NET_DAEMON_H_

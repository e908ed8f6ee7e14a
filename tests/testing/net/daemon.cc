#include "tests/testing/net/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace holdfast::testing {
namespace {

using std::chrono::steady_clock;

constexpr auto kStartTimeout = std::chrono::seconds(30);
constexpr auto kPoll = std::chrono::milliseconds(5);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string MakeDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "holdfast-XXXXXX").string();
  return mkdtemp(path.data()) == nullptr ? std::string() : path;
}

// 0 when the program cannot be started.
pid_t Spawn(const std::string& directory, std::vector<std::string> flags) {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "holdfast-master";
  // Flags of the caller come last, and the last one counts.
  std::vector<std::string> words = {program, "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0",
                                    "--port-file=" + directory + "/port"};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string log = directory + "/log";
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : 0;
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Daemon::Daemon(pid_t pid, std::string directory) : pid_(pid), directory_(std::move(directory)) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(std::vector<std::string> flags) {
  const std::string directory = MakeDirectory();
  const pid_t pid = Spawn(directory, std::move(flags));
  if (pid == 0) return absl::NotFoundError("holdfast-master cannot be started");
  std::unique_ptr<Daemon> daemon(new Daemon(pid, directory));
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < kStartTimeout) {
    if (std::ifstream(directory + "/port") >> daemon->port_ && daemon->port_ > 0) {
      daemon->address_ = absl::StrCat("127.0.0.1:", daemon->port_);
      return daemon;
    }
    if (daemon->Wait(std::chrono::milliseconds(0)).has_value()) break;
    std::this_thread::sleep_for(kPoll);
  }
  return absl::UnavailableError("holdfast-master does not serve: " + daemon->Output());
}

Daemon::Ended Daemon::RunToEnd(std::vector<std::string> flags) {
  const std::string directory = MakeDirectory();
  const pid_t pid = Spawn(directory, std::move(flags));
  if (pid == 0) return {-1, "holdfast-master cannot be started"};
  Daemon daemon(pid, directory);
  const std::optional<int> code = daemon.Wait(kStartTimeout);
  return {code.value_or(-1), daemon.Output()};
}

Daemon::~Daemon() {
  if (pid_ != 0) {
    Signal(SIGCONT);
    Signal(SIGTERM);
    if (!Wait(std::chrono::seconds(20)).has_value()) {
      Signal(SIGKILL);
      Wait(std::chrono::seconds(20));
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void Daemon::Signal(int signal) const {
  if (pid_ != 0) kill(pid_, signal);
}

std::optional<int> Daemon::Wait(std::chrono::milliseconds timeout) {
  if (pid_ == 0) return std::nullopt;
  const auto end = steady_clock::now() + timeout;
  for (;;) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      return ExitCode(status);
    }
    if (steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kPoll);
  }
}

std::string Daemon::Output() const { return ReadFile(directory_ + "/log"); }

uint64_t Daemon::ResidentBytes() const {
  std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
  for (std::string line; std::getline(status, line);) {
    uint64_t kib = 0;
    std::string name;
    if (std::istringstream(line) >> name >> kib && name == "VmRSS:") return kib * 1024;
  }
  return 0;
}

}  // namespace holdfast::testing

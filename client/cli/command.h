// The commands of `holdfast`: what each is called, takes and does, and how a command line finds the one it means.

#ifndef HOLDFAST_CLIENT_CLI_COMMAND_H_
#define HOLDFAST_CLIENT_CLI_COMMAND_H_

#include <cstddef>
#include <ostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/arguments.h"
#include "client/cli/context.h"

namespace holdfast::cli {

inline constexpr size_t kAnyNumber = static_cast<size_t>(-1);

struct Command {
  absl::string_view noun = {};
  absl::string_view verb = {};        // empty: the noun alone is the command
  absl::string_view positional = {};  // as in help: "KEY..."
  size_t positional_min = 0;
  size_t positional_max = 0;
  absl::string_view help = {};
  std::vector<Flag> flags = {};
  int (*run)(Context&) = nullptr;
};

// One function a file of commands.
std::vector<Command> StatusCommands();
std::vector<Command> SegmentCommands();
std::vector<Command> SegmentMountCommands();
std::vector<Command> ObjectCommands();
std::vector<Command> ObjectListCommands();
std::vector<Command> ClientCommands();
std::vector<Command> CleanupCommands();
std::vector<Command> TopCommands();

std::vector<Command> AllCommands();

// Runs the command that `words` (without the program's name) mean. The exit code of the process.
int RunCommandLine(absl::Span<const absl::string_view> words, std::ostream& out, std::ostream& err);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_COMMAND_H_

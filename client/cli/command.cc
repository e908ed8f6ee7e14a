#include "client/cli/command.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/text.h"

namespace holdfast::cli {
namespace {

const std::vector<Flag>& GlobalFlags() {
  static const auto* const flags = new std::vector<Flag>{
      {"master", "HOST:PORT", "where the master listens (default 127.0.0.1:50051)"},
      {"output", "text|json", "how answers are written (default text)"},
      {"timeout", "TIME", "of connecting and of each call: 500ms, 5s, 1m (default 5s)"},
      {"help", "", "this text, or that of one command"},
  };
  return *flags;
}

// The first two words that are neither flags nor values of flags.
std::vector<absl::string_view> LeadingWords(absl::Span<const absl::string_view> words) {
  std::vector<absl::string_view> leading;
  for (size_t i = 0; i < words.size() && leading.size() < 2; ++i) {
    if (!absl::StartsWith(words[i], "-")) {
      leading.push_back(words[i]);
      continue;
    }
    const auto takes_next = [&](const Flag& flag) {
      return !flag.value.empty() && words[i] == absl::StrCat("--", flag.name);
    };
    if (std::any_of(GlobalFlags().begin(), GlobalFlags().end(), takes_next)) ++i;
  }
  return leading;
}

std::string Synopsis(const Command& command) {
  std::string text = absl::StrCat("holdfast ", command.noun);
  if (!command.verb.empty()) absl::StrAppend(&text, " ", command.verb);
  if (!command.positional.empty()) absl::StrAppend(&text, " ", command.positional);
  return text;
}

void PrintFlags(absl::Span<const Flag> flags, std::ostream& out) {
  size_t width = 0;
  std::vector<std::string> names;
  for (const Flag& flag : flags) {
    names.push_back(flag.value.empty() ? absl::StrCat("--", flag.name)
                                       : absl::StrCat("--", flag.name, "=", flag.value));
    width = std::max(width, names.back().size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    out << "  " << names[i] << std::string(width - names[i].size() + 2, ' ') << flags[i].help
        << '\n';
  }
}

void PrintHelp(absl::Span<const Command> commands, std::ostream& out) {
  out << "Operates a Holdfast metadata master.\n\n";
  size_t width = 0;
  for (const Command& command : commands) width = std::max(width, Synopsis(command).size());
  for (const Command& command : commands) {
    const std::string synopsis = Synopsis(command);
    const absl::string_view summary = command.help.substr(0, command.help.find('\n'));
    out << "  " << synopsis << std::string(width - synopsis.size() + 2, ' ') << summary << '\n';
  }
  out << "\nFlags of every command (`holdfast NOUN VERB --help` shows those of one):\n";
  PrintFlags(GlobalFlags(), out);
  out << "\nExit: 0 done, 1 the master refused (why: on the error stream), 2 usage, 3 the master "
         "cannot be reached.\n";
}

void PrintCommandHelp(const Command& command, std::ostream& out) {
  out << Synopsis(command) << (command.flags.empty() ? "" : " [flags]") << "\n\n"
      << command.help << '\n';
  if (!command.flags.empty()) {
    out << "\nFlags:\n";
    PrintFlags(command.flags, out);
  }
  out << "\nFlags of every command:\n";
  PrintFlags(GlobalFlags(), out);
}

absl::StatusOr<Context::Globals> GlobalsOf(const Arguments& arguments) {
  Context::Globals globals;
  globals.master = arguments.Text("master", "127.0.0.1:50051");
  const std::string output = arguments.Text("output", "text");
  if (output != "text" && output != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("--output: '", output, "' is neither text nor json"));
  }
  globals.json = output == "json";
  absl::StatusOr<std::chrono::milliseconds> timeout =
      arguments.Duration("timeout", globals.timeout);
  if (!timeout.ok()) return timeout.status();
  if (timeout->count() == 0)
    return absl::InvalidArgumentError("--timeout: must be more than nothing");
  globals.timeout = *timeout;
  return globals;
}

const Command* FindCommand(absl::Span<const Command> commands,
                           absl::Span<const absl::string_view> leading) {
  for (const Command& command : commands) {
    if (command.noun != leading[0]) continue;
    if (command.verb.empty() || (leading.size() > 1 && command.verb == leading[1])) return &command;
  }
  return nullptr;
}

std::string UnknownCommand(absl::Span<const Command> commands,
                           absl::Span<const absl::string_view> leading) {
  std::vector<absl::string_view> verbs;
  for (const Command& command : commands) {
    if (command.noun == leading[0]) verbs.push_back(command.verb);
  }
  if (verbs.empty())
    return absl::StrCat("'", Escape(leading[0]), "' is no command; see holdfast --help");
  std::string text = absl::StrCat("'", leading[0], "' needs one of:");
  for (const absl::string_view verb : verbs) absl::StrAppend(&text, " ", verb);
  return text;
}

int Usage(absl::string_view message, std::ostream& err) {
  err << "holdfast: " << message << '\n';
  return kUsage;
}

bool AsksForHelp(absl::Span<const absl::string_view> words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--help") != end ||
         std::find(words.begin(), end, "-h") != end;
}

}  // namespace

std::vector<Command> AllCommands() {
  std::vector<Command> all;
  for (auto* const commands :
       {&StatusCommands, &SegmentCommands, &SegmentMountCommands, &ObjectCommands,
        &ObjectListCommands, &ClientCommands, &CleanupCommands, &TopCommands}) {
    for (Command& command : commands()) all.push_back(std::move(command));
  }
  return all;
}

int RunCommandLine(absl::Span<const absl::string_view> words, std::ostream& out,
                   std::ostream& err) {
  const std::vector<Command> commands = AllCommands();
  std::vector<absl::string_view> leading = LeadingWords(words);
  bool help = AsksForHelp(words);
  if (!leading.empty() && leading[0] == "help") {
    help = true;
    leading.assign(
        words.begin() + (std::find(words.begin(), words.end(), "help") - words.begin()) + 1,
        words.end());
  }
  if (leading.empty()) {
    PrintHelp(commands, help ? out : err);
    return help ? kDone : kUsage;
  }
  const Command* const command = FindCommand(commands, leading);
  if (command == nullptr) {
    const std::string unknown = UnknownCommand(commands, leading);
    return Usage(unknown, err);
  }
  if (help) {
    PrintCommandHelp(*command, out);
    return kDone;
  }
  std::vector<Flag> flags = GlobalFlags();
  flags.insert(flags.end(), command->flags.begin(), command->flags.end());
  absl::StatusOr<Arguments> arguments = Arguments::Parse(words, flags);
  if (!arguments.ok()) return Usage(arguments.status().message(), err);
  absl::StatusOr<Context::Globals> globals = GlobalsOf(*arguments);
  if (!globals.ok()) return Usage(globals.status().message(), err);
  arguments->TakeFirst();
  if (!command->verb.empty()) arguments->TakeFirst();
  const size_t count = arguments->positional().size();
  if (count < command->positional_min || count > command->positional_max) {
    return Usage(absl::StrCat("usage: ", Synopsis(*command), "; see --help"), err);
  }
  Context context(*std::move(globals), *std::move(arguments), &out, &err);
  const int exit = command->run(context);
  out.flush();
  return exit;
}

}  // namespace holdfast::cli

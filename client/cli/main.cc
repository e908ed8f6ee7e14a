// The command line `holdfast`.

#include <signal.h>

#include <iostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/command.h"

int main(int argc, char** argv) {
  // A reader that goes away (`holdfast object list | head`) ends the command by a write error instead of a signal.
  signal(SIGPIPE, SIG_IGN);
  const std::vector<absl::string_view> words(argv + 1, argv + argc);
  return holdfast::cli::RunCommandLine(words, std::cout, std::cerr);
}

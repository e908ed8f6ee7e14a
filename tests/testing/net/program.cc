#include "tests/testing/net/program.h"

#include <cstdio>
#include <filesystem>
#include <regex>

#include "absl/strings/str_cat.h"

namespace holdfast::testing {

std::string OutputOf(const std::string& command) {
  const std::filesystem::path directory =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  FILE* pipe = popen(absl::StrCat(directory.string(), "/", command).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  char buffer[4096];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    output.append(buffer, got);
  }
  return pclose(pipe) == 0 ? output : "";
}

double Field(const std::string& json, const std::string& name) {
  std::smatch found;
  const std::regex field(absl::StrCat("\"", name, "\": ([0-9.e+-]+)"));
  return std::regex_search(json, found, field) ? std::stod(found[1]) : -1;
}

}  // namespace holdfast::testing

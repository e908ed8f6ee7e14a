#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "tests/client/fake_master.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Result {
  int exit = -1;
  std::string out;
  std::string err;
};

Result RunCommand(std::vector<absl::string_view> words) {
  std::ostringstream out;
  std::ostringstream err;
  Result result;
  result.exit = RunCommandLine(words, out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

TEST(CommandTest, UsageErrorsAskNothingOfTheMaster) {
  const std::vector<std::vector<absl::string_view>> lines = {
      {},
      {"nonsense"},
      {"segment"},
      {"segment", "nonsense"},
      {"status", "extra"},
      {"status", "--nonsense"},
      {"status", "--output=xml"},
      {"status", "--timeout=0s"},
      {"segment", "unmount"},
      {"segment", "unmount", "7", "--grace=soon"},
      {"segment", "mount", "--name=a"},
      {"segment", "mount", "--name=a", "--size=much"},
      {"object", "put", "k"},
      {"object", "get"},
      {"object", "get", "!!!", "--key-base64"},
      {"object", "list", "--limit=-1"},
      {"top", "--iterations=x"},
  };
  for (const auto& line : lines) {
    const Result result = RunCommand(line);
    EXPECT_EQ(result.exit, kUsage) << (line.empty() ? "" : line.front());
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_FALSE(result.err.empty());
  }
}

TEST(CommandTest, EveryCommandHasHelp) {
  const Result all = RunCommand({"--help"});
  EXPECT_EQ(all.exit, kDone);
  std::set<std::string> names;
  for (const Command& command : AllCommands()) {
    EXPECT_TRUE(names.insert(absl::StrCat(command.noun, " ", command.verb)).second) << command.noun;
    EXPECT_THAT(all.out, HasSubstr(std::string(command.noun)));
    std::vector<absl::string_view> words = {command.noun};
    if (!command.verb.empty()) words.push_back(command.verb);
    words.push_back("--help");
    const Result one = RunCommand(words);
    EXPECT_EQ(one.exit, kDone);
    EXPECT_THAT(one.out, HasSubstr(std::string(command.help)));
  }
}

TEST(CommandTest, UnreachableMasterEndsWithThree) {
  const std::string master = absl::StrCat("--master=", testing::FakeMaster().address());
  for (const std::vector<absl::string_view>& line :
       {std::vector<absl::string_view>{"status"}, {"segment", "list"}, {"object", "get", "k"}}) {
    std::vector<absl::string_view> words = line;
    words.push_back(master);
    words.push_back("--timeout=200ms");
    const Result result = RunCommand(words);
    EXPECT_EQ(result.exit, kUnreachable) << line.front();
    EXPECT_THAT(result.err, HasSubstr("127.0.0.1"));
  }
}

TEST(CommandTest, GetShowsWhatWasFoundAndEndsWithOneForWhatWasNot) {
  testing::FakeMaster master;
  const std::string address = absl::StrCat("--master=", master.address());
  const Result found = RunCommand({address, "object", "get", "k1"});
  EXPECT_EQ(found.exit, kDone) << found.err;
  EXPECT_THAT(found.out, HasSubstr("4.0 KiB"));
  EXPECT_THAT(found.out, HasSubstr("node:2+128@"));
  const Result missing =
      RunCommand({"object", "get", "--output", "json", address, "k1", "missing"});
  EXPECT_EQ(missing.exit, kRefused);
  EXPECT_THAT(missing.err, HasSubstr("'missing': OBJECT_NOT_FOUND"));
  EXPECT_THAT(missing.out, HasSubstr("\"reason\":\"REASON_OBJECT_NOT_FOUND\""));
}

TEST(CommandTest, KeysInBase64AreDecoded) {
  testing::FakeMaster master;
  const Result result = RunCommand(
      {"object", "get", absl::StrCat("--master=", master.address()), "--key-base64", "awA="});
  EXPECT_EQ(result.exit, kDone) << result.err;
  EXPECT_THAT(result.out, HasSubstr("k\\x00"));
}

TEST(CommandTest, PutStartsAndEnds) {
  testing::FakeMaster master;
  const std::string address = absl::StrCat("--master=", master.address());
  const Result result = RunCommand({"object", "put", "k1", "--size=1MiB", address});
  EXPECT_EQ(result.exit, kDone) << result.err;
  EXPECT_EQ(master.Calls("PutStart"), 1);
  EXPECT_EQ(master.Calls("PutEnd"), 1);
  EXPECT_EQ(master.PutStarts()[0].items(0).size(), 1u << 20);
}

}  // namespace
}  // namespace holdfast::cli

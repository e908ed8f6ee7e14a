#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/arguments.h"

namespace holdfast::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Flag kFlags[] = {{"size", "SIZE", ""}, {"grace", "TIME", ""}, {"force", "", ""}};

absl::StatusOr<Arguments> Parse(std::vector<absl::string_view> words) {
  return Arguments::Parse(words, kFlags);
}

TEST(ArgumentsTest, FlagsAndWordsMayBeMixed) {
  const absl::StatusOr<Arguments> arguments =
      Parse({"a", "--size=1KiB", "b", "--grace", "5s", "--force", "c"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(arguments->positional(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(*arguments->Size("size", 0), 1024);
  EXPECT_EQ(*arguments->Duration("grace", {}), std::chrono::seconds(5));
  EXPECT_TRUE(arguments->Has("force"));
}

TEST(ArgumentsTest, NothingIsAFlagBehindTwoDashes) {
  EXPECT_THAT(Parse({"--", "--size", "-x"})->positional(), ElementsAre("--size", "-x"));
}

TEST(ArgumentsTest, ErrorsNameTheFlag) {
  EXPECT_THAT(Parse({"--nope"}).status().message(), HasSubstr("--nope"));
  EXPECT_THAT(Parse({"-x"}).status().message(), HasSubstr("-x"));
  EXPECT_THAT(Parse({"--size"}).status().message(), HasSubstr("--size"));
  EXPECT_THAT(Parse({"--force=yes"}).status().message(), HasSubstr("--force"));
  EXPECT_THAT(Parse({"--size=1", "--size=2"}).status().message(), HasSubstr("--size"));
  EXPECT_THAT(Parse({"--size=big"})->Size("size", 0).status().message(), HasSubstr("--size"));
}

TEST(ArgumentsTest, FlagThatIsNotGivenHasItsDefault) {
  const absl::StatusOr<Arguments> arguments = Parse({});
  EXPECT_EQ(*arguments->Size("size", 7), 7);
  EXPECT_FALSE(arguments->Has("force"));
}

}  // namespace
}  // namespace holdfast::cli

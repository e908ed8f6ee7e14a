#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

ParsedOptions Parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "holdfast-master");
  return ParseOptions(static_cast<int>(flags.size()), flags.data());
}

// A configuration file that is gone with this object.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(absl::StrCat(::testing::TempDir(), "holdfast-options-", getpid(), ".conf")),
        flag_("--config=" + path_) {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::remove(path_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  const char* flag() const { return flag_.c_str(); }

 private:
  const std::string path_;
  const std::string flag_;
};

void ExpectUsageError(const ParsedOptions& parsed, const std::string& named) {
  ASSERT_TRUE(parsed.exit_code.has_value()) << named;
  EXPECT_EQ(*parsed.exit_code, 2) << named;
  EXPECT_THAT(parsed.text, HasSubstr(named));
}

TEST(Options, DefaultsAreThoseOfTheDesign) {
  const ParsedOptions parsed = Parse({});
  ASSERT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_EQ(parsed.options.grpc.listen, "127.0.0.1:50051");
  EXPECT_EQ(parsed.options.metrics_listen, "127.0.0.1:9464");
  EXPECT_EQ(parsed.options.master.client_ttl_ms, 10'000);
  EXPECT_EQ(parsed.options.master.read_lease_ms, 10'000);
  EXPECT_EQ(parsed.options.master.strategy, core::PlacementStrategy::kFreeRatioFirst);
}

TEST(Options, FlagOverridesTheFile) {
  const ConfigFile file("client-ttl-ms=20000\nread-lease-ms=7000\nplacement=random\n");
  const ParsedOptions parsed = Parse({file.flag(), "--client-ttl-ms=30000"});
  ASSERT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_EQ(parsed.options.master.client_ttl_ms, 30'000);
  EXPECT_EQ(parsed.options.master.read_lease_ms, 7'000);
  EXPECT_EQ(parsed.options.master.strategy, core::PlacementStrategy::kRandom);
}

TEST(Options, UnknownKeyIsNamed) {
  ExpectUsageError(Parse({"--no-such-flag=1"}), "no-such-flag");
  const ConfigFile file("no-such-key=1\n");
  ExpectUsageError(Parse({file.flag()}), "no-such-key");
}

TEST(Options, MissingFileIsNamed) {
  ExpectUsageError(Parse({"--config=/nonexistent/holdfast.conf"}), "/nonexistent/holdfast.conf");
}

TEST(Options, BadValueIsNamed) {
  for (const auto& [flag, name] : std::vector<std::pair<const char*, const char*>>{
           {"--client-ttl-ms=soon", "client-ttl-ms"},
           {"--client-ttl-ms=", "client-ttl-ms"},
           {"--max-batch-items=0", "max-batch-items"},
           {"--max-batch-items=-1", "max-batch-items"},
           {"--max-batch-items=99999999999999999999", "max-batch-items"},
           {"--max-key-bytes=1025", "max-key-bytes"},
           {"--shards=1000", "shards"},
           {"--seed=0", "seed"},
           {"--seed=-1", "seed"},
           {"--placement=best", "placement"},
           {"--log-level=loud", "log-level"},
           {"--listen=50051", "listen"},
           {"--listen=127.0.0.1:70000", "listen"},
           {"--metrics-listen=:9464", "metrics-listen"}}) {
    ExpectUsageError(Parse({flag}), name);
  }
}

TEST(Options, BadValueInTheFileIsNamed) {
  for (const char* line : {"max-replicas=0", "max-replicas=many", "listen=nowhere"}) {
    const ConfigFile file(absl::StrCat(line, "\n"));
    ExpectUsageError(Parse({file.flag()}), std::string(absl::string_view(line).substr(0, 6)));
  }
}

TEST(Options, MetricsCanBeLeftOut) {
  const ParsedOptions parsed = Parse({"--metrics-listen=off"});
  ASSERT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_EQ(parsed.options.metrics_listen, "off");
}

TEST(Options, LastOfSeveralCounts) {
  const ParsedOptions parsed = Parse({"--seed=1", "--listen=a:1", "--seed=2", "--listen=b:2"});
  ASSERT_FALSE(parsed.exit_code.has_value()) << parsed.text;
  EXPECT_EQ(parsed.options.master.seed, 2u);
  EXPECT_EQ(parsed.options.grpc.listen, "b:2");
}

// Values that make no sense together are refused at the start, not found out in an outage.
TEST(Options, ContradictionsAreNamed) {
  ExpectUsageError(Parse({"--client-ttl-ms=5000", "--client-ttl-min-ms=6000"}),
                   "client-ttl-min-ms");
  ExpectUsageError(Parse({"--client-ttl-ms=5000", "--client-ttl-max-ms=4000"}),
                   "client-ttl-max-ms");
  ExpectUsageError(Parse({"--heartbeat-interval-ms=6000"}), "heartbeat-interval-ms");
  ExpectUsageError(Parse({"--put-discard-timeout-ms=5000", "--put-release-timeout-ms=4000"}),
                   "put-release-timeout-ms");
}

// What --print-config shows is a file that means the same.
TEST(Options, PrintedConfigurationCanBeRead) {
  const ParsedOptions printed = Parse({"--print-config", "--client-ttl-ms=20000", "--seed=42"});
  ASSERT_TRUE(printed.exit_code.has_value());
  ASSERT_EQ(*printed.exit_code, 0);
  EXPECT_THAT(printed.text, HasSubstr("max-batch-items=4096"));
  const ConfigFile file(printed.text);
  const ParsedOptions again = Parse({file.flag()});
  ASSERT_FALSE(again.exit_code.has_value()) << again.text << printed.text;
  EXPECT_EQ(again.options.master.client_ttl_ms, 20'000);
  EXPECT_EQ(again.options.master.seed, 42u);
  EXPECT_EQ(again.options.port_file, "");
  const ParsedOptions reprinted = Parse({file.flag(), "--print-config"});
  EXPECT_EQ(reprinted.text, printed.text);
}

// A seed that somebody could know lets him choose keys that all fall into one place.
TEST(Options, SeedIsRandomUnlessGiven) {
  EXPECT_NE(Parse({}).options.master.seed, Parse({}).options.master.seed);
  EXPECT_EQ(Parse({"--seed=42"}).options.master.seed, 42u);
  EXPECT_THAT(Parse({"--print-config"}).text, ::testing::Not(HasSubstr("seed=")));
}

TEST(Options, HelpShowsDefaultsAndReasons) {
  const ParsedOptions parsed = Parse({"--help"});
  ASSERT_TRUE(parsed.exit_code.has_value());
  EXPECT_EQ(*parsed.exit_code, 0);
  EXPECT_THAT(parsed.text, HasSubstr("--put-release-timeout-ms"));
  EXPECT_THAT(parsed.text, HasSubstr("600000"));
  EXPECT_THAT(parsed.text, HasSubstr("127.0.0.1:50051"));
}

TEST(Options, VersionIsPrinted) {
  const ParsedOptions parsed = Parse({"--version"});
  ASSERT_TRUE(parsed.exit_code.has_value());
  EXPECT_EQ(*parsed.exit_code, 0);
  EXPECT_THAT(parsed.text, HasSubstr("holdfast-master 0."));
}

}  // namespace
}  // namespace holdfast

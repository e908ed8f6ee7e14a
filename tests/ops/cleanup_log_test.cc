#include "server/ops/cleanup_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;

class CleanupLogTest : public ::testing::Test {
 protected:
  CleanupLogTest() : master_(core::MasterOptions()), log_(&master_) {}

  void OpenSession(uint8_t client, int64_t now_ms) {
    core::HeartbeatRequest open;
    open.client.bytes[0] = client;
    open.incarnation = 1;
    ASSERT_TRUE(master_.Heartbeat(open, now_ms).ok());
  }
  // Rounds of the monitor at its pace, up to and with `until_ms`. The last line, if there was any.
  std::optional<CleanupLog::Line> RunTo(int64_t until_ms) {
    std::optional<CleanupLog::Line> last;
    for (; now_ms_ <= until_ms; now_ms_ += 100) {
      master_.ExpireStep(now_ms_);
      if (auto line = log_.Round(0, now_ms_)) {
        last = line;
        ++lines_;
      }
    }
    return last;
  }

  core::Master master_;
  CleanupLog log_;
  int64_t now_ms_ = 0;
  int lines_ = 0;
};

TEST_F(CleanupLogTest, SaysNothingWhileNothingHappens) {
  OpenSession(1, 0);
  EXPECT_FALSE(RunTo(5'000).has_value());
}

TEST_F(CleanupLogTest, WarnsOfALostClientAtOnce) {
  OpenSession(1, 0);
  const auto line = RunTo(10'200);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->warning);
  EXPECT_THAT(line->text, HasSubstr("expired_clients=1 "));
}

// A storm of losses must not fill the disk, but its end is told as well.
TEST_F(CleanupLogTest, SumsUpWhatFollowsWithinTenSeconds) {
  for (uint8_t client = 1; client <= 3; ++client) OpenSession(client, client * 1000);
  const auto line = RunTo(40'000);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(lines_, 2);
  EXPECT_THAT(line->text, HasSubstr("expired_clients=2 "));
}

// After a stop of the master nobody is to be blamed; the operator has to be told.
TEST_F(CleanupLogTest, WarnsWhenTheMasterItselfWasStopped) {
  RunTo(1'000);
  now_ms_ = 60'000;
  const auto line = RunTo(60'000);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->warning);
  EXPECT_THAT(line->text, HasSubstr("stalls=1 "));
}

}  // namespace
}  // namespace holdfast::ops

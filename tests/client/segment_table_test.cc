#include "client/segment_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kFirst = 1;  // epochs
constexpr uint64_t kSecond = 2;

Deadline Now() { return std::chrono::steady_clock::now(); }

SegmentOptions Segment(uint8_t id) {
  SegmentOptions segment;
  segment.segment_id[0] = id;
  segment.name = "s";
  return segment;
}

SegmentClaim MustClaim(SegmentTable& table, const SegmentOptions& segment) {
  absl::StatusOr<SegmentClaim> claim = table.ClaimForMount(segment, Now());
  EXPECT_TRUE(claim.ok()) << claim.status();
  return *claim;
}

void Mount(SegmentTable& table, uint8_t id, uint64_t epoch, uint64_t registration_id) {
  table.Mounted(MustClaim(table, Segment(id)), epoch, registration_id);
}

TEST(SegmentTableTest, SegmentOfAnEarlierSessionIsClaimedForARemount) {
  SegmentTable table;
  Mount(table, 1, kFirst, 10);
  EXPECT_THAT(table.ClaimForRemount(kFirst), IsEmpty());
  const std::vector<SegmentClaim> claims = table.ClaimForRemount(kSecond);
  ASSERT_THAT(claims, SizeIs(1));
  table.Mounted(claims[0], kSecond, 20);
  EXPECT_THAT(table.MountedIds(kSecond), ElementsAre(20));
  EXPECT_THAT(table.ClaimForRemount(kSecond), IsEmpty());
}

// Its mount decides by itself, when its call ends.
TEST(SegmentTableTest, SegmentThatIsBeingMountedIsNotClaimedForARemount) {
  SegmentTable table;
  const SegmentClaim claim = MustClaim(table, Segment(1));
  EXPECT_THAT(table.ClaimForRemount(kSecond), IsEmpty());
  table.Mounted(claim, kFirst, 10);
  EXPECT_THAT(table.ClaimForRemount(kSecond), SizeIs(1));
}

TEST(SegmentTableTest, UnmountThatGaveUpWaitingForARemountLeavesWorkForTheHeartbeat) {
  SegmentTable table;
  Mount(table, 1, kFirst, 10);
  const std::vector<SegmentClaim> remount = table.ClaimForRemount(kSecond);
  ASSERT_THAT(remount, SizeIs(1));
  EXPECT_EQ(table.ClaimForUnmount(10, 0, Now()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  table.Mounted(remount[0], kSecond, 20);
  EXPECT_THAT(table.MountedIds(kSecond), IsEmpty());
  const std::vector<SegmentClaim> owed = table.ClaimForSettling(kSecond);
  ASSERT_THAT(owed, SizeIs(1));
  EXPECT_EQ(owed[0].registration_id, 20);
}

// The remount may have reached the master: only a second mount tells which registration is to be ended.
TEST(SegmentTableTest, UnmountAfterARemountWithoutAnswerKnowsThatTheRegistrationIsUncertain) {
  SegmentTable table;
  Mount(table, 1, kFirst, 10);
  table.RemountFailed(table.ClaimForRemount(kSecond)[0], kSecond, /*outcome_unknown=*/true);
  const auto claim = table.ClaimForUnmount(10, 0, Now());
  ASSERT_TRUE(claim.ok() && claim->has_value());
  EXPECT_EQ((*claim)->uncertain_epoch, kSecond);
}

TEST(SegmentTableTest, UnwantedSegmentOfAnEarlierSessionIsForgotten) {
  SegmentTable table;
  Mount(table, 1, kFirst, 10);
  const auto claim = table.ClaimForUnmount(10, 0, Now());
  ASSERT_TRUE(claim.ok() && claim->has_value());
  table.UnmountFailed(**claim);
  EXPECT_THAT(table.ClaimForRemount(kSecond), IsEmpty());
  EXPECT_THAT(table.ClaimForSettling(kSecond), IsEmpty());
  EXPECT_FALSE(table.ClaimForUnmount(10, 0, Now())->has_value());
}

TEST(SegmentTableTest, MountThatWasRefusedLeavesNothing) {
  SegmentTable table;
  table.MountFailed(MustClaim(table, Segment(1)), kFirst, /*outcome_unknown=*/false);
  EXPECT_EQ(table.WantedCount(), 0);
  EXPECT_THAT(table.ClaimForSettling(kFirst), IsEmpty());
}

TEST(SegmentTableTest, MountWithoutAnswerIsOneToUnmount) {
  SegmentTable table;
  table.MountFailed(MustClaim(table, Segment(1)), kFirst, /*outcome_unknown=*/true);
  EXPECT_EQ(table.WantedCount(), 0);
  EXPECT_THAT(table.ClaimForSettling(kFirst), SizeIs(1));
}

TEST(SegmentTableTest, MountOfALiveSegmentThatIsRefusedLeavesItMounted) {
  SegmentTable table;
  Mount(table, 1, kFirst, 10);
  SegmentOptions other = Segment(1);
  other.name = "other";
  table.MountFailed(MustClaim(table, other), kFirst, /*outcome_unknown=*/false);
  EXPECT_THAT(table.MountedIds(kFirst), ElementsAre(10));
  EXPECT_EQ(table.ClaimForRemount(kSecond)[0].segment.name, "s");
}

// Its owner must still hear when readers may not touch it any more.
TEST(SegmentTableTest, GracefulSegmentIsReportedUntilTheMasterHasEndedIt) {
  SegmentTable table;
  Mount(table, 1, kFirst, 10);
  const auto claim = table.ClaimForUnmount(10, 5000, Now());
  ASSERT_TRUE(claim.ok() && claim->has_value());
  table.Unmounted(**claim);
  EXPECT_THAT(table.MountedIds(kFirst), IsEmpty());
  EXPECT_THAT(table.Reported(kFirst), ElementsAre(10));
  EXPECT_THAT(table.ClaimForSettling(kFirst), IsEmpty());
  EXPECT_THAT(table.TakeEnded({10}), ElementsAre(10));
  EXPECT_THAT(table.Reported(kFirst), IsEmpty());
}

// A heartbeat that was on its way while the segment got a new registration tells the end of the old one.
TEST(SegmentTableTest, EndOfAFormerRegistrationDoesNotDropTheSegment) {
  SegmentTable table;
  Mount(table, 1, kFirst, 10);
  Mount(table, 1, kFirst, 11);
  EXPECT_THAT(table.TakeEnded({10}), IsEmpty());
  EXPECT_THAT(table.MountedIds(kFirst), ElementsAre(11));
}

}  // namespace
}  // namespace holdfast::client

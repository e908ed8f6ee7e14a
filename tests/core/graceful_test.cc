// Leaving politely: draining and unmounts with a grace period.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

class GracefulTest : public testing::CoreTest {
 protected:
  Reason Drain(RegistrationId registration) {
    return ReasonOf(master().DrainSegment(registration));
  }
  Reason Undrain(RegistrationId registration) {
    return ReasonOf(master().UndrainSegment(registration));
  }

  const Session client_ = Open("client");
  const RegistrationId leaving_ = Mount(client_, "leaving");
};

// A drain empties a segment by reading and letting go, so it must not lose what it has, nor take more.
TEST_F(GracefulTest, R7_ADrainedSegmentIsReadAndTakesNothingNew) {
  Put(client_, "old");
  const RegistrationId staying = Mount(client_, "staying");
  ASSERT_EQ(Drain(leaving_), Reason::kNone);
  EXPECT_EQ(Get("old").places.at(0).registration, leaving_);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(PutOn(client_, "new-" + std::to_string(i), "leaving").places.at(0).registration,
              staying);
  }
  EXPECT_EQ(Unmount(client_, leaving_), Reason::kNone);
  EXPECT_EQ(Exists("old"), Reason::kObjectNotFound);
}

// With nothing but drained segments there is none to write to, and the caller is told which it is.
TEST_F(GracefulTest, R7_WithEverythingDrainedThereIsNoSegment) {
  ASSERT_EQ(Drain(leaving_), Reason::kNone);
  EXPECT_EQ(Start(client_, "key").reason, Reason::kNoSegment);
}

// A drain is a change of mind away from normal.
TEST_F(GracefulTest, R7_AnUndrainedSegmentTakesObjectsAgain) {
  ASSERT_EQ(Drain(leaving_), Reason::kNone);
  ASSERT_EQ(Drain(leaving_), Reason::kNone) << "a repeated drain is no error";
  ASSERT_EQ(Undrain(leaving_), Reason::kNone);
  EXPECT_EQ(Put(client_, "key").places.at(0).registration, leaving_);
}

// A put in flight when the drain begins is finished, and the operator sees it as long as it is there.
TEST_F(GracefulTest, R7_APutInFlightIsCountedUntilItIsGoneAndMayEnd) {
  const testing::Started started = Start(client_, "key");
  ASSERT_EQ(Drain(leaving_), Reason::kNone);
  EXPECT_EQ(Listed(leaving_).ranges, 1u);
  EXPECT_EQ(End(client_, "key", started.put), Reason::kNone);
  EXPECT_EQ(Listed(leaving_).ranges, 1u);
  EXPECT_EQ(Remove(client_, "key"), Reason::kNone);
  EXPECT_EQ(Listed(leaving_).ranges, 0u);
}

// What leaves for good cannot be drained, nor called back by an undrain.
TEST_F(GracefulTest, R7_ALeavingOrEndedSegmentCannotBeDrained) {
  Unmount(client_, leaving_, /*grace_ms=*/5000);
  EXPECT_EQ(Drain(leaving_), Reason::kSegmentState);
  EXPECT_EQ(Undrain(leaving_), Reason::kSegmentState);
  Unmount(client_, leaving_);
  EXPECT_EQ(Drain(leaving_), Reason::kSegmentUnknown);
  EXPECT_EQ(Undrain(RegistrationId{99}), Reason::kSegmentUnknown);
}

// The grace protects readers: until the deadline everything can be read and leased, and nothing new comes.
TEST_F(GracefulTest, F7_UntilTheDeadlineReplicasAreReadAndNothingIsPlaced) {
  Put(client_, "key");
  const RegistrationId staying = Mount(client_, "staying");
  Unmount(client_, leaving_, /*grace_ms=*/5000);
  EXPECT_EQ(Listed(leaving_).state, SegmentState::kGraceful);
  EXPECT_EQ(Listed(leaving_).grace_left_ms, 5000);
  Tick(4999);
  const testing::Found found = Get("key");
  EXPECT_EQ(found.reason, Reason::kNone);
  EXPECT_EQ(found.lease_ms, 1);
  EXPECT_EQ(PutOn(client_, "new", "leaving").places.at(0).registration, staying);
}

// And at the deadline it ends, without anybody asking.
TEST_F(GracefulTest, F7_AtTheDeadlineReplicasAreHidden) {
  Put(client_, "key");
  Unmount(client_, leaving_, /*grace_ms=*/5000);
  Tick(4999);
  EXPECT_EQ(Exists("key"), Reason::kNone);
  Tick(1);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  Sweep();
  EXPECT_EQ(Count().objects, 0u);
}

// A lease is a promise, so none may outlast the segment.
TEST_F(GracefulTest, F7_NoLeaseGoesPastTheDeadline) {
  Put(client_, "key");
  EXPECT_EQ(Get("key").lease_ms, master().options().read_lease_ms);
  Unmount(client_, leaving_, /*grace_ms=*/5000);
  EXPECT_EQ(Get("key").lease_ms, 5000);
  Tick(2000);
  EXPECT_EQ(Get("key").lease_ms, 3000);
}

// The owner may be in more of a hurry than he thought, never in less: others have read the first deadline.
TEST_F(GracefulTest, F7_ASecondDeadlineCountsOnlyWhenItIsEarlier) {
  Put(client_, "key");
  Unmount(client_, leaving_, /*grace_ms=*/5000);
  Unmount(client_, leaving_, /*grace_ms=*/60'000);
  EXPECT_EQ(Listed(leaving_).grace_left_ms, 5000);
  Unmount(client_, leaving_, /*grace_ms=*/2000);
  EXPECT_EQ(Listed(leaving_).grace_left_ms, 2000);
  Tick(2000);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
}

// A plain unmount is now, whatever was said before.
TEST_F(GracefulTest, F7_APlainUnmountDuringTheGraceEndsAtOnce) {
  Put(client_, "key");
  Unmount(client_, leaving_, /*grace_ms=*/5000);
  Unmount(client_, leaving_);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  Sweep();
  Tick(6000);
  EXPECT_EQ(Count().cleanup.swept_registrations, 1u);
}

// The slot may belong to somebody else when the old deadline comes.
TEST_F(GracefulTest, F7_TheDeadlineOfAnEndedRegistrationSparesItsSuccessor) {
  const uint32_t slot = Listed(leaving_).slot;
  Unmount(client_, leaving_, /*grace_ms=*/5000);
  Unmount(client_, leaving_);
  Sweep();
  const RegistrationId next = Mount(client_, "next");
  ASSERT_EQ(Listed(next).slot, slot);
  Put(client_, "key");
  Tick(6000);
  EXPECT_EQ(Exists("key"), Reason::kNone);
  EXPECT_EQ(Get("key").lease_ms, master().options().read_lease_ms)
      << "the old deadline still counts";
}

// A grace without bound would be no unmount.
TEST_F(GracefulTest, AGraceOutOfBoundsIsRefused) {
  EXPECT_EQ(Unmount(client_, leaving_, -1), Reason::kBadField);
  EXPECT_EQ(Unmount(client_, leaving_, master().options().grace_max_ms + 1), Reason::kBadField);
  EXPECT_EQ(Listed(leaving_).state, SegmentState::kMounted);
}

}  // namespace
}  // namespace holdfast::core

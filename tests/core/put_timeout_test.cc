// Puts whose client went silent: who may take the key over, when, and when the memory is free again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using testing::Started;

class PutTimeoutTest : public testing::CoreTest {
 protected:
  const Session writer_ = Open("writer");
  const Session other_ = Open("other");
  const Session owner_ = Open("owner");
  const RegistrationId a_ = Mount(owner_, "a");
};

// Before the time-out the writer may be slow and not dead.
TEST_F(PutTimeoutTest, F16_BeforeTheDiscardTimeoutTheKeyIsTaken) {
  Start(writer_, "key");
  Tick(29'999);
  EXPECT_EQ(Start(other_, "key").reason, Reason::kPutInProgressByOther);
}

// After it the key goes to whoever wants it, on fresh memory, because the old writer may still be writing.
TEST_F(PutTimeoutTest, F16_AfterTheDiscardTimeoutANewPutGetsFreshSpace) {
  const Started old_put = Start(writer_, "key");
  Tick(30'000);
  const Started new_put = Start(other_, "key");
  ASSERT_EQ(new_put.reason, Reason::kNone);
  EXPECT_NE(new_put.put, old_put.put);
  EXPECT_NE(new_put.places.at(0), old_put.places.at(0));
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 1u);
  EXPECT_EQ(Count().cleanup.discarded_puts, 1u);
  EXPECT_EQ(Count().puts_in_progress, 1u);
}

// The old range comes back when its writer must have stopped, counted from the start of the old put, and not before.
TEST_F(PutTimeoutTest, F16_TheOldRangeIsFreeAfterTheReleaseTimeout) {
  const Started old_put = Start(writer_, "key");
  Tick(30'000);
  Put(other_, "key");
  Tick(569'500);
  EXPECT_EQ(Count().allocated_bytes, 2 * 4096u);
  Tick(500);
  EXPECT_EQ(Count().allocated_bytes, 4096u);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u);
  EXPECT_EQ(Put(other_, "next").places.at(0), old_put.places.at(0));
}

// A live client that forgets its put: the master forgets it, too, at the end of the release time.
TEST_F(PutTimeoutTest, F16_AnAbandonedPutIsReapedAtTheReleaseTimeout) {
  const Started put = Start(writer_, "key");
  Tick(599'500);
  EXPECT_EQ(Count().puts_in_progress, 1u);
  EXPECT_EQ(Count().allocated_bytes, 4096u);
  Tick(500);
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Count().allocated_bytes, 0u);
  EXPECT_EQ(End(writer_, "key", put.put), Reason::kStalePut);
  EXPECT_EQ(Revoke(writer_, "key", put.put), Reason::kNone);
}

// So is one whose segment has left, of which only the record remains.
TEST_F(PutTimeoutTest, R18_TheRecordOfALostPutIsReapedToo) {
  Start(writer_, "key");
  Unmount(owner_, a_);
  Sweep();
  EXPECT_EQ(Count().objects, 1u);
  Tick(600'000);
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Count().puts_in_progress, 0u);
}

// Many puts die together: the monitor takes a bounded part of each shard a round, and gets them all.
TEST_F(PutTimeoutTest, ManyAbandonedPutsAreReapedInBoundedRounds) {
  AuditOnlyAtTheEnd();
  for (int i = 0; i < 5000; ++i) {
    Start(writer_, "key-" + std::to_string(i), {.size_bytes = 64});
  }
  Tick(599'999);
  EXPECT_EQ(Count().puts_in_progress, 5000u);
  Tick(1);
  const uint64_t after_one_round = Count().puts_in_progress;
  EXPECT_GE(after_one_round, 5000u - 16 * 64);
  Tick(10'000);
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Count().allocated_bytes, 0u);
}

// With an expired client its puts go, and readers of the key need not wait for the discard time-out.
TEST_F(PutTimeoutTest, F16_ThePutsOfAnExpiredClientGoWithItsSession) {
  const Started put = Start(writer_, "key");
  Silence(writer_);
  Tick(10'001);
  Sweep();
  EXPECT_EQ(Count().puts_in_progress, 0u);
  const Started next = Start(other_, "key");
  EXPECT_EQ(next.reason, Reason::kNone);
  EXPECT_NE(next.places.at(0), put.places.at(0)) << "the dead writer may not be dead";
  Tick(600'000);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u);
}

// A restarted client is not in its own way.
TEST_F(PutTimeoutTest, F16_ThePutsOfAReplacedIncarnationGoWithItsSession) {
  Start(writer_, "key");
  const Session restarted = Open("writer", /*incarnation=*/2);
  EXPECT_EQ(Start(restarted, "key").reason, Reason::kPutInProgressByOther);
  Sweep();
  EXPECT_EQ(Put(restarted, "key").reason, Reason::kNone);
}

// Objects that are complete do not die with who has written them.
TEST_F(PutTimeoutTest, ACompleteObjectOutlivesItsWriter) {
  Put(writer_, "key");
  Silence(writer_);
  Tick(10'001);
  Sweep();
  EXPECT_EQ(Exists("key"), Reason::kNone);
}

enum class Step { kStarted, kEnded, kRevoked, kSegmentLost, kDiscardedByOther, kRemovedByForce };

// Wherever in a put a client dies, in the end its memory is free or holds an object, and nothing is left of the put.
class DyingClientTest : public testing::CoreTest, public ::testing::WithParamInterface<Step> {};

TEST_P(DyingClientTest, F16_NothingIsLeftOfAPutWhoseClientDies) {
  const Session owner = Open("owner");
  const Session writer = Open("writer");
  const RegistrationId a = Mount(owner, "a");
  Mount(owner, "b");
  const Started put = Start(writer, "key", {.replicas = 2});
  uint64_t objects = 0;
  switch (GetParam()) {
    case Step::kStarted:
      break;
    case Step::kEnded:
      EXPECT_EQ(End(writer, "key", put.put), Reason::kNone);
      objects = 1;
      break;
    case Step::kRevoked:
      EXPECT_EQ(Revoke(writer, "key", put.put), Reason::kNone);
      break;
    case Step::kSegmentLost:
      Unmount(owner, a);
      break;
    case Step::kDiscardedByOther:
      Tick(30'000);
      Put(owner, "key", {.replicas = 2});
      objects = 1;
      break;
    case Step::kRemovedByForce:
      EXPECT_EQ(Remove(owner, "key", /*force=*/true), Reason::kNone);
      break;
  }
  Silence(writer);
  Tick(10'001);
  Sweep();
  EXPECT_EQ(Count().puts_in_progress, 0u);
  Tick(600'000);
  EXPECT_EQ(Count().objects, objects);
  EXPECT_EQ(Count().allocated_bytes, objects * 2 * 4096);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u);
  EXPECT_EQ(master().registry().ResidueCount(), 0u);
}

std::string NameOfStep(const ::testing::TestParamInfo<Step>& step) {
  switch (step.param) {
    case Step::kStarted:
      return "Started";
    case Step::kEnded:
      return "Ended";
    case Step::kRevoked:
      return "Revoked";
    case Step::kSegmentLost:
      return "SegmentLost";
    case Step::kDiscardedByOther:
      return "DiscardedByOther";
    case Step::kRemovedByForce:
      return "RemovedByForce";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Steps, DyingClientTest,
                         ::testing::Values(Step::kStarted, Step::kEnded, Step::kRevoked,
                                           Step::kSegmentLost, Step::kDiscardedByOther,
                                           Step::kRemovedByForce),
                         NameOfStep);

}  // namespace
}  // namespace holdfast::core

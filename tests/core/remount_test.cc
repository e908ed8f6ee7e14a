// Memory that somebody may still touch is not handed out, also when the registration that it was handed out by has ended
// and another one covers the same memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using testing::AnyTouches;
using testing::Place;
using testing::Started;

constexpr uint64_t kObjectBytes = 4096;

class RemountTest : public testing::CoreTest {
 protected:
  bool Waits(RegistrationId registration) { return Listed(registration).waits_for_earlier; }
  // Everything that a segment gives; the objects are taken out again.
  std::vector<Place> AllOf(const std::string& segment) {
    const std::vector<Place> places =
        Fill(client_, "fill-", {.size_bytes = kObjectBytes, .segments = {segment}});
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(Remove(client_, "fill-" + std::to_string(i), /*force=*/true), Reason::kNone);
    }
    return places;
  }
  bool AnyTouchesObjectOf(const std::vector<Place>& places, const Started& put) {
    return AnyTouches(places, kObjectBytes, put.places.at(0).address(), kObjectBytes);
  }

  static constexpr size_t kAllObjects = kSegmentBytes / kObjectBytes;
  const Session client_ = Open("client");
};

// A reader with a lease still reads the old bytes: nothing is written there before it is over.
TEST_F(RemountTest, F27_LeasedMemoryOfTheOldMountIsNotHandedOutByTheNewOne) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  Put(client_, "key");
  const int64_t lease_ms = Get("key").lease_ms;
  ASSERT_EQ(lease_ms, 10'000);
  Unmount(client_, old_id);
  Sweep();
  const RegistrationId new_id = Mount(client_, spec);
  EXPECT_TRUE(Waits(new_id));
  Tick(lease_ms - 1);
  EXPECT_EQ(Start(client_, "early").reason, Reason::kNoSpace);
  Tick(500);
  EXPECT_FALSE(Waits(new_id));
  EXPECT_EQ(AllOf("a").size(), kAllObjects);
}

// A writer that was given up may still write: its range, and only that, waits until it must have stopped.
TEST_F(RemountTest, F16_MemoryOfAnUnfinishedPutOfTheOldMountIsNotHandedOutByTheNewOne) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  Put(client_, "first");
  const Started late = Start(client_, "late");
  Unmount(client_, old_id);
  Sweep();
  const RegistrationId new_id = Mount(client_, spec);
  EXPECT_FALSE(Waits(new_id)) << "everything is known, so the rest can be used";
  std::vector<Place> places = AllOf("a");
  EXPECT_EQ(places.size(), kAllObjects - 1);
  EXPECT_FALSE(AnyTouchesObjectOf(places, late));
  Tick(599'000);
  EXPECT_EQ(AllOf("a").size(), kAllObjects - 1);
  Tick(1000);
  EXPECT_EQ(AllOf("a").size(), kAllObjects);
}

// Before the sweep nobody knows what was in flight on the old mount, so the new one gives nothing.
TEST_F(RemountTest, F16_ARemountBeforeTheSweepWaitsForIt) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  const Started late = Start(client_, "late");
  Unmount(client_, old_id);
  const RegistrationId new_id = Mount(client_, spec);
  EXPECT_TRUE(Waits(new_id));
  EXPECT_EQ(Start(client_, "early").reason, Reason::kNoSpace);
  Sweep();
  Tick(100);
  EXPECT_FALSE(Waits(new_id));
  EXPECT_FALSE(AnyTouchesObjectOf(AllOf("a"), late));
}

// The put is revoked: its writer has said that it is done, so there is nothing to wait for.
TEST_F(RemountTest, MemoryOfARevokedPutIsFreeAtOnce) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  const Started put = Start(client_, "key");
  EXPECT_EQ(Revoke(client_, "key", put.put), Reason::kNone);
  Unmount(client_, old_id);
  Sweep();
  Mount(client_, spec);
  EXPECT_EQ(AllOf("a").size(), kAllObjects);
}

// Of a mount that overlaps only in part, that part waits, wherever the borders of its units lie.
TEST_F(RemountTest, F16_AnOverlapInPartIsRespected) {
  const SegmentSpec spec = Spec("old");
  const RegistrationId old_id = Mount(client_, spec);
  std::vector<Started> late;
  for (int i = 0; i < 40; ++i) late.push_back(Start(client_, "late-" + std::to_string(i)));
  Unmount(client_, old_id);
  Sweep();
  SegmentSpec shifted = spec;
  shifted.id = Spec("new").id;
  shifted.name = "new";
  shifted.base += 20 * kObjectBytes + 100;
  const RegistrationId new_id = Mount(client_, shifted);
  EXPECT_EQ(Listed(new_id).ranges, 1u) << "they touch each other, so they are one";
  const std::vector<Place> places = AllOf("new");
  EXPECT_GE(places.size(), kAllObjects - 21);
  EXPECT_LT(places.size(), kAllObjects);
  for (const Started& put : late) EXPECT_FALSE(AnyTouchesObjectOf(places, put));
  Tick(600'000);
  EXPECT_EQ(AllOf("new").size(), kAllObjects);
}

// A mount may also cover more than the old one did.
TEST_F(RemountTest, F16_ALargerMountRespectsWhatLiesInTheMiddleOfIt) {
  SegmentSpec inner = Spec("old");
  inner.base += 8 * kObjectBytes;
  inner.size_bytes = kObjectBytes;
  const RegistrationId old_id = Mount(client_, inner);
  const Started late = Start(client_, "late");
  Unmount(client_, old_id);
  Sweep();
  SegmentSpec outer = Spec("new");
  outer.base = inner.base - 8 * kObjectBytes;
  Mount(client_, outer);
  const std::vector<Place> places = AllOf("new");
  EXPECT_EQ(places.size(), kAllObjects - 1);
  EXPECT_FALSE(AnyTouchesObjectOf(places, late));
}

// A range that was in quarantine already, when its registration ended, stays out of reach as well.
TEST_F(RemountTest, F16_WhatWasInQuarantineBeforeTheEndStaysOutOfReach) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  const Started late = Start(client_, "late");
  EXPECT_EQ(Remove(client_, "late", /*force=*/true), Reason::kNone);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 1u);
  Unmount(client_, old_id);
  Sweep();
  Tick(100);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u)
      << "the quarantine of a private one ends with it";
  Mount(client_, spec);
  EXPECT_FALSE(AnyTouchesObjectOf(AllOf("a"), late));
  Tick(600'000);
  EXPECT_EQ(AllOf("a").size(), kAllObjects);
}

// However often the memory is mounted anew.
TEST_F(RemountTest, F16_ALateWriterIsRespectedThroughSeveralRemounts) {
  const SegmentSpec spec = Spec("a");
  RegistrationId registration = Mount(client_, spec);
  const Started late = Start(client_, "late");
  for (int i = 0; i < 5; ++i) {
    Unmount(client_, registration);
    Sweep();
    Tick(100);
    registration = Mount(client_, spec);
    EXPECT_EQ(Listed(registration).ranges, 1u);
  }
  EXPECT_FALSE(AnyTouchesObjectOf(AllOf("a"), late));
  Tick(600'000);
  EXPECT_EQ(AllOf("a").size(), kAllObjects);
  EXPECT_EQ(master().registry().ResidueCount(), 0u);
}

// A client that was restarted is the same host with the same memory, and readers do not know of the restart.
TEST_F(RemountTest, F50_ANewIncarnationRespectsWhatTheOldOneHasLent) {
  const SegmentSpec spec = Spec("a");
  Mount(client_, spec);
  Put(client_, "key");
  Get("key");
  const Session restarted = Open("client", /*incarnation=*/2);
  const RegistrationId new_id = Mount(restarted, spec);
  Sweep();
  Tick(100);
  EXPECT_TRUE(Waits(new_id));
  EXPECT_EQ(Start(restarted, "early").reason, Reason::kNoSpace);
  Tick(10'500);
  EXPECT_FALSE(Waits(new_id));
}

// Other memory has nothing to wait for.
TEST_F(RemountTest, MemoryNextToItDoesNotWait) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  Put(client_, "key");
  Get("key");
  Unmount(client_, old_id);
  SegmentSpec next = Spec("next");
  next.base = spec.base + spec.size_bytes;
  EXPECT_FALSE(Waits(Mount(client_, next)));
}

// Nor has the same address on another host.
TEST_F(RemountTest, TheSameAddressOfAnotherClientDoesNotWait) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  Put(client_, "key");
  Get("key");
  Unmount(client_, old_id);
  SegmentSpec theirs = Spec("b");
  theirs.base = spec.base;
  EXPECT_FALSE(Waits(Mount(Open("other"), theirs)));
}

// A registration that waits may leave again, without ever having had an allocator.
TEST_F(RemountTest, AWaitingRegistrationCanBeUnmounted) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId first = Mount(client_, spec);
  Put(client_, "key");
  Get("key");
  Unmount(client_, first);
  const RegistrationId second = Mount(client_, spec);
  ASSERT_TRUE(Waits(second));
  Unmount(client_, second);
  Sweep();
  Tick(11'000);
  EXPECT_FALSE(IsListed(second));
  EXPECT_EQ(master().registry().ResidueCount(), 0u);
}

// A waiting registration lends its memory, but a put cannot have it: the reason is a lack of space, not of segments.
TEST_F(RemountTest, AWaitingRegistrationCountsAsCapacity) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  Unmount(client_, old_id);
  const RegistrationId new_id = Mount(client_, spec);
  ASSERT_TRUE(Waits(new_id));
  EXPECT_EQ(Count().capacity_bytes, kSegmentBytes);
  EXPECT_EQ(Start(client_, "key").reason, Reason::kNoSpace);
}

class PoolTest : public testing::CoreTest {
 protected:
  SegmentSpec Member(const std::string& name) {
    SegmentSpec spec = Spec(name);
    spec.pool_id = "cxl";
    return spec;
  }
  uint64_t FreeObjects(const std::string& segment) {
    const auto places = Fill(client_, "fill-", {.size_bytes = kObjectBytes, .segments = {segment}});
    offsets_.clear();
    for (size_t i = 0; i < places.size(); ++i) {
      offsets_.push_back(places[i].offset_bytes);
      EXPECT_EQ(Remove(client_, "fill-" + std::to_string(i), true), Reason::kNone);
    }
    return places.size();
  }

  static constexpr size_t kAllObjects = kSegmentBytes / kObjectBytes;
  const Session client_ = Open("client");
  std::vector<uint64_t> offsets_;
};

// The device behind a pool is one: what a reader of an ended member still reads must not be written through another.
TEST_F(PoolTest, F27_ALeasedRangeOfAnEndedMemberIsNotHandedOutByAnother) {
  const RegistrationId a = Mount(client_, Member("a"));
  Mount(client_, Member("b"));
  const Started leased = PutOn(client_, "key", "a");
  Get("key");
  Unmount(client_, a);
  Sweep();
  EXPECT_EQ(FreeObjects("b"), kAllObjects - 1);
  EXPECT_THAT(offsets_, ::testing::Not(::testing::Contains(leased.places.at(0).offset_bytes)));
  Tick(10'500);
  EXPECT_EQ(FreeObjects("b"), kAllObjects);
}

// The same for a writer that was given up.
TEST_F(PoolTest, F16_ARangeOfAnUnfinishedPutOnAnEndedMemberIsNotHandedOutByAnother) {
  const RegistrationId a = Mount(client_, Member("a"));
  Mount(client_, Member("b"));
  const Started late = Start(client_, "late", {.segments = {"a"}});
  Unmount(client_, a);
  Sweep();
  EXPECT_EQ(FreeObjects("b"), kAllObjects - 1);
  EXPECT_THAT(offsets_, ::testing::Not(::testing::Contains(late.places.at(0).offset_bytes)));
  Tick(600'000);
  EXPECT_EQ(FreeObjects("b"), kAllObjects);
}

// When all members have left, the quarantine still knows the pool, and so does who mounts it again.
TEST_F(PoolTest, F16_APoolThatIsMountedAgainRemembersItsQuarantine) {
  const RegistrationId a = Mount(client_, Member("a"));
  Start(client_, "late");
  Unmount(client_, a);
  Sweep();
  Tick(100);
  Mount(client_, Member("b"));
  EXPECT_EQ(FreeObjects("b"), kAllObjects - 1);
  Tick(600'000);
  EXPECT_EQ(FreeObjects("b"), kAllObjects);
}

// Memory that was pooled and is mounted alone: its old ranges are known to the pool only, so it waits for all of them.
TEST_F(PoolTest, F16_APrivateMountOverWhatWasPooledWaitsForLateWriters) {
  const SegmentSpec pooled = Member("a");
  const RegistrationId a = Mount(client_, pooled);
  Start(client_, "late");
  Unmount(client_, a);
  Sweep();
  SegmentSpec alone = pooled;
  alone.pool_id.clear();
  const RegistrationId again = Mount(client_, alone);
  EXPECT_TRUE(Listed(again).waits_for_earlier);
  EXPECT_EQ(Start(client_, "early").reason, Reason::kNoSpace);
  Tick(600'000);
  EXPECT_EQ(FreeObjects("a"), kAllObjects);
}

// Every range of a pool goes back, whoever held it.
TEST_F(PoolTest, R6_AllRangesOfEndedMembersComeBack) {
  Mount(client_, Member("stays"));
  for (int round = 0; round < 5; ++round) {
    const RegistrationId a = Mount(client_, Member("a"));
    for (int i = 0; i < 50; ++i) PutOn(client_, "key-" + std::to_string(i), "a");
    Unmount(client_, a);
    Sweep();
    EXPECT_EQ(Count().allocated_bytes, 0u);
  }
  EXPECT_EQ(FreeObjects("stays"), kAllObjects);
}

}  // namespace
}  // namespace holdfast::core

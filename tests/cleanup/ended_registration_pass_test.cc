// The sweep: bounded rounds, one walk for everything that has ended, and a cost that goes by what lay on it.

#include "server/cleanup/ended_registration_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/testing/core_harness.h"

namespace holdfast::cleanup {
namespace {

using core::MasterOptions;
using core::RegistrationId;
using core::Session;

MasterOptions Shards(uint32_t count) {
  MasterOptions options = testing::SmallOptions();
  options.shard_count = count;
  return options;
}

class SweepTest : public testing::CoreTest {
 protected:
  explicit SweepTest(const MasterOptions& options = testing::SmallOptions()) : CoreTest(options) {
    AuditOnlyAtTheEnd();
  }
  RegistrationId MountLarge(const std::string& name) {
    core::SegmentSpec spec = Spec(name);
    spec.size_bytes = 256 << 20;
    return Mount(client_, spec);
  }
  void PutMany(const std::string& segment, int count, uint32_t replicas = 1) {
    for (int i = 0; i < count; ++i) {
      Put(client_, segment + "-" + std::to_string(i),
          {.size_bytes = 64, .replicas = replicas, .segments = {segment}});
    }
  }
  uint64_t Swept() { return Count().cleanup.swept_replicas; }

  const Session client_ = Open("client");
};

class OneShardSweepTest : public SweepTest {
 protected:
  OneShardSweepTest() : SweepTest(Shards(1)) {}
  // One lock hold. True if there may be more to do.
  bool OneHold() { return one_hold_pass_.Run(); }

 private:
  SweepStatistics statistics_;
  EndedRegistrationPass one_hold_pass_{&master(), &clock(), &statistics_, {.steps_per_round = 1}};
};

// Nothing has ended: nothing is looked at.
TEST_F(SweepTest, R9_WithoutAnEndThereIsNothingToDo) {
  MountLarge("a");
  PutMany("a", 10);
  EXPECT_FALSE(sweep_pass().Run());
  EXPECT_EQ(Count().objects, 10u);
}

// A lock hold delays everybody who wants a key of the shard, so it is short whatever waits.
TEST_F(OneShardSweepTest, R21_AtMost64ReplicasAreUnlinkedUnderOneHold) {
  const RegistrationId a = MountLarge("a");
  PutMany("a", 1000);
  Unmount(client_, a);
  uint64_t before = 0;
  int holds = 0;
  while (OneHold()) {
    EXPECT_LE(Swept() - before, 64u);
    before = Swept();
    ++holds;
  }
  EXPECT_EQ(before, 1000u);
  EXPECT_GE(holds, 1000 / 64);
}

// A put of a dead session may have sixteen replicas: it is replicas that cost, not puts.
TEST_F(OneShardSweepTest, R21_AtMost64ReplicasOfDeadPutsAreUnlinkedUnderOneHold) {
  for (int i = 0; i < 16; ++i) MountLarge("s" + std::to_string(i));
  const Session dying = Open("dying");
  for (int i = 0; i < 64; ++i) {
    Start(dying, "key-" + std::to_string(i), {.size_bytes = 64, .replicas = 16});
  }
  Open("dying", /*incarnation=*/2);
  uint64_t before = Count().replicas;
  EXPECT_EQ(before, 64 * 16u);
  while (OneHold()) {
    EXPECT_LE(before - Count().replicas, 64u);
    before = Count().replicas;
  }
  EXPECT_EQ(Count().replicas, 0u);
  EXPECT_EQ(Count().puts_in_progress, 0u);
}

// The same when the monitor reaps what was abandoned.
TEST_F(OneShardSweepTest, R21_AtMost64ReplicasOfAbandonedPutsAreUnlinkedUnderOneHold) {
  for (int i = 0; i < 16; ++i) MountLarge("s" + std::to_string(i));
  for (int i = 0; i < 64; ++i) {
    Start(client_, "key-" + std::to_string(i), {.size_bytes = 64, .replicas = 16});
  }
  Tick(599'999);
  uint64_t before = Count().replicas;
  ASSERT_EQ(before, 64 * 16u);
  for (int i = 0; i < 64 && before > 0; ++i) {
    Tick(1);
    EXPECT_LE(before - Count().replicas, 64u);
    before = Count().replicas;
  }
  EXPECT_EQ(before, 0u);
}

// Their lists are walked side by side, and what is unlinked from one object moves its other replicas.
TEST_F(OneShardSweepTest, R8_ObjectsThatLieOnSeveralLeavingSegmentsKeepWhatIsLeft) {
  std::vector<RegistrationId> ids;
  for (int i = 0; i < 12; ++i) ids.push_back(MountLarge("s" + std::to_string(i)));
  for (int i = 0; i < 300; ++i) {
    Put(client_, "key-" + std::to_string(i),
        {.size_bytes = 64, .replicas = 1 + static_cast<uint32_t>(i) % 12});
  }
  std::map<std::string, size_t> left;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "key-" + std::to_string(i);
    for (const testing::Place& place : Get(key).places) {
      if (place.registration == ids[0] || place.registration == ids[11]) ++left[key];
    }
  }
  for (size_t i = 1; i < 11; ++i) Unmount(client_, ids[i]);
  Sweep();
  EXPECT_EQ(master().Audit(), "");
  EXPECT_EQ(Count().objects, left.size());
  for (const auto& [key, count] : left) EXPECT_EQ(Get(key).places.size(), count) << key;
}

// Eight services that leave together cost one walk over the shards, not eight.
TEST_F(SweepTest, R9_EightUnmountsAreOneWalk) {
  std::vector<RegistrationId> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(MountLarge("s" + std::to_string(i)));
    PutMany("s" + std::to_string(i), 8);
  }
  for (RegistrationId id : ids) Unmount(client_, id);
  const int together = Sweep();
  EXPECT_EQ(Count().cleanup.swept_registrations, 8u);
  EXPECT_EQ(Count().objects, 0u);
  // A walk that finds nothing is one round of this few shards; each of the eight would have been one more.
  EXPECT_LE(together, 1 + 64 / 64);
}

// What ends while a walk is under way may lie in shards that it has passed: the next walk takes it.
TEST_F(SweepTest, R9_AnEndDuringAWalkIsCoveredByTheNext) {
  const RegistrationId a = MountLarge("a");
  const RegistrationId b = MountLarge("b");
  PutMany("a", 500);
  PutMany("b", 500);
  Unmount(client_, a);
  ASSERT_TRUE(sweep_pass().Run());
  ASSERT_GT(Count().objects, 500u) << "the first walk is not under way";
  Unmount(client_, b);
  Sweep();
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Count().cleanup.swept_registrations, 2u);
  EXPECT_FALSE(IsListed(b));
}

class LargeTableTest : public SweepTest {
 protected:
  LargeTableTest() : SweepTest(Shards(1024)) {}
};

// The death of a small node in a large cluster is a small matter: its ten keys are taken out, and the hundred thousand of
// the others are not looked at.
TEST_F(LargeTableTest, F1_TheCostGoesByWhatLayOnTheRegistration) {
  MountLarge("large");
  const RegistrationId small = MountLarge("small");
  PutMany("large", 100'000);
  PutMany("small", 10);
  Unmount(client_, small);
  const int rounds = Sweep();
  EXPECT_EQ(Swept(), 10u);
  EXPECT_EQ(Count().objects, 100'000u);
  // 64 shards a round and one round more; with a hold for each object there would be thousands.
  EXPECT_LE(rounds, 1024 / 64 + 1);
}

// Between two holds of the sweep the shard changes, and grows: nothing is missed, and nothing else is taken.
TEST_F(OneShardSweepTest, F13_AShardThatChangesBetweenTwoHoldsIsSweptRight) {
  const RegistrationId a = MountLarge("a");
  MountLarge("b");
  PutMany("a", 1000);
  PutMany("b", 100);
  Unmount(client_, a);
  int next = 0;
  while (sweep_pass().Run()) {
    for (int i = 0; i < 100; ++i, ++next) PutOn(client_, "during-" + std::to_string(next), "b");
    Remove(client_, "b-" + std::to_string(next % 100));
    Remove(client_, "a-" + std::to_string(next % 1000), /*force=*/true);
  }
  EXPECT_EQ(Keys(false).size(), Keys(true).size());
  EXPECT_EQ(Keys(true, "during-").size(), static_cast<size_t>(next));
  EXPECT_TRUE(Keys(false, "a-").empty());
}

// Objects with two replicas on two ended segments are taken apart one replica at a time.
TEST_F(SweepTest, F4_BothReplicasOfAnObjectAreSweptWhenBothSegmentsLeave) {
  const RegistrationId a = MountLarge("a");
  const RegistrationId b = MountLarge("b");
  PutMany("a", 300, /*replicas=*/2);
  Unmount(client_, a);
  Unmount(client_, b);
  Sweep();
  EXPECT_EQ(Swept(), 600u);
  EXPECT_EQ(Count().cleanup.erased_objects, 300u);
  EXPECT_EQ(Count().objects, 0u);
}

// The figures that an operator watches while it goes on.
TEST_F(SweepTest, F118_WhatWaitsIsCountedWithItsAge) {
  const RegistrationId a = MountLarge("a");
  PutMany("a", 500);
  Unmount(client_, a);
  Tick(1500);
  EXPECT_EQ(Count().cleanup.ended_registrations_waiting, 1u);
  EXPECT_EQ(Count().cleanup.ended_replicas_waiting, 500u);
  EXPECT_EQ(Count().cleanup.oldest_waiting_age_ms, 1500);
  Sweep();
  EXPECT_EQ(Count().cleanup.oldest_waiting_age_ms, 0);
  EXPECT_EQ(Count().cleanup.ended_replicas_waiting, 0u);
}

// Churn of registrations leaves nothing behind: no slots, no residues, no pools.
TEST_F(SweepTest, F93_TenThousandMountsLeaveNothingBehind) {
  for (int i = 0; i < 10'000; ++i) {
    core::SegmentSpec spec = Spec("segment");
    spec.base = 1 << 20;
    if (i % 3 == 0) spec.pool_id = "pool-" + std::to_string(i);
    const RegistrationId id = Mount(client_, spec);
    Unmount(client_, id);
    Sweep();
    if (i % 16 == 0) Tick(100);
  }
  Tick(100);
  EXPECT_EQ(master().registry().ResidueCount(), 0u);
  EXPECT_TRUE(master().ListSegments({}, true, 10, Now()).empty());
  const RegistrationId last = MountLarge("last");
  EXPECT_LT(Listed(last).slot, 4u);
}

}  // namespace
}  // namespace holdfast::cleanup

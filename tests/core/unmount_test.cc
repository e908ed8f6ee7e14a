// What an unmount does at once and what it leaves to the sweep.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// After this long something waits that must not.
constexpr absl::Duration kPatience = absl::Seconds(20);

class UnmountTest : public testing::CoreTest {
 protected:
  const Session client_ = Open("client");
};

MasterOptions OneShard() {
  MasterOptions options = testing::SmallOptions();
  options.shard_count = 1;
  return options;
}

// The whole table of objects is locked while something else is to go on.
class LockedTableTest : public testing::CoreTest {
 protected:
  LockedTableTest() : CoreTest(OneShard()) {}

  bool ReturnsWhileEveryShardIsLocked(const std::function<void()>& action) {
    ObjectShard& shard = master().table().shard(0);
    absl::Notification done;
    std::thread runner;
    bool returned = false;
    {
      absl::MutexLock lock(&shard.mu);
      runner = std::thread([&action, &done] {
        action();
        done.Notify();
      });
      returned = done.WaitForNotificationWithTimeout(kPatience);
    }
    runner.join();
    return returned;
  }

  const Session client_ = Open("client");
};

// An unmount that waits for a shard would wait for the sweep, and hold a thread of the server meanwhile.
TEST_F(LockedTableTest, R1_UnmountTouchesNoShard) {
  const RegistrationId registration = Mount(client_, "segment");
  Put(client_, "key");
  absl::Status status;
  EXPECT_TRUE(ReturnsWhileEveryShardIsLocked(
      [&] { status = master().UnmountSegment(client_, registration, 0, Now()); }));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
}

// The end of a grace period comes from the monitor, which everybody's time-outs hang on.
TEST_F(LockedTableTest, R1_TheEndOfAGraceTouchesNoShard) {
  const RegistrationId registration = Mount(client_, "segment");
  Put(client_, "key");
  Unmount(client_, registration, /*grace_ms=*/100);
  clock().AdvanceMs(100);
  EXPECT_TRUE(ReturnsWhileEveryShardIsLocked([&] { master().ExpireStep(Now()); }));
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
}

// A monitor that walks the table while a client expires is the freeze of seven minutes (F1).
TEST_F(LockedTableTest, R12_ExpiryTouchesNoShard) {
  Mount(client_, "segment");
  Put(client_, "key");
  clock().AdvanceMs(master().options().client_ttl_ms + 1);
  EXPECT_TRUE(ReturnsWhileEveryShardIsLocked([&] { master().ExpireStep(Now()); }));
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(Count().cleanup.expired_clients, 1u);
}

// Data work must not make healthy clients look dead.
TEST_F(LockedTableTest, F39_HeartbeatAndMountTouchNoShard) {
  const SegmentSpec spec = Spec("segment");
  HeartbeatAnswer beat;
  absl::Status mounted;
  EXPECT_TRUE(ReturnsWhileEveryShardIsLocked([&] {
    beat = Heartbeat(client_);
    mounted = master().MountSegment(client_, spec, Now()).status();
  }));
  EXPECT_EQ(beat.state, SessionState::kLive);
  EXPECT_TRUE(mounted.ok()) << mounted;
}

// Names are labels: two registrations with one name are two lifetimes, whichever goes first.
class EqualNamesTest : public testing::CoreTest, public ::testing::WithParamInterface<bool> {};

TEST_P(EqualNamesTest, R5_UnmountTakesOnlyItsOwnReplicas) {
  const Session client = Open("client");
  SegmentSpec first = Spec("first");
  SegmentSpec second = Spec("second");
  first.name = second.name = "same";
  const RegistrationId first_id = Mount(client, first);
  const testing::Started on_first = Put(client, "on-first");
  ASSERT_TRUE(master().DrainSegment(first_id).ok());  // so that the next goes elsewhere
  const RegistrationId second_id = Mount(client, second);
  const testing::Started on_second = Put(client, "on-second");
  ASSERT_EQ(on_first.places.at(0).registration, first_id);
  ASSERT_EQ(on_second.places.at(0).registration, second_id);
  const bool first_goes = GetParam();
  Unmount(client, first_goes ? first_id : second_id);
  EXPECT_EQ(Exists("on-first"), first_goes ? Reason::kObjectNotFound : Reason::kNone);
  EXPECT_EQ(Exists("on-second"), first_goes ? Reason::kNone : Reason::kObjectNotFound);
  Sweep();
  EXPECT_EQ(Exists(first_goes ? "on-second" : "on-first"), Reason::kNone);
}

INSTANTIATE_TEST_SUITE_P(EitherOrder, EqualNamesTest, ::testing::Bool(), [](const auto& order) {
  return order.param ? "FirstGoesFirst" : "SecondGoesFirst";
});

// A remount is a new registration: what was put before stays lost, before and after the sweep.
TEST_F(UnmountTest, R5_RemountDoesNotReviveReplicasOfTheOldMount) {
  const SegmentSpec spec = Spec("segment");
  const RegistrationId old_id = Mount(client_, spec);
  Put(client_, "key");
  Unmount(client_, old_id);
  const RegistrationId new_id = Mount(client_, spec);
  EXPECT_NE(new_id, old_id);
  EXPECT_EQ(Get("key").reason, Reason::kObjectNotFound);
  Sweep();
  EXPECT_EQ(Get("key").reason, Reason::kObjectNotFound);
}

// The cleanup of the old registration must not reach what was put on its successor meanwhile.
TEST_F(UnmountTest, R5_TheSweepOfTheOldMountSparesTheNewOne) {
  const SegmentSpec spec = Spec("segment");
  const RegistrationId old_id = Mount(client_, spec);
  for (int i = 0; i < 100; ++i) Put(client_, "old-" + std::to_string(i));
  Unmount(client_, old_id);
  const RegistrationId new_id = Mount(client_, Spec("other"));
  for (int i = 0; i < 100; ++i) Put(client_, "new-" + std::to_string(i));
  Sweep();
  EXPECT_EQ(Keys(/*filter_invalid=*/false).size(), 100u);
  EXPECT_EQ(Listed(new_id).ranges, 100u);
}

// The members of a pool have one allocator, but each has its own lifetime.
TEST_F(UnmountTest, R6_AMemberOfAPoolEndsAloneWhileTheAllocatorLivesOn) {
  SegmentSpec spec_a = Spec("a");
  SegmentSpec spec_b = Spec("b");
  spec_a.pool_id = spec_b.pool_id = "cxl";
  const RegistrationId a = Mount(client_, spec_a);
  const RegistrationId b = Mount(client_, spec_b);
  const testing::Started on_a = PutOn(client_, "on-a", "a");
  const testing::Started on_b = PutOn(client_, "on-b", "b");
  ASSERT_EQ(on_a.places.at(0).registration, a);
  ASSERT_EQ(on_b.places.at(0).registration, b);
  EXPECT_NE(on_a.places[0].offset_bytes, on_b.places[0].offset_bytes);
  Unmount(client_, a);
  EXPECT_EQ(Exists("on-a"), Reason::kObjectNotFound);
  EXPECT_THAT(Get("on-b").places, ElementsAre(on_b.places[0]));
  Sweep();
  // The range has gone back to the shared allocator.
  EXPECT_EQ(Listed(b).allocated_bytes, 4096u);
  EXPECT_EQ(Put(client_, "again").places.at(0).offset_bytes, on_a.places[0].offset_bytes);
}

// One copy less is no loss, and the answer names no dead one.
TEST_F(UnmountTest, R8_ReadsGoOnWithTheSurvivors) {
  const RegistrationId a = Mount(client_, "a");
  const RegistrationId b = Mount(client_, "b");
  Put(client_, "key", {.replicas = 2});
  Unmount(client_, a);
  const testing::Found found = Get("key");
  ASSERT_EQ(found.places.size(), 1u);
  EXPECT_EQ(found.places[0].registration, b);
  EXPECT_EQ(Exists("key"), Reason::kNone);
  EXPECT_THAT(Keys(true), ElementsAre("key"));
}

// The sweep takes dead replicas, never an object that still has a live one.
TEST_F(UnmountTest, F4_TheSweepKeepsAnObjectThatLostOneOfTwoReplicas) {
  const RegistrationId a = Mount(client_, "a");
  const RegistrationId b = Mount(client_, "b");
  Put(client_, "both", {.replicas = 2});
  PutOn(client_, "only-a", "a");
  Unmount(client_, a);
  Sweep();
  EXPECT_EQ(Get("both").places.at(0).registration, b);
  EXPECT_THAT(Keys(false), ElementsAre("both"));
  EXPECT_EQ(Count().replicas, 1u);
}

// A cache that has lost a key wants to put it again now, not after the sweep; and the sweep must spare the new object.
TEST_F(UnmountTest, F4_ALostKeyCanBePutAgainBeforeTheSweep) {
  const RegistrationId a = Mount(client_, "a");
  Put(client_, "key");
  const RegistrationId b = Mount(client_, "b");
  Unmount(client_, a);
  EXPECT_EQ(Put(client_, "key").places.at(0).registration, b);
  Sweep();
  EXPECT_EQ(Get("key").places.at(0).registration, b);
  EXPECT_EQ(Count().objects, 1u);
}

// Physical figures may lag behind what is visible, but only until the sweep is done, without further traffic.
TEST_F(UnmountTest, R11_PhysicalCountsConvergeWithTheSweep) {
  const RegistrationId a = Mount(client_, "a");
  Mount(client_, "b");
  for (int i = 0; i < 40; ++i) PutOn(client_, "a" + std::to_string(i), "a");
  for (int i = 0; i < 20; ++i) PutOn(client_, "b" + std::to_string(i), "b");
  Unmount(client_, a);
  EXPECT_EQ(Keys(true).size(), 20u);
  EXPECT_EQ(Count().objects, 60u);
  EXPECT_EQ(Count().cleanup.ended_replicas_waiting, 40u);
  Sweep();
  EXPECT_EQ(Keys(true).size(), Count().objects);
  EXPECT_EQ(Count().replicas, 20u);
  EXPECT_EQ(Count().cleanup.ended_registrations_waiting, 0u);
  EXPECT_EQ(Count().cleanup.swept_replicas, 40u);
  EXPECT_EQ(Count().cleanup.erased_objects, 40u);
}

// A silent client leaves by the same door as one that says goodbye.
TEST_F(UnmountTest, R12_ReplicasOfAnExpiredClientAreUnreadableAtOnce) {
  const Session dying = Open("dying");
  Mount(dying, "a");
  Put(dying, "key");
  Silence(dying);
  Tick(10'000);
  EXPECT_EQ(Exists("key"), Reason::kNone);
  Tick(1);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(Count().objects, 1u) << "the monitor has walked the table";
  Sweep();
  EXPECT_EQ(Count().objects, 0u);
}

// A retry cannot know whether the first attempt has arrived.
TEST_F(UnmountTest, R20_RepeatedAndUnknownUnmountsAreOk) {
  const RegistrationId registration = Mount(client_, "a");
  EXPECT_EQ(Unmount(client_, registration), Reason::kNone);
  EXPECT_EQ(Unmount(client_, registration), Reason::kNone);
  Sweep();
  EXPECT_EQ(Unmount(client_, registration), Reason::kNone);
  EXPECT_EQ(Unmount(client_, RegistrationId{12345}), Reason::kNone);
  EXPECT_EQ(Count().cleanup.swept_registrations, 1u);
}

// A retry that was delayed in the network must not hit what was mounted since, in the same slot or another.
TEST_F(UnmountTest, R20_ADelayedRetrySparesTheSuccessor) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  Unmount(client_, old_id);
  Sweep();
  const RegistrationId new_id = Mount(client_, spec);
  Put(client_, "key");
  EXPECT_EQ(Unmount(client_, old_id), Reason::kNone);
  EXPECT_EQ(Unmount(client_, old_id, /*grace_ms=*/100), Reason::kNone);
  Tick(1000);
  EXPECT_EQ(Get("key").places.at(0).registration, new_id);
}

// Nobody takes away what another has lent.
TEST_F(UnmountTest, ForeignSegmentsAreNotForClientsButForOperators) {
  const Session other = Open("other");
  const RegistrationId registration = Mount(client_, "a");
  EXPECT_EQ(Unmount(other, registration), Reason::kNotSegmentOwner);
  EXPECT_EQ(Listed(registration).state, SegmentState::kMounted);
  EXPECT_TRUE(master().UnmountSegmentByOperator(registration, 0, Now()).ok());
  EXPECT_EQ(Listed(registration).state, SegmentState::kEnded);
}

// A heartbeat tells a client what was taken from it, so that it can mount again.
TEST_F(UnmountTest, F11_HeartbeatTellsWhichRegistrationsHaveEnded) {
  const RegistrationId kept = Mount(client_, "kept");
  const RegistrationId gone = Mount(client_, "gone");
  Unmount(client_, gone);
  EXPECT_THAT(Heartbeat(client_, {kept.value, gone.value, 77}).ended_registration_ids,
              ElementsAre(gone.value, 77));
  Sweep();
  EXPECT_THAT(Heartbeat(client_, {kept.value, gone.value}).ended_registration_ids,
              ElementsAre(gone.value));
  EXPECT_THAT(Heartbeat(client_, {kept.value}).ended_registration_ids, IsEmpty());
}

// A segment that waits for its sweep is shown as ended only to those who ask for ended ones.
TEST_F(UnmountTest, EndedRegistrationsAreListedUntilTheyAreSwept) {
  const RegistrationId registration = Mount(client_, "a");
  Unmount(client_, registration);
  EXPECT_THAT(master().ListSegments({}, /*include_ended=*/false, 10, Now()), IsEmpty());
  EXPECT_EQ(Listed(registration).state, SegmentState::kEnded);
  Sweep();
  EXPECT_FALSE(IsListed(registration));
}

}  // namespace
}  // namespace holdfast::core

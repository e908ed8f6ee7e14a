// The life of a put: start, end, revoke, and every wrong order of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Started;

class PutTest : public testing::CoreTest {
 protected:
  const Session client_ = Open("client");
  const Session other_ = Open("other");
  const RegistrationId a_ = Mount(client_, "a");
  const RegistrationId b_ = Mount(client_, "b");
};

// The straight way: nothing is visible before the end, and then exactly what was written.
TEST_F(PutTest, AnObjectIsReadableFromItsEndOn) {
  const Started started = Start(client_, "key", {.size_bytes = 5000});
  EXPECT_EQ(Get("key").reason, Reason::kObjectNotFound);
  ASSERT_EQ(End(client_, "key", started.put), Reason::kNone);
  const testing::Found found = Get("key");
  EXPECT_EQ(found.reason, Reason::kNone);
  EXPECT_EQ(found.size_bytes, 5000u);
  EXPECT_EQ(found.version, started.put);
  EXPECT_EQ(found.lease_ms, 10'000);
  EXPECT_EQ(found.places, started.places);
}

// The answer to a start may be lost. Sending it again must not take a second range, nor be told "exists".
TEST_F(PutTest, F19_AReplayOfAStartHasTheSameAnswerAndTakesNoSecondRange) {
  const Started first = Start(client_, "key", {.replicas = 2, .request = 7});
  const Started again = Start(client_, "key", {.replicas = 2, .request = 7});
  EXPECT_EQ(again.reason, Reason::kNone);
  EXPECT_EQ(again.put, first.put);
  EXPECT_EQ(again.places, first.places);
  EXPECT_EQ(Count().allocated_bytes, 2 * 4096u);
  EXPECT_EQ(Count().puts_in_progress, 1u);
}

// After the end the record of the request is gone: the object exists, and that is said.
TEST_F(PutTest, F19_AReplayAfterTheEndIsToldThatTheObjectExists) {
  Put(client_, "key", {.request = 7});
  EXPECT_EQ(Start(client_, "key", {.request = 7}).reason, Reason::kObjectExists);
}

// "Exists" has three meanings, and a caller does something different for each.
TEST_F(PutTest, F19_ARefusedStartSaysWhoIsInTheWay) {
  Put(other_, "complete");
  Start(other_, "theirs");
  Start(client_, "mine");
  EXPECT_EQ(Start(client_, "complete").reason, Reason::kObjectExists);
  EXPECT_EQ(Start(client_, "theirs").reason, Reason::kPutInProgressByOther);
  EXPECT_EQ(Start(client_, "mine").reason, Reason::kPutInProgressByYou);
  EXPECT_EQ(Count().allocated_bytes, 3 * 4096u) << "a refused start has kept space";
}

// A request id is the client's own: the same number of another client is another put.
TEST_F(PutTest, F19_TheRequestIdOfAnotherClientIsNoReplay) {
  Start(client_, "key", {.request = 7});
  EXPECT_EQ(Start(other_, "key", {.request = 7}).reason, Reason::kPutInProgressByOther);
}

// A retried end must not fail, and a retried one of long ago must not abort the master.
TEST_F(PutTest, F18_EndIsIdempotent) {
  const Started put = Put(client_, "key");
  EXPECT_EQ(End(client_, "key", put.put), Reason::kNone);
  EXPECT_EQ(Exists("key"), Reason::kNone);
}

// So with a retried revoke, which must not take what was put since.
TEST_F(PutTest, F18_RevokeIsIdempotent) {
  const Started put = Start(client_, "key");
  EXPECT_EQ(Revoke(client_, "key", put.put), Reason::kNone);
  Put(client_, "key");
  EXPECT_EQ(Revoke(client_, "key", put.put), Reason::kNone);
  EXPECT_EQ(Exists("key"), Reason::kNone);
}

// Readers may have the object already: a revoke comes too late.
TEST_F(PutTest, F18_RevokeAfterEndIsRefusedAndTheObjectStays) {
  const Started put = Put(client_, "key");
  EXPECT_EQ(Revoke(client_, "key", put.put), Reason::kPutComplete);
  EXPECT_EQ(Exists("key"), Reason::kNone);
}

// A revoked put gives its space back at once: the writer has said that it is done.
TEST_F(PutTest, RevokeGivesTheSpaceBackAtOnce) {
  const Started put = Start(client_, "key", {.replicas = 2});
  EXPECT_EQ(Revoke(client_, "key", put.put), Reason::kNone);
  EXPECT_EQ(Count().allocated_bytes, 0u);
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Count().puts_in_progress, 0u);
}

// Ids that this master has never given out come from a client of another one: nothing here is meant.
TEST_F(PutTest, F18_PutsThatWereNeverStartedAreUnknown) {
  const PutId never{1};
  EXPECT_EQ(End(client_, "key", never), Reason::kUnknownPut);
  EXPECT_EQ(Revoke(client_, "key", never), Reason::kUnknownPut);
  const Started put = Start(client_, "key");
  const PutId next{put.put.value + 1};
  EXPECT_EQ(End(client_, "key", next), Reason::kUnknownPut);
  EXPECT_EQ(Revoke(client_, "key", next), Reason::kUnknownPut);
  EXPECT_EQ(End(client_, "key", put.put), Reason::kNone);
}

// A put belongs to who has started it.
TEST_F(PutTest, F18_APutOfAnotherClientCanNeitherBeEndedNorRevoked) {
  const Started put = Start(client_, "key");
  EXPECT_EQ(End(other_, "key", put.put), Reason::kNotPutOwner);
  EXPECT_EQ(Revoke(other_, "key", put.put), Reason::kNotPutOwner);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(End(client_, "key", put.put), Reason::kNone);
}

// An id goes with its key: under another key it changes nothing.
TEST_F(PutTest, F17_ThePutIdOfAnotherKeyChangesNothing) {
  const Started one = Start(client_, "one");
  const Started two = Start(client_, "two");
  EXPECT_EQ(End(client_, "one", two.put), Reason::kStalePut);
  EXPECT_EQ(Revoke(client_, "one", two.put), Reason::kNone);
  EXPECT_EQ(Count().puts_in_progress, 2u);
  EXPECT_EQ(End(client_, "one", one.put), Reason::kNone);
  EXPECT_EQ(End(client_, "two", two.put), Reason::kNone);
}

// The same client owns both puts, so only the id tells the late end of the first from the end of the second. Without
// that, a key is complete before its bytes are written.
TEST_F(PutTest, F17_LatePutEndOfAnOlderPutChangesNothing) {
  const Started first = Start(client_, "key");
  Tick(30'000);
  const Started second = Start(client_, "key");
  ASSERT_EQ(second.reason, Reason::kNone);
  EXPECT_EQ(End(client_, "key", first.put), Reason::kStalePut);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(Revoke(client_, "key", first.put), Reason::kNone);
  EXPECT_EQ(Count().puts_in_progress, 1u);
  EXPECT_EQ(End(client_, "key", second.put), Reason::kNone);
  EXPECT_EQ(Get("key").version, second.put);
}

// A key was removed and put again while the end of the first put was on its way.
TEST_F(PutTest, F6_LatePutEndAfterRemoveRevivesNothing) {
  const Started put = Start(client_, "key");
  EXPECT_EQ(Remove(client_, "key", /*force=*/true), Reason::kNone);
  EXPECT_EQ(End(client_, "key", put.put), Reason::kStalePut);
  EXPECT_EQ(Revoke(client_, "key", put.put), Reason::kNone);
  EXPECT_THAT(Keys(false), IsEmpty());
  EXPECT_EQ(Put(client_, "key").reason, Reason::kNone);
}

// The end of a put on a segment that has left says so, as often as it is asked, before and after the sweep.
TEST_F(PutTest, R18_PutEndSaysReplicaLostEachTime) {
  const Started put = Start(client_, "key", {.segments = {"a"}});
  Unmount(client_, a_);
  EXPECT_EQ(End(client_, "key", put.put), Reason::kReplicaLost);
  EXPECT_EQ(End(client_, "key", put.put), Reason::kReplicaLost);
  Sweep();
  EXPECT_EQ(End(client_, "key", put.put), Reason::kReplicaLost);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_THAT(Keys(true), IsEmpty());
}

// A client that gives up a lost put is done with it.
TEST_F(PutTest, R18_PutRevokeOfALostPutIsOk) {
  const Started put = Start(client_, "key", {.segments = {"a"}});
  Unmount(client_, a_);
  Sweep();
  EXPECT_EQ(Count().objects, 1u) << "the record of the put is what its end is told from";
  EXPECT_EQ(Revoke(client_, "key", put.put), Reason::kNone);
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Count().puts_in_progress, 0u);
}

// A lost put blocks its key for nobody.
TEST_F(PutTest, F4_ALostPutIsReplacedAtOnceByAnyone) {
  for (bool swept : {false, true}) {
    const std::string key = swept ? "swept" : "unswept";
    const RegistrationId dying = Mount(client_, swept ? "d1" : "d2");
    const Started put = Start(client_, key, {.segments = {swept ? "d1" : "d2"}});
    Unmount(client_, dying);
    if (swept) Sweep();
    EXPECT_EQ(Put(other_, key).reason, Reason::kNone);
    EXPECT_EQ(End(client_, key, put.put), Reason::kStalePut);
    Sweep();
    EXPECT_EQ(Exists(key), Reason::kNone);
  }
}

// One of two segments leaves in the middle of a put: the other copy is as good as ever.
TEST_F(PutTest, F21_PutEndCompletesTheReplicasThatAreLeft) {
  for (bool swept : {false, true}) {
    const std::string key = swept ? "swept" : "unswept";
    const std::string name = swept ? "d1" : "d2";
    const RegistrationId dying = Mount(client_, name);
    const Started put = Start(client_, key, {.replicas = 2, .segments = {name}});
    ASSERT_EQ(put.places.at(0).registration, dying);
    Unmount(client_, dying);
    if (swept) Sweep();
    EXPECT_EQ(End(client_, key, put.put), Reason::kNone);
    EXPECT_THAT(Get(key).places, ElementsAre(put.places[1]));
  }
  Sweep();
  EXPECT_EQ(Count().allocated_bytes, 2 * 4096u);
}

// Never "exists, with an empty list".
TEST_F(PutTest, F21_WhenBothSegmentsLeaveTheEndIsRefusedAndNothingExists) {
  const Started put = Start(client_, "key", {.replicas = 2});
  Unmount(client_, a_);
  Unmount(client_, b_);
  EXPECT_EQ(End(client_, "key", put.put), Reason::kReplicaLost);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(Get("key").reason, Reason::kObjectNotFound);
}

// A replay after one of the segments has left still is the same put.
TEST_F(PutTest, F19_AReplayAfterASegmentHasLeftHasTheSamePut) {
  const Started first = Start(client_, "key", {.replicas = 2, .request = 7});
  Unmount(client_, a_);
  Sweep();
  const Started again = Start(client_, "key", {.replicas = 2, .request = 7});
  EXPECT_EQ(again.put, first.put);
  ASSERT_EQ(again.places.size(), 1u);
  EXPECT_EQ(again.places[0].registration, b_);
}

// Copies on one segment, or on one host, would die together.
TEST_F(PutTest, ReplicasLieOnDistinctSegments) {
  Mount(client_, "c");
  for (int i = 0; i < 100; ++i) {
    const Started put = Put(client_, "key-" + std::to_string(i), {.replicas = 3});
    std::set<RegistrationId> ids;
    for (const testing::Place& place : put.places) ids.insert(place.registration);
    EXPECT_EQ(ids.size(), 3u);
  }
}

// More copies than segments cannot be had; the reason says that space is not the problem, and none is kept.
TEST_F(PutTest, MoreReplicasThanSegmentsAreRefusedAndNothingIsKept) {
  EXPECT_EQ(Start(client_, "key", {.replicas = 3}).reason, Reason::kTooFewSegments);
  EXPECT_EQ(Count().allocated_bytes, 0u);
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Start(client_, "key", {.replicas = 2}).reason, Reason::kNone);
}

// When the second copy finds no room, the first one is given back.
TEST_F(PutTest, WhenOneReplicaFindsNoRoomNothingIsKept) {
  SegmentSpec tiny = Spec("tiny");
  tiny.size_bytes = 4096;
  Unmount(client_, b_);
  Mount(client_, tiny);
  EXPECT_EQ(Start(client_, "key", {.size_bytes = 8192, .replicas = 2}).reason, Reason::kNoSpace);
  EXPECT_EQ(Count().allocated_bytes, 0u);
}

// Without a segment there is nothing to be full.
TEST_F(PutTest, WithoutSegmentsTheReasonSaysSo) {
  Unmount(client_, a_);
  Unmount(client_, b_);
  EXPECT_EQ(Start(client_, "key").reason, Reason::kNoSegment);
}

// A key is bytes: any of them, and no two keys are the same unless all bytes are.
TEST_F(PutTest, KeysMayHaveAnyBytes) {
  const std::vector<std::string> keys = {std::string("\0", 1), std::string("\0\0", 2), "\xff\xfe",
                                         "a/b\n\"\\",          std::string("a\0b", 3), "a"};
  for (const std::string& key : keys) Put(client_, key);
  for (const std::string& key : keys) EXPECT_EQ(Exists(key), Reason::kNone);
  EXPECT_EQ(Keys(true).size(), keys.size());
  EXPECT_EQ(Remove(client_, std::string("\0", 1)), Reason::kNone);
  EXPECT_EQ(Exists(std::string("\0\0", 2)), Reason::kNone);
}

// The limit is exact on every call, so that a key that can be put can be read and removed.
TEST_F(PutTest, KeysHaveALimitThatIsExactOnEveryCall) {
  const std::string longest(1024, 'k');
  const std::string longer(1025, 'k');
  const Started put = Put(client_, longest, {.replicas = 2});
  EXPECT_EQ(Get(longest).places.size(), 2u);
  EXPECT_EQ(Keys(true).at(0), longest);
  EXPECT_EQ(Start(client_, longer).reason, Reason::kKeyTooLong);
  EXPECT_EQ(End(client_, longer, put.put), Reason::kKeyTooLong);
  EXPECT_EQ(Revoke(client_, longer, put.put), Reason::kKeyTooLong);
  EXPECT_EQ(Get(longer).reason, Reason::kKeyTooLong);
  EXPECT_EQ(Exists(longer), Reason::kKeyTooLong);
  EXPECT_EQ(Remove(client_, longer), Reason::kKeyTooLong);
  EXPECT_EQ(ReasonOf(master().GetObject(longer, Now()).status()), Reason::kKeyTooLong);
}

// So with the empty key.
TEST_F(PutTest, TheEmptyKeyIsRefusedOnEveryCall) {
  EXPECT_EQ(Start(client_, "").reason, Reason::kEmptyKey);
  EXPECT_EQ(End(client_, "", PutId{1}), Reason::kEmptyKey);
  EXPECT_EQ(Revoke(client_, "", PutId{1}), Reason::kEmptyKey);
  EXPECT_EQ(Get("").reason, Reason::kEmptyKey);
  EXPECT_EQ(Exists(""), Reason::kEmptyKey);
  EXPECT_EQ(Remove(client_, ""), Reason::kEmptyKey);
}

// Bounds of one put.
TEST_F(PutTest, SizesReplicasAndRequestsOutOfBoundsAreRefused) {
  EXPECT_EQ(Start(client_, "key", {.size_bytes = 0}).reason, Reason::kBadSize);
  EXPECT_EQ(Start(client_, "key", {.size_bytes = kSegmentBytesMax + 1}).reason, Reason::kBadSize);
  EXPECT_EQ(Start(client_, "key", {.size_bytes = UINT64_MAX}).reason, Reason::kBadSize);
  EXPECT_EQ(Start(client_, "key", {.replicas = 17}).reason, Reason::kBadReplicaCount);
  EXPECT_EQ(Count().objects, 0u);
}

// No number of copies asked for is one copy.
TEST_F(PutTest, NoReplicaCountMeansOne) {
  EXPECT_EQ(Put(client_, "key", {.replicas = 0}).places.size(), 1u);
}

// The most that may be asked for works from start to sweep.
TEST_F(PutTest, SixteenReplicasCanBePutReadAndSwept) {
  std::vector<RegistrationId> ids;
  for (int i = 0; i < 14; ++i) ids.push_back(Mount(client_, "more-" + std::to_string(i)));
  Put(client_, "key", {.replicas = 16});
  EXPECT_EQ(Get("key").places.size(), 16u);
  for (size_t i = 0; i < ids.size(); i += 2) Unmount(client_, ids[i]);
  EXPECT_EQ(Get("key").places.size(), 9u);
  Sweep();
  EXPECT_EQ(Get("key").places.size(), 9u);
  for (size_t i = 1; i < ids.size(); i += 2) Unmount(client_, ids[i]);
  Sweep();
  EXPECT_EQ(Get("key").places.size(), 2u);
}

class InsertRaceTest : public testing::CoreTest {
 protected:
  static MasterOptions OneShard() {
    MasterOptions options = testing::SmallOptions();
    options.shard_count = 1;
    return options;
  }
  InsertRaceTest() : CoreTest(OneShard()) {}

  // Runs `meanwhile` when a put of "key" has taken its range on `registration` and not inserted its object yet: the put
  // passes the shared lock that is held here, and waits with its range for the exclusive one.
  template <typename Meanwhile>
  Started StartWith(const testing::PutWish& wish, RegistrationId registration,
                    Meanwhile meanwhile) {
    AuditOnlyAtTheEnd();
    Started started;
    std::thread putter;
    {
      absl::ReaderMutexLock lock(&master().table().shard(0).mu);
      putter = std::thread([&] { started = Start(client_, "key", wish); });
      const absl::Time give_up = absl::Now() + absl::Seconds(20);
      while (Listed(registration).ranges == 0 && absl::Now() < give_up) std::this_thread::yield();
      EXPECT_EQ(Listed(registration).ranges, 1u);
      meanwhile();
    }
    putter.join();
    return started;
  }

  const Session client_ = Open("client");
};

// A put that chose a segment before it ended looks again when it inserts: nothing gets onto a list that the sweep may
// have been through already, and the client is given a segment that lives.
TEST_F(InsertRaceTest, R19_APutThatFindsItsSegmentEndedTakesAnother) {
  const RegistrationId a = Mount(client_, "a");
  const RegistrationId b = Mount(client_, "b");
  const Started started = StartWith({.segments = {"a"}}, a, [&] {
    ASSERT_TRUE(master().UnmountSegment(client_, a, 0, Now()).ok());
  });
  EXPECT_EQ(started.reason, Reason::kNone);
  EXPECT_EQ(started.places.at(0).registration, b);
  Sweep();
  EXPECT_FALSE(IsListed(a)) << "the range of the first choice was not given back";
}

// And when there is no other, it fails and keeps nothing.
TEST_F(InsertRaceTest, R19_APutWhoseOnlySegmentEndsKeepsNothing) {
  const RegistrationId a = Mount(client_, "a");
  const Started started =
      StartWith({}, a, [&] { ASSERT_TRUE(master().UnmountSegment(client_, a, 0, Now()).ok()); });
  EXPECT_EQ(started.reason, Reason::kNoSegment);
  EXPECT_EQ(Count().objects, 0u);
  Sweep();
  EXPECT_FALSE(IsListed(a));
}

// The sweep may have finished with the shards, and the memory may be mounted again, before the put wakes up: its range is
// of the old mount and is not bound to the new one.
TEST_F(InsertRaceTest, R19_APutIsNotBoundToARemountOfItsSegment) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId old_id = Mount(client_, spec);
  RegistrationId new_id;
  const Started started = StartWith({}, old_id, [&] {
    ASSERT_TRUE(master().UnmountSegment(client_, old_id, 0, Now()).ok());
    for (uint32_t slot : master().registry().EndedSlots()) master().registry().FinishSweep(slot);
    new_id = Mount(client_, spec);
  });
  // The old range was held meanwhile, so the new mount waits, and gives nothing yet.
  EXPECT_EQ(started.reason, Reason::kNoSpace);
  EXPECT_NE(Listed(new_id).registration, old_id);
  Tick(100);
  EXPECT_FALSE(IsListed(old_id));
  EXPECT_EQ(Put(client_, "key").places.at(0).registration, new_id);
}

// Two starts of one request at once: whoever comes second is told the answer of the first, and keeps no range.
TEST_F(InsertRaceTest, F19_AReplayThatRacesWithItsOriginalIsTheSamePut) {
  const RegistrationId a = Mount(client_, "a");
  ObjectShard& shard = master().table().shard(0);
  AuditOnlyAtTheEnd();
  Started first;
  Started second;
  std::thread one;
  std::thread two;
  {
    absl::ReaderMutexLock lock(&shard.mu);
    one = std::thread([&] { first = Start(client_, "key", {.request = 7}); });
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    while (Listed(a).ranges == 0 && absl::Now() < give_up) std::this_thread::yield();
    two = std::thread([&] {
      const absl::string_view key = "key";
      PutStartItem item{key, 4096, 1, RequestId{7}};
      PutStartRequest request;
      request.session = client_;
      request.items = {&item, 1};
      PutStartAnswer answer;
      ASSERT_TRUE(master().PutStart(request, Now(), &answer).ok());
      second.reason = answer.rows[0].reason;
      second.put = answer.rows[0].put;
    });
  }
  one.join();
  two.join();
  EXPECT_EQ(first.reason, Reason::kNone);
  EXPECT_EQ(second.reason, Reason::kNone);
  EXPECT_EQ(first.put, second.put);
  EXPECT_EQ(Listed(a).ranges, 1u);
}

// The session ends while its put waits to be inserted: the discard of its puts has gone by, so the put is taken back.
TEST_F(InsertRaceTest, F50_APutWhoseSessionEndsMeanwhileIsTakenBack) {
  const RegistrationId a = Mount(Open("owner"), "a");
  const Started started = StartWith({}, a, [&] {
    HeartbeatRequest restart;
    restart.client = client_.client;
    restart.incarnation = 2;
    ASSERT_TRUE(master().Heartbeat(restart, Now()).ok());
  });
  EXPECT_EQ(started.reason, Reason::kSessionStale);
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Count().objects, 0u);
}

// A replay in such a call names a put whose first answer was given: its writer may be writing, so its range is not free.
TEST_F(InsertRaceTest, F16_AReplayInACallWhoseSessionEndsKeepsItsRangeFromOthers) {
  const Session owner = Open("owner");
  const RegistrationId a = Mount(owner, "a");
  const Started first = Start(client_, "replayed", {.request = 7});
  AuditOnlyAtTheEnd();
  const PutStartItem items[] = {{"replayed", 4096, 1, RequestId{7}},
                                {"new", 4096, 1, RequestId{8}}};
  Reason reason = Reason::kNone;
  std::thread putter;
  {
    absl::ReaderMutexLock lock(&master().table().shard(0).mu);
    putter = std::thread([&] {
      PutStartRequest request;
      request.session = client_;
      request.items = items;
      PutStartAnswer answer;
      reason = ReasonOf(master().PutStart(request, Now(), &answer));
    });
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    while (Listed(a).ranges < 2 && absl::Now() < give_up) std::this_thread::yield();
    HeartbeatRequest restart;
    restart.client = client_.client;
    restart.incarnation = 2;
    ASSERT_TRUE(master().Heartbeat(restart, Now()).ok());
  }
  putter.join();
  EXPECT_EQ(reason, Reason::kSessionStale);
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_NE(Put(owner, "next").places.at(0), first.places.at(0));
}

}  // namespace
}  // namespace holdfast::core

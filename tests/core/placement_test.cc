// Where new replicas go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using testing::Started;

class PlacementTest : public testing::CoreTest {
 protected:
  PlacementTest() = default;
  explicit PlacementTest(const MasterOptions& options) : CoreTest(options) {}

  RegistrationId MountSized(const std::string& name, uint64_t size_bytes,
                            const std::string& host = "") {
    SegmentSpec spec = testing::SpecNamed(name, next_base_, size_bytes);
    next_base_ += 2 * size_bytes;
    spec.host = host;
    return Mount(client_, spec);
  }
  double Utilisation(RegistrationId registration) {
    const SegmentListing row = Listed(registration);
    return static_cast<double>(row.allocated_bytes) / static_cast<double>(row.spec.size_bytes);
  }

  const Session client_ = Open("client");
  uint64_t next_base_ = uint64_t{1} << 44;
};

// What a caller prefers is taken, in his order.
TEST_F(PlacementTest, F65_APreferredSegmentIsTaken) {
  for (int i = 0; i < 8; ++i) MountSized("s" + std::to_string(i), kSegmentBytes);
  const RegistrationId wanted = MountSized("wanted", kSegmentBytes);
  const RegistrationId second = MountSized("second", kSegmentBytes);
  for (int i = 0; i < 20; ++i) {
    const Started put = Put(client_, "key-" + std::to_string(i),
                            {.replicas = 2, .segments = {"unknown", "wanted", "second"}});
    EXPECT_EQ(put.places.at(0).registration, wanted);
    EXPECT_EQ(put.places.at(1).registration, second);
  }
}

// A preference is no condition: when it cannot be had, another segment is as good.
TEST_F(PlacementTest, F65_APreferenceFallsBackWhenItsSegmentIsFullDrainedOrGone) {
  const RegistrationId full = MountSized("full", 4096);
  const RegistrationId drained = MountSized("drained", kSegmentBytes);
  const RegistrationId gone = MountSized("gone", kSegmentBytes);
  const RegistrationId other = MountSized("other", kSegmentBytes);
  EXPECT_EQ(PutOn(client_, "fills", "full").places.at(0).registration, full);
  ASSERT_TRUE(master().DrainSegment(drained).ok());
  Unmount(client_, gone);
  for (const char* name : {"full", "drained", "gone"}) {
    EXPECT_EQ(PutOn(client_, name, name).places.at(0).registration, other);
  }
}

// All replicas on the preferred segment would be one failure.
TEST_F(PlacementTest, F65_OnlyOneReplicaGoesToAPreferredSegment) {
  const RegistrationId wanted = MountSized("wanted", kSegmentBytes);
  const RegistrationId other = MountSized("other", kSegmentBytes);
  const Started put = Put(client_, "key", {.replicas = 2, .segments = {"wanted", "wanted"}});
  EXPECT_EQ(put.places.at(0).registration, wanted);
  EXPECT_EQ(put.places.at(1).registration, other);
}

// A writer that asks for its own memory saves the network.
TEST_F(PlacementTest, F64_LocalFirstTakesASegmentOfTheWriter) {
  for (int i = 0; i < 8; ++i) MountSized("s" + std::to_string(i), kSegmentBytes);
  const Session writer = Open("writer");
  SegmentSpec spec = Spec("mine");
  spec.size_bytes = 10 * 4096;
  const RegistrationId mine = Mount(writer, spec);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(
        Put(writer, "key-" + std::to_string(i), {.prefer_local = true}).places.at(0).registration,
        mine);
  }
  EXPECT_NE(Put(writer, "one more", {.prefer_local = true}).places.at(0).registration, mine);
}

class LocalFirstTest : public PlacementTest {
 protected:
  static MasterOptions LocalFirst() {
    MasterOptions options = testing::SmallOptions();
    options.strategy = PlacementStrategy::kLocalFirst;
    return options;
  }
  LocalFirstTest() : PlacementTest(LocalFirst()) {}
};

// The strategy of the master does the same for all.
TEST_F(LocalFirstTest, F65_TheStrategyIsHonouredWithoutBeingAskedForInTheCall) {
  for (int i = 0; i < 8; ++i) MountSized("s" + std::to_string(i), kSegmentBytes);
  const Session writer = Open("writer");
  const RegistrationId mine = Mount(writer, "mine");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Put(writer, "key-" + std::to_string(i)).places.at(0).registration, mine);
  }
}

class RandomStrategyTest : public PlacementTest {
 protected:
  static MasterOptions Random() {
    MasterOptions options = testing::SmallOptions();
    options.strategy = PlacementStrategy::kRandom;
    return options;
  }
  RandomStrategyTest() : PlacementTest(Random()) {}
};

// Random is even, so no segment is hit much harder than others.
TEST_F(RandomStrategyTest, RandomSpreadsEvenly) {
  AuditOnlyAtTheEnd();
  std::map<RegistrationId, int> hits;
  for (int i = 0; i < 10; ++i) hits[MountSized("s" + std::to_string(i), kSegmentBytes)] = 0;
  for (int i = 0; i < 2000; ++i) {
    ++hits[Put(client_, std::to_string(i), {.size_bytes = 64}).places.at(0).registration];
  }
  for (const auto& [id, count] : hits) EXPECT_NEAR(count, 200, 60);
}

// The random number of the call is all the randomness there is: a recorded call can be repeated.
TEST_F(PlacementTest, TheSameRandomNumberChoosesTheSameSegment) {
  for (int i = 0; i < 50; ++i) MountSized("s" + std::to_string(i), kSegmentBytes);
  Placement::Query query;
  query.size_bytes = 4096;
  std::set<uint32_t> slots;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CallRandom one(seed);
    CallRandom two(seed);
    const auto choice = master().placement().Choose(query, &one);
    ASSERT_TRUE(choice.has_value());
    EXPECT_EQ(choice->slot, master().placement().Choose(query, &two)->slot);
    slots.insert(choice->slot);
  }
  EXPECT_GT(slots.size(), 20u);
}

// "Retry" must look elsewhere: with one segment of ten that has room, every put finds it.
TEST_F(PlacementTest, F59_WithNineOfTenFullEveryPutSucceeds) {
  AuditOnlyAtTheEnd();
  for (int i = 0; i < 9; ++i) {
    const std::string name = "full-" + std::to_string(i);
    MountSized(name, 64 * 4096);
    for (int j = 0; j < 64; ++j) PutOn(client_, name + "-" + std::to_string(j), name);
  }
  const RegistrationId free = MountSized("free", 1000 * 4096);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Put(client_, "key-" + std::to_string(i)).places.at(0).registration, free);
  }
  EXPECT_EQ(Start(client_, "one more").reason, Reason::kNoSpace);
}

// A segment with plenty of space in small pieces is not "free" for a large object, and one that fits is found.
TEST_F(PlacementTest, F59_AFragmentedSegmentIsPassedOver) {
  AuditOnlyAtTheEnd();
  for (int i = 0; i < 9; ++i) {
    const std::string name = "holes-" + std::to_string(i);
    MountSized(name, 64 * 4096);
    for (int j = 0; j < 64; ++j) PutOn(client_, name + "-" + std::to_string(j), name);
    for (int j = 0; j < 64; j += 2) Remove(client_, name + "-" + std::to_string(j));
  }
  const RegistrationId whole = MountSized("whole", 64 * 4096);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(Put(client_, std::to_string(i), {.size_bytes = 8 * 4096}).places.at(0).registration,
              whole);
  }
}

// Objects of mixed sizes on segments of two sizes: all get equally full, so none fails puts while others have room.
TEST_F(PlacementTest, F64_UtilisationStaysEvenWithMixedSizesAndCapacities) {
  AuditOnlyAtTheEnd();
  std::vector<RegistrationId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(MountSized("small-" + std::to_string(i), 4 << 20));
  for (int i = 0; i < 2; ++i) ids.push_back(MountSized("large-" + std::to_string(i), 10 << 20));
  CallRandom random(1);
  const uint64_t target = uint64_t{52 << 20} * 85 / 100;
  std::vector<std::string> keys;
  int next = 0;
  auto put_one = [&] {
    keys.push_back("key-" + std::to_string(next++));
    Put(client_, keys.back(), {.size_bytes = 1024 + random.Below(31 * 1024)});
  };
  while (Count().allocated_bytes < target) put_one();
  for (int i = 0; i < 6000; ++i) {
    const uint32_t victim = random.Below(static_cast<uint32_t>(keys.size()));
    Remove(client_, keys[victim]);
    keys[victim] = keys.back();
    keys.pop_back();
    while (Count().allocated_bytes < target) put_one();
  }
  double low = 1;
  double high = 0;
  for (RegistrationId id : ids) {
    low = std::min(low, Utilisation(id));
    high = std::max(high, Utilisation(id));
  }
  EXPECT_LT(high - low, 0.05) << low << " to " << high;
}

// A node that joins empty must not get all writes: at most about twice its share, and it does get more than its share.
TEST_F(PlacementTest, F64_ANewEmptyNodeGetsAboutTwiceItsShareAtMost) {
  AuditOnlyAtTheEnd();
  for (int i = 0; i < 9; ++i) MountSized("old-" + std::to_string(i), 4 << 20);
  for (int i = 0; Count().allocated_bytes < (uint64_t{36 << 20} * 60 / 100); ++i) {
    Put(client_, "old-" + std::to_string(i), {.size_bytes = 16384});
  }
  const RegistrationId fresh = MountSized("fresh", 4 << 20);
  int hits = 0;
  for (int i = 0; i < 500; ++i) {
    if (Put(client_, "new-" + std::to_string(i), {.size_bytes = 4096}).places.at(0).registration ==
        fresh) {
      ++hits;
    }
  }
  EXPECT_LT(hits, 500 * 0.1 * 2.5);
  EXPECT_GT(hits, 500 * 0.1);
}

// Copies on one host die together, so as long as there are enough hosts, each copy has its own.
TEST_F(PlacementTest, ReplicasLieOnDistinctHostsWhilePossible) {
  std::map<RegistrationId, std::string> hosts;
  for (int i = 0; i < 9; ++i) {
    const std::string host = "host-" + std::to_string(i % 3);
    hosts[MountSized("s" + std::to_string(i), kSegmentBytes, host)] = host;
  }
  for (int i = 0; i < 100; ++i) {
    const Started put = Put(client_, std::to_string(i), {.replicas = 3});
    std::set<std::string> used;
    for (const testing::Place& place : put.places) used.insert(hosts[place.registration]);
    EXPECT_EQ(used.size(), 3u);
  }
}

// The rule about hosts is a wish, too: more copies than hosts are still possible on distinct segments.
TEST_F(PlacementTest, WithTooFewHostsReplicasShareThem) {
  for (int i = 0; i < 4; ++i) MountSized("s" + std::to_string(i), kSegmentBytes, "the host");
  EXPECT_EQ(Put(client_, "key", {.replicas = 4}).places.size(), 4u);
}

// A host whose segment has just enough room is still a host of its own.
TEST_F(PlacementTest, AnotherHostIsPreferredAlsoWhenItsRoomIsTight) {
  MountSized("wide-1", kSegmentBytes, "one");
  MountSized("wide-2", kSegmentBytes, "one");
  const RegistrationId tight = MountSized("tight", 4096, "two");
  const Started put = Put(client_, "key", {.replicas = 2, .segments = {"wide-1"}});
  EXPECT_EQ(put.places.at(1).registration, tight);
}

// No label is no host: segments without one are not taken for neighbours.
TEST_F(PlacementTest, SegmentsWithoutAHostShareNone) {
  const RegistrationId one = MountSized("one", kSegmentBytes);
  const RegistrationId two = MountSized("two", kSegmentBytes);
  MountSized("named", kSegmentBytes, "host");
  std::set<RegistrationId> seconds;
  for (int i = 0; i < 60; ++i) {
    const Started put = Put(client_, std::to_string(i), {.replicas = 2, .segments = {"one"}});
    EXPECT_EQ(put.places.at(0).registration, one);
    seconds.insert(put.places.at(1).registration);
  }
  EXPECT_EQ(seconds.count(two), 1u);
}

// An object larger than any segment is refused without being tried everywhere, and one that just fits is placed.
TEST_F(PlacementTest, AnObjectFitsToTheByteOrNotAtAll) {
  MountSized("s", 64 * 100);
  EXPECT_EQ(Start(client_, "key", {.size_bytes = 64 * 100 + 1}).reason, Reason::kNoSpace);
  EXPECT_EQ(Start(client_, "key", {.size_bytes = 64 * 100}).reason, Reason::kNone);
}

}  // namespace
}  // namespace holdfast::core

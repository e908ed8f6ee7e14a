// Puts against unmounts, against their own replays, and against each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

constexpr int kPuts = 1500;

class PutRaceTest : public testing::CoreTest {
 protected:
  PutRaceTest() { AuditOnlyAtTheEnd(); }

  // Every object that is visible, as pairs of address and size, to be disjoint.
  void ExpectDisjoint() {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const std::string& key : Keys(true)) {
      const testing::Found found = Get(key);
      for (const testing::Place& place : found.places) {
        ranges.emplace_back(place.address(), found.size_bytes);
      }
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i) {
      EXPECT_LE(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
    }
  }

  const Session client_ = Open("client");
};

// A replica that gets onto a list after the sweep has passed would stay for ever: its slot would never be free.
TEST_F(PutRaceTest, R19_NoPutIsLeftBehindOnAnEndedRegistration) {
  const Session owner = Open("owner");
  Mount(client_, "stays");
  testing::Parallel threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.Add([this, thread] {
      for (int i = 0; i < kPuts; ++i) {
        const std::string key = absl::StrCat(thread, "-", i);
        const testing::Started put =
            Start(client_, key, {.size_bytes = 64, .segments = {"leaves"}});
        ASSERT_EQ(put.reason, Reason::kNone);
        const Reason ended = End(client_, key, put.put);
        ASSERT_TRUE(ended == Reason::kNone || ended == Reason::kReplicaLost) << NameOf(ended);
        if (ended == Reason::kReplicaLost) {
          ASSERT_EQ(Revoke(client_, key, put.put), Reason::kNone);
        }
      }
    });
  }
  threads.AddBackground([this, owner] {
    const RegistrationId id = Mount(owner, Spec("leaves"));
    for (int i = 0; i < 100; ++i) Exists("anything");
    Unmount(owner, id);
  });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Sweep();
  EXPECT_EQ(master().ListSegments({}, true, 100, Now()).size(), 1u);
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Keys(true).size(), Count().objects);
  ExpectDisjoint();
}

// One request that is sent twice is one put, whoever comes first, also while the sweep works in the same shards.
TEST_F(PutRaceTest, F19_TwoStartsOfOneRequestAreOnePut) {
  const Session owner = Open("owner");
  Mount(client_, "stays");
  std::array<std::vector<PutId>, 2> puts;
  testing::Parallel threads;
  for (size_t thread = 0; thread < 2; ++thread) {
    puts[thread].resize(kPuts);
    threads.Add([this, thread, &puts] {
      for (int i = 0; i < kPuts; ++i) {
        const testing::Started put = Start(
            client_, absl::StrCat("key-", i),
            {.size_bytes = 64, .request = static_cast<uint64_t>(i + 1), .segments = {"stays"}});
        ASSERT_EQ(put.reason, Reason::kNone);
        puts[thread][i] = put.put;
      }
    });
  }
  threads.AddBackground([this, owner] {
    const RegistrationId id = Mount(owner, Spec("leaves"));
    for (int i = 0; i < 20; ++i) PutOn(owner, absl::StrCat("lost-", id.value, "-", i), "leaves");
    Unmount(owner, id);
  });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Sweep();
  EXPECT_EQ(puts[0], puts[1]);
  EXPECT_EQ(Count().puts_in_progress, static_cast<uint64_t>(kPuts));
  for (const std::string& key : Keys(false)) {
    if (key.rfind("key-", 0) == 0) continue;
    ADD_FAILURE() << key << " was not swept";
  }
}

// Of many that want to put one key, one has it at a time, and each end is told the truth.
TEST_F(PutRaceTest, F17_OnlyThePutThatHasTheKeyCompletesIt) {
  Mount(client_, "a");
  std::array<Session, 3> sessions = {Open("one"), Open("two"), Open("three")};
  testing::Parallel threads;
  for (const Session& session : sessions) {
    threads.Add([this, session] {
      for (int i = 0; i < kPuts; ++i) {
        const std::string key = absl::StrCat("key-", i % 5);
        const testing::Started put = Start(session, key, {.size_bytes = 64});
        if (put.reason == Reason::kNone) {
          const Reason ended = End(session, key, put.put);
          // Another has removed it by force, before or after the end.
          ASSERT_TRUE(ended == Reason::kNone || ended == Reason::kStalePut) << NameOf(ended);
          if (ended == Reason::kNone) {
            const testing::Found found = Get(key);
            ASSERT_TRUE(found.reason != Reason::kNone || found.version >= put.put);
          }
        } else {
          Remove(session, key, /*force=*/true);
        }
      }
    });
  }
  threads.Run();
  for (int i = 0; i < 5; ++i) Remove(client_, absl::StrCat("key-", i), /*force=*/true);
  Tick(600'500);
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Count().allocated_bytes, 0u);
}

// Lists are walked chunk by chunk while records come and go: who stays is told once.
TEST_F(PutRaceTest, F52_AListingBesidePutsAndRemovesTellsWhoStaysOnce) {
  SegmentSpec spec = Spec("a");
  spec.size_bytes = 64 << 20;
  Mount(client_, spec);
  for (int i = 0; i < 1000; ++i) Put(client_, absl::StrCat("stays-", i), {.size_bytes = 64});
  testing::Parallel threads;
  threads.Add([this] {
    for (int round = 0; round < 20; ++round) {
      const std::vector<std::string> keys = Keys(true, "stays-");
      ASSERT_EQ(keys.size(), 1000u);
      ASSERT_TRUE(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
    }
  });
  threads.AddBackground([this] {
    for (int i = 0; i < 200; ++i) {
      Put(client_, absl::StrCat("comes-", std::string(i % 60, 'x'), i), {.size_bytes = 64});
    }
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(Remove(client_, absl::StrCat("comes-", std::string(i % 60, 'x'), i)),
                Reason::kNone);
    }
  });
  threads.Run();
}

}  // namespace
}  // namespace holdfast::core

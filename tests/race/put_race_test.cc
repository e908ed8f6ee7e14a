// Puts against unmounts, against their own replays, and against each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>
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

  // So that what follows falls into the middle of a put. Not for ever: there may be no more.
  static void WaitForMore(const std::atomic<int>& count) {
    const int before = count.load();
    for (int i = 0; i < 1000 && count.load() == before; ++i) std::this_thread::yield();
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

// A put that was told OK is readable until its segment is asked to leave; one that was told otherwise leaves its key free.
// A key that exists without a replica could be neither read nor written.
TEST_F(PutRaceTest, R3_R18_AnEndedPutIsReadableOrItsKeyIsFree) {
  const Session owner = Open("owner");
  const RegistrationId stays = Mount(client_, "stays");
  // Ids grow and one thread unmounts one after the other: all up to this one were asked to leave.
  std::atomic<uint64_t> asked_to_leave{0};
  std::atomic<int> started{0};
  std::atomic<int> lost{0};
  std::atomic<int> readable{0};
  testing::Parallel threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.Add([&, thread] {
      for (int i = 0; i < kPuts; ++i) {
        const std::string key = absl::StrCat(thread, "-", i);
        const testing::Started put =
            Start(client_, key, {.size_bytes = 64, .segments = {"leaves"}});
        ASSERT_EQ(put.reason, Reason::kNone);
        ASSERT_EQ(put.places.size(), 1u);
        const RegistrationId where = put.places[0].registration;
        if (where != stays) started.fetch_add(1);
        // Now and then a slow writer: its segment leaves while it writes.
        const int wait_max = i % 50 == 0 ? 1000 : 0;
        for (int wait = 0; wait < wait_max && asked_to_leave.load() < where.value; ++wait) {
          std::this_thread::yield();
        }
        const Reason ended = End(client_, key, put.put);
        ASSERT_TRUE(ended == Reason::kNone || ended == Reason::kReplicaLost) << NameOf(ended);
        const testing::Found found = Get(key);
        if (found.reason == Reason::kNone) {
          ASSERT_EQ(ended, Reason::kNone);
          ASSERT_EQ(found.places, put.places);
          readable.fetch_add(1);
          continue;
        }
        ASSERT_NE(where, stays) << "lost without an unmount";
        ASSERT_LE(where.value, asked_to_leave.load()) << "lost before its segment was to leave";
        ASSERT_EQ(Exists(key), Reason::kObjectNotFound);
        ASSERT_NE(End(client_, key, put.put), Reason::kNone) << "it cannot come back";
        lost.fetch_add(1);
        // Put, not Start: what stays is not lost again.
        const testing::Started again = Put(client_, key, {.size_bytes = 64, .segments = {"stays"}});
        ASSERT_EQ(Get(key).version, again.put);
      }
    });
  }
  threads.AddBackground([&] {
    const RegistrationId id = Mount(owner, Spec("leaves"));
    WaitForMore(started);
    asked_to_leave.store(id.value);
    Unmount(owner, id);
  });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Sweep();
  EXPECT_GT(lost.load(), 0);
  EXPECT_GT(readable.load(), 0);
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Keys(/*filter_invalid=*/false), Keys(/*filter_invalid=*/true));
}

// The space of the first start may end between the first and its repetition: then there is a fresh put, and the first one
// is stale. Two allocations for one request would leak one of them for ten minutes.
TEST_F(PutRaceTest, F19_R18_ARepeatedStartOnALeavingSegmentAllocatesOnce) {
  constexpr uint64_t kBytes = 64;
  const Session owner = Open("owner");
  const RegistrationId stays = Mount(client_, "stays");
  std::atomic<int> started{0};
  std::array<std::vector<PutId>, 2> puts;
  testing::Parallel threads;
  for (size_t thread = 0; thread < 2; ++thread) {
    puts[thread].resize(kPuts);
    threads.Add([this, thread, stays, &puts, &started] {
      for (int i = 0; i < kPuts; ++i) {
        const testing::Started put = Start(client_, absl::StrCat("key-", i),
                                           {.size_bytes = kBytes,
                                            .request = static_cast<uint64_t>(i + 1),
                                            .segments = {"leaves"}});
        ASSERT_EQ(put.reason, Reason::kNone);
        puts[thread][i] = put.put;
        if (put.places.at(0).registration != stays) started.fetch_add(1);
      }
    });
  }
  // Mounted before the first put, so that there always is something to lose.
  RegistrationId leaves = Mount(owner, Spec("leaves"));
  threads.AddBackground([this, owner, &leaves, &started] {
    WaitForMore(started);
    Unmount(owner, leaves);
    leaves = Mount(owner, Spec("leaves"));
  });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Unmount(owner, leaves);
  Sweep();
  EXPECT_EQ(Count().cleanup.quarantined_bytes, 0u);
  const uint64_t allocated_bytes = Count().allocated_bytes;
  uint64_t live = 0;
  for (int i = 0; i < kPuts; ++i) {
    const std::string key = absl::StrCat("key-", i);
    const auto [first, last] = std::minmax(puts[0][i], puts[1][i]);
    if (first != last) {
      EXPECT_EQ(End(client_, key, first), Reason::kStalePut);
    }
    const Reason ended = End(client_, key, last);
    EXPECT_TRUE(ended == Reason::kNone || ended == Reason::kReplicaLost) << NameOf(ended);
    if (ended == Reason::kNone) ++live;
  }
  EXPECT_LT(live, static_cast<uint64_t>(kPuts)) << "none was lost";
  EXPECT_EQ(allocated_bytes, live * kBytes);
  EXPECT_EQ(Keys(/*filter_invalid=*/true).size(), live);
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

// Unmounts against the reads and puts beside them.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

// When each registration was known to be gone, on a clock that ticks with each such event. Ids are dense.
// Thread-safe.
class GoneTimes {
 public:
  static constexpr size_t kRegistrationsMax = 1024;

  void StartAt(RegistrationId first) { first_ = first.value; }
  // Called when the unmount has returned, or when somebody has seen that what lay there is hidden.
  void Mark(RegistrationId id) {
    const uint64_t now = time_.fetch_add(1) + 1;
    uint64_t unknown = 0;
    At(id).compare_exchange_strong(unknown, now);
  }
  uint64_t Now() const { return time_.load(); }
  // Whether it was gone at a time that Now() has said.
  bool WasGoneAt(uint64_t then, RegistrationId id) {
    const uint64_t gone = At(id).load();
    return gone != 0 && gone <= then;
  }

 private:
  std::atomic<uint64_t>& At(RegistrationId id) { return gone_at_.at(id.value - first_); }

  uint64_t first_ = 0;
  std::atomic<uint64_t> time_{0};
  std::array<std::atomic<uint64_t>, kRegistrationsMax> gone_at_{};
};

class UnmountRaceTest : public testing::CoreTest {
 protected:
  static constexpr int kLanes = 3;
  static constexpr int kRounds = 60;
  static constexpr int kMixedPuts = 1200;

  UnmountRaceTest() { AuditOnlyAtTheEnd(); }

  static std::string LaneName(int lane) { return absl::StrCat("lane-", lane); }
  static std::string OwnKey(uint64_t registration, int i) {
    return absl::StrCat("own-", registration, "-", i);
  }

  // Mounts, fills and unmounts the segment of one lane; its own keys lie nowhere else.
  void Flap(int lane) {
    for (int round = 0; round < kRounds; ++round) {
      const RegistrationId id = Mount(client_, Spec(LaneName(lane)));
      for (int i = 0; i < 4; ++i) {
        const testing::Started put = PutOn(client_, OwnKey(id.value, i), LaneName(lane));
        ASSERT_EQ(put.places.at(0).registration, id);
      }
      filled_[lane].store(id.value);
      for (int i = 0; i < 10; ++i) Exists("anything");
      ASSERT_EQ(Unmount(client_, id), Reason::kNone);
      gone_.Mark(id);
    }
  }

  void PutMixed(int thread) {
    for (int i = 0; i < kMixedPuts; ++i) {
      const std::string key = absl::StrCat("mixed-", i % 20);
      const uint64_t then = gone_.Now();
      const testing::Started put =
          Start(client_, key, {.size_bytes = 64, .segments = {LaneName((i + thread) % kLanes)}});
      if (put.reason != Reason::kNone) continue;
      for (const testing::Place& place : put.places) {
        ASSERT_FALSE(gone_.WasGoneAt(then, place.registration)) << "put on what was unmounted";
      }
      const Reason ended = End(client_, key, put.put);
      ASSERT_TRUE(ended == Reason::kNone || ended == Reason::kReplicaLost ||
                  ended == Reason::kStalePut)
          << NameOf(ended);
      if (ended == Reason::kReplicaLost) {
        ASSERT_EQ(Revoke(client_, key, put.put), Reason::kNone);
      }
    }
  }

  void ReadMixed(int step) {
    const uint64_t then = gone_.Now();
    const testing::Found found = Get(absl::StrCat("mixed-", step % 20));
    ASSERT_EQ(found.reason == Reason::kNone, !found.places.empty());
    for (const testing::Place& place : found.places) {
      ASSERT_FALSE(gone_.WasGoneAt(then, place.registration)) << "a read shows what was gone";
    }
  }

  void ReadOwn(int step) {
    const RegistrationId id{filled_[step % kLanes].load()};
    if (id.value == 0) return;
    if (Get(OwnKey(id.value, 0)).reason == Reason::kObjectNotFound) gone_.Mark(id);
    const uint64_t then = gone_.Now();
    if (Exists(OwnKey(id.value, 1 + step % 3)) == Reason::kNone) {
      ASSERT_FALSE(gone_.WasGoneAt(then, id)) << "a key shows what another key has hidden";
    }
  }

  const Session client_ = Open("client");
  GoneTimes gone_;
  std::array<std::atomic<uint64_t>, kLanes> filled_{};
};

// The promise of the unmount when several leave at once and others put and read the same keys. The sweep unlinks what is
// read meanwhile; in the end it has got everything.
TEST_F(UnmountRaceTest, R2_R3_R21_NoReadShowsWhatWasGoneWhenItBeganWhileManyLeave) {
  const RegistrationId stays = Mount(client_, "stays");
  gone_.StartAt(stays);
  testing::Parallel threads;
  for (int lane = 0; lane < kLanes; ++lane) threads.Add([this, lane] { Flap(lane); });
  for (int i = 0; i < 2; ++i) threads.Add([this, i] { PutMixed(i); });
  for (int i = 0; i < 2; ++i) {
    threads.AddBackground([this, step = i]() mutable {
      ReadMixed(step);
      ReadOwn(step++);
    });
  }
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Sweep();
  EXPECT_EQ(master().ListSegments({}, /*include_ended=*/true, 100, Now()).size(), 1u);
  EXPECT_EQ(Count().cleanup.swept_registrations, static_cast<uint64_t>(kLanes * kRounds));
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Keys(/*filter_invalid=*/false), Keys(/*filter_invalid=*/true));
}

}  // namespace
}  // namespace holdfast::core

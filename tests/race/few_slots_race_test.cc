// Unmounts and remounts into the few slots there are, while puts, leases and quarantine hold them.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

class FewSlotsRaceTest : public testing::CoreTest {
 protected:
  static constexpr uint32_t kSlots = 4;
  static constexpr size_t kPutsMax = 8192;

  static MasterOptions FewSlots() {
    MasterOptions options = testing::SmallOptions();
    options.shard_count = 4;
    options.max_segments = kSlots;
    return options;
  }
  FewSlotsRaceTest() : CoreTest(FewSlots()) { AuditOnlyAtTheEnd(); }

  // Mounts if there is a slot; ended registrations keep theirs until they are swept.
  RegistrationId TryMount(const SegmentSpec& spec) {
    const absl::StatusOr<MountAnswer> answer = master().MountSegment(client_, spec, Now());
    if (answer.ok()) return answer->registration;
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kSegmentLimit) << answer.status();
    return {};
  }

  // Every second time over the memory of the mount before.
  void Flap(const std::string& name, int mounts) {
    SegmentSpec spec = Spec(name);
    for (int mounted = 0, tries = 0; mounted < mounts; ++tries) {
      ASSERT_LT(tries, 2'000'000) << "slots do not come free";
      const RegistrationId id = TryMount(spec);
      if (id.value == 0) {
        std::this_thread::yield();
        continue;
      }
      ++mounted;
      for (int i = 0; i < 10; ++i) Exists("anything");
      ASSERT_EQ(Unmount(client_, id), Reason::kNone);
      if (mounted % 2 == 0) spec = Spec(name);
    }
  }

  // Puts are numbered densely, so that what was told of one is found without a lock that would order the threads.
  std::atomic<uint64_t>& AddressOf(PutId put) { return address_.at(put.value - first_put_.value); }
  std::atomic<uint64_t>& RegistrationOf(PutId put) {
    return registration_.at(put.value - first_put_.value);
  }

  void PutAndTell(const std::string& key) {
    const testing::Started put = Start(client_, key, {.size_bytes = 64});
    if (put.reason != Reason::kNone) {
      Remove(client_, key, /*force=*/true);
      return;
    }
    ASSERT_EQ(put.places.size(), 1u);
    AddressOf(put.put).store(put.places[0].address(), std::memory_order_relaxed);
    RegistrationOf(put.put).store(put.places[0].registration.value, std::memory_order_relaxed);
    const Reason ended = End(client_, key, put.put);
    ASSERT_TRUE(ended == Reason::kNone || ended == Reason::kReplicaLost ||
                ended == Reason::kStalePut)
        << NameOf(ended);
  }

  void ExpectFoundWhereItWasPut(const std::string& key) {
    const testing::Found found = Get(key);
    if (found.reason != Reason::kNone) return;
    ASSERT_EQ(found.places.size(), 1u);
    ASSERT_EQ(found.places[0].registration.value, RegistrationOf(found.version).load());
    ASSERT_EQ(found.places[0].address(), AddressOf(found.version).load());
  }

  void ExpectOneSlotIsTakenAndTheOthersAreFree() {
    EXPECT_EQ(master().ListSegments({}, /*include_ended=*/true, 100, Now()).size(), 1u);
    for (uint32_t i = 1; i < kSlots; ++i) Mount(client_, absl::StrCat("again-", i));
    EXPECT_EQ(MountReason(client_, Spec("too many")), Reason::kSegmentLimit);
  }

  const Session client_ = Open("client");
  PutId first_put_;
  std::array<std::atomic<uint64_t>, kPutsMax> address_{};
  std::array<std::atomic<uint64_t>, kPutsMax> registration_{};
};

// A replica names its registration by the slot. If one ever lived longer than its slot's turn, it would be shown as lying
// in the memory of the successor: the reader would get other bytes.
TEST_F(FewSlotsRaceTest, R19_NothingIsEverFoundInARegistrationThatItWasNotPutOn) {
  Mount(client_, "stays");
  first_put_ = Put(client_, "first", {.size_bytes = 64}).put;
  testing::Parallel threads;
  for (int i = 0; i < 2; ++i) {
    threads.Add([this, i] { Flap(absl::StrCat("flap-", i), 300); });
    threads.Add([this, i] {
      for (int put = 0; put < 2000; ++put) {
        PutAndTell(absl::StrCat("key-", (put * 7 + i) % 30));
        ExpectFoundWhereItWasPut(absl::StrCat("key-", put % 30));
      }
    });
  }
  threads.AddBackground(
      [this, step = 0]() mutable { ExpectFoundWhereItWasPut(absl::StrCat("key-", step++ % 30)); });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.AddBackground([this] { Tick(1); });
  threads.Run();
  Sweep();
  Tick(600'500);
  EXPECT_EQ(Count().cleanup.swept_registrations, 600u);
  ExpectOneSlotIsTakenAndTheOthersAreFree();
}

// A range in quarantine holds its slot. One that is forgotten when its registration ends meanwhile would cost the slot for
// ever, and slots are bounded.
TEST_F(FewSlotsRaceTest, F16_NoSlotIsLeakedByLeasesOfRemovedObjects) {
  SegmentSpec pooled = Spec("pooled");
  pooled.pool_id = "pool";
  Mount(client_, "stays");
  testing::Parallel threads;
  std::atomic<int> leased{0};
  for (const SegmentSpec& spec : {Spec("private"), pooled}) {
    threads.Add([this, spec, &leased] {
      constexpr int kMounts = 2 * kSlots;
      for (int mounted = 0, tries = 0; mounted < kMounts; ++tries) {
        ASSERT_LT(tries, 20'000'000) << "slots do not come free";
        // Often there is none: what is in quarantine keeps the slots until its time is over.
        const RegistrationId id = TryMount(spec);
        if (id.value == 0) {
          std::this_thread::yield();
          continue;
        }
        ++mounted;
        // Until something is leased on two segments, so that its lease meets the end.
        const int before = leased.load();
        for (int i = 0; leased.load() < before + 3; ++i) {
          ASSERT_LT(i, 20'000'000) << "nothing is leased";
          std::this_thread::yield();
        }
        Unmount(client_, id);
      }
    });
  }
  for (int thread = 0; thread < 2; ++thread) {
    threads.AddBackground([this, thread, &leased, i = 0]() mutable {
      const std::string key = absl::StrCat(thread, "-", ++i % 40);
      const uint32_t replicas = 1 + static_cast<uint32_t>(i % 2);
      const testing::Started put = Start(client_, key, {.size_bytes = 64, .replicas = replicas});
      if (put.reason == Reason::kNone) End(client_, key, put.put);
      // Both on what leaves and on what stays: a put of two replicas needs two segments at that moment.
      if (Get(key).places.size() == 2) leased.fetch_add(1);
      Remove(client_, key, /*force=*/true);
    });
  }
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.AddBackground([this] { Tick(500); });
  threads.Run();
  Sweep();
  Tick(600'500);
  EXPECT_EQ(master().Audit(), "");
  EXPECT_EQ(Count().allocated_bytes, 0u);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u);
  EXPECT_EQ(Count().cleanup.quarantined_bytes, 0u);
  ExpectOneSlotIsTakenAndTheOthersAreFree();
}

}  // namespace
}  // namespace holdfast::core

// Readers against unmounts: what was unmounted before a read began is not in its answer, and readers agree about it.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

constexpr int kRounds = 200;
constexpr int kKeys = 8;
constexpr int kReaders = 3;

void RaiseTo(std::atomic<uint64_t>* highest, uint64_t value) {
  uint64_t present = highest->load(std::memory_order_relaxed);
  while (present < value && !highest->compare_exchange_weak(present, value)) {
  }
}

// In each round a segment is mounted, filled, read by everybody and unmounted under their eyes. Registration ids grow, so
// one number says which are known to be gone.
class VisibilityRaceTest : public testing::CoreTest {
 protected:
  VisibilityRaceTest() { AuditOnlyAtTheEnd(); }

  static std::string KeyOf(uint64_t registration, int i) {
    return absl::StrCat(registration, "-", i);
  }

  void MountFillAndUnmount() {
    for (int round = 0; round < kRounds; ++round) {
      const RegistrationId id = Mount(client_, Spec("leaves"));
      for (int i = 0; i < kKeys; ++i) PutOn(client_, KeyOf(id.value, i), "leaves");
      current_.store(id.value, std::memory_order_release);
      const int reads = reads_.load();
      while (reads_.load() < reads + kReaders) std::this_thread::yield();
      ASSERT_EQ(Unmount(client_, id), Reason::kNone);
      unmounted_.store(id.value, std::memory_order_release);
    }
    current_.store(0, std::memory_order_release);
  }

  void ReadOnce(uint64_t current, int step) {
    // Whatever was gone, or seen to be gone by anybody, before this read begins.
    const uint64_t gone = std::max(unmounted_.load(std::memory_order_acquire),
                                   hidden_.load(std::memory_order_acquire));
    const std::string one = KeyOf(current, step % kKeys);
    const std::string two = KeyOf(current, (step + 1) % kKeys);
    const std::vector<absl::string_view> keys = {one, two};
    GetAnswer answer;
    ASSERT_TRUE(master().Get(keys, Now(), &answer).ok());
    for (const SegmentRow& segment : answer.segments) {
      ASSERT_GT(segment.registration.value, gone) << "a read shows what was gone before it began";
    }
    if (answer.rows[0].reason == Reason::kObjectNotFound) RaiseTo(&hidden_, current);
    const uint64_t gone_now = hidden_.load(std::memory_order_acquire);
    if (Exists(two) == Reason::kNone) {
      ASSERT_GT(current, gone_now) << "a key shows what another key has hidden";
    }
  }

  const Session client_ = Open("client");
  std::atomic<uint64_t> current_{0};
  std::atomic<uint64_t> unmounted_{0};
  std::atomic<uint64_t> hidden_{0};
  std::atomic<int> reads_{0};
};

// The promise of the unmount, with the sweep running beside it.
TEST_F(VisibilityRaceTest, R2_R3_NoReadThatBeginsAfterAnUnmountShowsTheRegistration) {
  Mount(client_, "stays");
  testing::Parallel threads;
  threads.Add([this] { MountFillAndUnmount(); });
  for (int i = 0; i < kReaders; ++i) {
    threads.AddBackground([this, i] {
      const uint64_t current = current_.load(std::memory_order_acquire);
      if (current == 0) {
        std::this_thread::yield();
        return;
      }
      ReadOnce(current, i + reads_.fetch_add(1));
    });
  }
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Sweep();
  EXPECT_EQ(Count().objects, 0u);
  EXPECT_EQ(Count().cleanup.swept_replicas, static_cast<uint64_t>(kRounds * kKeys));
}

}  // namespace
}  // namespace holdfast::core

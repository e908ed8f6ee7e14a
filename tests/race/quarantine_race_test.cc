// Leases and late writers against the end of their registrations and the monitor that frees what is due.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

class QuarantineRaceTest : public testing::CoreTest {
 protected:
  QuarantineRaceTest() { AuditOnlyAtTheEnd(); }

  // Makes ranges that have to wait: leased ones by force, unfinished puts by force.
  void MakeQuarantine(int thread, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = absl::StrCat(thread, "-", i % 50);
      const testing::Started put = Start(client_, key, {.size_bytes = 64, .replicas = 2});
      if (put.reason == Reason::kNone && i % 3 != 0) {
        End(client_, key, put.put);
        Get(key);
      }
      Remove(client_, key, /*force=*/true);
    }
  }
  void ExpectNothingIsLeft() {
    Sweep();
    Tick(600'500);
    Sweep();
    Tick(500);
    EXPECT_EQ(master().Audit(), "");
    EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u);
    EXPECT_EQ(master().registry().ResidueCount(), 0u);
    EXPECT_EQ(Count().allocated_bytes, 0u);
  }

  const Session client_ = Open("client");
};

// A range may go into quarantine in the moment its registration ends, is swept, or is mounted again over the same memory.
// None is lost, and none is freed twice.
TEST_F(QuarantineRaceTest, F16_NoRangeIsLostWhenItsRegistrationEndsMeanwhile) {
  const Session owner = Open("owner");
  Mount(client_, "stays");
  const SegmentSpec spec_private = Spec("private");
  SegmentSpec spec_pooled = Spec("pooled");
  SegmentSpec spec_member = Spec("member");
  spec_pooled.pool_id = spec_member.pool_id = "pool";
  testing::Parallel threads;
  for (int i = 0; i < 2; ++i) {
    threads.Add([this, i] { MakeQuarantine(i, 4000); });
  }
  threads.AddBackground([&] {
    for (const SegmentSpec& spec : {spec_private, spec_pooled, spec_member}) {
      const RegistrationId id = Mount(owner, spec);
      for (int i = 0; i < 50; ++i) Exists("anything");
      Unmount(owner, id);
    }
  });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.AddBackground([this] { Tick(20); });
  threads.Run();
  ExpectNothingIsLeft();
  EXPECT_EQ(master().ListSegments({}, true, 100, Now()).size(), 1u);
}

// A thread that holds a range lets it go at the very time when the monitor looks at the swept slot: the last hold frees
// the slot, which may have a successor at once.
TEST_F(QuarantineRaceTest, R19_TheMonitorLooksAtNoSlotThatIsBeingFreed) {
  const Session owner = Open("owner");
  testing::Parallel threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.Add([this, thread] {
      CallRandom random(thread);
      Placement::Query query;
      query.size_bytes = 64;
      int held = 0;
      for (int i = 0; i < 1'000'000 && held < 1500; ++i) {
        const std::optional<SegmentChoice> choice = master().placement().Choose(query, &random);
        if (!choice.has_value()) {
          std::this_thread::yield();
          continue;
        }
        const std::optional<AllocatedRange> range = master().registry().Allocate(*choice, 64);
        if (!range.has_value()) continue;
        ++held;
        // Until its registration was swept, so that this is likely to be the last hold.
        const uint64_t swept = Count().cleanup.swept_registrations;
        for (int wait = 0; wait < 200 && Count().cleanup.swept_registrations < swept + 2; ++wait) {
          std::this_thread::yield();
        }
        master().registry().Free(choice->slot, range->index);
      }
      EXPECT_EQ(held, 1500);
    });
  }
  threads.AddBackground([&] {
    const RegistrationId one = Mount(owner, Spec("one"));
    const RegistrationId two = Mount(owner, Spec("two"));
    for (int wait = 0; wait < 10; ++wait) std::this_thread::yield();
    Unmount(owner, one);
    Unmount(owner, two);
  });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.AddBackground([this] { Tick(1); });
  threads.Run();
  Sweep();
  Tick(100);
  EXPECT_TRUE(master().ListSegments({}, true, 100, Now()).empty());
}

}  // namespace
}  // namespace holdfast::core

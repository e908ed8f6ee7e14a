// Grace periods that end while their segments are unmounted, read and swept.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

class GraceRaceTest : public testing::CoreTest {
 protected:
  static constexpr int kThreads = 2;
  static constexpr int kMounts = 500;

  GraceRaceTest() { AuditOnlyAtTheEnd(); }

  const Session client_ = Open("client");
};

// A timer and a call that end the same registration must neither wait for each other nor end it twice, nor its successor.
TEST_F(GraceRaceTest, F8_DeadlinesAndUnmountsEndEachRegistrationOnce) {
  testing::Parallel threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.Add([this, thread] {
      for (int i = 0; i < kMounts; ++i) {
        const std::string name = absl::StrCat(thread, "-", i);
        const RegistrationId id = Mount(client_, Spec(name));
        Put(client_, name, {.size_bytes = 64, .segments = {name}});
        EXPECT_EQ(Unmount(client_, id, /*grace_ms=*/1 + i % 20), Reason::kNone);
        for (int reads = i % 30; reads > 0; --reads) Get(name);
        // Every third waits for its deadline; a shorter one, or the end at once, meets it for the others.
        if (i % 3 == 1) {
          EXPECT_EQ(Unmount(client_, id, /*grace_ms=*/1), Reason::kNone);
        } else if (i % 3 == 2) {
          EXPECT_EQ(Unmount(client_, id), Reason::kNone);
        }
      }
    });
  }
  threads.AddBackground([this] { Tick(1); });
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Tick(20);
  Sweep();
  EXPECT_EQ(Count().segments, 0u);
  EXPECT_EQ(Count().cleanup.swept_registrations, static_cast<uint64_t>(kThreads * kMounts));
  EXPECT_EQ(Count().objects, 0u);
}

}  // namespace
}  // namespace holdfast::core

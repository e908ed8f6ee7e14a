// Sessions that end while their clients are in the middle of something.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

constexpr int kIncarnations = 200;

class SessionRaceTest : public testing::CoreTest {
 protected:
  SessionRaceTest() { AuditOnlyAtTheEnd(); }

  void Replace(uint64_t incarnation) {
    HeartbeatRequest request;
    request.client = testing::ClientNamed("client");
    request.incarnation = incarnation;
    const absl::StatusOr<HeartbeatAnswer> answer = master().Heartbeat(request, Now());
    ASSERT_TRUE(answer.ok());
    absl::MutexLock lock(&mu_);
    session_ = {request.client, answer->epoch};
  }
  Session Current() {
    absl::MutexLock lock(&mu_);
    return session_;
  }

  const Session owner_ = Open("owner");
  absl::Mutex mu_;
  Session session_ ABSL_GUARDED_BY(mu_);
};

// A mount that is under way when its session ends must not survive it: nobody would ever end it.
TEST_F(SessionRaceTest, F50_NoMountSurvivesTheEndOfItsSession) {
  Replace(1);
  testing::Parallel threads;
  threads.Add([this] {
    for (uint64_t i = 2; i <= kIncarnations; ++i) {
      Replace(i);
      for (int wait = 0; wait < 50; ++wait) Exists("anything");
    }
  });
  std::atomic<int> mounted{0};
  for (int thread = 0; thread < 2; ++thread) {
    threads.AddBackground([this, thread, &mounted] {
      const Session session = Current();
      const absl::Status status =
          master().MountSegment(session, Spec(absl::StrCat("s-", thread)), Now()).status();
      if (status.ok()) mounted.fetch_add(1);
      ASSERT_TRUE(status.ok() || ReasonOf(status) == Reason::kSessionStale ||
                  ReasonOf(status) == Reason::kSegmentExists)
          << status;
    });
  }
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  EXPECT_GT(mounted.load(), 0);
  // Nothing of the old sessions lives, so a new one takes all that is left.
  Replace(kIncarnations + 1);
  EXPECT_TRUE(master().ListSegments({}, /*include_ended=*/false, 100, Now()).empty());
  Sweep();
  Tick(1);
  EXPECT_TRUE(master().ListSegments({}, /*include_ended=*/true, 100, Now()).empty());
}

// A put that is under way when its session ends is discarded with the others, not only after ten minutes.
TEST_F(SessionRaceTest, F16_NoPutSurvivesTheEndOfItsSession) {
  Mount(owner_, "a");
  Replace(1);
  testing::Parallel threads;
  threads.Add([this] {
    for (uint64_t i = 2; i <= kIncarnations; ++i) {
      Replace(i);
      for (int wait = 0; wait < 50; ++wait) Exists("anything");
    }
  });
  std::atomic<uint64_t> next{0};
  for (int thread = 0; thread < 2; ++thread) {
    threads.AddBackground([this, &next] {
      const Session session = Current();
      const testing::Started put =
          Start(session, absl::StrCat("key-", next.fetch_add(1)), {.size_bytes = 64});
      ASSERT_TRUE(put.reason == Reason::kNone || put.reason == Reason::kSessionStale ||
                  put.reason == Reason::kNoSpace)
          << NameOf(put.reason);
    });
  }
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.Run();
  Replace(kIncarnations + 1);
  Sweep();
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Count().objects, 0u);
}

// Heartbeats in the last moment against the monitor: who was told that he lives has his segments.
TEST_F(SessionRaceTest, F39_WhoIsToldThatHeLivesHasHisSegments) {
  MasterOptions options = testing::SmallOptions();
  const Session client = Open("client", 1, options.client_ttl_min_ms);
  Silence(client);
  const RegistrationId a = Mount(client, "a");
  testing::Parallel threads;
  std::atomic<bool> lost{false};
  threads.Add([&] {
    for (int i = 0; i < 2000 && !lost.load(); ++i) {
      HeartbeatRequest request;
      request.client = client.client;
      request.epoch = client.epoch;
      const uint64_t id = a.value;
      request.registration_ids = {&id, 1};
      const absl::StatusOr<HeartbeatAnswer> answer = master().Heartbeat(request, Now());
      ASSERT_TRUE(answer.ok());
      if (answer->state == SessionState::kLost) {
        lost.store(true);
      } else {
        ASSERT_EQ(answer->state, SessionState::kLive);
      }
    }
  });
  threads.AddBackground([this] { Tick(100); });
  threads.Run();
  Tick(options.client_ttl_min_ms + 1);
  EXPECT_EQ(Listed(a).state, SegmentState::kEnded);
  Sweep();
  EXPECT_FALSE(IsListed(a));
}

}  // namespace
}  // namespace holdfast::core

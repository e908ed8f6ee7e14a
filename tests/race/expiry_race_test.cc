// What clients do while their sessions expire.

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

class ExpiryRaceTest : public testing::CoreTest {
 protected:
  static constexpr int kClients = 3;
  static constexpr uint64_t kSessions = 8;

  static MasterOptions NoMercy() {
    MasterOptions options = testing::SmallOptions();
    options.mass_expiry_min_clients = 1000;  // nobody gets a second chance
    return options;
  }
  ExpiryRaceTest() : CoreTest(NoMercy()) { AuditOnlyAtTheEnd(); }

  // Not the harness's: nothing keeps it alive.
  Session OpenSilent(const std::string& name, uint64_t incarnation) {
    HeartbeatRequest request;
    request.client = testing::ClientNamed(name);
    request.incarnation = incarnation;
    request.ttl_ms = options_.client_ttl_min_ms;
    const absl::StatusOr<HeartbeatAnswer> answer = master().Heartbeat(request, Now());
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? Session{request.client, answer->epoch} : Session();
  }

  static bool IsEndOfSession(Reason reason) {
    return reason == Reason::kSessionUnknown || reason == Reason::kSessionStale;
  }

  // Mounts and puts until the session is refused. Returns what it has mounted.
  RegistrationId UseUntilItExpires(const Session& session, const SegmentSpec& spec,
                                   RegistrationId earlier) {
    RegistrationId mounted;
    for (int i = 0; i < 1'000'000; ++i) {
      const absl::StatusOr<MountAnswer> answer = master().MountSegment(session, spec, Now());
      const Reason reason = ReasonOf(answer.status());
      if (IsEndOfSession(reason)) return mounted;
      if (answer.ok()) {
        // A late repetition of an unmount of the earlier registration must not have ended this one.
        EXPECT_TRUE(mounted.value == 0 || answer->registration == mounted);
        mounted = answer->registration;
        EXPECT_NE(mounted, earlier);
        Unmount(session, earlier);
      } else {
        EXPECT_EQ(reason, Reason::kSegmentExists) << "of the session before, which is ending";
        EXPECT_EQ(mounted.value, 0u);
      }
      const std::string key = absl::StrCat("key-", next_key_.fetch_add(1));
      const testing::Started put = Start(session, key, {.size_bytes = 64, .segments = {spec.name}});
      if (put.reason == Reason::kNone && i % 2 == 0) {
        const Reason ended = End(session, key, put.put);
        EXPECT_TRUE(ended == Reason::kNone || ended == Reason::kReplicaLost ||
                    ended == Reason::kStalePut || IsEndOfSession(ended))
            << NameOf(ended);
      } else {
        EXPECT_TRUE(put.reason == Reason::kNone || put.reason == Reason::kNoSpace ||
                    put.reason == Reason::kNoSegment || IsEndOfSession(put.reason))
            << NameOf(put.reason);
      }
    }
    ADD_FAILURE() << "the session does not expire";
    return mounted;
  }

  const MasterOptions options_ = NoMercy();
  std::atomic<uint64_t> next_key_{0};
  absl::Mutex mu_;
  std::set<uint64_t> ended_epochs_ ABSL_GUARDED_BY(mu_);
};

// What a client does in the moment of its expiry must not outlive its session: nobody would ever end it, and its memory may
// be gone.
TEST_F(ExpiryRaceTest, R12_R20_NothingLiveBelongsToASessionThatExpired) {
  testing::Parallel threads;
  for (int client = 0; client < kClients; ++client) {
    threads.Add([this, client] {
      const std::string name = absl::StrCat("client-", client);
      const SegmentSpec spec = Spec(absl::StrCat("s-", client));
      RegistrationId earlier;
      for (uint64_t incarnation = 1; incarnation <= kSessions; ++incarnation) {
        const Session session = OpenSilent(name, incarnation);
        earlier = UseUntilItExpires(session, spec, earlier);
        absl::MutexLock lock(&mu_);
        ended_epochs_.insert(session.epoch.value);
      }
    });
  }
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.AddBackground([this] { Tick(200); });
  threads.Run();
  // The sessions that are live now must have kept what is theirs, and only that.
  const Session last = OpenSilent("client-0", kSessions + 1);
  const RegistrationId kept = Mount(last, "kept");
  for (const SegmentListing& row : master().ListSegments({}, /*include_ended=*/false, 100, Now())) {
    EXPECT_EQ(row.registration, kept);
    absl::MutexLock lock(&mu_);
    EXPECT_EQ(ended_epochs_.count(master().registry().slot(row.slot).owner_epoch.value), 0u);
  }
  EXPECT_EQ(Count().cleanup.expired_clients, kClients * kSessions);
  Sweep();
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Count().objects, 0u);
  Tick(600'500);
  Sweep();
  Tick(500);
  EXPECT_TRUE(master().ListSegments({}, /*include_ended=*/true, 100, Now()).empty());
}

}  // namespace
}  // namespace holdfast::core

// A few slots that change hands all the time while objects are put, read and removed through them.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/testing/core_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::core {
namespace {

constexpr int kMounts = 300;
constexpr int kPuts = 2500;
constexpr uint32_t kKeys = 40;

class SlotReuseRaceTest : public testing::CoreTest {
 protected:
  static MasterOptions FourShards() {
    MasterOptions options = testing::SmallOptions();
    options.shard_count = 4;
    return options;
  }
  SlotReuseRaceTest() : CoreTest(FourShards()) { AuditOnlyAtTheEnd(); }

  // The endpoint names the address, so that a row that was put together from two registrations is recognised.
  SegmentSpec TellingSpec(const std::string& name) {
    SegmentSpec spec = Spec(name);
    spec.endpoint = absl::StrCat(spec.base);
    return spec;
  }
  static void ExpectRowsOfOnePiece(const ReplicaTable& table) {
    for (const SegmentRow& segment : table.segments) {
      ASSERT_EQ(segment.endpoint, absl::StrCat(segment.base));
    }
  }

  // Mounts and ends one segment again and again, in all ways of ending.
  void Flap(const Session& session, const std::string& name) {
    for (int i = 0; i < kMounts; ++i) {
      SegmentSpec spec = TellingSpec(name);
      if (i % 4 == 3) spec.pool_id = "pool";
      const RegistrationId id = Mount(session, spec);
      for (int reads = 0; reads < 20; ++reads) ReadOne(CallRandom(i * 20 + reads).Below(kKeys));
      if (i % 3 == 1) {
        EXPECT_TRUE(master().DrainSegment(id).ok());
      }
      if (i % 3 == 2) {
        EXPECT_EQ(Unmount(session, id, /*grace_ms=*/1), Reason::kNone);
      }
      EXPECT_EQ(Unmount(session, id), Reason::kNone);
      EXPECT_EQ(Unmount(session, id), Reason::kNone);
    }
  }

  void ReadOne(uint32_t key) {
    const std::string name = absl::StrCat("key-", key);
    const absl::string_view item = name;
    GetAnswer answer;
    ASSERT_TRUE(master().Get({&item, 1}, Now(), &answer).ok());
    ExpectRowsOfOnePiece(answer);
    ASSERT_EQ(answer.rows[0].reason == Reason::kNone, answer.rows[0].replica_count > 0);
  }

  void PutOne(const Session& session, CallRandom* random, uint64_t request) {
    const std::string key = absl::StrCat("key-", random->Below(kKeys));
    const PutStartItem item{key, 64 + random->Below(8000), 1 + random->Below(3),
                            RequestId{request}};
    PutStartRequest call;
    call.session = session;
    call.items = {&item, 1};
    call.random = random->Below(1u << 30);
    PutStartAnswer answer;
    ASSERT_TRUE(master().PutStart(call, Now(), &answer).ok());
    ExpectRowsOfOnePiece(answer);
    if (answer.rows[0].reason == Reason::kNone) {
      if (random->Below(8) == 0) {
        EXPECT_EQ(Revoke(session, key, answer.rows[0].put), Reason::kNone);
      } else {
        const Reason ended = End(session, key, answer.rows[0].put);
        ASSERT_TRUE(ended == Reason::kNone || ended == Reason::kReplicaLost ||
                    ended == Reason::kStalePut)
            << NameOf(ended);
      }
    } else if (random->Below(2) == 0) {
      Remove(session, key, /*force=*/true);
    }
  }

  const Session client_ = Open("client");
};

// Whatever happened: the books agree, nothing lies on what has ended, and the slots are free.
TEST_F(SlotReuseRaceTest, R5_R19_SlotsThatChangeHandsAllTheTimeMixNothingUp) {
  const Session flapper = Open("flapper");
  const RegistrationId stays = Mount(client_, TellingSpec("stays"));
  testing::Parallel threads;
  for (int i = 0; i < 2; ++i) {
    threads.Add([this, flapper, i] { Flap(flapper, absl::StrCat("flap-", i)); });
    threads.Add([this, i] {
      CallRandom random(i);
      for (int put = 0; put < kPuts; ++put) {
        PutOne(client_, &random, static_cast<uint64_t>(i * kPuts + put + 1));
      }
    });
  }
  threads.AddBackground([this] { sweep_pass().Run(); });
  threads.AddBackground([this] { Tick(1); });
  threads.Run();
  Sweep();
  Tick(600'500);
  EXPECT_EQ(master().Audit(), "");
  EXPECT_EQ(master().ListSegments({}, /*include_ended=*/true, 100, Now()).size(), 1u);
  EXPECT_TRUE(IsListed(stays));
  for (const std::string& key : Keys(/*filter_invalid=*/false)) {
    for (const testing::Place& place : Get(key).places) EXPECT_EQ(place.registration, stays);
  }
  EXPECT_EQ(Count().cleanup.swept_registrations, 2u * kMounts);
}

}  // namespace
}  // namespace holdfast::core

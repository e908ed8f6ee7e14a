// Sessions: who may change something, until when, and what happens when nobody is heard any more.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

class SessionTest : public testing::CoreTest {
 protected:
  Reason OpenReason(const HeartbeatRequest& request) {
    return ReasonOf(master().Heartbeat(request, Now()).status());
  }
  bool IsLive(const Session& session) { return master().CheckSession(session).ok(); }
};

// The answer to an opening may be lost; the same process asks again and must not lose what it has mounted meanwhile.
TEST_F(SessionTest, TheSameIncarnationOpensTheSameSession) {
  const Session first = Open("client");
  const RegistrationId a = Mount(first, "a");
  const Session again = Open("client");
  EXPECT_EQ(again.epoch, first.epoch);
  EXPECT_EQ(Listed(a).state, SegmentState::kMounted);
  EXPECT_EQ(Count().clients, 1u);
}

// A new process has nothing of what the old one had in its memory.
TEST_F(SessionTest, F50_AnotherIncarnationReplacesTheSessionAndEndsItsRegistrations) {
  const Session first = Open("client");
  const RegistrationId a = Mount(first, "a");
  Put(first, "key");
  const Session second = Open("client", /*incarnation=*/2);
  EXPECT_NE(second.epoch, first.epoch);
  EXPECT_EQ(Listed(a).state, SegmentState::kEnded);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(Count().clients, 1u);
}

// And what it has mounted by then is not touched by the end of the old session.
TEST_F(SessionTest, F50_AReplacedSessionTakesOnlyItsOwnRegistrations) {
  Open("client");
  const Session second = Open("client", /*incarnation=*/2);
  const RegistrationId b = Mount(second, "b");
  Sweep();
  EXPECT_EQ(Heartbeat(second, {b.value}).ended_registration_ids.size(), 0u);
  EXPECT_EQ(Put(second, "key").places.at(0).registration, b);
}

// The end of a session may be late: by then a new one of the same client may have mounted.
TEST_F(SessionTest, F50_TheLateEndOfASessionSparesTheRegistrationsOfTheNext) {
  const Session first = Open("client");
  const Session second = Open("client", /*incarnation=*/2);
  const RegistrationId b = Mount(second, "b");
  master().registry().EndSession(first, Now());
  EXPECT_EQ(Listed(b).state, SegmentState::kMounted);
}

// A frozen client wakes up after its rights were given away: its heartbeat says so, and it has to begin anew.
TEST_F(SessionTest, F50_AStaleEpochIsLost) {
  const Session first = Open("client");
  Open("client", /*incarnation=*/2);
  EXPECT_EQ(Heartbeat(first).state, SessionState::kLost);
  EXPECT_EQ(Heartbeat({testing::ClientNamed("nobody"), ClientEpoch{5}}).state, SessionState::kLost);
}

// An answer of kLive says what the session has; one of kOpened, what it was given.
TEST_F(SessionTest, AHeartbeatAnswersTheEpochAndTheTimeToLive) {
  const Session session = Open("client", 1, /*ttl_ms=*/20'000);
  const HeartbeatAnswer answer = Heartbeat(session);
  EXPECT_EQ(answer.state, SessionState::kLive);
  EXPECT_EQ(answer.epoch, session.epoch);
  EXPECT_EQ(answer.ttl_ms, 20'000);
}

// Every call that changes something, so that a new one cannot forget the check.
TEST_F(SessionTest, F50_AStaleOrUnknownSessionIsRefusedOnEveryChangingCall) {
  const Session stale = Open("client");
  const Session live = Open("client", /*incarnation=*/2);
  const RegistrationId a = Mount(live, "a");
  Put(live, "key");
  const testing::Started put = Start(live, "unfinished");
  const struct {
    Session session;
    Reason reason;
  } kinds[] = {{stale, Reason::kSessionStale},
               {{testing::ClientNamed("nobody"), live.epoch}, Reason::kSessionUnknown},
               {{ClientId(), live.epoch}, Reason::kBadId}};
  for (const auto& [session, reason] : kinds) {
    EXPECT_EQ(MountReason(session, Spec("b")), reason);
    EXPECT_EQ(Unmount(session, a), reason);
    EXPECT_EQ(Start(session, "new").reason, reason);
    EXPECT_EQ(End(session, "unfinished", put.put), reason);
    EXPECT_EQ(Revoke(session, "unfinished", put.put), reason);
    EXPECT_EQ(Remove(session, "key", /*force=*/true), reason);
  }
  EXPECT_EQ(Count().segments, 1u);
  EXPECT_EQ(Count().puts_in_progress, 1u);
  EXPECT_EQ(Exists("key"), Reason::kNone);
}

// Expiry is neither early nor late.
TEST_F(SessionTest, ASilentClientExpiresExactlyAfterItsTimeToLive) {
  const Session session = Open("client");
  Open("witness");
  Silence(session);
  Tick(10'000);
  EXPECT_TRUE(IsLive(session));
  Tick(1);
  EXPECT_FALSE(IsLive(session));
  EXPECT_EQ(Count().clients, 1u);
  EXPECT_EQ(Count().cleanup.expired_clients, 1u);
}

// A heartbeat in the last moment counts.
TEST_F(SessionTest, AHeartbeatInTimeKeepsTheSession) {
  const Session session = Open("client");
  Silence(session);
  Tick(10'000);
  Heartbeat(session);
  Tick(10'000);
  EXPECT_TRUE(IsLive(session));
  Tick(1);
  EXPECT_FALSE(IsLive(session));
}

// The time-out is the client's own, not that of whoever reaps.
TEST_F(SessionTest, F51_EachClientHasItsOwnTimeToLive) {
  const Session shorter = Open("shorter", 1, 5000);
  const Session usual = Open("usual");
  const Session longer = Open("longer", 1, 60'000);
  for (const Session& session : {shorter, usual, longer}) Silence(session);
  Tick(5001);
  EXPECT_FALSE(IsLive(shorter));
  EXPECT_TRUE(IsLive(usual));
  Tick(5000);
  EXPECT_FALSE(IsLive(usual));
  Tick(49'999);
  EXPECT_TRUE(IsLive(longer));
  Tick(1);
  EXPECT_FALSE(IsLive(longer));
}

// A time-to-live of zero means the default; one out of bounds is moved into them, and the client is told.
TEST_F(SessionTest, F51_ATimeToLiveOutOfBoundsIsClamped) {
  EXPECT_EQ(Heartbeat(Open("a", 1, 0)).ttl_ms, 10'000);
  EXPECT_EQ(Heartbeat(Open("b", 1, 1)).ttl_ms, 1000);
  EXPECT_EQ(Heartbeat(Open("c", 1, -5)).ttl_ms, 1000);
  EXPECT_EQ(Heartbeat(Open("d", 1, INT64_MAX)).ttl_ms, 600'000);
}

// The master was stopped: nobody was heard because nobody listened, so everybody gets a whole time-out.
TEST_F(SessionTest, F40_AStallOfTheMasterExpiresNobody) {
  std::vector<Session> sessions;
  for (int i = 0; i < 10; ++i) sessions.push_back(Open("client-" + std::to_string(i)));
  for (const Session& session : sessions) Silence(session);
  Tick(1000);
  clock().AdvanceMs(30'000);  // no pass ran meanwhile
  Tick(1);
  EXPECT_EQ(Count().cleanup.master_stalls, 1u);
  Tick(10'000);
  for (const Session& session : sessions) EXPECT_TRUE(IsLive(session));
}

// And then the dead are dead.
TEST_F(SessionTest, F40_AfterAStallASilentClientExpiresAfterAFreshTimeToLive) {
  const Session dead = Open("dead");
  Open("witness");
  Silence(dead);
  Tick(9000);
  clock().AdvanceMs(30'000);
  Tick(1);
  Tick(10'000);
  EXPECT_TRUE(IsLive(dead));
  Tick(1);
  EXPECT_FALSE(IsLive(dead));
}

// Most clients silent at once is likelier a fault here or in the network: one more period of grace, once.
TEST_F(SessionTest, F40_AMassExpiryIsDeferredOnceAndThenDone) {
  std::vector<Session> sessions;
  for (int i = 0; i < 8; ++i) sessions.push_back(Open("client-" + std::to_string(i)));
  for (int i = 0; i < 5; ++i) Silence(sessions[i]);
  Tick(10'001);
  EXPECT_EQ(Count().cleanup.deferred_expiries, 1u);
  EXPECT_EQ(Count().clients, 8u);
  Tick(2999);
  EXPECT_EQ(Count().clients, 8u);
  Tick(1);
  EXPECT_EQ(Count().clients, 3u);
  EXPECT_EQ(Count().cleanup.deferred_expiries, 1u);
}

// Those who come back during the grace are saved; the few that do not are no mass.
TEST_F(SessionTest, F40_ClientsThatComeBackDuringTheGraceAreKept) {
  std::vector<Session> sessions;
  for (int i = 0; i < 8; ++i) sessions.push_back(Open("client-" + std::to_string(i)));
  for (const Session& session : sessions) Silence(session);
  Tick(10'001);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(Heartbeat(sessions[i]).state, SessionState::kLive);
  Tick(500);
  EXPECT_EQ(Count().clients, 7u);
  EXPECT_FALSE(IsLive(sessions[7]));
}

// One or two of a few are not a mass: a small cluster loses its dead on time.
TEST_F(SessionTest, F40_AFewClientsAreNoMass) {
  for (int i = 0; i < 3; ++i) Silence(Open("client-" + std::to_string(i)));
  Tick(10'001);
  EXPECT_EQ(Count().clients, 0u);
}

// A client that says goodbye leaves at once, and what it has lent with it.
TEST_F(SessionTest, F11_AClosedSessionEndsItsRegistrationsAndPuts) {
  const Session leaving = Open("leaving");
  const Session staying = Open("staying");
  const RegistrationId a = Mount(leaving, "a");
  Mount(staying, "b");
  PutOn(leaving, "lost", "a");
  Start(leaving, "unfinished", {.segments = {"b"}});
  Silence(leaving);
  HeartbeatRequest request;
  request.client = leaving.client;
  request.epoch = leaving.epoch;
  request.close = true;
  absl::StatusOr<HeartbeatAnswer> answer = master().Heartbeat(request, Now());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->state, SessionState::kClosed);
  EXPECT_FALSE(IsLive(leaving));
  EXPECT_EQ(Listed(a).state, SegmentState::kEnded);
  EXPECT_EQ(Exists("lost"), Reason::kObjectNotFound);
  Sweep();
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Count().clients, 1u);
}

// A second goodbye, or one of a session that was replaced, must not close what is there now.
TEST_F(SessionTest, F50_ClosingAStaleSessionClosesNothing) {
  const Session stale = Open("client");
  const Session live = Open("client", /*incarnation=*/2);
  HeartbeatRequest request;
  request.client = stale.client;
  request.epoch = stale.epoch;
  request.close = true;
  EXPECT_EQ(master().Heartbeat(request, Now())->state, SessionState::kLost);
  EXPECT_TRUE(IsLive(live));
}

// What an opening has to say.
TEST_F(SessionTest, AnOpeningNeedsAClientAnIncarnationAndAShortHost) {
  HeartbeatRequest request;
  request.incarnation = 1;
  EXPECT_EQ(OpenReason(request), Reason::kBadId);
  request.client = testing::ClientNamed("client");
  request.incarnation = 0;
  EXPECT_EQ(OpenReason(request), Reason::kBadField);
  request.incarnation = 1;
  request.host = std::string(257, 'h');
  EXPECT_EQ(OpenReason(request), Reason::kBadField);
  request.host.resize(256);
  EXPECT_EQ(OpenReason(request), Reason::kNone);
}

// A heartbeat is bounded like every call.
TEST_F(SessionTest, AHeartbeatWithTooManyRegistrationsIsRefused) {
  const Session session = Open("client");
  const std::vector<uint64_t> ids(master().options().max_batch_items + 1, 1);
  HeartbeatRequest request;
  request.client = session.client;
  request.epoch = session.epoch;
  request.registration_ids = ids;
  EXPECT_EQ(OpenReason(request), Reason::kBatchTooLarge);
}

// Ids of one run mean nothing in another: a client of an earlier master must not be taken for one of this.
TEST_F(SessionTest, F83_AnotherRunOfTheMasterGivesOtherIds) {
  MasterOptions options = testing::SmallOptions();
  options.seed = 99;
  testing::CoreHarness restarted(options);
  const Session here = Open("client");
  const Session there = restarted.Open("client");
  EXPECT_NE(here.epoch, there.epoch);
  EXPECT_NE(Mount(here, Spec("a")), restarted.Mount(there, restarted.Spec("a")));
  EXPECT_NE(Put(here, "key").put, restarted.Put(there, "key").put);
  EXPECT_EQ(restarted.Start(here, "key").reason, Reason::kSessionStale);
}

class ClientLimitTest : public testing::CoreTest {
 protected:
  static MasterOptions TwoClients() {
    MasterOptions options = testing::SmallOptions();
    options.max_clients = 2;
    return options;
  }
  ClientLimitTest() : CoreTest(TwoClients()) {}
};

// The table of clients is bounded, exact, and has room again when one has left; who is in it may come back.
TEST_F(ClientLimitTest, TheLimitIsExactAndGivesWayToWhoLeaves) {
  const Session first = Open("first");
  Open("second");
  HeartbeatRequest third;
  third.client = testing::ClientNamed("third");
  third.incarnation = 1;
  EXPECT_EQ(ReasonOf(master().Heartbeat(third, Now()).status()), Reason::kClientLimit);
  Open("second", /*incarnation=*/2);
  Silence(first);
  Tick(10'001);
  EXPECT_TRUE(master().Heartbeat(third, Now()).ok());
}

// Operators see who is there.
TEST_F(SessionTest, ClientsAreListedWithTheirFigures) {
  const Session session = Open("client", 1, 20'000);
  Mount(session, "a");
  Mount(session, "b");
  Silence(session);
  Tick(1500);
  std::vector<ClientListing> rows;
  for (uint32_t stripe = 0; stripe < master().client_stripes(); ++stripe) {
    for (ClientListing& row : master().ListClients(stripe, Now())) rows.push_back(std::move(row));
  }
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].client, session.client);
  EXPECT_EQ(rows[0].epoch, session.epoch);
  EXPECT_EQ(rows[0].segments, 2u);
  EXPECT_EQ(rows[0].ttl_ms, 20'000);
  EXPECT_EQ(rows[0].last_heartbeat_age_ms, 1500);
}

}  // namespace
}  // namespace holdfast::core

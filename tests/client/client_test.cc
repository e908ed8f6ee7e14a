// The client library against a master that fails in the ways that matter to it.

#include "holdfast/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/client/fake_master.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::FakeMaster;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kPatience;
using ::testing::Not;
using ::testing::Pair;
using testing::Refusal;
using ::testing::SizeIs;

ClientOptions OptionsFor(const FakeMaster& master) {
  ClientOptions options;
  options.master = master.address();
  options.deadline = std::chrono::seconds(20);
  return options;
}

std::unique_ptr<Client> MustConnect(ClientOptions options) {
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

SegmentOptions Segment(const std::string& name) {
  SegmentOptions segment;
  segment.name = name;
  segment.endpoint = "node:1";
  segment.size_bytes = 1 << 20;
  return segment;
}

// A port on which nobody listens.
std::string DeadAddress() { return FakeMaster().address(); }

// Events of one client, to be waited for.
class Events {
 public:
  SessionEvents Handlers() {
    SessionEvents events;
    events.on_reopened = [this](size_t remounted, size_t wanted) {
      absl::MutexLock lock(&mutex_);
      reopened_.emplace_back(remounted, wanted);
    };
    events.on_registrations_ended = [this](const std::vector<uint64_t>& ids) {
      absl::MutexLock lock(&mutex_);
      ended_.insert(ended_.end(), ids.begin(), ids.end());
    };
    return events;
  }

  std::vector<std::pair<size_t, size_t>> AwaitReopened() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !reopened_.empty(); };
    mutex_.AwaitWithTimeout(absl::Condition(&any), kPatience);
    return reopened_;
  }

  std::vector<uint64_t> AwaitEnded() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !ended_.empty(); };
    mutex_.AwaitWithTimeout(absl::Condition(&any), kPatience);
    return ended_;
  }

  std::vector<uint64_t> ended() {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::pair<size_t, size_t>> reopened_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
};

// --- connecting ---

TEST(ClientConnectTest, DeadPortIsUnavailableWithinTheDeadline) {
  ClientOptions options;
  options.master = DeadAddress();
  options.connect_deadline = milliseconds(200);
  const absl::Time start = absl::Now();
  EXPECT_EQ(Client::Connect(options).status().code(), absl::StatusCode::kUnavailable);
  options.open_session = false;
  EXPECT_EQ(Client::Connect(options).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST(ClientConnectTest, SilentMasterIsUnavailableWithinTheDeadline) {
  FakeMaster master;
  master.HangHeartbeats();
  ClientOptions options = OptionsFor(master);
  options.connect_deadline = milliseconds(200);
  EXPECT_EQ(Client::Connect(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ClientConnectTest, R52_MasterOfAnotherVersionIsRefusedWithItsReason) {
  FakeMaster master;
  master.FailNext("Heartbeat", Refusal(grpc::StatusCode::FAILED_PRECONDITION,
                                       v1::REASON_PROTOCOL_MISMATCH, "open: protocol 1 is not 2"));
  const absl::Status status = Client::Connect(OptionsFor(master)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), Reason::kProtocolMismatch);
  EXPECT_EQ(status.message(), "open: protocol 1 is not 2");
}

TEST(ClientConnectTest, ClientWithoutSessionReadsButChangesNothing) {
  FakeMaster master;
  ClientOptions options = OptionsFor(master);
  options.open_session = false;
  const std::unique_ptr<Client> client = MustConnect(options);
  EXPECT_TRUE(client->Get({"k1"}).ok());
  EXPECT_EQ(client->PutStart({PutItem{.key = "k1", .size_bytes = 1}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client->MountSegment(Segment("a")).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client->Remove({"k1"}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(master.Calls("Heartbeat"), 0);
  EXPECT_EQ(master.Calls("Remove"), 0);
}

// --- session ---

TEST(ClientSessionTest, LostSessionIsReopenedAndAllSegmentsAreMountedAgain) {
  FakeMaster master;
  Events events;
  ClientOptions options = OptionsFor(master);
  options.events = events.Handlers();
  const std::unique_ptr<Client> client = MustConnect(options);
  const uint64_t first_epoch = client->client_epoch();
  const absl::StatusOr<uint64_t> a = client->MountSegment(Segment("a"));
  const absl::StatusOr<uint64_t> b = client->MountSegment(Segment("b"));
  ASSERT_TRUE(a.ok() && b.ok());

  master.ForgetEverything();
  EXPECT_THAT(events.AwaitReopened(), ElementsAre(Pair(2, 2)));
  EXPECT_NE(client->client_epoch(), first_epoch);
  EXPECT_EQ(client->client_epoch(), master.epoch());
  const std::map<uint64_t, std::string> registrations = master.Registrations();
  EXPECT_THAT(registrations, SizeIs(2));
  EXPECT_THAT(client->MountedRegistrations(), SizeIs(2));
  for (const uint64_t id : client->MountedRegistrations()) EXPECT_TRUE(registrations.contains(id));
  EXPECT_THAT(events.ended(), IsEmpty());
}

// A master that restarts is a new process on the same address.
TEST(ClientSessionTest, RestartedMasterIsFoundAgain) {
  auto master = std::make_unique<FakeMaster>();
  const int port = master->port();
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(*master));
  ASSERT_TRUE(client->MountSegment(Segment("a")).ok());
  master.reset();
  master = std::make_unique<FakeMaster>(port);
  EXPECT_TRUE(master->AwaitRegistrations(1));
}

TEST(ClientSessionTest, SecondAttemptToMountAgainIsMadeAfterTheFirstOneFailed) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  ASSERT_TRUE(client->MountSegment(Segment("a")).ok());
  master.FailNext("RemountSegments", grpc::Status(grpc::StatusCode::UNAVAILABLE, "busy"));
  master.ForgetEverything();
  EXPECT_TRUE(master.AwaitRegistrations(1));
  EXPECT_EQ(master.Calls("RemountSegments"), 2);
}

TEST(ClientSessionTest, HeartbeatReportsWhatIsMounted) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  const absl::StatusOr<uint64_t> a = client->MountSegment(Segment("a"));
  ASSERT_TRUE(a.ok());
  // The one in progress may have been made before the mount.
  ASSERT_TRUE(master.AwaitCalls("Heartbeat", master.Calls("Heartbeat") + 2));
  EXPECT_THAT(master.LastHeartbeat().registration_ids(), ElementsAre(*a));
}

TEST(ClientSessionTest, RegistrationThatTheMasterEndedIsToldAndDropped) {
  FakeMaster master;
  Events events;
  ClientOptions options = OptionsFor(master);
  options.events = events.Handlers();
  const std::unique_ptr<Client> client = MustConnect(options);
  const absl::StatusOr<uint64_t> a = client->MountSegment(Segment("a"));
  const absl::StatusOr<uint64_t> b = client->MountSegment(Segment("b"));
  ASSERT_TRUE(a.ok() && b.ok());
  master.EndRegistration(*a);
  EXPECT_THAT(events.AwaitEnded(), ElementsAre(*a));
  EXPECT_THAT(client->MountedRegistrations(), ElementsAre(*b));
  // Nor does it come back with a new session.
  master.ForgetEverything();
  EXPECT_THAT(events.AwaitReopened(), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(master.RemountedNames(), ElementsAre("b"));
}

TEST(ClientSessionTest, DestructorDoesNotWaitForASilentMaster) {
  FakeMaster master;
  std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.HangHeartbeats();
  ASSERT_TRUE(master.AwaitCalls("Heartbeat", master.Calls("Heartbeat") + 1));
  const absl::Time start = absl::Now();
  client.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));  // the heartbeat itself would wait for 30 s
}

// --- segments ---

TEST(ClientSegmentTest, UnmountedSegmentIsNeverMountedAgain) {
  FakeMaster master;
  Events events;
  ClientOptions options = OptionsFor(master);
  options.events = events.Handlers();
  const std::unique_ptr<Client> client = MustConnect(options);
  const absl::StatusOr<uint64_t> gone = client->MountSegment(Segment("gone"));
  ASSERT_TRUE(gone.ok());
  ASSERT_TRUE(client->MountSegment(Segment("kept")).ok());
  ASSERT_TRUE(client->UnmountSegment(*gone).ok());
  master.ForgetEverything();
  EXPECT_THAT(events.AwaitReopened(), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(master.RemountedNames(), ElementsAre("kept"));
}

// The user frees the memory when the unmount has returned: a remount that was on its way must not survive it.
TEST(ClientSegmentTest, UnmountWinsAgainstTheRemountThatIsOnItsWay) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  const absl::StatusOr<uint64_t> a = client->MountSegment(Segment("a"));
  ASSERT_TRUE(a.ok());
  absl::Status unmounted = absl::UnknownError("not called");
  std::thread unmounter;
  absl::Notification started;
  master.OnNext("RemountSegments", [&] {
    unmounter = std::thread([&] { unmounted = client->UnmountSegment(*a); });
    const absl::Time end = absl::Now() + kPatience;
    while (!client->MountedRegistrations().empty() && absl::Now() < end) std::this_thread::yield();
    started.Notify();
  });
  master.ForgetEverything();
  ASSERT_TRUE(started.WaitForNotificationWithTimeout(kPatience));
  unmounter.join();
  EXPECT_TRUE(unmounted.ok()) << unmounted;
  EXPECT_THAT(master.RemountedNames(), ElementsAre("a"));  // the race did happen
  EXPECT_THAT(master.Registrations(), IsEmpty());
}

TEST(ClientSegmentTest, IdFromBeforeARemountStillUnmountsItsSegment) {
  FakeMaster master;
  Events events;
  ClientOptions options = OptionsFor(master);
  options.events = events.Handlers();
  const std::unique_ptr<Client> client = MustConnect(options);
  const absl::StatusOr<uint64_t> old_id = client->MountSegment(Segment("a"));
  ASSERT_TRUE(old_id.ok());
  master.ForgetEverything();
  events.AwaitReopened();
  ASSERT_THAT(client->MountedRegistrations(), Not(ElementsAre(*old_id)));
  EXPECT_TRUE(client->UnmountSegment(*old_id).ok());
  EXPECT_THAT(master.Registrations(), IsEmpty());
}

// The caller was told that the mount failed and may free the memory.
TEST(ClientSegmentTest, MountWhoseAnswerWasLostIsUndone) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.LoseAnswerOfNext("MountSegment");
  EXPECT_FALSE(client->MountSegment(Segment("a")).ok());
  EXPECT_TRUE(master.AwaitCalls("UnmountSegment", 1));
  EXPECT_TRUE(master.AwaitRegistrations(0));
  EXPECT_THAT(client->MountedRegistrations(), IsEmpty());
}

TEST(ClientSegmentTest, UnmountThatFailedIsFinishedByTheHeartbeat) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  const absl::StatusOr<uint64_t> a = client->MountSegment(Segment("a"));
  ASSERT_TRUE(a.ok());
  master.FailNext("UnmountSegment", grpc::Status(grpc::StatusCode::INTERNAL, "lost"));
  EXPECT_EQ(client->UnmountSegment(*a).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(master.AwaitRegistrations(0));
}

TEST(ClientSegmentTest, UnmountAllLeavesNothing) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(client->MountSegment(Segment(name)).ok());
  EXPECT_TRUE(client->UnmountAll().ok());
  EXPECT_THAT(master.Registrations(), IsEmpty());
  EXPECT_THAT(client->MountedRegistrations(), IsEmpty());
}

TEST(ClientSegmentTest, MountIsRepeatedUnderTheReopenedSession) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.OnNext("MountSegment", [&master] { master.ForgetEverything(); });
  const absl::StatusOr<uint64_t> a = client->MountSegment(Segment("a"));
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_TRUE(master.Registrations().contains(*a));
}

// --- repeated calls ---

TEST(ClientRepeatTest, PutStartIsRepeatedOnceWithTheSameRequestIds) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.FailNext("PutStart", grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away"));
  const absl::StatusOr<std::vector<StartedPut>> puts = client->PutStart(
      {PutItem{.key = "k1", .size_bytes = 1}, PutItem{.key = "k2", .size_bytes = 1}});
  ASSERT_TRUE(puts.ok()) << puts.status();
  const std::vector<v1::PutStartRequest> requests = master.PutStarts();
  ASSERT_THAT(requests, SizeIs(2));
  ASSERT_THAT(requests[0].items(), SizeIs(2));
  EXPECT_EQ(requests[0].SerializeAsString(), requests[1].SerializeAsString());
  EXPECT_NE(requests[0].items(0).request_id(), requests[0].items(1).request_id());
}

TEST(ClientRepeatTest, EachPutHasARequestIdOfItsOwn) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  ASSERT_TRUE(client->PutStart({PutItem{.key = "k1", .size_bytes = 1}}).ok());
  ASSERT_TRUE(client->PutStart({PutItem{.key = "k1", .size_bytes = 1}}).ok());
  const std::vector<v1::PutStartRequest> requests = master.PutStarts();
  EXPECT_NE(requests[0].items(0).request_id(), requests[1].items(0).request_id());
}

TEST(ClientRepeatTest, CallThatFailsTwiceIsNotMadeAThirdTime) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.FailNext("Get", grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away"));
  master.FailNext("Get", grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  const absl::Status status = client->Get({"k1"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("gone"));
  EXPECT_EQ(master.Calls("Get"), 2);
}

TEST(ClientRepeatTest, OnlyUnavailableIsRepeated) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.FailNext("Get",
                  Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, v1::REASON_SERVER_BUSY, "busy"));
  EXPECT_EQ(ReasonOf(client->Get({"k1"}).status()), Reason::kServerBusy);
  EXPECT_EQ(master.Calls("Get"), 1);
}

// A second removal might hit a newer object.
TEST(ClientRepeatTest, RemoveIsNeverRepeated) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.FailNext("Remove", grpc::Status(grpc::StatusCode::UNAVAILABLE, "going away"));
  EXPECT_EQ(client->Remove({"k1"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(master.Calls("Remove"), 1);
}

TEST(ClientRepeatTest, PutStartIsRepeatedUnderTheReopenedSessionWithTheSameRequestIds) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  master.OnNext("PutStart", [&master] { master.ForgetEverything(); });
  const absl::StatusOr<std::vector<StartedPut>> puts =
      client->PutStart({PutItem{.key = "k1", .size_bytes = 1}});
  ASSERT_TRUE(puts.ok()) << puts.status();
  const std::vector<v1::PutStartRequest> requests = master.PutStarts();
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_NE(requests[0].session().client_epoch(), requests[1].session().client_epoch());
  EXPECT_EQ(requests[0].items(0).request_id(), requests[1].items(0).request_id());
}

// The put ended with the session that started it.
TEST(ClientRepeatTest, PutEndIsNotRepeatedUnderAnotherSession) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  const uint64_t first_epoch = client->client_epoch();
  master.OnNext("PutEnd", [&master] { master.ForgetEverything(); });
  const absl::Status status = client->PutEnd({PutRef{.key = "k1", .put_id = 1}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(master.Calls("PutEnd"), 1);
  ASSERT_TRUE(client->PutStart({PutItem{.key = "k1", .size_bytes = 1}}).ok());
  EXPECT_NE(client->client_epoch(), first_epoch);
}

// --- answers ---

TEST(ClientAnswerTest, ObjectsOfOneAnswerShareTheirSegments) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  const auto before = std::chrono::steady_clock::now();
  absl::StatusOr<std::vector<FoundObject>> found = client->Get({"k1", "missing", "k2"});
  const auto after = std::chrono::steady_clock::now();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_THAT(*found, SizeIs(3));
  const FoundObject& k1 = (*found)[0];
  ASSERT_THAT(k1.replicas, SizeIs(2));
  EXPECT_EQ(k1.size_bytes, 4096);
  EXPECT_EQ(k1.replicas[1].segment->endpoint, "node:2");
  EXPECT_EQ(k1.replicas[1].offset_bytes, 128);
  EXPECT_EQ(k1.replicas[0].segment, (*found)[2].replicas[0].segment);
  EXPECT_GE(k1.lease_end, before + milliseconds(10'000));
  EXPECT_LE(k1.lease_end, after + milliseconds(10'000));
  EXPECT_EQ((*found)[1].status.code, absl::StatusCode::kNotFound);
  EXPECT_EQ((*found)[1].status.reason, Reason::kObjectNotFound);
}

TEST(ClientAnswerTest, ReplicaOnASegmentThatTheAnswerDoesNotNameIsAnError) {
  FakeMaster master;
  const std::unique_ptr<Client> client = MustConnect(OptionsFor(master));
  EXPECT_EQ(client->Get({"k-broken"}).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace holdfast

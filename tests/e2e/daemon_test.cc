// The real program: start, stop, and what happens around it.

#include "tests/testing/net/daemon.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "holdfast/client.h"
#include "holdfast/v1/admin.grpc.pb.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

const std::vector<std::string> kShortTtl = {"--client-ttl-ms=1500", "--client-ttl-min-ms=500",
                                            "--heartbeat-interval-ms=200",
                                            "--mass-expiry-grace-ms=500"};

std::unique_ptr<Client> Connect(const std::string& master) {
  ClientOptions options;
  options.master = master;
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

uint64_t Mount(Client& client, const std::string& name) {
  SegmentOptions segment;
  segment.name = name;
  segment.base = 1 << 20;
  segment.size_bytes = 64 << 20;
  auto registration = client.MountSegment(segment);
  EXPECT_TRUE(registration.ok()) << registration.status();
  return registration.value_or(0);
}

bool Put(Client& client, const std::string& key) {
  const PutItem item{key, 4096, 1};
  auto started = client.PutStart({&item, 1});
  if (!started.ok() || !started->front().status.ok()) return false;
  const PutRef put{key, started->front().put_id};
  auto ended = client.PutEnd({&put, 1});
  return ended.ok() && ended->front().ok();
}

bool Exists(Client& client, const std::string& key) {
  auto exists = client.Exists({&key, 1});
  return exists.ok() && exists->front().ok();
}

template <typename Condition>
bool WaitFor(Condition condition, milliseconds timeout = seconds(15)) {
  const auto end = steady_clock::now() + timeout;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

// Two masters on one port would each see half of the clients.
TEST(DaemonTest, F101_ASecondMasterOnThePortFailsAndSaysWhere) {
  auto first = testing::Daemon::Start();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second =
      testing::Daemon::RunToEnd({absl::StrCat("--listen=127.0.0.1:", (*first)->port())});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, HasSubstr(absl::StrCat("127.0.0.1:", (*first)->port())));
  EXPECT_NE(Connect((*first)->address()), nullptr);
}

TEST(DaemonTest, BadFlagsAreNamedAndExitWithTwo) {
  const auto unknown = testing::Daemon::RunToEnd({"--no-such-flag=1"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("no-such-flag"));
  const auto bad = testing::Daemon::RunToEnd({"--shards=1000"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.output, HasSubstr("shards"));
}

// SIGTERM ends the daemon in time whatever the clients do.
TEST(DaemonTest, F100_SigtermUnderFullLoadExitsWithZeroInTime) {
  auto daemon = testing::Daemon::Start({"--shutdown-budget-ms=2000"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto lender = Connect((*daemon)->address());
  Mount(*lender, "one");
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto client = Connect((*daemon)->address());
      for (int i = 0; !stop; ++i) {
        if (Put(*client, absl::StrCat(t, "-", i))) ++done;
      }
    });
  }
  EXPECT_TRUE(WaitFor([&] { return done > 200; }));
  (*daemon)->Signal(SIGTERM);
  (*daemon)->Signal(SIGTERM);  // a second one does no harm
  const std::optional<int> code = (*daemon)->Wait(seconds(8));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(code.has_value()) << "did not end in time";
  EXPECT_EQ(*code, 0) << (*daemon)->Output();
  EXPECT_THAT((*daemon)->Output(), HasSubstr("event=stopped"));
}

// A master that was stopped itself blames nobody.
TEST(DaemonTest, F40_AMasterThatWasStoppedExpiresNobody) {
  std::vector<std::string> flags = kShortTtl;
  flags.push_back("--stall-threshold-ms=1000");
  auto daemon = testing::Daemon::Start(flags);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<uint64_t> epochs;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect((*daemon)->address()));
    Mount(*clients.back(), absl::StrCat("segment-", i));
    epochs.push_back(clients.back()->client_epoch());
  }
  ASSERT_TRUE(Put(*clients[0], "key"));
  (*daemon)->Signal(SIGSTOP);
  std::this_thread::sleep_for(seconds(4));  // longer than two time-outs, as the field has seen it
  (*daemon)->Signal(SIGCONT);
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_TRUE(Exists(*clients[0], "key"));
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i]->client_epoch(), epochs[i]) << "client " << i << " was expired";
    EXPECT_EQ(clients[i]->MountedRegistrations().size(), 1u);
  }
}

// A client that dies takes its replicas with it, and only its own.
TEST(DaemonTest, R12_AClientThatFallsSilentExpiresAndNobodyElse) {
  auto daemon = testing::Daemon::Start(kShortTtl);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto staying = Connect((*daemon)->address());
  auto dying = Connect((*daemon)->address());
  Mount(*dying, "dying");
  ASSERT_TRUE(Put(*staying, "on the dying one"));
  Mount(*staying, "staying");
  const uint64_t epoch = staying->client_epoch();
  dying.reset();  // no unmount, no more heartbeats
  EXPECT_TRUE(WaitFor([&] { return !Exists(*staying, "on the dying one"); }));
  EXPECT_TRUE(Put(*staying, "on the staying one"));
  EXPECT_TRUE(Exists(*staying, "on the staying one"));
  EXPECT_EQ(staying->client_epoch(), epoch);
}

// A master that comes back knows nothing; its clients notice by themselves and lend their memory again.
TEST(DaemonTest, F83_ClientsMountAgainAfterTheMasterWasKilled) {
  auto first = testing::Daemon::Start(kShortTtl);
  ASSERT_TRUE(first.ok()) << first.status();
  const int port = (*first)->port();
  auto client = Connect((*first)->address());
  const uint64_t registration = Mount(*client, "one");
  ASSERT_TRUE(Put(*client, "old"));
  (*first)->Signal(SIGKILL);
  ASSERT_TRUE((*first)->Wait(seconds(5)).has_value());
  std::vector<std::string> flags = kShortTtl;
  flags.push_back(absl::StrCat("--listen=127.0.0.1:", port));
  auto second = testing::Daemon::Start(flags);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE(WaitFor([&] {
    const std::vector<uint64_t> mounted = client->MountedRegistrations();
    return mounted.size() == 1 && mounted[0] != registration;
  }));
  EXPECT_FALSE(Exists(*client, "old"));
  EXPECT_TRUE(WaitFor([&] { return Put(*client, "new"); }));
  EXPECT_TRUE(Exists(*client, "new"));
}

// A client that pings too often is cut off, comes back, and harms nobody else.
TEST(DaemonTest, F99_AClientThatPingsTooOftenIsCutOffAndComesBack) {
  auto daemon = testing::Daemon::Start();
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel = grpc::CreateCustomChannel((*daemon)->address(), grpc::InsecureChannelCredentials(),
                                           arguments);
  auto admin = v1::AdminService::NewStub(channel);
  auto call = [&admin] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(5));
    context.set_wait_for_ready(true);
    v1::GetStatusResponse response;
    return admin->GetStatus(&context, {}, &response).ok();
  };
  ASSERT_TRUE(call());
  EXPECT_TRUE(WaitFor([&] { return channel->GetState(false) != GRPC_CHANNEL_READY; }, seconds(20)))
      << "was not cut off";
  EXPECT_TRUE(call()) << "did not come back";
  EXPECT_NE(Connect((*daemon)->address()), nullptr);
}

}  // namespace
}  // namespace holdfast

// Start and stop of the daemon, in this process.

#include "server/app.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "holdfast/v1/store.grpc.pb.h"

namespace holdfast {
namespace {

Options FreePorts() {
  Options options;
  options.grpc.listen = "127.0.0.1:0";
  options.metrics_listen = "127.0.0.1:0";
  return options;
}

std::string ReadFile(const std::string& path) {
  std::string text;
  std::getline(std::ifstream(path), text);
  return text;
}

TEST(App, PortFileHoldsThePortThatIsServed) {
  Options options = FreePorts();
  options.port_file = absl::StrCat(::testing::TempDir(), "holdfast-app-", getpid(), ".port");
  const auto app = App::Start(options);
  ASSERT_TRUE(app.ok()) << app.status();
  EXPECT_GT((*app)->port(), 0);
  EXPECT_GT((*app)->metrics_port(), 0);
  EXPECT_EQ(ReadFile(options.port_file), absl::StrCat((*app)->port()));
  std::remove(options.port_file.c_str());
}

// Whoever waits for the file of a master that failed to start must not be sent to the one before.
TEST(App, FailedStartLeavesNoPortFileOfAnEarlierRun) {
  const auto first = App::Start(FreePorts());
  ASSERT_TRUE(first.ok()) << first.status();
  Options options = FreePorts();
  options.port_file = absl::StrCat(::testing::TempDir(), "holdfast-app-", getpid(), ".stale");
  std::ofstream(options.port_file) << "1\n";
  options.grpc.listen = absl::StrCat("127.0.0.1:", (*first)->port());
  EXPECT_EQ(App::Start(options).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(access(options.port_file.c_str(), F_OK), 0);
}

TEST(App, UnwritablePortFileFailsTheStart) {
  Options options = FreePorts();
  options.port_file = "/nonexistent/holdfast.port";
  const auto app = App::Start(options);
  ASSERT_FALSE(app.ok());
  EXPECT_NE(app.status().message().find(options.port_file), std::string::npos) << app.status();
}

TEST(App, MetricsPortInUseFailsTheStart) {
  const auto first = App::Start(FreePorts());
  ASSERT_TRUE(first.ok()) << first.status();
  Options options = FreePorts();
  options.metrics_listen = absl::StrCat("127.0.0.1:", (*first)->metrics_port());
  EXPECT_EQ(App::Start(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST(App, StopMayBeRepeated) {
  const auto app = App::Start(FreePorts());
  ASSERT_TRUE(app.ok()) << app.status();
  (*app)->Stop();
  (*app)->Stop();
}

TEST(App, MasterIdIsOfThisStartAndNotTheSeed) {
  Options options = FreePorts();
  options.master.seed = 42;
  uint64_t ids[2];
  for (uint64_t& id : ids) {
    const auto app = App::Start(options);
    ASSERT_TRUE(app.ok()) << app.status();
    auto stub = v1::StoreService::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", (*app)->port()), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::HeartbeatRequest request;
    request.set_client_id("0123456789abcdef");
    request.set_incarnation(1);
    request.set_protocol_version(1);
    v1::HeartbeatResponse response;
    ASSERT_TRUE(stub->Heartbeat(&context, request, &response).ok());
    id = response.master_id();
    EXPECT_NE(id, 0u);
    EXPECT_NE(id, 42u);
  }
  EXPECT_NE(ids[0], ids[1]);
}

}  // namespace
}  // namespace holdfast

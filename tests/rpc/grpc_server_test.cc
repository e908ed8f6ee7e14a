// The server's limits, seen from a client.

#include "server/rpc/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/store.grpc.pb.h"
#include "server/app.h"

namespace holdfast {
namespace {

class GrpcServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.grpc.listen = "127.0.0.1:0";
    options.metrics_listen = "127.0.0.1:0";
    options.start_workers = false;
    auto app = App::Start(options);
    ASSERT_TRUE(app.ok()) << app.status();
    app_ = *std::move(app);
    address_ = absl::StrCat("127.0.0.1:", app_->port());
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
    stub_ = v1::StoreService::NewStub(channel_);
  }

  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }

  std::unique_ptr<App> app_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::StoreService::Stub> stub_;
};

// With port sharing, which is gRPC's default, each of two masters would see half of the clients.
TEST_F(GrpcServerTest, SecondServerOnThePortIsRefusedWithTheReason) {
  rpc::GrpcServerOptions options;
  options.listen = address_;
  const auto second = rpc::GrpcServer::Start(options, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            absl::StrCat("cannot listen on ", address_, ": Address already in use"));
}

TEST_F(GrpcServerTest, MessageAboveTheLimitIsRefused) {
  v1::GetRequest request;
  request.add_keys(std::string(9 << 20, 'k'));
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetResponse response;
  EXPECT_EQ(stub_->Get(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServerTest, MetadataAboveTheLimitIsRefused) {
  grpc::ClientContext context;
  SetDeadline(&context);
  context.AddMetadata("x-large", std::string(16 * 1024, 'm'));
  v1::GetRequest request;
  request.add_keys("k");
  v1::GetResponse response;
  EXPECT_EQ(stub_->Get(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServerTest, CompressedMessageIsRefused) {
  grpc::ClientContext context;
  SetDeadline(&context);
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::GetRequest request;
  request.add_keys(std::string(1000, 'k'));
  v1::GetResponse response;
  EXPECT_EQ(stub_->Get(&context, request, &response).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

// The messages of the hot calls lie on arenas that are used again: nothing of one call may show in the next.
TEST_F(GrpcServerTest, CallsThatShareAnArenaDoNotSeeEachOther) {
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ExistsRequest request;
    const int keys = i % 2 == 0 ? 4096 : 1;
    for (int k = 0; k < keys; ++k) request.add_keys(absl::StrCat("key-", k));
    v1::ExistsResponse response;
    ASSERT_TRUE(stub_->Exists(&context, request, &response).ok());
    ASSERT_EQ(response.results_size(), keys);
    for (const v1::ItemResult& result : response.results()) {
      ASSERT_EQ(result.reason(), v1::REASON_OBJECT_NOT_FOUND);
    }
  }
}

// Load balancers and orchestrators ask this before they send anybody here. The messages are taken for ones of ours with
// the same layout: {string service = 1} and {enum status = 1}, where 1 is SERVING.
TEST_F(GrpcServerTest, HealthIsServing) {
  for (const std::string& service : {std::string(), std::string("holdfast.v1.StoreService")}) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListSegmentsRequest request;
    request.set_name(service);
    v1::ErrorDetail response;
    const grpc::Status status = grpc::internal::BlockingUnaryCall(
        channel_.get(),
        grpc::internal::RpcMethod("/grpc.health.v1.Health/Check",
                                  grpc::internal::RpcMethod::NORMAL_RPC),
        &context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(static_cast<int>(response.reason()), 1) << service;
  }
}

TEST_F(GrpcServerTest, CallWithoutSessionIsABadId) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::PutStartRequest request;
  request.add_items()->set_key("k");
  v1::PutStartResponse response;
  const grpc::Status status = stub_->PutStart(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::RequestStatus full;
  ASSERT_TRUE(full.ParseFromString(status.error_details()));
  v1::ErrorDetail detail;
  ASSERT_EQ(full.details_size(), 1);
  ASSERT_TRUE(full.details(0).UnpackTo(&detail));
  EXPECT_EQ(detail.reason(), v1::REASON_BAD_ID);
}

}  // namespace
}  // namespace holdfast

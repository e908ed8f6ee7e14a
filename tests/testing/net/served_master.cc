#include "tests/testing/net/served_master.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

namespace holdfast::testing {

void ServedMasterTest::SetUp() {
  Options options;
  options.grpc.listen = "127.0.0.1:0";
  options.metrics_listen = "off";  // its server takes two seconds to stop
  options.log_level = "off";
  options.start_workers = false;
  Configure(&options);
  auto app = App::Start(options);
  ASSERT_TRUE(app.ok()) << app.status();
  app_ = *std::move(app);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(16 << 20);
  auto channel =
      grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
  admin_ = v1::AdminService::NewStub(channel);
  store_ = v1::StoreService::NewStub(channel);
}

std::unique_ptr<Client> ServedMasterTest::Connect() {
  ClientOptions options;
  options.master = address();
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

uint64_t ServedMasterTest::Mount(Client& client, const std::string& name) {
  SegmentOptions segment;
  segment.name = name;
  segment.endpoint = name + ":9000";
  segment.host = name;
  segment.base = next_base_;
  segment.size_bytes = 64 << 20;
  next_base_ += segment.size_bytes;
  auto registration = client.MountSegment(segment);
  EXPECT_TRUE(registration.ok()) << registration.status();
  return registration.value_or(0);
}

namespace {

std::vector<uint64_t> PutWith(Client& client, const PutItem& item, const PutOptions& options) {
  std::vector<uint64_t> registrations;
  auto started = client.PutStart({&item, 1}, options);
  EXPECT_TRUE(started.ok()) << started.status();
  if (!started.ok() || !started->front().status.ok()) {
    ADD_FAILURE() << "put start of " << item.key;
    return registrations;
  }
  for (const ReplicaLocation& replica : started->front().replicas) {
    registrations.push_back(replica.segment->registration_id);
  }
  const PutRef put{item.key, started->front().put_id};
  auto ended = client.PutEnd({&put, 1});
  EXPECT_TRUE(ended.ok() && ended->front().ok()) << "put end of " << item.key;
  return registrations;
}

}  // namespace

std::vector<uint64_t> ServedMasterTest::Put(Client& client, const std::string& key,
                                            uint32_t replicas) {
  return PutWith(client, {key, 4096, replicas}, {});
}

std::vector<uint64_t> ServedMasterTest::PutOn(Client& client, const std::string& key,
                                              const std::string& segment) {
  PutOptions options;
  options.preferred_segments = {segment};
  return PutWith(client, {key, 4096, 1}, options);
}

void ServedMasterTest::Sweep() {
  while (app_->sweep_pass().Run()) {
  }
}

std::vector<std::string> ServedMasterTest::ListKeys(std::optional<bool> filter_invalid) {
  grpc::ClientContext context;
  v1::ListKeysRequest request;
  if (filter_invalid.has_value()) request.set_filter_invalid(*filter_invalid);
  auto reader = admin_->ListKeys(&context, request);
  std::vector<std::string> keys;
  for (v1::ListKeysResponse page; reader->Read(&page);) {
    for (const v1::ListedKey& key : page.keys()) keys.push_back(key.key());
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::sort(keys.begin(), keys.end());
  return keys;
}

v1::GetStatusResponse ServedMasterTest::Status() {
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  const grpc::Status status = admin_->GetStatus(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

}  // namespace holdfast::testing

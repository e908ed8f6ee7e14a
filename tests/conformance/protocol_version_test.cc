// No rolling upgrade is promised: client and master say which protocol they speak, and part when it is not the same.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "holdfast/client.h"
#include "server/rpc/store_service.h"
#include "tests/testing/net/served_master.h"

namespace holdfast {
namespace {

class ProtocolVersionTest : public testing::ServedMasterTest {
 protected:
  grpc::Status Open(uint32_t version) {
    v1::HeartbeatRequest request;
    request.set_client_id(std::string(16, 'c'));
    request.set_incarnation(1);
    request.set_protocol_version(version);
    grpc::ClientContext context;
    return store_->Heartbeat(&context, request, &response_);
  }

  v1::HeartbeatResponse response_;
};

// Newer clients, and one from before there were versions, whose field is not set.
TEST_F(ProtocolVersionTest, R52_AClientOfAnotherVersionIsRefusedAndGetsNoSession) {
  for (const uint32_t version : {rpc::kProtocolVersion + 1, UINT32_MAX, 0u}) {
    const grpc::Status refused = Open(version);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << version;
    EXPECT_NE(refused.error_message().find(absl::StrCat("version ", version)), std::string::npos)
        << refused.error_message();
    // gRPC has its own uses of this code: the reason in the details is what a client acts on.
    EXPECT_EQ(ReasonOf(client::FromGrpc(refused, "open", address())), Reason::kProtocolMismatch);
    EXPECT_EQ(Status().clients(), 0u);
  }
  EXPECT_TRUE(Open(rpc::kProtocolVersion).ok());
  EXPECT_EQ(Status().clients(), 1u);
}

}  // namespace
}  // namespace holdfast

#include "server/base/listen_address.h"

#include <gtest/gtest.h>

namespace holdfast::base {
namespace {

TEST(ListenAddress, HostAndPortAreToldApart) {
  ListenAddress address;
  ASSERT_TRUE(ParseListenAddress("127.0.0.1:50051", &address));
  EXPECT_EQ(address.host, "127.0.0.1");
  EXPECT_EQ(address.port, "50051");
  ASSERT_TRUE(ParseListenAddress("[::1]:0", &address));
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, "0");
  ASSERT_TRUE(ParseListenAddress("localhost:65535", &address));
  EXPECT_EQ(address.host, "localhost");
}

TEST(ListenAddress, AnythingElseIsRefused) {
  ListenAddress address;
  for (const char* text : {"", ":", "50051", ":50051", "host", "host:", "host:x", "host:-1",
                           "host:+1", "host:65536", "host:99999999999", "::1:50051", "[]:1"}) {
    EXPECT_FALSE(ParseListenAddress(text, &address)) << text;
  }
}

TEST(ListenAddress, ReasonIsTheSystems) {
  EXPECT_EQ(WhyNotListening("192.0.2.1:0"), "Cannot assign requested address");
  EXPECT_EQ(WhyNotListening("nonsense"), "not HOST:PORT");
}

}  // namespace
}  // namespace holdfast::base

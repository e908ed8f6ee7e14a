// A master whose durable tier is a real S3 server behind a proxy that can be made to fail.

#ifndef HOLDFAST_TESTS_CONFORMANCE_PROXIED_STORE_H_
#define HOLDFAST_TESTS_CONFORMANCE_PROXIED_STORE_H_

#include <memory>
#include <string>

#include "tests/conformance/durable_master.h"
#include "tests/testing/store/fault_proxy.h"
#include "tests/testing/store/s3_server.h"

namespace holdfast::testing {

// Fixture.
class ProxiedStoreTest : public DurableMasterTest {
 protected:
  std::string StoreUri() override {
    S3Server* const s3 = S3Server::Shared();
    if (s3 == nullptr) return "";
    proxy_ = std::make_unique<FaultProxy>(s3->endpoint());
    const std::string prefix = S3Server::UniquePrefix();
    direct_ = s3->Uri(prefix);
    return s3->Uri(prefix, proxy_->endpoint());
  }

  std::unique_ptr<FaultProxy> proxy_;
  std::string direct_;  // the store, past the proxy
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_CONFORMANCE_PROXIED_STORE_H_

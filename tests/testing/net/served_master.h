// A whole daemon inside the test's process, on a real socket, with a clock and passes that the test drives.

#ifndef HOLDFAST_TESTS_TESTING_NET_SERVED_MASTER_H_
#define HOLDFAST_TESTS_TESTING_NET_SERVED_MASTER_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "holdfast/client.h"
#include "holdfast/v1/admin.grpc.pb.h"
#include "holdfast/v1/store.grpc.pb.h"
#include "server/app.h"

namespace holdfast::testing {

// Fixture. Background work runs only when the test asks for it, so "between the unmount and its sweep" can be looked at.
class ServedMasterTest : public ::testing::Test {
 protected:
  void SetUp() override;
  // Changes what the master is started with.
  virtual void Configure(Options* /*options*/) {}

  std::string address() const { return absl::StrCat("127.0.0.1:", app_->port()); }
  std::unique_ptr<Client> Connect();
  // Mounts 64 MiB under a name, over memory of its own. Returns the registration.
  uint64_t Mount(Client& client, const std::string& name);
  // Start and end; the registrations that it lies on.
  std::vector<uint64_t> Put(Client& client, const std::string& key, uint32_t replicas = 1);
  std::vector<uint64_t> PutOn(Client& client, const std::string& key, const std::string& segment);
  // Runs the sweep until nothing is left.
  void Sweep();
  // Everything that the listing of keys says. `filter_invalid` none: the field is not set.
  std::vector<std::string> ListKeys(std::optional<bool> filter_invalid);
  v1::GetStatusResponse Status();

  std::unique_ptr<App> app_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  std::unique_ptr<v1::StoreService::Stub> store_;

 private:
  uint64_t next_base_ = 1ull << 30;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_NET_SERVED_MASTER_H_

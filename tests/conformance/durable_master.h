// A master with a durable tier inside the test's process, and a client of it.

#ifndef HOLDFAST_TESTS_CONFORMANCE_DURABLE_MASTER_H_
#define HOLDFAST_TESTS_CONFORMANCE_DURABLE_MASTER_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/tier/open_object_store.h"
#include "tests/testing/net/served_master.h"

namespace holdfast::testing {

// Fixture. Names are deleted when the test says Retry.
class DurableMasterTest : public ServedMasterTest {
 protected:
  virtual std::string StoreUri() = 0;

  void Configure(Options* options) override {
    uri_ = StoreUri();
    ASSERT_NE(uri_, "");
    options->durable_store = uri_;
    options->master.durable_tier = true;
    options->master.ledger_tickets = 8;
    options->master.ledger_client_percent = 100;
    options->master.client_ttl_ms = 600'000;
  }
  void SetUp() override {
    ServedMasterTest::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(app_->master().Audit(), "");
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }

  // A directory that goes with the test.
  std::string FileUri() {
    char pattern[] = "/tmp/holdfast-durable-XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    return absl::StrCat("file://", directory_);
  }
  // Names that the store at `uri` holds, in order.
  static std::vector<std::string> StoredIn(const std::string& uri) {
    std::vector<std::string> names;
    auto store = tier::OpenObjectStore(uri);
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return names;
    const auto objects = (*store)->List("", "", 1000, absl::Now() + absl::Seconds(30));
    EXPECT_TRUE(objects.ok()) << objects.status();
    if (!objects.ok()) return names;
    for (const tier::StoredObject& object : *objects) names.push_back(object.name);
    return names;
  }
  std::vector<std::string> Stored() const { return StoredIn(uri_); }
  void Retry() {
    while (app_->retry_pass().Run().wait_ms() == 0) {
    }
  }
  FoundObject Get(const std::string& key) {
    auto found = client_->Get({&key, 1});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->front() : FoundObject();
  }
  StartedPut StartDurable(Client& client, const std::string& key,
                          std::chrono::milliseconds upload_timeout = {}) {
    PutItem item;
    item.key = key;
    item.size_bytes = 5;
    item.durability = Durability::kDurable;
    item.upload_timeout = upload_timeout;
    auto started = client.PutStart({&item, 1});
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() ? started->front() : StartedPut();
  }
  v1::LedgerStatus Ledger() { return Status().ledger(); }
  std::vector<v1::UnpublishedName> Unpublished() {
    grpc::ClientContext context;
    auto reader = admin_->ListUnpublished(&context, {});
    std::vector<v1::UnpublishedName> names;
    for (v1::ListUnpublishedResponse page; reader->Read(&page);) {
      names.insert(names.end(), page.names().begin(), page.names().end());
    }
    EXPECT_TRUE(reader->Finish().ok());
    return names;
  }

  std::string uri_;
  std::string directory_;
  std::unique_ptr<Client> client_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_CONFORMANCE_DURABLE_MASTER_H_

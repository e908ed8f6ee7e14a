// What a crash of the master costs, as the README states it.

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "holdfast/client.h"
#include "tests/testing/net/daemon.h"

namespace holdfast {
namespace {

class DurableCrashTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/holdfast-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    StartMaster();
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  void StartMaster() {
    auto started = testing::Daemon::Start({absl::StrCat("--durable-store=file://", directory_)});
    ASSERT_TRUE(started.ok()) << started.status();
    daemon_ = *std::move(started);
    ClientOptions options;
    options.master = daemon_->address();
    auto client = Client::Connect(options);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  FoundObject Get(const std::string& key) {
    auto found = client_->Get({&key, 1});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->front() : FoundObject();
  }
  // The name that it lies under. Nobody has read it, so it has no lease that a deletion would wait for.
  std::string PutDurable(const std::string& key) {
    const PutItem item{.key = key, .size_bytes = 5, .durability = Durability::kDurable};
    auto started = client_->PutStart({&item, 1});
    EXPECT_TRUE(started.ok()) << started.status();
    if (!started.ok()) return "";
    UploadResult uploaded = client_->Upload(started->front(), "bytes");
    const PutRef end{key, started->front().put_id, uploaded.outcome, uploaded.checksum};
    auto ended = client_->PutEnd({&end, 1});
    EXPECT_TRUE(ended.ok() && ended->front().ok()) << key;
    return started->front().object_name;
  }
  // "PARTITION/RUN" of a name.
  static std::string RunOf(const std::string& name) { return name.substr(0, name.rfind('/')); }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      if (!entry.is_regular_file()) continue;
      names.push_back(entry.path().string().substr(directory_.size() + 1));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string directory_;
  std::unique_ptr<testing::Daemon> daemon_;
  std::unique_ptr<Client> client_;
};

// The bytes in the store survive; that they are there, and which of them are owed, is forgotten. They lie below the prefix of the
// run that has ended, which no later run writes to or deletes from, so an operator can tell them from what is alive.
TEST_F(DurableCrashTest, R55_ACrashLeavesItsNamesBelowThePrefixOfThatRunAndNoLaterRunTouchesThem) {
  const std::string published = PutDurable("published");
  EXPECT_EQ(Get("published").object_name, published);
  const PutItem item{.key = "owed", .size_bytes = 5, .durability = Durability::kDurable};
  auto started = client_->PutStart({&item, 1});
  ASSERT_TRUE(started.ok()) << started.status();
  const std::string owed = started->front().object_name;
  ASSERT_TRUE(client_->Upload(started->front(), "bytes").status.ok());
  EXPECT_EQ(RunOf(owed), RunOf(published));
  client_.reset();
  daemon_->Signal(SIGKILL);
  ASSERT_TRUE(daemon_->Wait(std::chrono::seconds(10)).has_value());

  StartMaster();
  EXPECT_EQ(Get("published").status.reason, Reason::kObjectNotFound);
  for (const std::string key : {"published", "owed"}) {
    EXPECT_NE(RunOf(PutDurable(key)), RunOf(published));
    ASSERT_TRUE(client_->Remove({&key, 1})->front().ok());
  }
  daemon_->Signal(SIGTERM);  // deletes what it owes
  EXPECT_EQ(daemon_->Wait(std::chrono::seconds(30)), 0);
  std::vector<std::string> left = {published, owed};
  std::sort(left.begin(), left.end());
  EXPECT_EQ(Files(), left);
}

}  // namespace
}  // namespace holdfast

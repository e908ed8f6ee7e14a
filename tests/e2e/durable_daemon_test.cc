// The durable tier with the real programs: the daemon, the command line, files and a real S3 server.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "holdfast/client.h"
#include "server/tier/open_object_store.h"
#include "tests/testing/net/daemon.h"
#include "tests/testing/store/s3_server.h"
#include "tests/testing/store/scripted_server.h"

namespace holdfast {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A directory that goes with the test. In memory where there is such a place: an fsync a name is not what is tested.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    const bool memory = std::filesystem::is_directory("/dev/shm");
    std::string pattern = memory ? "/dev/shm/holdfast-XXXXXX" : "/tmp/holdfast-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Ran {
  int exit_code = -1;
  std::string output;
};

Ran Execute(const std::string& command) {
  Ran ran;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> block{};
  for (size_t got = 0; (got = fread(block.data(), 1, block.size(), pipe)) > 0;) {
    ran.output.append(block.data(), got);
  }
  ran.exit_code = WEXITSTATUS(pclose(pipe));
  return ran;
}

std::string Holdfast(const std::string& master, const std::string& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return absl::StrCat(self, "/holdfast --master=", master, " ", arguments);
}

std::unique_ptr<Client> Connect(const std::string& master, SessionEvents events = {}) {
  ClientOptions options;
  options.master = master;
  options.deadline = seconds(20);
  options.events = std::move(events);
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

template <typename Condition>
bool WaitFor(Condition condition, seconds timeout = seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

// The first three minutes of somebody who tries it, on S3.
TEST(DurableDaemonTest, R33_AFileGoesToS3AndComesBackByTheCommandLine) {
  auto s3 = testing::S3Server::Start();
  ASSERT_TRUE(s3.ok()) << s3.status();
  const std::string uri = (*s3)->Uri(testing::S3Server::UniquePrefix());
  auto daemon = testing::Daemon::Start({absl::StrCat("--durable-store=", uri)});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const ScratchDirectory scratch;
  const std::string in = scratch.path() + "/in";
  std::ofstream(in) << "bytes of an object\n";
  const std::string& master = (*daemon)->address();
  const Ran put = Execute(Holdfast(master, absl::StrCat("object put k --file=", in)));
  EXPECT_EQ(put.exit_code, 0) << put.output;
  const Ran show = Execute(Holdfast(master, "object show k"));
  EXPECT_THAT(show.output, HasSubstr("published"));
  const Ran get =
      Execute(Holdfast(master, absl::StrCat("object get k --file=", scratch.path(), "/out")));
  EXPECT_EQ(get.exit_code, 0) << get.output;
  std::ifstream out(scratch.path() + "/out");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(out), {}), "bytes of an object\n");
  // A file of the user is not written over.
  EXPECT_EQ(Execute(Holdfast(master, absl::StrCat("object get k --file=", scratch.path(), "/out")))
                .exit_code,
            2);
  EXPECT_EQ(Execute(Holdfast(master, "object remove k --force")).exit_code, 0);
  auto store = tier::OpenObjectStore(uri);
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(WaitFor([&] {
    const auto objects = (*store)->List("", "", 10, absl::Now() + absl::Seconds(5));
    return objects.ok() && objects->empty();
  })) << "the lease of the get is over after ten seconds, then it is deleted";
  EXPECT_THAT(Execute(Holdfast(master, "cleanup status")).output, HasSubstr("deleted names"));
}

// Promise 2, by the clock on the wall: the uploader is heard no more, and its name is deleted by the master.
TEST(DurableDaemonTest, R35_ANameOfAnUploaderThatFallsSilentIsDeleted) {
  const ScratchDirectory scratch;
  auto daemon = testing::Daemon::Start({absl::StrCat("--durable-store=file://", scratch.path()),
                                        "--client-ttl-ms=1000", "--client-ttl-min-ms=500",
                                        "--heartbeat-interval-ms=200", "--upload-grace-ms=500",
                                        "--mass-expiry-grace-ms=100"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const std::string& master = (*daemon)->address();
  auto client = Connect(master);
  PutItem item;
  item.key = "k";
  item.size_bytes = 5;
  item.durability = Durability::kDurable;
  item.upload_timeout = milliseconds(500);
  auto started = client->PutStart({&item, 1});
  ASSERT_TRUE(started.ok() && started->front().status.ok());
  ASSERT_TRUE(client->Upload(started->front(), "bytes").status.ok());
  client.reset();  // no Close: only silence
  auto store = tier::OpenObjectStore(absl::StrCat("file://", scratch.path()));
  ASSERT_TRUE(store.ok());
  const auto stored = [&] { return (*store)->List("", "", 10, absl::InfiniteFuture())->size(); };
  EXPECT_EQ(stored(), 1u);
  EXPECT_THAT(Execute(Holdfast(master, "cleanup list --output=json")).output,
              HasSubstr("object_name"));
  EXPECT_TRUE(WaitFor([&] { return stored() == 0; }));
  EXPECT_TRUE(WaitFor([&] {
    return Execute(Holdfast(master, "cleanup list --output=json")).output.find("object_name") ==
           std::string::npos;
  })) << "R54: the ledger is empty in the end";
}

// R46: a store that hangs does not hold up the end, and what is left is said.
TEST(DurableDaemonTest, R46_SigtermWithAHangingStoreEndsInTimeAndReportsWhatIsLeft) {
  std::atomic<bool> hang{false};
  testing::ScriptedServer server([&hang](const testing::ScriptedRequest& request) {
    testing::ScriptedReply reply;
    reply.hang = hang && request.method != "PUT";
    return reply;
  });
  setenv("AWS_ACCESS_KEY_ID", "id", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  auto daemon = testing::Daemon::Start({absl::StrCat(
      "--durable-store=s3://bucket/x?endpoint=", server.endpoint(), "&path_style=true")});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  hang = true;
  {
    auto client = Connect((*daemon)->address());
    ASSERT_TRUE(client->PutDurable("k", "bytes").status.ok());
    const std::string key = "k";
    ASSERT_TRUE(client->Remove({&key, 1})->front().ok());
    ASSERT_TRUE(client->Close().ok());
  }
  const auto start = std::chrono::steady_clock::now();
  (*daemon)->Signal(SIGTERM);
  EXPECT_EQ((*daemon)->Wait(seconds(30)), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(15));
  EXPECT_THAT((*daemon)->Output(), HasSubstr("event=names_left prefix=00000000/"));
  EXPECT_THAT((*daemon)->Output(), HasSubstr("tickets=1"));
}

// What can be deleted in the budget is deleted before the end.
TEST(DurableDaemonTest, R46_SigtermDeletesWhatIsOwedFirst) {
  const ScratchDirectory scratch;
  auto daemon = testing::Daemon::Start({absl::StrCat("--durable-store=file://", scratch.path())});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto client = Connect((*daemon)->address());
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back(absl::StrCat("k", i));
    ASSERT_TRUE(client->PutDurable(keys.back(), "bytes").status.ok());
  }
  ASSERT_TRUE(client->Remove(keys).ok());
  (*daemon)->Signal(SIGTERM);
  EXPECT_EQ((*daemon)->Wait(seconds(30)), 0);
  auto store = tier::OpenObjectStore(absl::StrCat("file://", scratch.path()));
  EXPECT_TRUE((*store)->List("", "", 1, absl::InfiniteFuture())->empty());
  EXPECT_THAT((*daemon)->Output(), ::testing::Not(HasSubstr("names_left")));
}

TEST(DurableDaemonTest, R18_AStoreThatCannotBeUsedIsAnErrorAtTheStart) {
  const auto nonsense = testing::Daemon::RunToEnd({"--durable-store=ftp://x"});
  EXPECT_NE(nonsense.exit_code, 0);
  EXPECT_THAT(nonsense.output, HasSubstr("ftp://x"));
  const auto missing = testing::Daemon::RunToEnd({"--durable-store=file:///proc/nowhere"});
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.output, HasSubstr("/proc/nowhere"));
}

// --- kill -9 ---

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    names.push_back(entry.path().string().substr(directory.size() + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Starts the command line's put of a file, and kills it after so long unless it has ended.
void PutAndKill(const std::string& master, const std::string& key, const std::string& file,
                std::chrono::microseconds after) {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/holdfast";
  const std::string to = "--master=" + master;
  const std::string from = "--file=" + file;
  std::array<const char*, 7> arguments = {program.c_str(), to.c_str(),   "object", "put",
                                          key.c_str(),     from.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, program.c_str(), &actions, nullptr,
                        const_cast<char**>(arguments.data()), environ),
            0);
  posix_spawn_file_actions_destroy(&actions);
  std::this_thread::sleep_for(after);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

// Promise 2 against the hardest death: a hundred uploaders are killed at random moments, and in the end the store holds exactly
// the published objects, down to the half-written files.
TEST(DurableDaemonTest, R35_R50_R54_AHundredUploadersKilledLeaveExactlyThePublishedObjects) {
  constexpr int kKills = 100;
  const ScratchDirectory store;
  const ScratchDirectory scratch;
  auto daemon = testing::Daemon::Start({absl::StrCat("--durable-store=file://", store.path()),
                                        "--client-ttl-ms=1000", "--client-ttl-min-ms=500",
                                        "--heartbeat-interval-ms=200", "--upload-timeout-ms=1000",
                                        "--upload-grace-ms=300", "--mass-expiry-grace-ms=100"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const std::string& master = (*daemon)->address();
  const std::string payload(8 << 20, 'x');
  const std::string file = scratch.path() + "/payload";
  std::ofstream(file) << payload;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(Execute(Holdfast(master, absl::StrCat("object put whole --file=", file))).exit_code, 0);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  std::mt19937_64 random(20);
  std::uniform_int_distribution<int64_t> moment(0, whole.count() * 6 / 5);
  std::vector<std::string> keys = {"whole"};
  for (int i = 0; i < kKills; ++i) {
    keys.push_back(absl::StrCat("k", i));
    PutAndKill(master, keys.back(), file, std::chrono::microseconds(moment(random)));
  }
  EXPECT_TRUE(WaitFor([&] {
    return Execute(Holdfast(master, "status --output=json"))
               .output.find("\"tickets_used\":\"0\"") != std::string::npos;
  }));
  auto client = Connect(master);
  auto found = client->Get(keys);
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<std::string> published;
  for (const FoundObject& object : *found) {
    if (!object.status.ok()) continue;
    published.push_back(object.object_name);
    auto bytes = client->ReadDurable(object);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(*bytes == payload);
  }
  std::sort(published.begin(), published.end());
  EXPECT_EQ(FilesIn(store.path()), published);
  const std::string status = Execute(Holdfast(master, "status --output=json")).output;
  EXPECT_THAT(status, ::testing::Not(HasSubstr("\"deleted_names\":\"0\"")))
      << "somebody was killed between ticket and publication";
  RecordProperty("published", static_cast<int>(published.size()));
}

// --- R63 ---

uint64_t Sum(const std::string& bytes) {
  uint64_t sum = 0;
  for (const char byte : bytes) sum = sum * 31 + static_cast<uint8_t>(byte);
  return sum;
}

std::string PayloadOf(int row) {
  return absl::StrCat("row ", row, std::string(static_cast<size_t>(row % 97), '.'));
}

// Uploads its half of the rows and hands them over in batches.
void UploadRows(Client* client, const std::array<uint8_t, 16>& coordinator, int first, int rows,
                const std::string& prefix) {
  constexpr int kBatch = 50;
  uint64_t sequence = 0;
  for (int at = first; at < first + rows; at += kBatch) {
    std::vector<PutItem> items(kBatch);
    for (int i = 0; i < kBatch; ++i) {
      items[static_cast<size_t>(i)].key = absl::StrCat(prefix, at + i);
      items[static_cast<size_t>(i)].size_bytes = PayloadOf(at + i).size();
      items[static_cast<size_t>(i)].durability = Durability::kDurable;
    }
    auto started = client->PutStart(items);
    ASSERT_TRUE(started.ok()) << started.status();
    std::vector<PutRef> puts;
    for (int i = 0; i < kBatch; ++i) {
      const StartedPut& put = (*started)[static_cast<size_t>(i)];
      ASSERT_TRUE(put.status.ok()) << put.status.message;
      UploadResult uploaded = client->Upload(put, PayloadOf(at + i));
      ASSERT_TRUE(uploaded.status.ok()) << uploaded.status.message;
      puts.push_back(
          {items[static_cast<size_t>(i)].key, put.put_id, uploaded.outcome, uploaded.checksum});
    }
    auto offered = client->OfferPuts(coordinator, 1, sequence, puts);
    ASSERT_TRUE(offered.ok()) << offered.status();
    sequence = offered->next_sequence;
  }
}

// Two uploaders, one coordinator, one master, five thousand objects, twice on the same instance: count, sizes and checksums
// as the driver computes them.
TEST(DurableDaemonTest, R63_FiveThousandObjectsThroughTwoUploadersAndACoordinatorTwice) {
  constexpr int kRows = 5000;
  const ScratchDirectory scratch;
  auto daemon = testing::Daemon::Start(
      {absl::StrCat("--durable-store=file://", scratch.path()), "--heartbeat-interval-ms=20"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  const std::string& master = (*daemon)->address();
  for (int round = 0; round < 2; ++round) {
    const std::string prefix = absl::StrCat("round-", round, "-");
    absl::Mutex mu;
    std::map<std::pair<std::array<uint8_t, 16>, uint64_t>, OfferedPut> noted;
    SessionEvents events;
    events.on_offers = [&](const std::vector<OfferedPut>& puts) {
      absl::MutexLock lock(&mu);
      for (const OfferedPut& put : puts) noted[{put.from_client_id, put.sequence}] = put;
    };
    auto coordinator = Connect(master, events);
    auto one = Connect(master);
    auto two = Connect(master);
    std::thread first(
        [&] { UploadRows(one.get(), coordinator->client_id(), 0, kRows / 2, prefix); });
    std::thread second(
        [&] { UploadRows(two.get(), coordinator->client_id(), kRows / 2, kRows / 2, prefix); });
    int published = 0;
    std::map<std::array<uint8_t, 16>, uint64_t> acknowledged;
    const auto deadline = std::chrono::steady_clock::now() + seconds(90);
    while (published < kRows && std::chrono::steady_clock::now() < deadline) {
      std::vector<PutRef> ends;
      for (const auto& sender : {one->client_id(), two->client_id()}) {
        uint64_t& next = acknowledged[sender];
        const uint64_t before = next;
        {
          absl::MutexLock lock(&mu);
          while (noted.contains({sender, next})) ++next;
        }
        if (next == before) continue;
        auto moved = coordinator->AcknowledgeOffers(sender, 1, next);
        ASSERT_TRUE(moved.ok()) << moved.status();
        ASSERT_EQ(*moved, next);
        absl::MutexLock lock(&mu);
        for (uint64_t sequence = before; sequence < next; ++sequence) {
          const OfferedPut& put = noted.at({sender, sequence});
          ends.push_back({put.key, put.put_id, UploadOutcome::kFinished, put.checksum});
        }
      }
      if (ends.empty()) {
        std::this_thread::sleep_for(milliseconds(2));
        continue;
      }
      auto ended = coordinator->PutEnd(ends);
      ASSERT_TRUE(ended.ok()) << ended.status();
      for (const ItemStatus& status : *ended) ASSERT_TRUE(status.ok()) << status.message;
      published += static_cast<int>(ends.size());
    }
    first.join();
    second.join();
    ASSERT_EQ(published, kRows);
    for (int row = 0; row < kRows; row += 1) {
      const std::string key = absl::StrCat(prefix, row);
      auto found = coordinator->Get({&key, 1});
      ASSERT_TRUE(found.ok() && found->front().status.ok()) << key;
      ASSERT_EQ(found->front().size_bytes, PayloadOf(row).size());
      auto bytes = coordinator->ReadDurable(found->front());
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      ASSERT_EQ(Sum(*bytes), Sum(PayloadOf(row))) << key;
    }
  }
  const Ran status = Execute(Holdfast(master, "status --output=json"));
  EXPECT_THAT(status.output, HasSubstr("\"tickets_used\":\"0\""));
  EXPECT_THAT(status.output, HasSubstr("\"published_names\":\"10000\""));
}

}  // namespace
}  // namespace holdfast

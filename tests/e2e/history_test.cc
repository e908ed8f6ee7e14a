// A recorded history of many clients over gRPC, checked for what an unmount promises.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "holdfast/client.h"
#include "tests/testing/net/daemon.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kReaders = 6;
constexpr int kRounds = 8;
constexpr int kSegments = 4;
constexpr int kKeysPerRound = 400;
constexpr int kBatch = 64;

uint64_t SeedOfThisRun() {
  const char* text = std::getenv("HOLDFAST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  std::printf("HOLDFAST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// What one read of one key said.
struct Read {
  Clock::time_point start;
  Clock::time_point end;
  int key = 0;
  bool found = false;
  std::vector<uint64_t> registrations;  // of the answer; empty for Exists
};

struct Unmount {
  Clock::time_point start;
  Clock::time_point end;
};

// One run: what was done and what was seen.
struct History {
  std::map<uint64_t, Unmount> unmounts;    // by registration
  std::vector<std::set<uint64_t>> placed;  // registrations of each key, as its put said
  std::vector<Read> reads;

  // Each violation in words; empty if the promise was kept.
  std::vector<std::string> Violations() const;
};

std::vector<std::string> History::Violations() const {
  std::vector<std::string> wrong;
  // When somebody first saw a key hidden that lay on this registration only.
  std::map<uint64_t, Clock::time_point> hidden;
  for (const Read& read : reads) {
    const std::set<uint64_t>& on = placed[static_cast<size_t>(read.key)];
    if (read.found || on.size() != 1) continue;
    const uint64_t registration = *on.begin();
    auto unmount = unmounts.find(registration);
    if (unmount == unmounts.end() || read.end < unmount->second.start) continue;  // said below
    auto [it, is_new] = hidden.emplace(registration, read.end);
    it->second = std::min(it->second, read.end);
  }
  for (const Read& read : reads) {
    for (uint64_t registration : read.registrations) {
      auto unmount = unmounts.find(registration);
      if (unmount != unmounts.end() && read.start > unmount->second.end) {
        wrong.push_back(absl::StrCat("key ", read.key, " was read from ", registration,
                                     " after its unmount had returned"));
      }
      auto seen = hidden.find(registration);
      if (seen != hidden.end() && read.start > seen->second) {
        wrong.push_back(absl::StrCat("key ", read.key, " was read from ", registration,
                                     " after another key had been seen hidden"));
      }
      if (!placed[static_cast<size_t>(read.key)].contains(registration)) {
        wrong.push_back(absl::StrCat("key ", read.key, " was read from a segment it never lay on"));
      }
    }
    // A copy on a segment that nobody has begun to unmount keeps the key readable.
    if (read.found) continue;
    for (uint64_t registration : placed[static_cast<size_t>(read.key)]) {
      auto unmount = unmounts.find(registration);
      if (unmount == unmounts.end() || read.end < unmount->second.start) {
        wrong.push_back(absl::StrCat("key ", read.key, " was lost with a copy left"));
      }
    }
  }
  return wrong;
}

std::string KeyName(int key) { return absl::StrCat("history-", key); }

std::unique_ptr<Client> Connect(const testing::Daemon& daemon) {
  ClientOptions options;
  options.master = daemon.address();
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

class HistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto daemon = testing::Daemon::Start();
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }

  // Mounts a segment of `lender`, under its name of before, over other memory: that of a segment that has left is given
  // out only after its sweep and its leases, and the next puts must not have to wait for them.
  uint64_t Mount(Client& lender, int number) {
    SegmentOptions segment;
    segment.name = absl::StrCat("segment-", number);
    segment.host = absl::StrCat("host-", number);
    segment.base = next_base_;
    segment.size_bytes = 64ull << 20;
    next_base_ += segment.size_bytes;
    auto registration = lender.MountSegment(segment);
    EXPECT_TRUE(registration.ok()) << registration.status();
    return registration.value_or(0);
  }

  // Puts the next keys, every third with two copies, and notes where they lie.
  void PutKeys(Client& writer, int count) {
    std::vector<PutItem> items;
    for (int i = 0; i < count; ++i) {
      const int key = static_cast<int>(history_.placed.size()) + i;
      items.push_back({KeyName(key), 4096, key % 3 == 0 ? 2u : 1u});
    }
    auto started = writer.PutStart(items);
    ASSERT_TRUE(started.ok()) << started.status();
    std::vector<PutRef> puts;
    for (size_t i = 0; i < items.size(); ++i) {
      ASSERT_TRUE((*started)[i].status.ok()) << (*started)[i].status.message;
      std::set<uint64_t> on;
      for (const ReplicaLocation& replica : (*started)[i].replicas) {
        on.insert(replica.segment->registration_id);
      }
      history_.placed.push_back(on);
      puts.push_back({items[i].key, (*started)[i].put_id});
    }
    auto ended = writer.PutEnd(puts);
    ASSERT_TRUE(ended.ok()) << ended.status();
    for (const ItemStatus& status : *ended) ASSERT_TRUE(status.ok()) << status.message;
  }

  void ReadUntilStopped(uint64_t seed, const std::atomic<bool>& stop) {
    auto client = Connect(*daemon_);
    ASSERT_NE(client, nullptr);
    std::mt19937_64 random(seed);
    std::vector<Read> reads;
    const int keys = static_cast<int>(history_.placed.size());
    while (!stop) {
      std::vector<std::string> names;
      std::vector<int> numbers;
      for (int i = 0; i < kBatch; ++i) {
        numbers.push_back(static_cast<int>(random() % static_cast<uint64_t>(keys)));
        names.push_back(KeyName(numbers.back()));
      }
      const bool get = random() % 2 == 0;
      Read read;
      read.start = Clock::now();
      if (get) {
        auto found = client->Get(names);
        read.end = Clock::now();
        ASSERT_TRUE(found.ok()) << found.status();
        for (size_t i = 0; i < names.size(); ++i) {
          Read one = read;
          one.key = numbers[i];
          one.found = (*found)[i].status.ok();
          for (const ReplicaLocation& replica : (*found)[i].replicas) {
            one.registrations.push_back(replica.segment->registration_id);
          }
          ASSERT_EQ(one.found, !one.registrations.empty()) << "found without a place to read from";
          reads.push_back(std::move(one));
        }
      } else {
        auto exists = client->Exists(names);
        read.end = Clock::now();
        ASSERT_TRUE(exists.ok()) << exists.status();
        for (size_t i = 0; i < names.size(); ++i) {
          Read one = read;
          one.key = numbers[i];
          one.found = (*exists)[i].ok();
          reads.push_back(std::move(one));
        }
      }
    }
    std::lock_guard<std::mutex> lock(mu_);
    history_.reads.insert(history_.reads.end(), reads.begin(), reads.end());
  }

  void UnmountAndNote(Client& lender, uint64_t registration) {
    Unmount unmount;
    unmount.start = Clock::now();
    const absl::Status status = lender.UnmountSegment(registration);
    unmount.end = Clock::now();
    ASSERT_TRUE(status.ok()) << status;
    std::lock_guard<std::mutex> lock(mu_);
    history_.unmounts[registration] = unmount;
  }

  std::unique_ptr<testing::Daemon> daemon_;
  uint64_t next_base_ = 1ull << 40;
  std::mutex mu_;
  History history_;
};

// The promise that everything else is built on: when UnmountSegment has returned, no read that starts sees the segment,
// and no two clients can tell a story in which it went and came back.
TEST_F(HistoryTest, R2_R3_NoReadSeesASegmentAfterItsUnmountReturned) {
  std::mt19937_64 random(SeedOfThisRun());
  std::vector<std::unique_ptr<Client>> lenders;
  std::vector<uint64_t> mounted;
  for (int i = 0; i < kSegments; ++i) {
    lenders.push_back(Connect(*daemon_));
    ASSERT_NE(lenders.back(), nullptr);
    mounted.push_back(Mount(*lenders.back(), i));
  }
  for (int round = 0; round < kRounds; ++round) {
    PutKeys(*lenders[0], kKeysPerRound);
    if (HasFatalFailure()) return;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < kReaders; ++i) {
      threads.emplace_back([this, seed = random(), &stop] { ReadUntilStopped(seed, stop); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 20));
    // Two of the four leave together under the reads and come back as new registrations of the same name.
    std::vector<std::thread> unmounts;
    const size_t first = random() % kSegments;
    const size_t leaving[] = {first, (first + 1) % kSegments};
    for (size_t i : leaving) {
      unmounts.emplace_back([&, i] { UnmountAndNote(*lenders[i], mounted[i]); });
    }
    for (std::thread& thread : unmounts) thread.join();
    for (size_t i : leaving) mounted[i] = Mount(*lenders[i], static_cast<int>(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
  const std::vector<std::string> wrong = history_.Violations();
  EXPECT_GT(history_.reads.size(), 10'000u) << "too few reads to say anything";
  EXPECT_TRUE(wrong.empty()) << wrong.size() << " violations, the first: " << wrong.front();
}

// The checker itself: each kind of violation is one.
TEST(HistoryCheckTest, PlantedViolationsAreFound) {
  const Clock::time_point t0{};
  auto at = [t0](int ms) { return t0 + std::chrono::milliseconds(ms); };
  History history;
  history.placed = {{1}, {1}, {1, 2}};
  history.unmounts[1] = {at(10), at(20)};
  history.reads = {{at(1), at(2), 0, true, {1}}, {at(12), at(14), 0, false, {}}};
  EXPECT_TRUE(history.Violations().empty());

  History late = history;
  late.reads.push_back({at(21), at(22), 1, true, {1}});
  EXPECT_EQ(late.Violations().size(), 2u);  // after the return, and after a key was seen hidden

  History back = history;
  back.reads.push_back({at(15), at(30), 1, true, {1}});
  EXPECT_EQ(back.Violations().size(), 1u);

  History lost = history;
  lost.reads.push_back({at(30), at(31), 2, false, {}});
  EXPECT_EQ(lost.Violations().size(), 1u);

  History early = history;
  early.reads.push_back({at(3), at(4), 1, false, {}});
  EXPECT_GE(early.Violations().size(), 1u);
}

}  // namespace
}  // namespace holdfast

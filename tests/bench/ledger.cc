#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "holdfast/client.h"
#include "server/core/unpublished_ledger.h"
#include "server/tier/open_object_store.h"
#include "tests/bench/load.h"
#include "tests/bench/verbs.h"
#include "tests/testing/net/daemon.h"

namespace holdfast::bench {
namespace {

constexpr uint32_t kTickets = 65'536;
constexpr size_t kRoundsMin = 3;
constexpr size_t kMintedBytes = 34;  // of a name behind its partition

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// A full ledger, everything queued for retry. What it keeps, measured as the growth of this process.
uint64_t RetainedBytes(size_t name_bytes, uint32_t objects_per_task) {
  core::MasterOptions options;
  options.durable_tier = true;
  options.ledger_tickets = kTickets;
  options.ledger_client_percent = 100;
  options.name_partition = std::string(name_bytes - kMintedBytes, 'p');
  std::vector<core::DurableEnd> task;
  task.reserve(objects_per_task);
  const uint64_t before = ResidentBytes();
  core::UnpublishedLedger ledger(options);
  for (uint32_t i = 0; i < kTickets; ++i) {
    core::TicketId ticket;
    if (ledger.Reserve(core::ClientEpoch{1}, 0, &ticket) != core::Reason::kNone) {
      throw std::runtime_error("the ledger is full too early");
    }
    task.push_back({ticket, false, core::UploadOutcome::kFinished, 0});
    if (task.size() < objects_per_task) continue;
    ledger.Settle(task, 0);
    task.clear();
  }
  const core::LedgerCounts counts = ledger.Count(0);
  if (counts.pending_names != kTickets || counts.pending_tasks != kTickets / objects_per_task) {
    throw std::runtime_error("not all names are queued");
  }
  return ResidentBytes() - before;
}

// In a process of its own, whose heap nobody has used before.
uint64_t RetainedBytesInAChild(size_t name_bytes, uint32_t objects_per_task) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t bytes = RetainedBytes(name_bytes, objects_per_task);
    const bool told = write(ends[1], &bytes, sizeof(bytes)) == sizeof(bytes);
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  uint64_t bytes = 0;
  const bool heard = read(ends[0], &bytes, sizeof(bytes)) == sizeof(bytes);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (!heard) throw std::runtime_error("the child did not answer");
  return bytes;
}

// One side of the comparison: the same calls and the same upload, with a ticket or without.
class Cycles {
 public:
  Cycles(const std::string& master, const LedgerOverheadFlags& flags, const std::string& directory,
         uint64_t bytes)
      : bytes_(bytes),
        cycles_per_thread_(bytes > (16 << 20) ? 2 : 60),
        latency_seconds_(flags.store_latency_ms / 1000.0),
        directory_(directory) {
    auto store = tier::OpenObjectStore(absl::StrCat("file://", directory));
    if (!store.ok()) throw std::runtime_error(store.status().ToString());
    store_ = *std::move(store);
    for (int i = 0; i < kThreads; ++i) {
      ClientOptions options;
      options.master = master;
      options.deadline = std::chrono::seconds(60);
      auto client = Client::Connect(options);
      if (!client.ok()) throw std::runtime_error(client.status().ToString());
      clients_.push_back(*std::move(client));
    }
    SegmentOptions segment;
    segment.name = "memory";
    segment.base = 1ull << 40;
    segment.size_bytes = 1ull << 40;
    if (!clients_[0]->MountSegment(segment).ok()) throw std::runtime_error("mount failed");
  }

  // Milliseconds a cycle.
  double Sample(bool with_ledger) {
    const Clock::time_point start = Clock::now();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t, with_ledger] {
        for (int i = 0; i < cycles_per_thread_; ++i)
          Cycle(clients_[static_cast<size_t>(t)].get(), with_ledger);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const double seconds = SecondsSince(start);
    if (failed_) throw std::runtime_error("a cycle failed");
    // What was accepted is not deleted by anybody; the room is needed.
    std::filesystem::remove_all(directory_ + "/base");
    std::filesystem::remove_all(directory_ + "/00000000");
    return seconds * 1000 / cycles_per_thread_;
  }

 private:
  static constexpr int kThreads = 4;

  void Cycle(Client* client, bool with_ledger) {
    const uint64_t number = next_++;
    PutItem item;
    item.key = absl::StrCat("key-", number);
    item.size_bytes = bytes_;
    item.durability = with_ledger ? Durability::kDurable : Durability::kMemory;
    auto started = client->PutStart({&item, 1});
    if (!started.ok() || !started->front().status.ok()) {
      failed_ = true;
      return;
    }
    std::string payload(bytes_, 'x');
    if (latency_seconds_ > 0) Sleep(latency_seconds_);  // a store that is far away, on both sides
    UploadResult uploaded;
    if (with_ledger) {
      uploaded = client->Upload(started->front(), std::move(payload));
    } else {
      const tier::UploadResult result =
          store_->Upload(absl::StrCat("base/", number), payload, absl::Now() + absl::Seconds(60));
      std::string().swap(payload);
      uploaded.outcome = result.state == tier::UploadState::kStored ? UploadOutcome::kFinished
                                                                    : UploadOutcome::kAmbiguous;
      uploaded.checksum = result.checksum;
    }
    const PutRef end{item.key, started->front().put_id, uploaded.outcome, uploaded.checksum};
    auto ended = client->PutEnd({&end, 1});
    if (uploaded.outcome != UploadOutcome::kFinished || !ended.ok() || !ended->front().ok()) {
      failed_ = true;
    }
  }

  const uint64_t bytes_;
  const int cycles_per_thread_;
  const double latency_seconds_;
  const std::string directory_;
  std::unique_ptr<tier::ObjectStore> store_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> failed_{false};
};

// Both sides in turn, as ABBA: what drifts slowly hits them alike.
struct Rounds {
  std::vector<double> base_ms;
  std::vector<double> with_ms;
  std::vector<double> ratios;  // of each round
};

void RunRound(Cycles* side, Rounds* rounds) {
  const double base_first = side->Sample(false);
  const double with_first = side->Sample(true);
  const double with_second = side->Sample(true);
  const double base_second = side->Sample(false);
  rounds->base_ms.insert(rounds->base_ms.end(), {base_first, base_second});
  rounds->with_ms.insert(rounds->with_ms.end(), {with_first, with_second});
  rounds->ratios.push_back((with_first + with_second) / (base_first + base_second));
}

// Twice the standard error of the mean: it lies within so much with 95 %.
double Spread(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return 2 * std::sqrt(squares / (count - 1) / count);
}

// Until a difference as large as the limit would be seen, or the rounds are used up.
Rounds RunRounds(Cycles* side, double limit, uint32_t rounds_max) {
  side->Sample(false);
  side->Sample(true);
  Rounds rounds;
  do {
    RunRound(side, &rounds);
  } while (rounds.ratios.size() < kRoundsMin ||
           (Spread(rounds.ratios) > limit && rounds.ratios.size() < rounds_max));
  return rounds;
}

Report ReportOf(uint64_t mib, double limit, const Rounds& rounds) {
  Report cycle;
  cycle.Add("mib", mib);
  cycle.Add("base_ms", Median(rounds.base_ms));
  cycle.Add("base_range_ms", Range(rounds.base_ms));
  cycle.Add("with_ms", Median(rounds.with_ms));
  cycle.Add("with_range_ms", Range(rounds.with_ms));
  cycle.Add("ratio", Median(rounds.ratios));
  cycle.Add("ratio_range", Range(rounds.ratios));
  cycle.Add("spread", Spread(rounds.ratios));
  cycle.Add("limit", limit);
  cycle.Add("rounds", uint64_t{rounds.ratios.size()});
  return cycle;
}

// Time of the ledger's part of one put, reserve and release by publication, beside so many names that are queued.
double TicketMicroseconds(uint32_t backlog) {
  core::MasterOptions options;
  options.durable_tier = true;
  options.ledger_client_percent = 100;
  core::UnpublishedLedger ledger(options);
  for (uint32_t i = 0; i < backlog; ++i) {
    core::TicketId ticket;
    ledger.Reserve(core::ClientEpoch{2}, 0, &ticket);
    const core::DurableEnd end{ticket, false, core::UploadOutcome::kFinished, 0};
    ledger.Settle({&end, 1}, 0);
  }
  constexpr int kTimes = 200'000;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kTimes; ++i) {
    core::TicketId ticket;
    ledger.Reserve(core::ClientEpoch{1}, 0, &ticket);
    ledger.BeginPublish(ticket, core::ClientEpoch{1});
    ledger.FinishPublish(ticket, 0);
  }
  return SecondsSince(start) * 1e6 / kTimes;
}

}  // namespace

Report RunLedgerCapacity(const CommonFlags& /*common*/) {
  std::vector<Report> shapes;
  for (const size_t name_bytes : {42, 256}) {
    for (const uint32_t objects_per_task : {1u, 64u}) {
      const uint64_t bytes = RetainedBytesInAChild(name_bytes, objects_per_task);
      Report shape;
      shape.Add("name_bytes", uint64_t{name_bytes});
      shape.Add("objects_per_task", uint64_t{objects_per_task});
      shape.Add("bytes_per_ticket", static_cast<double>(bytes) / kTickets);
      shape.Add("total_mib", static_cast<double>(bytes) / (1 << 20));
      shapes.push_back(shape);
    }
  }
  Report report;
  report.Add("tickets", uint64_t{kTickets});
  report.Add("shapes", shapes);
  return report;
}

Report RunLedgerOverhead(const CommonFlags& /*common*/, const LedgerOverheadFlags& flags) {
  std::string pattern = flags.directory + "/holdfast-bench-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a directory in " + flags.directory);
  }
  std::vector<Report> cycles;
  for (const auto& [mib, limit] : {std::pair<uint64_t, double>{1, 0.03}, {128, 0.01}}) {
    auto daemon = testing::Daemon::Start({absl::StrCat("--durable-store=file://", pattern)});
    if (!daemon.ok()) throw std::runtime_error(daemon.status().ToString());
    Cycles side((*daemon)->address(), flags, pattern, mib << 20);
    cycles.push_back(ReportOf(mib, limit, RunRounds(&side, limit, flags.rounds_max)));
  }
  std::filesystem::remove_all(pattern);
  Report report;
  report.Add("directory", flags.directory);
  report.Add("store_latency_ms", uint64_t{flags.store_latency_ms});
  report.Add("cycles", cycles);
  report.Add("us_per_ticket", TicketMicroseconds(100));
  report.Add("us_per_ticket_backlog_60000", TicketMicroseconds(60'000));
  return report;
}

}  // namespace holdfast::bench

// A durable store that hangs while the ledger is full: what traffic in memory notices of it, and how fast the ledger empties once
// the store answers again.

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <pugixml.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/bench_master.h"
#include "tests/bench/traffic.h"
#include "tests/bench/verbs.h"
#include "tests/testing/store/scripted_server.h"

namespace holdfast::bench {
namespace {

constexpr uint32_t kSegments = 4;
constexpr double kWindowSeconds = 5;
constexpr double kAskEverySeconds = 0.25;
constexpr double kDrainSecondsMax = 600;
constexpr uint32_t kFillBatch = 512;

// The answer to a DeleteObjects that has deleted all it was asked for.
std::string AllDeleted(const std::string& request_xml) {
  pugi::xml_document request;
  request.load_buffer(request_xml.data(), request_xml.size());
  std::string answer = "<DeleteResult>";
  for (const pugi::xml_node& object : request.child("Delete").children("Object")) {
    // Minted names have no character that XML would escape.
    absl::StrAppend(&answer, "<Deleted><Key>", object.child_value("Key"), "</Key></Deleted>");
  }
  return answer + "</DeleteResult>";
}

// An S3 store that is well, hangs, or takes its time for each request.
class Store {
 public:
  enum class State { kWell, kHangs, kSlow };

  explicit Store(uint32_t slow_ms)
      : slow_ms_(slow_ms), server_([this](const auto& request) { return Reply(request); }) {
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  }

  void Become(State state) { state_ = state; }
  std::string Uri() const {
    return absl::StrCat("s3://bucket/outage?endpoint=", server_.endpoint(), "&path_style=true");
  }
  uint64_t uploads() const { return uploads_; }

 private:
  testing::ScriptedReply Reply(const testing::ScriptedRequest& request) {
    if (request.method == "PUT") ++uploads_;
    testing::ScriptedReply reply;
    const State state = state_;
    reply.hang = state == State::kHangs;
    if (reply.hang) return reply;
    if (state == State::kSlow) Sleep(slow_ms_ / 1000.0);
    if (request.method == "GET" && absl::StrContains(request.target, "uploads=")) {
      reply.body = "<ListMultipartUploadsResult></ListMultipartUploadsResult>";
    } else if (request.method == "POST" && absl::StrContains(request.target, "delete=")) {
      reply.body = AllDeleted(request.body);
    } else if (request.method != "PUT") {
      reply.status = 501;
    }
    return reply;
  }

  const uint32_t slow_ms_;
  std::atomic<State> state_{State::kWell};
  std::atomic<uint64_t> uploads_{0};  // asked for, whatever became of them
  testing::ScriptedServer server_;    // the last: it uses the rest
};

std::vector<StartedPut> StartDurable(Client& client, const std::vector<std::string>& keys) {
  std::vector<PutItem> items;
  for (const std::string& key : keys) {
    items.push_back({.key = key, .size_bytes = 4096, .durability = Durability::kDurable});
    items.back().upload_timeout = std::chrono::seconds(1);
  }
  auto started = client.PutStart(items);
  if (!started.ok()) throw std::runtime_error(started.status().ToString());
  return *std::move(started);
}

// Takes all tickets, and leaves their names to the master, uploaded as far as it is told.
void FillLedger(const std::string& master, uint32_t tickets) {
  const auto client = ConnectOrThrow(master, std::chrono::seconds(30));
  for (uint32_t done = 0; done < tickets;) {
    std::vector<std::string> keys;
    for (uint32_t i = 0; i < kFillBatch && done < tickets; ++i, ++done) {
      keys.push_back(absl::StrCat("owed-", done));
    }
    const std::vector<StartedPut> started = StartDurable(*client, keys);
    std::vector<PutRef> puts;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!started[i].status.ok()) throw std::runtime_error("fill: " + started[i].status.message);
      puts.push_back({keys[i], started[i].put_id, UploadOutcome::kFinished});
    }
    const auto revoked = client->PutRevoke(puts);
    if (!revoked.ok()) throw std::runtime_error(revoked.status().ToString());
    for (const ItemStatus& status : *revoked) {
      if (!status.ok()) throw std::runtime_error("fill: " + status.message);
    }
  }
}

// A client that goes on asking for durable puts, and uploads what is admitted, from construction to destruction.
class Uploader {
 public:
  explicit Uploader(const std::string& master)
      : client_(ConnectOrThrow(master, std::chrono::seconds(5))), thread_([this] { Run(); }) {}
  ~Uploader() {
    stop_ = true;
    thread_.join();
  }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  uint64_t refusals() const {
    return refusals_;
  }                                            // with the reason LEDGER_FULL, and without a name
  uint64_t others() const { return others_; }  // any other answer, or none

 private:
  void Run() {
    while (!stop_) {
      Ask();
      Sleep(kAskEverySeconds);
    }
  }
  void Ask() {
    try {
      const StartedPut put = StartDurable(*client_, {absl::StrCat("asked-", asked_++)})[0];
      if (put.status.reason == Reason::kLedgerFull && put.object_name.empty()) {
        ++refusals_;
        return;
      }
      ++others_;
      if (put.status.ok()) client_->Upload(put, std::string(4096, 'x'));
    } catch (const std::exception&) {
      ++others_;
    }
  }

  const std::unique_ptr<Client> client_;
  uint64_t asked_ = 0;
  std::atomic<uint64_t> refusals_{0};
  std::atomic<uint64_t> others_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// What the traffic saw, window by window.
struct Slice {
  double p50_ms = 0;  // medians over the windows
  double p99_ms = 0;
  std::vector<double> p99s_ms;
  uint64_t timeouts = 0;
  uint64_t errors = 0;
  uint64_t tickets_used_min = UINT64_MAX;  // at the ends of the windows
};

// One window when there is no time for more.
Slice Watch(Traffic* traffic, const BenchMaster& master, double seconds) {
  const auto windows = std::max(1, static_cast<int>(seconds / kWindowSeconds));
  Slice slice;
  std::vector<double> p50s_ms;
  traffic->Take();
  for (int window = 0; window < windows; ++window) {
    Sleep(seconds / windows);
    TrafficCounts counts = traffic->Take();
    p50s_ms.push_back(counts.latencies.Percentile(0.5));
    slice.p99s_ms.push_back(counts.latencies.Percentile(0.99));
    slice.timeouts += counts.timeouts;
    slice.errors += counts.errors;
    slice.tickets_used_min =
        std::min<uint64_t>(slice.tickets_used_min, master.Status().ledger().tickets_used());
  }
  slice.p50_ms = Median(p50s_ms);
  slice.p99_ms = Median(slice.p99s_ms);
  return slice;
}

// Seconds since the call.
double WaitDrained(const BenchMaster& master) {
  const Clock::time_point start = Clock::now();
  while (master.Status().ledger().tickets_used() > 0) {
    if (SecondsSince(start) > kDrainSecondsMax)
      throw std::runtime_error("the ledger did not drain");
    Sleep(0.02);
  }
  return SecondsSince(start);
}

void Check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("store-outage: " + what);
}

// The daemon and this program mean the same store, and it takes uploads.
void CheckStoreIsWell(const std::string& master, const Store& store) {
  const auto client = ConnectOrThrow(master, std::chrono::seconds(5));
  const DurablePutResult put = client->PutDurable("kept", "bytes");
  Check(put.status.ok(), "a put before the outage: " + put.status.message);
  Check(store.uploads() == 1, "the upload before the outage was not seen");
}

TrafficOptions MixedTraffic(const std::string& master, uint64_t keys) {
  TrafficOptions options;
  options.master = master;
  options.resident_keys = keys;
  options.first_new_key = keys;
  return options;
}

// The traffic puts some ten thousand objects a second, and a call gets slower as they become more: the outage is compared with the
// time on both sides of it.
void AddTraffic(const Slice& before, const Slice& during, const Slice& after, Report* report) {
  report->Add("traffic_p50_before_ms", before.p50_ms);
  report->Add("traffic_p50_during_ms", during.p50_ms);
  report->Add("traffic_p50_after_ms", after.p50_ms);
  report->Add("traffic_p99_before_ms", before.p99_ms);
  report->Add("traffic_p99_before_windows_ms", before.p99s_ms);
  report->Add("traffic_p99_during_ms", during.p99_ms);
  report->Add("traffic_p99_during_windows_ms", during.p99s_ms);
  report->Add("traffic_p99_after_ms", after.p99_ms);
  report->Add("traffic_p99_after_windows_ms", after.p99s_ms);
  report->Add("p99_ratio", 2 * during.p99_ms / (before.p99_ms + after.p99_ms));
}

}  // namespace

Report RunStoreOutage(const CommonFlags& common, const StoreOutageFlags& flags) {
  if (!common.master.empty()) {
    throw std::runtime_error("store-outage starts a master of its own: --master makes no sense");
  }
  Store store(flags.delete_ms);
  const BenchMaster master(
      "", {"--durable-store=" + store.Uri(), absl::StrCat("--ledger-tickets=", flags.tickets),
           "--ledger-client-percent=100"});
  const Lenders lenders(master.address(), kSegments, kThroughputSegmentBytes);
  FillOptions fill;
  fill.keys = flags.keys;
  Traffic traffic(MixedTraffic(master.address(), flags.keys),
                  Fill(master.address(), lenders, fill));
  const double saturated = SetLoad(&traffic, flags.load);
  CheckStoreIsWell(master.address(), store);
  const Slice before = Watch(&traffic, master, flags.seconds / 2);

  store.Become(Store::State::kHangs);
  FillLedger(master.address(), flags.tickets);
  Sleep(1);  // until the traffic has recovered from sharing the processors with that
  const uint64_t uploads_before = store.uploads();
  Slice during;
  uint64_t refusals = 0;
  {
    const Uploader uploader(master.address());
    during = Watch(&traffic, master, flags.seconds);
    refusals = uploader.refusals();
    Check(uploader.others() == 0, "a put was not refused although the ledger is full");
  }
  const uint64_t uploads_seen = store.uploads() - uploads_before;
  Check(refusals > 0, "no put was refused");
  Check(uploads_seen == 0, "the store saw an upload that had no ticket");
  Check(during.tickets_used_min == flags.tickets, "a name that is owed was dropped");

  traffic.Take();
  store.Become(Store::State::kSlow);
  const double drain_seconds = WaitDrained(master);
  TrafficCounts drain = traffic.Take();
  Check(master.Status().ledger().deleted_names() == flags.tickets,
        "the ledger is empty, but not every name was deleted");
  const Slice after = Watch(&traffic, master, flags.seconds / 2);

  Report report;
  report.Add("seconds", flags.seconds);
  report.Add("tickets", uint64_t{flags.tickets});
  report.Add("keys", flags.keys);
  report.Add("load", flags.load);
  report.Add("delete_ms", uint64_t{flags.delete_ms});
  report.Add("saturated_rpcs_per_s", saturated);
  AddTraffic(before, during, after, &report);
  report.Add("traffic_p99_drain_ms", drain.latencies.Percentile(0.99));
  report.Add("ledger_full_refusals", refusals);
  report.Add("uploads_seen", uploads_seen);
  report.Add("tickets_used_min_during", during.tickets_used_min);
  report.Add("drain_seconds", drain_seconds);
  report.Add("timeouts", before.timeouts + during.timeouts + drain.timeouts + after.timeouts);
  report.Add("errors", before.errors + during.errors + drain.errors + after.errors);
  return report;
}

}  // namespace holdfast::bench

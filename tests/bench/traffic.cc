#include "tests/bench/traffic.h"

#include <algorithm>
#include <random>
#include <utility>

namespace holdfast::bench {
namespace {

constexpr double kSaturateSeconds = 4;

}  // namespace

class Traffic::Worker {
 public:
  Worker(Traffic* traffic, Client* client, uint64_t seed)
      : traffic_(*traffic), client_(*client), random_(seed) {}

  void Run() {
    due_ = Clock::now();
    while (!traffic_.stop_) {
      switch (traffic_.options_.op) {
        case Op::kPut:
          Put();
          break;
        case Op::kGet:
          Get();
          break;
        case Op::kExists:
          Exists();
          break;
        case Op::kMixed:
          Put();
          Get();
          Exists();
          break;
      }
    }
  }

  TrafficCounts Take() {
    absl::MutexLock lock(&mu_);
    return std::exchange(counts_, {});
  }

 private:
  // Waits for the next call's turn. With a rate, the time that a call is late counts as its latency.
  void BeginCall() {
    const double interval_s = traffic_.interval_s_;
    const Clock::time_point now = Clock::now();
    if (interval_s == 0) {
      due_ = now;
      return;
    }
    due_ += std::chrono::nanoseconds(static_cast<int64_t>(interval_s * 1e9));
    // A backlog of more than a second is dropped when the rate was changed.
    due_ = std::max(due_, now - std::chrono::seconds(1));
    if (due_ > now) std::this_thread::sleep_until(due_);
  }

  void EndCall(const absl::Status& status, uint64_t keys, uint64_t errors, uint64_t on_survivors) {
    const double ms = SecondsSince(due_) * 1000;
    absl::MutexLock lock(&mu_);
    ++counts_.rpcs;
    counts_.latencies.Add(ms);
    if (absl::IsDeadlineExceeded(status)) ++counts_.timeouts;
    if (!status.ok()) ++counts_.errors;
    counts_.keys += keys;
    counts_.errors += errors;
    counts_.errors_on_survivors += on_survivors;
  }

  void Put() {
    const TrafficOptions& options = traffic_.options_;
    items_.resize(options.batch);
    const uint64_t first = traffic_.next_key_.fetch_add(options.batch);
    for (uint32_t i = 0; i < options.batch; ++i) {
      items_[i].key = KeyOf(first + i, options.key_bytes);
      items_[i].size_bytes = options.object_bytes;
    }
    BeginCall();
    auto started = client_.PutStart(items_);
    uint64_t errors = 0;
    puts_.clear();
    if (started.ok()) {
      for (uint32_t i = 0; i < options.batch; ++i) {
        const StartedPut& put = (*started)[i];
        if (put.status.ok()) {
          puts_.push_back({std::move(items_[i].key), put.put_id});
        } else {
          ++errors;
        }
      }
    }
    EndCall(started.status(), 0, errors, 0);
    if (puts_.empty()) return;
    BeginCall();
    auto ended = client_.PutEnd(puts_);
    errors = 0;
    if (ended.ok()) {
      for (const ItemStatus& status : *ended) {
        // Its segment left between start and end: that is what the caller is told, not a fault.
        const bool lost = traffic_.leaving_ != 0 && status.reason == Reason::kReplicaLost;
        if (!status.ok() && !lost) ++errors;
      }
    }
    EndCall(ended.status(), puts_.size(), errors, 0);
  }

  void ChooseKeys() {
    const TrafficOptions& options = traffic_.options_;
    std::uniform_int_distribution<uint64_t> any(0, options.resident_keys - 1);
    keys_.resize(options.batch);
    numbers_.resize(options.batch);
    for (uint32_t i = 0; i < options.batch; ++i) {
      numbers_[i] = any(random_);
      keys_[i] = KeyOf(numbers_[i], options.key_bytes);
    }
  }

  // Whether key number i of the batch must be found whatever happens.
  bool Survives(size_t i) const {
    return traffic_.masks_.empty() || (traffic_.masks_[numbers_[i]] & ~traffic_.leaving_) != 0;
  }

  template <typename Results, typename StatusOfResult>
  void CountReads(const absl::StatusOr<Results>& results, StatusOfResult status_of) {
    uint64_t errors = 0;
    uint64_t on_survivors = 0;
    if (results.ok()) {
      for (size_t i = 0; i < keys_.size(); ++i) {
        const ItemStatus& status = status_of((*results)[i]);
        if (status.ok() || !Survives(i)) continue;
        ++errors;
        ++on_survivors;
      }
    }
    EndCall(results.status(), keys_.size(), errors, on_survivors);
  }

  void Get() {
    ChooseKeys();
    BeginCall();
    CountReads(client_.Get(keys_),
               [](const FoundObject& found) -> const ItemStatus& { return found.status; });
  }

  void Exists() {
    ChooseKeys();
    BeginCall();
    CountReads(client_.Exists(keys_),
               [](const ItemStatus& status) -> const ItemStatus& { return status; });
  }

  Traffic& traffic_;
  Client& client_;
  std::mt19937_64 random_;
  Clock::time_point due_;
  std::vector<PutItem> items_;
  std::vector<PutRef> puts_;
  std::vector<std::string> keys_;
  std::vector<uint64_t> numbers_;

  absl::Mutex mu_;
  TrafficCounts counts_ ABSL_GUARDED_BY(mu_);
};

Traffic::Traffic(const TrafficOptions& options, std::vector<uint32_t> masks)
    : options_(options), masks_(std::move(masks)), next_key_(options.first_new_key) {
  for (uint32_t c = 0; c < options.clients; ++c) {
    clients_.push_back(ConnectOrThrow(options.master, options.deadline));
    for (uint32_t i = 0; i < options.in_flight; ++i) {
      workers_.push_back(std::make_unique<Worker>(this, clients_[c].get(), c * 1000 + i));
    }
  }
  for (auto& worker : workers_) threads_.emplace_back([&worker] { worker->Run(); });
}

Traffic::~Traffic() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

void Traffic::SetRate(double rpcs_per_s) {
  interval_s_ = rpcs_per_s == 0 ? 0 : static_cast<double>(workers_.size()) / rpcs_per_s;
}

TrafficCounts Traffic::Take() {
  TrafficCounts sum;
  for (auto& worker : workers_) {
    TrafficCounts counts = worker->Take();
    sum.keys += counts.keys;
    sum.rpcs += counts.rpcs;
    sum.errors += counts.errors;
    sum.timeouts += counts.timeouts;
    sum.errors_on_survivors += counts.errors_on_survivors;
    sum.latencies.Merge(counts.latencies);
  }
  return sum;
}

double SetLoad(Traffic* traffic, double load) {
  Sleep(1);
  traffic->Take();
  const Clock::time_point start = Clock::now();
  Sleep(kSaturateSeconds);
  const double saturated = static_cast<double>(traffic->Take().rpcs) / SecondsSince(start);
  if (load < 1) {
    traffic->SetRate(saturated * load);
    Sleep(1.5);
    traffic->Take();
  }
  return saturated;
}

}  // namespace holdfast::bench

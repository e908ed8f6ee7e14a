#include "tests/bench/load.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"

namespace holdfast::bench {

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::string KeyOf(uint64_t number, uint32_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string key(bytes, '0');
  uint64_t state = number;
  uint64_t word = 0;
  // The number itself comes last, so that no two keys are equal.
  for (uint32_t i = 0; i < bytes; ++i) {
    if (i % 16 == 0) {
      state += 0x9e3779b97f4a7c15;
      word = i + 16 >= bytes ? number : (state ^ (state >> 27)) * 0xbf58476d1ce4e5b9;
    }
    key[i] = kDigits[word & 15];
    word >>= 4;
  }
  return key;
}

std::unique_ptr<Client> ConnectOrThrow(const std::string& master,
                                       std::chrono::milliseconds deadline) {
  ClientOptions options;
  options.master = master;
  options.deadline = deadline;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options);
  if (!client.ok()) throw std::runtime_error(client.status().ToString());
  return *std::move(client);
}

Lenders::Lenders(const std::string& master, uint32_t segments, uint64_t segment_bytes) {
  for (uint32_t i = 0; i < segments; ++i) {
    clients_.push_back(ConnectOrThrow(master, std::chrono::seconds(10)));
    SegmentOptions segment;
    segment.name = absl::StrCat("segment-", i);
    segment.host = absl::StrCat("host-", i);
    segment.endpoint = absl::StrCat("host-", i, ":9000");
    segment.base = 1ull << 44;
    segment.size_bytes = segment_bytes;
    absl::StatusOr<uint64_t> registration = clients_.back()->MountSegment(segment);
    if (!registration.ok()) throw std::runtime_error(registration.status().ToString());
    registrations_.push_back(*registration);
  }
}

double Lenders::Unmount(uint32_t i) {
  const Clock::time_point start = Clock::now();
  const absl::Status status = clients_[i]->UnmountSegment(registrations_[i]);
  return status.ok() ? SecondsSince(start) * 1000 : -1;
}

uint32_t Lenders::IndexOf(uint64_t registration) const {
  return static_cast<uint32_t>(
      std::find(registrations_.begin(), registrations_.end(), registration) -
      registrations_.begin());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<double> Range(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, *most};
}

double Latencies::Percentile(double share) {
  if (ms_.empty()) return 0;
  std::sort(ms_.begin(), ms_.end());
  const auto index = static_cast<size_t>(share * static_cast<double>(ms_.size()));
  return ms_[std::min(index, ms_.size() - 1)];
}

namespace {

void FillRange(Client& client, const Lenders& lenders, const FillOptions& options, uint64_t begin,
               uint64_t end, std::vector<uint32_t>* masks) {
  std::vector<PutItem> items;
  for (uint64_t key = begin; key < end; ++key) {
    items.push_back({KeyOf(options.first_key + key, options.key_bytes), options.object_bytes,
                     options.replicas});
  }
  PutOptions put_options;
  put_options.preferred_segments = options.preferred_segments;
  auto started = client.PutStart(items, put_options);
  if (!started.ok()) throw std::runtime_error(started.status().ToString());
  std::vector<PutRef> puts;
  for (size_t i = 0; i < items.size(); ++i) {
    const StartedPut& put = (*started)[i];
    if (!put.status.ok()) {
      throw std::runtime_error(absl::StrCat("fill: ", ReasonName(put.status.reason)));
    }
    for (const ReplicaLocation& replica : put.replicas) {
      const uint32_t index = lenders.IndexOf(replica.segment->registration_id);
      (*masks)[begin + i] |= 1u << std::min(index, 31u);
    }
    puts.push_back({items[i].key, put.put_id});
  }
  auto ended = client.PutEnd(puts);
  if (!ended.ok()) throw std::runtime_error(ended.status().ToString());
  for (const ItemStatus& status : *ended) {
    if (!status.ok()) throw std::runtime_error(absl::StrCat("fill: ", ReasonName(status.reason)));
  }
}

}  // namespace

std::vector<uint32_t> Fill(const std::string& master, const Lenders& lenders,
                           const FillOptions& options) {
  std::vector<uint32_t> masks(options.keys);
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < options.clients; ++t) {
    threads.emplace_back([&] {
      try {
        auto client = ConnectOrThrow(master, std::chrono::seconds(30));
        for (;;) {
          const uint64_t begin = next.fetch_add(options.batch);
          if (begin >= options.keys || failed) return;
          FillRange(*client, lenders, options, begin, std::min(options.keys, begin + options.batch),
                    &masks);
        }
      } catch (const std::exception& error) {
        fprintf(stderr, "fill: %s\n", error.what());
        failed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) throw std::runtime_error("fill failed");
  return masks;
}

}  // namespace holdfast::bench

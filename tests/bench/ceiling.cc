#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "holdfast/v1/store.grpc.pb.h"
#include "tests/bench/bench_master.h"
#include "tests/bench/echo_server.h"
#include "tests/bench/traffic.h"
#include "tests/bench/verbs.h"

namespace holdfast::bench {
namespace {

constexpr int kRounds = 5;
constexpr double kWarmUpSeconds = 0.3;  // of each slice

// Makes each call of the traffic once, and keeps what the master answered.
class Recorder {
 public:
  explicit Recorder(const std::string& master)
      : stub_(v1::StoreService::NewStub(client::MakeChannel(master))) {}

  EchoAnswers Record(uint32_t batch) {
    EchoAnswers answers;
    answers.heartbeat = Heartbeat();
    v1::GetRequest get;
    v1::ExistsRequest exists;
    for (uint32_t i = 0; i < batch; ++i) {
      get.add_keys(KeyOf(i));
      exists.add_keys(KeyOf(i));
    }
    v1::GetResponse got;
    answers.get = Call(&v1::StoreService::Stub::Get, get, &got);
    v1::ExistsResponse existing;
    answers.exists = Call(&v1::StoreService::Stub::Exists, exists, &existing);
    Put(batch, &answers);
    return answers;
  }

 private:
  template <typename Method, typename Request, typename Response>
  std::string Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext call;
    const grpc::Status status = (stub_.get()->*method)(&call, request, response);
    if (!status.ok()) throw std::runtime_error("a call failed: " + status.error_message());
    return response->SerializeAsString();
  }

  std::string Heartbeat() {
    v1::HeartbeatRequest request;
    v1::HeartbeatResponse response;
    request.set_client_id(std::string(16, 'c'));
    request.set_incarnation(1);
    request.set_protocol_version(1);
    std::string answer = Call(&v1::StoreService::Stub::Heartbeat, request, &response);
    session_.set_client_id(request.client_id());
    session_.set_client_epoch(response.client_epoch());
    return answer;
  }

  void Put(uint32_t batch, EchoAnswers* answers) {
    v1::PutStartRequest start;
    v1::PutStartResponse started;
    *start.mutable_session() = session_;
    for (uint32_t i = 0; i < batch; ++i) {
      v1::PutStartItem* item = start.add_items();
      item->set_key(KeyOf((1ull << 50) + i));
      item->set_size(4096);
      item->set_replicas(1);
      item->set_request_id(i + 1);
    }
    answers->put_start = Call(&v1::StoreService::Stub::PutStart, start, &started);
    v1::PutEndRequest end;
    v1::PutEndResponse ended;
    *end.mutable_session() = session_;
    for (uint32_t i = 0; i < batch; ++i) {
      v1::PutRef* item = end.add_items();
      item->set_key(start.items(static_cast<int>(i)).key());
      item->set_put_id(started.results(static_cast<int>(i)).put_id());
    }
    answers->put_end = Call(&v1::StoreService::Stub::PutEnd, end, &ended);
  }

  std::unique_ptr<v1::StoreService::Stub> stub_;
  v1::Session session_;
};

}  // namespace

Report RunCeiling(const CommonFlags& common, const ThroughputFlags& flags) {
  if (!common.master.empty()) throw std::runtime_error("ceiling measures a master of its own");
  EchoServer echo;  // before anything else: it is forked
  const BenchMaster master(common.master);
  Lenders lenders(master.address(), flags.segments, kThroughputSegmentBytes);
  FillOptions fill;
  fill.keys = flags.keys;
  Fill(master.address(), lenders, fill);
  TrafficOptions options = TrafficOf(master.address(), flags);
  TrafficOptions echo_options = options;
  echo_options.master = echo.Serve(Recorder(master.address()).Record(options.batch));

  const double slice_seconds = std::max(0.1, flags.seconds / (2 * kRounds));
  std::vector<double> master_rates;
  std::vector<double> echo_rates;
  std::vector<double> ratios;
  uint64_t errors = 0;
  const auto rate = [&errors, slice_seconds](const TrafficOptions& traffic) {
    const ThroughputSlice slice = RunSlice(traffic, kWarmUpSeconds, slice_seconds);
    errors += slice.counts.errors;
    return static_cast<double>(slice.counts.keys) / slice.seconds;
  };
  for (int round = 0; round < kRounds; ++round) {
    options.first_new_key = (static_cast<uint64_t>(round) + 1) << 40;
    master_rates.push_back(rate(options));
    echo_rates.push_back(rate(echo_options));
    ratios.push_back(master_rates.back() / echo_rates.back());
  }
  Report report;
  AddParameters(flags, options, &report);
  report.Add("keys_per_s", Median(master_rates));
  report.Add("echo_keys_per_s", Median(echo_rates));
  report.Add("ratio", Median(ratios));
  report.Add("ratio_range", Range(ratios));
  report.Add("errors", errors);
  return report;
}

}  // namespace holdfast::bench

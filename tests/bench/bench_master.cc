#include "tests/bench/bench_master.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace holdfast::bench {
namespace {

using std::chrono::steady_clock;

constexpr auto kCallTimeout = std::chrono::seconds(10);
constexpr double kSweepTimeoutSeconds = 120;

template <typename Request, typename Response>
Response Call(v1::AdminService::Stub& stub,
              grpc::Status (v1::AdminService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*)) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  Response response;
  const grpc::Status status = (stub.*method)(&context, Request(), &response);
  if (!status.ok()) throw std::runtime_error("master: " + status.error_message());
  return response;
}

}  // namespace

BenchMaster::BenchMaster(const std::string& address, const std::vector<std::string>& flags)
    : address_(address) {
  if (address.empty()) {
    auto started = testing::Daemon::Start(flags);
    if (!started.ok()) throw std::runtime_error(started.status().ToString());
    daemon_ = *std::move(started);
    address_ = daemon_->address();
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  admin_ = v1::AdminService::NewStub(
      grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments));
}

v1::CleanupStatus BenchMaster::Cleanup() const {
  return Call(*admin_, &v1::AdminService::Stub::GetCleanupStatus).cleanup();
}

v1::GetStatusResponse BenchMaster::Status() const {
  return Call(*admin_, &v1::AdminService::Stub::GetStatus);
}

double BenchMaster::WaitSwept() const {
  const auto start = steady_clock::now();
  for (;;) {
    const bool swept = Cleanup().ended_registrations_waiting() == 0;
    const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
    if (swept) return seconds;
    if (seconds > kSweepTimeoutSeconds) throw std::runtime_error("the sweep did not end in time");
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

uint64_t BenchMaster::ResidentBytes() const {
  return daemon_ == nullptr ? 0 : daemon_->ResidentBytes();
}

}  // namespace holdfast::bench

#include "client/heartbeat.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/convert.h"

namespace holdfast::client {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kProtocolVersion = 1;
// Until the master has told its own.
constexpr milliseconds kTtlDefault{10'000};
constexpr milliseconds kIntervalMin{10};
// A heartbeat that was not answered is made again after so long: the master may be back, and time runs.
constexpr milliseconds kRepeatAfter{200};
// Between two runs, however often calls ask for one.
constexpr milliseconds kGapMin{20};

}  // namespace

HeartbeatPass::HeartbeatPass(Caller* caller, Session* session, SegmentTable* table,
                             Mounter* mounter, HeartbeatOptions options)
    : caller_(caller),
      session_(session),
      table_(table),
      mounter_(mounter),
      options_(std::move(options)),
      ttl_(options_.ttl.count() > 0 ? options_.ttl : kTtlDefault),
      interval_(ttl_ / 10) {}

absl::Status HeartbeatPass::Beat(uint64_t epoch, Deadline deadline,
                                 v1::HeartbeatResponse* response) {
  v1::HeartbeatRequest request;
  request.set_client_id(session_->client_id());
  request.set_client_epoch(epoch);
  request.set_incarnation(options_.incarnation);
  request.set_host(options_.host);
  request.set_protocol_version(kProtocolVersion);
  if (epoch == 0) {
    request.set_ttl_ms(static_cast<uint32_t>(std::max<int64_t>(options_.ttl.count(), 0)));
  } else {
    const std::vector<uint64_t> ids = table_->Reported(epoch);
    request.mutable_registration_ids()->Add(ids.begin(), ids.end());
  }
  CallSettings settings;
  settings.operation = "heartbeat";
  settings.deadline = deadline;
  settings.wait_for_ready =
      true;  // so that the first heartbeat after a restart leaves as soon as there is a connection
  settings.cancellation = &cancellation_;
  absl::Status status =
      caller_->Call(&v1::StoreService::Stub::Heartbeat, request, response, settings);
  if (!status.ok()) return status;
  if (options_.on_durable_store) options_.on_durable_store(response->durable_store());
  if (response->ttl_ms() > 0) ttl_ = milliseconds(response->ttl_ms());
  interval_ = ttl_ / 3;
  if (response->heartbeat_interval_ms() > 0) {
    interval_ = std::min(interval_, milliseconds(response->heartbeat_interval_ms()));
  }
  interval_ = std::max(interval_, kIntervalMin);
  return absl::OkStatus();
}

absl::Status HeartbeatPass::Open(Deadline deadline) {
  session_->BeginRound();
  v1::HeartbeatResponse response;
  absl::Status status = Beat(0, deadline, &response);
  if (status.ok() && response.client_epoch() == 0) {
    status = absl::InternalError("open a session: the master answered without an epoch");
  }
  session_->EndRound(status.ok() ? response.client_epoch() : 0);
  return status;
}

absl::Status HeartbeatPass::Run() {
  session_->BeginRound();
  const uint64_t old_epoch = session_->epoch();
  uint64_t epoch = old_epoch;
  // Two attempts fit in a time-out.
  v1::HeartbeatResponse response;
  absl::Status status = Beat(epoch, After(ttl_ / 2), &response);
  if (status.ok() && response.state() == v1::HeartbeatResponse::STATE_LOST) {
    status = Beat(0, After(ttl_ / 2), &response);
    if (status.ok() && response.client_epoch() != 0) epoch = response.client_epoch();
  } else if (status.ok()) {
    const std::vector<uint64_t> ended(response.ended_registration_ids().begin(),
                                      response.ended_registration_ids().end());
    TellEnded(table_->TakeEnded(ended));
  }
  if (!status.ok()) {
    failed_ = true;
    session_->EndRound(old_epoch);
    return status;
  }
  if (std::exchange(failed_, false) && options_.on_recovered) options_.on_recovered();
  const Mounter::SettleReport settled = mounter_->Settle(epoch, ttl_ / 2, &cancellation_);
  // Published only now, so that a call that waited for the new session finds its segments mounted.
  session_->EndRound(epoch);
  TellEnded(settled.lost_registration_ids);
  TellOffers(&response);
  if ((epoch != old_epoch || settled.remounted > 0) && options_.events.on_reopened) {
    options_.events.on_reopened(table_->MountedIds(epoch).size(), table_->WantedCount());
  }
  return settled.first_error;
}

void HeartbeatPass::TellOffers(v1::HeartbeatResponse* response) {
  if (!options_.events.on_offers || response->offers_size() == 0) return;
  options_.events.on_offers(FromWire(response->mutable_offers()));
}

void HeartbeatPass::TellEnded(const std::vector<uint64_t>& registration_ids) {
  if (!registration_ids.empty() && options_.events.on_registrations_ended) {
    options_.events.on_registrations_ended(registration_ids);
  }
}

HeartbeatWorker::HeartbeatWorker(HeartbeatPass* pass, Session* session)
    : pass_(pass), session_(session), thread_([this] { Loop(); }) {}

HeartbeatWorker::~HeartbeatWorker() {
  session_->Stop();
  pass_->Cancel();
  thread_.join();
}

void HeartbeatWorker::Loop() {
  Deadline started = std::chrono::steady_clock::now();
  milliseconds interval = pass_->interval();
  while (session_->AwaitTurn(started + kGapMin, started + interval)) {
    started = std::chrono::steady_clock::now();
    const absl::Status status = pass_->Run();
    // Measured from the start of this run, so that a slow answer does not delay the next heartbeat.
    interval = status.ok() ? pass_->interval() : std::min(pass_->interval(), kRepeatAfter);
  }
}

}  // namespace holdfast::client

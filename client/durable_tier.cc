#include "client/durable_tier.h"

#include <chrono>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/tier/open_object_store.h"

namespace holdfast::client {
namespace {

absl::Time ToTime(std::chrono::steady_clock::time_point deadline) {
  return absl::Now() + Remaining(deadline);
}

ItemStatus ToItem(const absl::Status& status) {
  ItemStatus item;
  item.code = status.code();
  item.reason = ReasonOf(status);
  item.message = std::string(status.message());
  return item;
}

UploadOutcome ToOutcome(tier::UploadState state) {
  switch (state) {
    case tier::UploadState::kStored:
      return UploadOutcome::kFinished;
    case tier::UploadState::kNotStored:
      return UploadOutcome::kNotStarted;
    case tier::UploadState::kAmbiguous:
      break;
  }
  return UploadOutcome::kAmbiguous;
}

// A put, after waiting for a ticket if there is none. A second or more, and not all clients at once.
StartedPut StartWhenAdmitted(Client* client, const PutItem& item, Deadline deadline) {
  absl::BitGen random;
  StartedPut put;
  while (true) {
    auto started = client->PutStart({&item, 1});
    if (!started.ok()) {
      put.status = ToItem(started.status());
      return put;
    }
    put = std::move(started->front());
    const absl::Duration pause = absl::Seconds(absl::Uniform(random, 1.0, 2.0));
    const bool full = put.status.reason == Reason::kLedgerFull;
    if (!full || Remaining(deadline) <= pause) return put;
    absl::SleepFor(pause);
  }
}

// The name is the master's to clean up when it has been told what is known; until then its deadline sees to it.
ItemStatus Revoke(Client* client, const std::string& key, uint64_t put_id, UploadOutcome outcome) {
  const PutRef put{key, put_id, outcome, ""};
  auto revoked = client->PutRevoke({&put, 1});
  return revoked.ok() ? revoked->front() : ToItem(revoked.status());
}

}  // namespace

DurableTier::DurableTier(std::string uri) : own_uri_(std::move(uri)) {}

DurableTier::~DurableTier() = default;

void DurableTier::Learn(const std::string& uri) {
  absl::MutexLock lock(&mu_);
  learnt_uri_ = uri;
}

absl::StatusOr<std::shared_ptr<tier::ObjectStore>> DurableTier::Store() {
  absl::MutexLock lock(&mu_);
  const std::string& uri = own_uri_.empty() ? learnt_uri_ : own_uri_;
  if (uri.empty()) {
    return absl::FailedPreconditionError("the master has named no durable tier");
  }
  if (store_ == nullptr || open_uri_ != uri) {
    auto store = tier::OpenObjectStore(uri);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    open_uri_ = uri;
  }
  return store_;
}

UploadResult DurableTier::Upload(const StartedPut& put, std::string payload) {
  UploadResult result;
  if (put.object_name.empty()) {
    result.status = ToItem(absl::InvalidArgumentError("upload: the put has no durable replica"));
    return result;
  }
  const auto store = Store();
  if (!store.ok()) {
    result.status = ToItem(store.status());
    result.outcome = UploadOutcome::kNotStarted;
    return result;
  }
  tier::UploadResult uploaded =
      (*store)->Upload(put.object_name, payload, ToTime(put.upload_deadline));
  std::string().swap(payload);
  result.outcome = ToOutcome(uploaded.state);
  result.status = ToItem(uploaded.status);
  result.checksum = std::move(uploaded.checksum);
  return result;
}

absl::StatusOr<std::string> DurableTier::Read(const FoundObject& object, Deadline deadline) {
  if (object.object_name.empty()) {
    return absl::NotFoundError("read: the object has no durable replica");
  }
  const auto store = Store();
  if (!store.ok()) return store.status();
  std::string bytes(object.size_bytes, '\0');
  absl::Status status = (*store)->Download(
      object.object_name, 0, absl::MakeSpan(bytes.data(), bytes.size()), ToTime(deadline));
  if (!status.ok()) return status;
  return bytes;
}

DurablePutResult PutDurable(Client* client, DurableTier* tier, const std::string& key,
                            std::string payload, Deadline deadline) {
  DurablePutResult result;
  PutItem item;
  item.key = key;
  item.size_bytes = payload.size();
  item.durability = Durability::kDurable;
  const StartedPut put = StartWhenAdmitted(client, item, deadline);
  result.status = put.status;
  if (!put.status.ok()) return result;
  result.version = put.put_id;
  UploadResult uploaded = tier->Upload(put, std::move(payload));
  if (uploaded.outcome != UploadOutcome::kFinished) {
    result.status = uploaded.status;
    result.cleanup = Revoke(client, key, put.put_id, uploaded.outcome);
    return result;
  }
  const PutRef end{key, put.put_id, UploadOutcome::kFinished, std::move(uploaded.checksum)};
  const auto ended = client->PutEnd({&end, 1});
  // Without an answer the put may have ended: it is not revoked, and if it has not, its deadline gives the name to the master.
  result.status = ended.ok() ? ended->front() : ToItem(ended.status());
  if (!ended.ok() || ended->front().ok()) return result;
  result.cleanup = Revoke(client, key, put.put_id, UploadOutcome::kFinished);
  return result;
}

}  // namespace holdfast::client

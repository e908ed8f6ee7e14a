#include "server/core/client_sessions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/core/key_hash.h"

namespace holdfast::core {

ClientSessions::ClientSessions(const MasterOptions& options)
    : options_(options), next_epoch_(FirstId(options.seed, /*stream=*/2)) {}

size_t ClientSessions::StripeIndex(const ClientId& client) {
  return HashKey(0, client.AsBytes()) % kStripes;
}

absl::StatusOr<ClientSessions::HeartbeatResult> ClientSessions::Heartbeat(
    const HeartbeatRequest& request, int64_t now_ms) {
  if (request.client.IsNone()) return Refuse(Reason::kBadId, "heartbeat: client_id is missing");
  if (request.epoch.value == 0) return Open(request, now_ms);
  HeartbeatResult result;
  Stripe& stripe = StripeOf(request.client);
  absl::MutexLock lock(&stripe.mu);
  auto it = stripe.clients.find(request.client);
  if (it == stripe.clients.end() || it->second.epoch != request.epoch) {
    result.answer.state = SessionState::kLost;
    return result;
  }
  if (request.close) {
    stripe.clients.erase(it);
    count_.fetch_sub(1, std::memory_order_relaxed);
    result.answer.state = SessionState::kClosed;
    result.ended = Session{request.client, request.epoch};
    NoteEnded(*result.ended);
    return result;
  }
  it->second.heard_ms = std::max(it->second.heard_ms, now_ms);
  result.answer.state = SessionState::kLive;
  result.answer.epoch = it->second.epoch;
  result.answer.ttl_ms = it->second.ttl_ms;
  return result;
}

absl::StatusOr<ClientSessions::HeartbeatResult> ClientSessions::Open(
    const HeartbeatRequest& request, int64_t now_ms) {
  if (request.incarnation == 0) {
    return Refuse(Reason::kBadField, "open session: incarnation is missing");
  }
  if (request.host.size() > options_.max_label_bytes) {
    return Refuse(Reason::kBadField,
                  absl::StrCat("open session: host has ", request.host.size(), " bytes, at most ",
                               options_.max_label_bytes, " are allowed"));
  }
  HeartbeatResult result;
  Stripe& stripe = StripeOf(request.client);
  {
    absl::MutexLock lock(&stripe.mu);
    auto it = stripe.clients.find(request.client);
    if (it != stripe.clients.end() && it->second.incarnation == request.incarnation) {
      it->second.heard_ms = std::max(it->second.heard_ms, now_ms);
      result.answer.state = SessionState::kOpened;
      result.answer.epoch = it->second.epoch;
      result.answer.ttl_ms = it->second.ttl_ms;
      return result;
    }
    if (it == stripe.clients.end()) {
      if (count_.fetch_add(1, std::memory_order_relaxed) >= options_.max_clients) {
        count_.fetch_sub(1, std::memory_order_relaxed);
        return Refuse(Reason::kClientLimit, absl::StrCat("open session: the limit of ",
                                                         options_.max_clients, " is reached"));
      }
    } else {
      result.ended = Session{request.client, it->second.epoch};
    }
    Record& record = stripe.clients[request.client];
    record.epoch = ClientEpoch{next_epoch_.fetch_add(1, std::memory_order_relaxed)};
    record.incarnation = request.incarnation;
    record.ttl_ms = request.ttl_ms == 0 ? options_.client_ttl_ms
                                        : std::clamp(request.ttl_ms, options_.client_ttl_min_ms,
                                                     options_.client_ttl_max_ms);
    record.heard_ms = now_ms;
    record.host = request.host;
    record.peer = request.peer;
    result.answer.state = SessionState::kOpened;
    result.answer.epoch = record.epoch;
    result.answer.ttl_ms = record.ttl_ms;
  }
  if (result.ended.has_value()) NoteEnded(*result.ended);
  return result;
}

absl::Status ClientSessions::Check(const Session& session) const {
  if (session.client.IsNone()) return Refuse(Reason::kBadId, "session: client_id is missing");
  const Stripe& stripe = StripeOf(session.client);
  absl::ReaderMutexLock lock(&stripe.mu);
  auto it = stripe.clients.find(session.client);
  if (it == stripe.clients.end()) {
    return Refuse(Reason::kSessionUnknown,
                  absl::StrCat("client ", session.client.ToHex(),
                               " has no session: open one and mount again"));
  }
  if (it->second.epoch != session.epoch) {
    return Refuse(Reason::kSessionStale, absl::StrCat("client ", session.client.ToHex(), ": epoch ",
                                                      session.epoch.value, " is not the live one"));
  }
  return absl::OkStatus();
}

ClientEpoch ClientSessions::EpochOf(const ClientId& client) const {
  const Stripe& stripe = StripeOf(client);
  absl::ReaderMutexLock lock(&stripe.mu);
  auto it = stripe.clients.find(client);
  return it == stripe.clients.end() ? ClientEpoch() : it->second.epoch;
}

bool ClientSessions::DeferMassExpiry(size_t overdue, int64_t now_ms) {
  absl::MutexLock lock(&ended_mu_);
  if (overdue < options_.mass_expiry_min_clients || overdue * 2 <= count()) {
    mass_expiry_at_ms_ = 0;
    return false;
  }
  if (mass_expiry_at_ms_ == 0) {
    mass_expiry_at_ms_ = now_ms + options_.mass_expiry_grace_ms;
    deferred_.fetch_add(1, std::memory_order_relaxed);
  }
  if (now_ms < mass_expiry_at_ms_) return true;
  mass_expiry_at_ms_ = 0;
  return false;
}

std::vector<Session> ClientSessions::TakeExpired(int64_t now_ms) {
  size_t overdue = 0;
  for (const Stripe& stripe : stripes_) {
    absl::ReaderMutexLock lock(&stripe.mu);
    for (const auto& [client, record] : stripe.clients) overdue += record.Overdue(now_ms) ? 1 : 0;
  }
  if (DeferMassExpiry(overdue, now_ms) || overdue == 0) return {};
  std::vector<Session> expired;
  for (Stripe& stripe : stripes_) {
    absl::MutexLock lock(&stripe.mu);
    for (auto it = stripe.clients.begin(); it != stripe.clients.end();) {
      const auto present = it++;
      if (!present->second.Overdue(now_ms)) continue;
      expired.push_back({present->first, present->second.epoch});
      stripe.clients.erase(present);
    }
  }
  for (const Session& session : expired) NoteEnded(session);
  count_.fetch_sub(expired.size(), std::memory_order_relaxed);
  expired_.fetch_add(expired.size(), std::memory_order_relaxed);
  return expired;
}

void ClientSessions::RefreshAll(int64_t now_ms) {
  for (Stripe& stripe : stripes_) {
    absl::MutexLock lock(&stripe.mu);
    for (auto& [client, record] : stripe.clients) record.heard_ms = now_ms;
  }
}

void ClientSessions::NoteEnded(const Session& session) {
  absl::MutexLock lock(&ended_mu_);
  ended_.push_back(session.epoch);
}

std::vector<ClientEpoch> ClientSessions::EndedEpochs() const {
  absl::MutexLock lock(&ended_mu_);
  return ended_;
}

bool ClientSessions::HasEnded() const {
  absl::MutexLock lock(&ended_mu_);
  return !ended_.empty();
}

void ClientSessions::FinishDiscard(const std::vector<ClientEpoch>& epochs) {
  absl::MutexLock lock(&ended_mu_);
  ended_.erase(std::remove_if(ended_.begin(), ended_.end(),
                              [&epochs](const ClientEpoch& epoch) {
                                return std::find(epochs.begin(), epochs.end(), epoch) !=
                                       epochs.end();
                              }),
               ended_.end());
}

std::vector<ClientListing> ClientSessions::List(uint32_t stripe_index, int64_t now_ms) const {
  std::vector<ClientListing> rows;
  const Stripe& stripe = stripes_[stripe_index];
  absl::ReaderMutexLock lock(&stripe.mu);
  for (const auto& [client, record] : stripe.clients) {
    ClientListing row;
    row.client = client;
    row.epoch = record.epoch;
    row.host = record.host;
    row.peer = record.peer;
    row.last_heartbeat_age_ms = now_ms - record.heard_ms;
    row.ttl_ms = record.ttl_ms;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace holdfast::core

#include "server/core/handover_book.h"

#include <algorithm>

namespace holdfast::core {

HandoverBook::HandoverBook(uint32_t max_entries_of_a_session)
    : max_entries_(max_entries_of_a_session) {}

bool HandoverBook::HasRoom(ClientEpoch from, bool begin) const {
  auto it = by_session_.find(from);
  if (it == by_session_.end()) return true;
  return it->second.entries < max_entries_ && !(begin && it->second.keys.size() >= kHandoversMax);
}

Reason HandoverBook::NextSequence(const Session& from, ClientEpoch to, uint64_t id,
                                  uint64_t* next) const {
  absl::MutexLock lock(&mu_);
  auto it = handovers_.find({from.client, id});
  if (!HasRoom(from.epoch, it == handovers_.end())) return Reason::kClientQuota;
  *next = 0;
  if (it == handovers_.end()) return Reason::kNone;
  const Handover& handover = it->second;
  if (handover.from.epoch != from.epoch || handover.to != to) return Reason::kHandoverUnknown;
  *next = handover.first + handover.entries.size();
  return Reason::kNone;
}

Reason HandoverBook::AnswerTo(const Session& from, uint64_t id, uint64_t sequence) const {
  absl::MutexLock lock(&mu_);
  auto it = handovers_.find({from.client, id});
  if (it == handovers_.end() || sequence < it->second.first) return Reason::kNone;
  const uint64_t place = sequence - it->second.first;
  return place < it->second.entries.size() ? it->second.entries[place].refused : Reason::kNone;
}

bool HandoverBook::Append(const Session& from, ClientEpoch to, uint64_t id, uint64_t sequence,
                          HandoverEntry entry) {
  absl::MutexLock lock(&mu_);
  const Key key{from.client, id};
  auto it = handovers_.find(key);
  if (!HasRoom(from.epoch, it == handovers_.end())) return false;
  if (it == handovers_.end()) {
    if (sequence != 0) return false;
    it = handovers_.emplace(key, Handover{from, to, 0, {}}).first;
    by_session_[from.epoch].keys.push_back(key);
    by_session_[to].keys.push_back(key);
  }
  Handover& handover = it->second;
  if (handover.from.epoch != from.epoch || handover.to != to ||
      sequence != handover.first + handover.entries.size()) {
    return false;
  }
  handover.entries.push_back(std::move(entry));
  ++by_session_[from.epoch].entries;
  entry_count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Reason HandoverBook::Acknowledge(ClientEpoch to, const ClientId& from, uint64_t id,
                                 uint64_t next_expected, std::vector<HandoverEntry>* taken,
                                 uint64_t* acknowledged, Session* sender) {
  absl::MutexLock lock(&mu_);
  auto it = handovers_.find({from, id});
  if (it == handovers_.end() || it->second.to != to) return Reason::kHandoverUnknown;
  Handover& handover = it->second;
  *sender = handover.from;
  const bool offered = next_expected <= handover.first + handover.entries.size();
  while (offered && handover.first < next_expected) {
    taken->push_back(std::move(handover.entries.front()));
    handover.entries.pop_front();
    ++handover.first;
    --by_session_[sender->epoch].entries;
    entry_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  *acknowledged = handover.first;
  return Reason::kNone;
}

Reason HandoverBook::Entries(const Session& from, uint64_t id, uint64_t first, uint64_t count,
                             std::vector<HandoverEntry>* entries) const {
  absl::MutexLock lock(&mu_);
  auto it = handovers_.find({from.client, id});
  if (it == handovers_.end() || it->second.from.epoch != from.epoch) {
    return Reason::kHandoverUnknown;
  }
  const Handover& handover = it->second;
  for (size_t i = 0; i < handover.entries.size(); ++i) {
    const uint64_t sequence = handover.first + i;
    if (sequence < first || (count != 0 && sequence - first >= count)) continue;
    entries->push_back(handover.entries[i]);
  }
  return Reason::kNone;
}

std::vector<OfferRow> HandoverBook::PendingFor(ClientEpoch to, size_t max_rows) const {
  std::vector<OfferRow> rows;
  if (entries() == 0) return rows;
  absl::MutexLock lock(&mu_);
  auto keys = by_session_.find(to);
  if (keys == by_session_.end()) return rows;
  for (const Key& key : keys->second.keys) {
    const Handover& handover = handovers_.at(key);
    if (handover.to != to) continue;
    for (size_t i = 0; i < handover.entries.size() && rows.size() < max_rows; ++i) {
      OfferRow row;
      row.from = key.first;
      row.handover_id = key.second;
      row.sequence = handover.first + i;
      row.entry = handover.entries[i];
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

void HandoverBook::Forget(const Key& key, ClientEpoch session) {
  auto it = by_session_.find(session);
  if (it == by_session_.end()) return;
  std::vector<Key>& keys = it->second.keys;
  keys.erase(std::remove(keys.begin(), keys.end(), key), keys.end());
  if (keys.empty()) by_session_.erase(it);
}

std::vector<HandoverEntry> HandoverBook::EndSession(ClientEpoch session) {
  std::vector<HandoverEntry> kept;
  absl::MutexLock lock(&mu_);
  auto keys = by_session_.find(session);
  if (keys == by_session_.end()) return kept;
  const std::vector<Key> ended = keys->second.keys;
  for (const Key& key : ended) {
    auto it = handovers_.find(key);
    if (it == handovers_.end()) continue;  // to itself: listed twice
    Handover& handover = it->second;
    entry_count_.fetch_sub(handover.entries.size(), std::memory_order_relaxed);
    by_session_[handover.from.epoch].entries -= static_cast<uint32_t>(handover.entries.size());
    if (handover.to == session) {
      for (HandoverEntry& entry : handover.entries) kept.push_back(std::move(entry));
    }
    const ClientEpoch from = handover.from.epoch;
    const ClientEpoch to = handover.to;
    handovers_.erase(it);
    Forget(key, from);
    Forget(key, to);
  }
  return kept;
}

}  // namespace holdfast::core

#include "tests/testing/fake_store.h"

#include <algorithm>

namespace holdfast::testing {

tier::UploadResult FakeStore::Upload(absl::string_view name, absl::string_view bytes,
                                     absl::Time /*deadline*/) {
  absl::MutexLock lock(&mu_);
  ++uploads_;
  objects_[std::string(name)] = std::string(bytes);
  return {tier::UploadState::kStored, absl::OkStatus(), "sum"};
}

absl::Status FakeStore::Download(absl::string_view name, uint64_t offset_bytes,
                                 absl::Span<char> out, absl::Time /*deadline*/) {
  absl::MutexLock lock(&mu_);
  auto it = objects_.find(std::string(name));
  if (it == objects_.end()) return absl::NotFoundError("download: no such object");
  if (offset_bytes + out.size() > it->second.size())
    return absl::OutOfRangeError("download: short");
  std::copy_n(it->second.begin() + static_cast<ptrdiff_t>(offset_bytes), out.size(), out.begin());
  return absl::OkStatus();
}

std::vector<tier::DeleteResult> FakeStore::Delete(absl::Span<const std::string> names,
                                                  absl::Time /*deadline*/) {
  absl::MutexLock lock(&mu_);
  deletes_.emplace_back(names.begin(), names.end());
  mu_.Await(absl::Condition(this, &FakeStore::MayGoOn));
  DeleteFault fault;
  const bool faulty = !faults_.empty();
  if (faulty) {
    fault = std::move(faults_.front());
    faults_.pop_front();
  }
  std::vector<tier::DeleteResult> results;
  for (const std::string& name : names) {
    tier::DeleteResult result;
    const bool refused =
        poisoned_.contains(name) ||
        (faulty && fault.answered && (fault.failing.empty() || fault.failing.contains(name)));
    if (cancelled_ || (faulty && !fault.answered)) {
      result = {tier::DeleteState::kUnknown, "timeout"};
      if (!cancelled_ && fault.applied) objects_.erase(name);
    } else if (refused) {
      result = {tier::DeleteState::kFailed, fault.code};
    } else {
      const bool held = objects_.erase(name) > 0;
      result = {held ? tier::DeleteState::kDeleted : tier::DeleteState::kAbsent, ""};
    }
    results.push_back(std::move(result));
  }
  return results;
}

absl::StatusOr<std::vector<tier::StoredObject>> FakeStore::List(absl::string_view prefix,
                                                                absl::string_view start_after,
                                                                size_t max_objects,
                                                                absl::Time /*deadline*/) {
  absl::MutexLock lock(&mu_);
  std::vector<tier::StoredObject> found;
  for (auto it = objects_.upper_bound(std::string(start_after));
       it != objects_.end() && found.size() < max_objects; ++it) {
    if (absl::string_view(it->first).substr(0, prefix.size()) != prefix) continue;
    found.push_back({it->first, it->second.size()});
  }
  return found;
}

void FakeStore::Cancel() {
  absl::MutexLock lock(&mu_);
  cancelled_ = true;
}

void FakeStore::Land(const std::string& name) {
  absl::MutexLock lock(&mu_);
  objects_[name] = "late";
}

void FakeStore::FailNextDelete(DeleteFault fault) {
  absl::MutexLock lock(&mu_);
  faults_.push_back(std::move(fault));
}

void FakeStore::Poison(const std::string& name) {
  absl::MutexLock lock(&mu_);
  poisoned_.insert(name);
}

void FakeStore::Heal() {
  absl::MutexLock lock(&mu_);
  poisoned_.clear();
  faults_.clear();
}

void FakeStore::Hang(bool hang) {
  absl::MutexLock lock(&mu_);
  hanging_ = hang;
}

bool FakeStore::Holds(const std::string& name) const {
  absl::MutexLock lock(&mu_);
  return objects_.contains(name);
}

std::set<std::string> FakeStore::names() const {
  absl::MutexLock lock(&mu_);
  std::set<std::string> names;
  for (const auto& [name, bytes] : objects_) names.insert(name);
  return names;
}

std::vector<std::vector<std::string>> FakeStore::deletes() const {
  absl::MutexLock lock(&mu_);
  return deletes_;
}

uint64_t FakeStore::uploads() const {
  absl::MutexLock lock(&mu_);
  return uploads_;
}

}  // namespace holdfast::testing

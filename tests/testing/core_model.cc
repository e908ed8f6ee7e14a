#include "tests/testing/core_model.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

namespace holdfast::testing {
namespace {

using core::Reason;
using core::RegistrationId;
using core::SegmentState;

constexpr uint64_t kNeverIssued = 1;  // an id that no master gives out
constexpr const char* kPool = "cxl";

core::MasterOptions ModelOptions(uint64_t seed) {
  core::MasterOptions options = SmallOptions();
  options.seed = seed;
  options.hash_seed = seed + 1;
  options.client_ttl_ms = 4'000;
  options.read_lease_ms = 3'000;
  options.put_discard_timeout_ms = 6'000;
  options.put_release_timeout_ms = 30'000;
  return options;
}

// A walk takes several rounds, and a shard several holds, so that a lot happens in between.
cleanup::EndedRegistrationPass::Options SmallSweeps() {
  return {.steps_per_hold = 2, .steps_per_round = 3, .shards_per_round = 3};
}

bool IsOneOf(Reason reason, std::initializer_list<Reason> allowed) {
  return std::find(allowed.begin(), allowed.end(), reason) != allowed.end();
}

}  // namespace

CoreModel::CoreModel(uint64_t seed)
    : CoreHarness(ModelOptions(seed), SmallSweeps()),
      options_(ModelOptions(seed)),
      random_(seed),
      sessions_(kClients),
      incarnations_(kClients, 0),
      has_session_(kClients, false) {
  for (int client = 0; client < kClients; ++client) Open(client);
  for (int memory = 0; memory < kMemories; ++memory) {
    specs_.push_back(Spec("memory-" + std::to_string(memory)));
  }
  // Clients 0 and 1 mount their memory also in part, and in whole, under another id; 2 and 3 share a pooled device, which
  // 2 maps twice at the same address.
  specs_[4].base = specs_[0].base + kSegmentBytes / 2 + 32;
  specs_[5].base = specs_[1].base;
  specs_[6].base = specs_[2].base;
  for (int memory : {2, 3, 6}) specs_[memory].pool_id = kPool;
}

void CoreModel::Step() {
  const int client = Below(kClients);
  const int memory = Below(kMemories);
  const std::string key = RandomKey();
  switch (Below(25)) {
    case 0:
    case 1:
      return Mount(memory);
    case 2:
      return Unmount(memory, Below(3) == 0 ? 500 + Below(4'000) : 0);
    case 3:
      return Drain(memory, Below(2) == 0);
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
      return Start(key, client, ++next_own_request_);
    case 9:
      return Replay(key);
    case 10:
    case 11:
    case 12:
    case 13: {
      const Object* object = Find(key);
      return End(key, object != nullptr && Below(6) != 0 ? object->client : client);
    }
    case 14:
      return EndOrRevokeWrongPut(key, client);
    case 15: {
      const Object* object = Find(key);
      return Revoke(key, object != nullptr && Below(4) != 0 ? object->client : client);
    }
    case 16:
    case 17:
      return Read(key);
    case 18:
      return Remove(key, client, Below(2) == 0);
    case 19:
      return Pass(Below(4) == 0 ? Below(8'000) : Below(900));
    case 20:
    case 21:
      return SweepPart();
    case 22:
      return Below(3) == 0 ? SweepAll() : CompareLists();
    case 23:
      return Below(8) == 0 ? Open(client) : Read(key);
    default:
      return Below(8) == 0 ? Expire(client) : SweepPart();
  }
}

CoreModel::Object* CoreModel::Find(const std::string& key) {
  auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : &it->second;
}

bool CoreModel::RefusedFor(int client, Reason reason) {
  if (has_session_[client]) return false;
  EXPECT_EQ(reason, Reason::kSessionUnknown);
  return true;
}

// --- sessions and segments ---

void CoreModel::Open(int client) {
  const std::string name = "client-" + std::to_string(client);
  if (has_session_[client] && Below(3) == 0) {
    EXPECT_EQ(CoreHarness::Open(name, incarnations_[client]).epoch, sessions_[client].epoch);
    return;
  }
  if (has_session_[client]) SessionEnded(client);
  sessions_[client] = CoreHarness::Open(name, ++incarnations_[client]);
  has_session_[client] = true;
}

void CoreModel::Expire(int client) {
  if (!has_session_[client]) return;
  Silence(sessions_[client]);
  Tick(options_.client_ttl_ms + 500);
  SessionEnded(client);
  has_session_[client] = false;
  TimeHasPassed();
}

void CoreModel::SessionEnded(int client) {
  for (int memory = 0; memory < kMemories; ++memory) {
    if (OwnerOf(memory) == client) SegmentEnded(memory);
  }
  for (auto& [key, object] : objects_) {
    if (!object.complete && object.client == client) object.orphaned = true;
  }
}

bool CoreModel::OverlapsALiveOne(int memory) const {
  for (const auto& [other, segment] : live_) {
    if (OwnerOf(other) != OwnerOf(memory)) continue;
    const core::SegmentSpec& a = specs_[memory];
    const core::SegmentSpec& b = specs_[other];
    if (!a.pool_id.empty() && a.pool_id == b.pool_id) continue;
    if (Overlaps(a.base, a.size_bytes, b.base, b.size_bytes)) return true;
  }
  return false;
}

void CoreModel::Mount(int memory) {
  const int client = OwnerOf(memory);
  const auto answer = master().MountSegment(sessions_[client], specs_[memory], Now());
  ExpectBooksBalance();
  const Reason reason = core::ReasonOf(answer.status());
  if (RefusedFor(client, reason)) return;
  if (auto live = live_.find(memory); live != live_.end()) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->already_mounted);
    EXPECT_EQ(answer->registration, live->second.registration);
    return;
  }
  if (OverlapsALiveOne(memory)) {
    EXPECT_EQ(reason, Reason::kSegmentOverlap);
    return;
  }
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->already_mounted);
  EXPECT_TRUE(memory_of_.emplace(answer->registration, memory).second) << "an id was used twice";
  live_[memory] = {answer->registration, SegmentState::kMounted, 0};
}

void CoreModel::Unmount(int memory, int64_t grace_ms) {
  auto live = live_.find(memory);
  if (live == live_.end()) {
    // A delayed retry for any registration that has ended.
    for (const auto& [registration, of] : memory_of_) {
      if (of != memory || Below(4) != 0) continue;
      EXPECT_TRUE(master().UnmountSegmentByOperator(registration, grace_ms, Now()).ok());
    }
    ExpectBooksBalance();
    return;
  }
  Segment& segment = live->second;
  EXPECT_EQ(CoreHarness::Unmount(sessions_[OwnerOf(memory)], segment.registration, grace_ms),
            Reason::kNone);
  if (grace_ms == 0) return SegmentEnded(memory);
  const int64_t deadline_ms = Now() + grace_ms;
  segment.deadline_ms = segment.state == SegmentState::kGraceful
                            ? std::min(segment.deadline_ms, deadline_ms)
                            : deadline_ms;
  segment.state = SegmentState::kGraceful;
}

void CoreModel::Drain(int memory, bool drain) {
  auto live = live_.find(memory);
  if (live == live_.end()) return;
  Segment& segment = live->second;
  const Reason reason = core::ReasonOf(drain ? master().DrainSegment(segment.registration)
                                             : master().UndrainSegment(segment.registration));
  ExpectBooksBalance();
  if (segment.state == SegmentState::kGraceful) {
    EXPECT_EQ(reason, Reason::kSegmentState);
    return;
  }
  EXPECT_EQ(reason, Reason::kNone);
  segment.state = drain ? SegmentState::kDraining : SegmentState::kMounted;
}

void CoreModel::SegmentEnded(int memory) {
  auto live = live_.find(memory);
  if (live == live_.end()) return;
  const RegistrationId registration = live->second.registration;
  live_.erase(live);
  for (auto& [key, object] : objects_) {
    std::erase_if(object.places, [&, &ended = object](const Place& place) {
      if (place.registration != registration) return false;
      Claim(ended, place);
      return true;
    });
  }
}

bool CoreModel::TakesObjects(RegistrationId registration) const {
  return std::any_of(live_.begin(), live_.end(), [registration](const auto& live) {
    return live.second.registration == registration && live.second.state == SegmentState::kMounted;
  });
}

// --- memory ---

Extent CoreModel::ExtentOf(const Place& place, uint64_t size_bytes) const {
  const int memory = memory_of_.at(place.registration);
  const core::SegmentSpec& spec = specs_[memory];
  EXPECT_EQ(place.base, spec.base);
  EXPECT_LE(place.offset_bytes + size_bytes, spec.size_bytes);
  if (!spec.pool_id.empty()) return {spec.pool_id, place.offset_bytes, size_bytes};
  return {"client-" + std::to_string(OwnerOf(memory)), place.address(), size_bytes};
}

void CoreModel::Claim(const Object& object, const Place& place) {
  const Extent extent = ExtentOf(place, object.size_bytes);
  claims_.AddReader(object.put, extent, object.leased_until_ms);
  if (object.complete) return;
  claims_.AddWriter(object.put, extent, object.started_ms + options_.put_release_timeout_ms);
}

void CoreModel::Forget(const std::string& key) {
  auto it = objects_.find(key);
  for (const Place& place : it->second.places) Claim(it->second, place);
  objects_.erase(it);
}

// Nothing that is handed out is in anybody's hands.
void CoreModel::CheckNewObject(const Object& object) {
  std::set<RegistrationId> distinct;
  for (size_t i = 0; i < object.places.size(); ++i) {
    const Place& place = object.places[i];
    distinct.insert(place.registration);
    EXPECT_TRUE(TakesObjects(place.registration)) << "placed on a segment that takes nothing";
    EXPECT_EQ(place.offset_bytes % 64, 0u);
    const Extent extent = ExtentOf(place, object.size_bytes);
    EXPECT_EQ(claims_.Against(extent, Now()), "");
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(extent.Touches(ExtentOf(object.places[j], object.size_bytes)));
    }
    for (const auto& [key, other] : objects_) {
      for (const Place& taken : other.places) {
        EXPECT_FALSE(extent.Touches(ExtentOf(taken, other.size_bytes)))
            << "that is where " << key << " lies";
      }
    }
  }
  EXPECT_EQ(distinct.size(), object.places.size());
}

// --- puts ---

Reason CoreModel::PutObstacle(const Object* object, int client) const {
  if (object == nullptr || object->places.empty()) return Reason::kNone;
  if (object->complete) return Reason::kObjectExists;
  if (Now() - object->started_ms >= options_.put_discard_timeout_ms) return Reason::kNone;
  const bool mine = object->client == client && !object->orphaned;
  return mine ? Reason::kPutInProgressByYou : Reason::kPutInProgressByOther;
}

Reason CoreModel::ReasonForNoRoom(uint32_t replicas) const {
  const auto segments =
      static_cast<size_t>(std::count_if(live_.begin(), live_.end(), [](const auto& live) {
        return live.second.state == SegmentState::kMounted;
      }));
  if (segments == 0) return Reason::kNoSegment;
  return segments < replicas ? Reason::kTooFewSegments : Reason::kNoSpace;
}

void CoreModel::ExpectReplayOf(const Object& object, const Started& started) const {
  EXPECT_EQ(started.reason, Reason::kNone);
  EXPECT_EQ(started.put, object.put);
  const std::set<Place> told(started.places.begin(), started.places.end());
  const std::set<Place> first(object.all_places.begin(), object.all_places.end());
  EXPECT_TRUE(std::includes(first.begin(), first.end(), told.begin(), told.end()));
  for (const Place& place : object.places) EXPECT_TRUE(told.contains(place));
}

void CoreModel::Start(const std::string& key, int client, uint64_t request) {
  static constexpr uint64_t kSizes[] = {64, 100, 4096, 64 << 10, 200 << 10};
  Object* object = Find(key);
  PutWish wish;
  wish.size_bytes = kSizes[Below(5)];
  wish.replicas = 1 + static_cast<uint32_t>(Below(3));
  wish.request = request;
  wish.prefer_local = Below(4) == 0;
  if (Below(3) == 0) wish.segments = {specs_[Below(kMemories)].name};
  const Started started = CoreHarness::Start(sessions_[client], key, wish);
  if (RefusedFor(client, started.reason)) return;
  if (object != nullptr && !object->complete && !object->orphaned && !object->places.empty() &&
      object->client == client && object->request == request) {
    return ExpectReplayOf(*object, started);
  }
  const Reason obstacle = PutObstacle(object, client);
  if (obstacle != Reason::kNone) {
    if (started.reason == obstacle) return;
    EXPECT_TRUE(object->orphaned) << NameOf(started.reason) << " instead of " << NameOf(obstacle);
  }
  if (started.reason != Reason::kNone) {
    EXPECT_EQ(started.reason, ReasonForNoRoom(wish.replicas));
    return;
  }
  if (object != nullptr) Forget(key);
  puts_.push_back(started.put);
  Object fresh;
  fresh.put = started.put;
  fresh.request = request;
  fresh.client = client;
  fresh.size_bytes = wish.size_bytes;
  fresh.started_ms = Now();
  fresh.all_places = fresh.places = started.places;
  EXPECT_EQ(fresh.places.size(), wish.replicas);
  CheckNewObject(fresh);
  objects_[key] = std::move(fresh);
}

void CoreModel::Replay(const std::string& key) {
  if (const Object* object = Find(key)) Start(key, object->client, object->request);
}

void CoreModel::End(const std::string& key, int client) {
  Object* object = Find(key);
  if (object == nullptr) return;
  const Reason reason = CoreHarness::End(sessions_[client], key, object->put);
  if (RefusedFor(client, reason)) return;
  if (object->orphaned) {
    EXPECT_TRUE(IsOneOf(reason, {Reason::kNotPutOwner, Reason::kStalePut})) << NameOf(reason);
    return;
  }
  if (object->complete && object->places.empty()) {
    EXPECT_TRUE(IsOneOf(reason, {Reason::kReplicaLost, Reason::kStalePut})) << NameOf(reason);
    return;
  }
  if (!object->complete && object->client != client) {
    EXPECT_EQ(reason, Reason::kNotPutOwner);
    return;
  }
  claims_.DropWriter(object->put);
  EXPECT_EQ(reason, object->places.empty() ? Reason::kReplicaLost : Reason::kNone);
  if (reason == Reason::kNone) object->complete = true;
}

// An id of another put, or of none, changes nothing.
void CoreModel::EndOrRevokeWrongPut(const std::string& key, int client) {
  const bool known = !puts_.empty() && Below(4) != 0;
  const core::PutId put =
      known ? puts_[Below(static_cast<int>(puts_.size()))] : core::PutId{kNeverIssued};
  const Object* object = Find(key);
  if (object != nullptr && object->put == put) return;
  const bool end = Below(2) == 0;
  const Reason reason = end ? CoreHarness::End(sessions_[client], key, put)
                            : CoreHarness::Revoke(sessions_[client], key, put);
  if (RefusedFor(client, reason)) return;
  if (!known) {
    EXPECT_EQ(reason, Reason::kUnknownPut);
  } else {
    EXPECT_EQ(reason, end ? Reason::kStalePut : Reason::kNone);
  }
}

void CoreModel::Revoke(const std::string& key, int client) {
  Object* object = Find(key);
  if (object == nullptr) return;
  const Reason reason = CoreHarness::Revoke(sessions_[client], key, object->put);
  if (RefusedFor(client, reason)) return;
  if (object->orphaned) {
    EXPECT_TRUE(IsOneOf(reason, {Reason::kNotPutOwner, Reason::kNone})) << NameOf(reason);
  } else if (object->complete) {
    EXPECT_TRUE(reason == Reason::kPutComplete ||
                (object->places.empty() && reason == Reason::kNone))
        << NameOf(reason);
  } else if (object->client != client) {
    EXPECT_EQ(reason, Reason::kNotPutOwner);
  } else {
    EXPECT_EQ(reason, Reason::kNone);
    claims_.DropWriter(object->put);
    objects_.erase(key);
  }
}

// --- reads and removal ---

void CoreModel::Read(const std::string& key) {
  Object* object = Find(key);
  const bool readable = object != nullptr && object->Readable();
  const Reason expected = readable ? Reason::kNone : Reason::kObjectNotFound;
  EXPECT_EQ(Exists(key), expected) << key;
  const Found found = Get(key);
  EXPECT_EQ(found.reason, expected) << key;
  if (!readable) return;
  int64_t lease_ms = options_.read_lease_ms;
  for (const Place& place : object->places) {
    const Segment& segment = live_.at(memory_of_.at(place.registration));
    if (segment.state == SegmentState::kGraceful) {
      lease_ms = std::min(lease_ms, segment.deadline_ms - Now());
    }
  }
  EXPECT_EQ(found.lease_ms, lease_ms);
  EXPECT_EQ(found.version, object->put);
  EXPECT_EQ(found.size_bytes, object->size_bytes);
  EXPECT_EQ(std::set<Place>(found.places.begin(), found.places.end()),
            std::set<Place>(object->places.begin(), object->places.end()));
  object->leased_until_ms = std::max(object->leased_until_ms, Now() + found.lease_ms);
}

void CoreModel::Remove(const std::string& key, int client, bool force) {
  Object* object = Find(key);
  const Reason reason = CoreHarness::Remove(sessions_[client], key, force);
  if (RefusedFor(client, reason)) return;
  if (object == nullptr || (!force && !object->Readable())) {
    EXPECT_EQ(reason, Reason::kObjectNotFound);
    return;
  }
  if (!force && object->leased_until_ms > Now()) {
    EXPECT_EQ(reason, Reason::kLeased);
    return;
  }
  // Leases are rounded up by less than this.
  if (!force && reason == Reason::kLeased && object->leased_until_ms + core::kLeaseTickMs > Now())
    return;
  EXPECT_TRUE(reason == Reason::kNone || (object->Fleeting() && reason == Reason::kObjectNotFound))
      << NameOf(reason);
  Forget(key);
}

// --- passes ---

void CoreModel::Pass(int64_t ms) {
  Tick(ms);
  TimeHasPassed();
}

void CoreModel::TimeHasPassed() {
  for (int memory = 0; memory < kMemories; ++memory) {
    auto live = live_.find(memory);
    if (live == live_.end() || live->second.state != SegmentState::kGraceful) continue;
    if (live->second.deadline_ms <= Now()) SegmentEnded(memory);
  }
  std::erase_if(objects_, [this](const auto& entry) {
    const Object& object = entry.second;
    return !object.complete && object.started_ms + options_.put_release_timeout_ms <= Now();
  });
  claims_.DropOver(Now());
}

void CoreModel::SweepPart() {
  sweep_pass().Run();
  ExpectBooksBalance();
}

void CoreModel::SweepAll() {
  Sweep();
  for (auto it = objects_.begin(); it != objects_.end();) {
    const std::string key = it->first;
    const bool fleeting = it->second.Fleeting();
    ++it;
    if (fleeting) Forget(key);
  }
  CompareCounts();
}

void CoreModel::CompareCounts() {
  uint64_t replicas = 0;
  uint64_t unfinished = 0;
  for (const auto& [key, object] : objects_) {
    replicas += object.places.size();
    unfinished += object.complete ? 0 : 1;
  }
  const core::MasterCounts counts = Count();
  EXPECT_EQ(counts.objects, objects_.size());
  EXPECT_EQ(counts.replicas, replicas);
  EXPECT_EQ(counts.puts_in_progress, unfinished);
  EXPECT_EQ(counts.segments, live_.size());
}

void CoreModel::CompareLists() {
  std::vector<std::string> readable;
  std::set<std::string> must_be_listed;
  for (const auto& [key, object] : objects_) {
    if (object.Readable()) readable.push_back(key);
    if (!object.Fleeting()) must_be_listed.insert(key);
  }
  EXPECT_EQ(Keys(/*filter_invalid=*/true), readable);
  for (const std::string& key : Keys(/*filter_invalid=*/false)) {
    EXPECT_TRUE(objects_.contains(key)) << key << " should not be there";
    must_be_listed.erase(key);
  }
  EXPECT_TRUE(must_be_listed.empty()) << *must_be_listed.begin() << " is not listed";
}

void CoreModel::Finish() {
  for (int memory = 0; memory < kMemories; ++memory) {
    if (live_.contains(memory)) Unmount(memory, 0);
  }
  SweepAll();
  Pass(options_.put_release_timeout_ms + options_.read_lease_ms);
  EXPECT_TRUE(objects_.empty());
  CompareCounts();
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u);
  EXPECT_EQ(master().registry().ResidueCount(), 0u);
  EXPECT_TRUE(master().ListSegments({}, /*include_ended=*/true, SIZE_MAX, Now()).empty());
  for (int memory : {0, 4, 2}) ExpectCanBeFilled(memory);
}

void CoreModel::ExpectCanBeFilled(int memory) {
  const int client = OwnerOf(memory);
  if (!has_session_[client]) Open(client);
  Mount(memory);
  constexpr uint64_t kObjectBytes = 64 << 10;
  EXPECT_EQ(
      Fill(sessions_[client], "fill-" + std::to_string(memory) + "-", {.size_bytes = kObjectBytes})
          .size(),
      kSegmentBytes / kObjectBytes);
  Unmount(memory, 0);
  Sweep();
  Tick(100);
}

}  // namespace holdfast::testing

// Random operations on the core, each answer compared with a model that is simple enough to be believed, and every book
// recounted after each step.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/core_harness.h"

namespace holdfast::testing {
namespace {

using core::Reason;
using core::RegistrationId;

constexpr int kClients = 4;
constexpr int kMemories = 6;
constexpr int kKeys = 24;
constexpr uint64_t kObjectBytes = 64 << 10;  // sixteen fill a segment, so space runs out

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

core::MasterOptions ModelOptions(uint64_t seed) {
  core::MasterOptions options = SmallOptions();
  options.seed = seed;
  options.hash_seed = seed + 1;
  options.read_lease_ms = 3'000;
  options.put_discard_timeout_ms = 10'000;
  options.put_release_timeout_ms = 30'000;
  return options;
}

// What the model knows of an object. Places on registrations that have ended are taken out at once.
struct ModelObject {
  core::PutId put;
  int client = 0;
  bool complete = false;
  int64_t started_ms = 0;
  int64_t leased_until_ms = 0;
  std::vector<Place> places;
};

struct ModelSegment {
  RegistrationId registration;
  bool takes_objects = true;
};

// Memory that somebody may still read or write.
struct Touched {
  uint64_t address = 0;
  core::PutId put;
  int64_t leased_until_ms = 0;
  int64_t written_until_ms = 0;  // 0 when the writer has said that it is done

  int64_t until_ms() const { return std::max(leased_until_ms, written_until_ms); }
};

class ModelRun : public CoreHarness {
 public:
  explicit ModelRun(uint64_t seed) : CoreHarness(ModelOptions(seed)), random_(seed) {
    for (int c = 0; c < kClients; ++c) Reopen(c);
    for (int m = 0; m < kMemories; ++m) specs_.push_back(Spec("memory-" + std::to_string(m)));
  }

  void Step() {
    switch (Below(16)) {
      case 0:
        return Mount(Below(kMemories));
      case 1:
        return Below(3) == 0 ? Unmount(Below(kMemories)) : DrainOrBack(Below(kMemories));
      case 2:
      case 3:
      case 4:
      case 5:
        return Start(RandomKey(), Below(kClients), 1 + static_cast<uint32_t>(Below(2)));
      case 6:
      case 7:
      case 8:
        return End(RandomKey());
      case 9:
        return Revoke(RandomKey());
      case 10:
      case 11:
        return Read(RandomKey());
      case 12:
        return Remove(RandomKey(), Below(2) == 0);
      case 13:
        return Pass(Below(4) == 0 ? 4'000 + Below(8'000) : Below(900));
      case 14:
        sweep_pass().Run();  // part of a walk
        return;
      default:
        return Below(12) == 0 ? Reopen(Below(kClients)) : CheckList();
    }
  }

 private:
  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  std::string RandomKey() { return "key-" + std::to_string(Below(kKeys)); }
  ModelObject* Object(const std::string& key) {
    auto it = objects_.find(key);
    return it == objects_.end() ? nullptr : &it->second;
  }

  void Reopen(int c) {
    sessions_.resize(kClients);
    if (sessions_[c].epoch.value != 0) Silence(sessions_[c]);
    sessions_[c] = Open("client-" + std::to_string(c), ++incarnation_);
    for (int m = c; m < kMemories; m += kClients) Ended(m);
    for (auto it = objects_.begin(); it != objects_.end();) {
      const auto present = it++;
      if (present->second.complete || present->second.client != c) continue;
      Abandon(present->second);
      objects_.erase(present);
    }
    Sweep();
  }

  // --- what may still be touched ---

  void Touch(const ModelObject& object, const Place& place) {
    const int64_t written_until_ms =
        object.complete ? 0 : object.started_ms + master_options_.put_release_timeout_ms;
    touched_.push_back({place.address(), object.put, object.leased_until_ms, written_until_ms});
  }
  void Abandon(const ModelObject& object) {
    for (const Place& place : object.places) Touch(object, place);
  }
  void WriterIsDone(core::PutId put) {
    for (Touched& touched : touched_) {
      if (touched.put == put) touched.written_until_ms = 0;
    }
  }
  // Nothing that is handed out may be in somebody's hands.
  void ExpectUntouched(const Place& place) {
    for (const auto& [key, object] : objects_) {
      for (const Place& other : object.places) {
        EXPECT_FALSE(Overlaps(place.address(), kObjectBytes, other.address(), kObjectBytes))
            << "space of " << key << " was handed out again";
      }
    }
    for (const Touched& touched : touched_) {
      EXPECT_FALSE(touched.until_ms() > Now() &&
                   Overlaps(place.address(), kObjectBytes, touched.address, kObjectBytes))
          << "handed out " << touched.until_ms() - Now() << " ms too early";
    }
  }

  // --- operations ---

  void Mount(int m) {
    if (segments_.contains(m)) return;
    const RegistrationId id = CoreHarness::Mount(sessions_[m % kClients], specs_[m]);
    EXPECT_TRUE(ids_.insert(id.value).second) << "a registration id was used twice";
    segments_[m] = {id, true};
  }
  void Ended(int m) {
    auto segment = segments_.find(m);
    if (segment == segments_.end()) return;
    for (auto& [key, object] : objects_) {
      for (size_t i = object.places.size(); i-- > 0;) {
        if (object.places[i].registration != segment->second.registration) continue;
        Touch(object, object.places[i]);
        object.places.erase(object.places.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    segments_.erase(segment);
  }
  void Unmount(int m) {
    if (!segments_.contains(m)) return;
    EXPECT_EQ(CoreHarness::Unmount(sessions_[m % kClients], segments_[m].registration),
              Reason::kNone);
    Ended(m);
  }
  void DrainOrBack(int m) {
    auto segment = segments_.find(m);
    if (segment == segments_.end()) return;
    const bool drain = segment->second.takes_objects;
    const RegistrationId id = segment->second.registration;
    EXPECT_TRUE((drain ? master().DrainSegment(id) : master().UndrainSegment(id)).ok());
    segment->second.takes_objects = !drain;
  }

  // Why a put may not start; kNone when it may.
  Reason Obstacle(const ModelObject* object, int client) const {
    if (object == nullptr || object->places.empty()) return Reason::kNone;
    if (object->complete) return Reason::kObjectExists;
    if (Now() - object->started_ms >= master_options_.put_discard_timeout_ms) return Reason::kNone;
    return object->client == client ? Reason::kPutInProgressByYou : Reason::kPutInProgressByOther;
  }

  void Start(const std::string& key, int client, uint32_t replicas) {
    ModelObject* object = Object(key);
    const Reason obstacle = Obstacle(object, client);
    PutWish wish;
    wish.size_bytes = kObjectBytes;
    wish.replicas = replicas;
    const Started started = CoreHarness::Start(sessions_[client], key, wish);
    if (obstacle != Reason::kNone) {
      EXPECT_EQ(started.reason, obstacle) << key;
      return;
    }
    const std::set<Reason> no_room = {Reason::kNoSegment, Reason::kNoSpace,
                                      Reason::kTooFewSegments};
    if (no_room.contains(started.reason)) return;
    ASSERT_EQ(started.reason, Reason::kNone) << key;
    ASSERT_EQ(started.places.size(), replicas);
    if (object != nullptr) {
      Abandon(*object);
      objects_.erase(key);
    }
    std::set<RegistrationId> distinct;
    for (const Place& place : started.places) {
      distinct.insert(place.registration);
      const bool takes = std::any_of(segments_.begin(), segments_.end(), [&](const auto& segment) {
        return segment.second.registration == place.registration && segment.second.takes_objects;
      });
      EXPECT_TRUE(takes) << "placed on a segment that takes nothing";
      ExpectUntouched(place);
    }
    EXPECT_EQ(distinct.size(), replicas);
    objects_[key] = {started.put, client, false, Now(), 0, started.places};
  }

  void End(const std::string& key) {
    ModelObject* object = Object(key);
    if (object == nullptr) return;
    if (Below(6) == 0) {
      const core::PutId older{object->put.value - 1};
      const Reason reason = CoreHarness::End(sessions_[object->client], key, older);
      EXPECT_TRUE(reason == Reason::kStalePut || reason == Reason::kUnknownPut);
      return;
    }
    if (!object->complete && Below(6) == 0) {
      const int other = (object->client + 1) % kClients;
      EXPECT_EQ(CoreHarness::End(sessions_[other], key, object->put), Reason::kNotPutOwner);
      return;
    }
    const Reason reason = CoreHarness::End(sessions_[object->client], key, object->put);
    WriterIsDone(object->put);
    if (object->places.empty()) {
      // Gone altogether once it was swept, if it was complete.
      if (object->complete) {
        EXPECT_TRUE(reason == Reason::kReplicaLost || reason == Reason::kStalePut);
      } else {
        EXPECT_EQ(reason, Reason::kReplicaLost);
      }
      return;
    }
    EXPECT_EQ(reason, Reason::kNone);
    object->complete = true;
  }

  void Revoke(const std::string& key) {
    ModelObject* object = Object(key);
    if (object == nullptr) return;
    const Reason reason = CoreHarness::Revoke(sessions_[object->client], key, object->put);
    if (object->complete) {
      EXPECT_TRUE(reason == Reason::kPutComplete || object->places.empty());
      return;
    }
    EXPECT_EQ(reason, Reason::kNone);
    WriterIsDone(object->put);
    objects_.erase(key);
  }

  void Read(const std::string& key) {
    ModelObject* object = Object(key);
    const bool readable = object != nullptr && object->complete && !object->places.empty();
    EXPECT_EQ(Exists(key), readable ? Reason::kNone : Reason::kObjectNotFound) << key;
    const Found found = Get(key);
    EXPECT_EQ(found.reason, readable ? Reason::kNone : Reason::kObjectNotFound) << key;
    if (!readable) return;
    EXPECT_EQ(found.version, object->put);
    EXPECT_EQ(std::set<Place>(found.places.begin(), found.places.end()),
              std::set<Place>(object->places.begin(), object->places.end()));
    object->leased_until_ms = std::max(object->leased_until_ms, Now() + found.lease_ms);
  }

  void Remove(const std::string& key, bool force) {
    ModelObject* object = Object(key);
    const Reason reason = CoreHarness::Remove(sessions_[0], key, force);
    const bool readable = object != nullptr && object->complete && !object->places.empty();
    if (!force && !readable) {
      EXPECT_EQ(reason, Reason::kObjectNotFound);
      return;
    }
    if (!force && object->leased_until_ms > Now()) {
      EXPECT_EQ(reason, Reason::kLeased);
      return;
    }
    // Leases are rounded up by some milliseconds.
    if (reason == Reason::kLeased) return;
    if (object == nullptr) {
      EXPECT_EQ(reason, Reason::kObjectNotFound);
      return;
    }
    EXPECT_TRUE(reason == Reason::kNone || object->places.empty());
    Abandon(*object);
    objects_.erase(key);
  }

  void Pass(int64_t ms) {
    Tick(ms);
    for (auto it = objects_.begin(); it != objects_.end();) {
      const auto present = it++;
      const ModelObject& object = present->second;
      if (object.complete || object.started_ms + master_options_.put_release_timeout_ms > Now()) {
        continue;
      }
      objects_.erase(present);  // nobody may write any more
    }
  }

  void CheckList() {
    std::vector<std::string> readable;
    for (const auto& [key, object] : objects_) {
      if (object.complete && !object.places.empty()) readable.push_back(key);
    }
    std::sort(readable.begin(), readable.end());
    EXPECT_EQ(Keys(/*filter_invalid=*/true), readable);
  }

  const core::MasterOptions master_options_ = ModelOptions(0);
  std::mt19937_64 random_;
  uint64_t incarnation_ = 0;
  std::vector<core::Session> sessions_;
  std::vector<core::SegmentSpec> specs_;
  std::map<int, ModelSegment> segments_;  // live ones, by memory
  std::map<std::string, ModelObject> objects_;
  std::vector<Touched> touched_;
  std::set<uint64_t> ids_;
};

// Every promise of the core at once, in orders that nobody would think of. The model says what each answer must be, and
// that no memory is handed out that somebody may still touch; the audit, that no book disagrees with another.
TEST(CoreModelTest, R2_R18_R19_RandomOperationsAgreeWithTheModelAndAllBooksBalance) {
  const uint64_t first = FromEnvironment("HOLDFAST_SEED", std::random_device{}());
  const uint64_t runs = FromEnvironment("HOLDFAST_MODEL_RUNS", 600);
  const uint64_t steps = FromEnvironment("HOLDFAST_MODEL_STEPS", 400);
  std::printf("HOLDFAST_SEED=%llu\n", static_cast<unsigned long long>(first));
  for (uint64_t run = 0; run < runs; ++run) {
    ModelRun model(first + run);
    for (uint64_t step = 0; step < steps; ++step) {
      model.Step();
      ASSERT_FALSE(::testing::Test::HasFailure())
          << "HOLDFAST_SEED=" << first + run << " HOLDFAST_MODEL_RUNS=1, step " << step;
    }
  }
}

}  // namespace
}  // namespace holdfast::testing

// The core beside a model of it that is simple enough to be believed.

#ifndef HOLDFAST_TESTS_TESTING_CORE_MODEL_H_
#define HOLDFAST_TESTS_TESTING_CORE_MODEL_H_

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/core/ids.h"
#include "server/core/operations.h"
#include "tests/testing/claims.h"
#include "tests/testing/core_harness.h"

namespace holdfast::testing {

// Each step is one random operation, whose answer is compared with what the model says. The model knows registrations,
// objects and claims, and nothing of shards, slots, allocators or the sweep. Where an answer depends on how far the sweep
// is, it allows both.
class CoreModel : public CoreHarness {
 public:
  explicit CoreModel(uint64_t seed);

  void Step();
  // Ends everything and expects that nothing is left, and that all memory can be had again.
  void Finish();
  uint64_t puts_started() const { return puts_.size(); }

 private:
  static constexpr int kClients = 6;
  static constexpr int kMemories = 8;
  static constexpr int kKeys = 40;

  struct Segment {
    core::RegistrationId registration;
    core::SegmentState state = core::SegmentState::kMounted;
    int64_t deadline_ms = 0;  // of a graceful one
  };
  // An object as it is, or was before its segments left or its session ended.
  struct Object {
    core::PutId put;
    uint64_t request = 0;
    int client = 0;
    bool complete = false;
    bool orphaned = false;  // the session of its put has ended: gone as soon as the sweep comes by
    uint64_t size_bytes = 0;
    int64_t started_ms = 0;
    int64_t leased_until_ms = 0;
    std::vector<Place> all_places;  // as they were handed out
    std::vector<Place> places;      // on live registrations

    bool Readable() const { return complete && !places.empty(); }
    // Nothing keeps the sweep from erasing it.
    bool Fleeting() const { return orphaned || (complete && places.empty()); }
  };

  // --- operations ---

  void Open(int client);
  void Expire(int client);
  void Mount(int memory);
  void Unmount(int memory, int64_t grace_ms);
  void Drain(int memory, bool drain);
  void Start(const std::string& key, int client, uint64_t request);
  void Replay(const std::string& key);
  void End(const std::string& key, int client);
  void EndOrRevokeWrongPut(const std::string& key, int client);
  void Revoke(const std::string& key, int client);
  void Read(const std::string& key);
  void Remove(const std::string& key, int client, bool force);
  void Pass(int64_t ms);
  void SweepPart();
  void SweepAll();
  void CompareLists();
  void CompareCounts();

  // --- the model ---

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  std::string RandomKey() { return "key-" + std::to_string(Below(kKeys)); }
  Object* Find(const std::string& key);
  // A client without a session is refused, whatever it wants.
  bool RefusedFor(int client, core::Reason reason);
  int OwnerOf(int memory) const { return memory % 4; }
  bool OverlapsALiveOne(int memory) const;
  core::Reason PutObstacle(const Object* object, int client) const;
  bool TakesObjects(core::RegistrationId registration) const;
  core::Reason ReasonForNoRoom(uint32_t replicas) const;
  void ExpectReplayOf(const Object& object, const Started& started) const;
  void ExpectCanBeFilled(int memory);
  Extent ExtentOf(const Place& place, uint64_t size_bytes) const;
  // What may be touched of a place that is no replica any more.
  void Claim(const Object& object, const Place& place);
  void Forget(const std::string& key);
  void SegmentEnded(int memory);
  void SessionEnded(int client);
  void TimeHasPassed();
  void CheckNewObject(const Object& object);

  const core::MasterOptions options_;
  std::mt19937_64 random_;
  uint64_t next_own_request_ = 0;
  std::vector<core::Session> sessions_;
  std::vector<uint64_t> incarnations_;
  std::vector<bool> has_session_;
  std::vector<core::SegmentSpec> specs_;
  std::map<int, Segment> live_;  // by memory
  std::map<core::RegistrationId, int> memory_of_;
  std::map<std::string, Object> objects_;
  Claims claims_;
  std::vector<core::PutId> puts_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_CORE_MODEL_H_

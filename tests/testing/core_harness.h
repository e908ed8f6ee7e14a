// A master, its passes and a clock that stands still, with short words for what tests do with them.

#ifndef HOLDFAST_TESTS_TESTING_CORE_HARNESS_H_
#define HOLDFAST_TESTS_TESTING_CORE_HARNESS_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/cleanup/ended_registration_pass.h"
#include "server/cleanup/sweep_statistics.h"
#include "server/cleanup/timeout_pass.h"
#include "server/core/master.h"
#include "tests/testing/manual_clock.h"

namespace holdfast::core {

// For the messages of failed expectations.
inline void PrintTo(Reason reason, std::ostream* out) { *out << NameOf(reason); }
inline void PrintTo(RegistrationId id, std::ostream* out) { *out << "registration " << id.value; }
inline void PrintTo(PutId id, std::ostream* out) { *out << "put " << id.value; }

}  // namespace holdfast::core

namespace holdfast::testing {

// Where a replica lies, as an answer says it.
struct Place {
  core::RegistrationId registration;
  uint64_t base = 0;
  uint64_t offset_bytes = 0;

  uint64_t address() const { return base + offset_bytes; }
  friend auto operator<=>(const Place&, const Place&) = default;
};

// Answer for one item of PutStart. A refusal of the whole call is a reason like any other.
struct Started {
  core::Reason reason = core::Reason::kNone;
  core::PutId put;
  std::vector<Place> places = {};
  std::string upload = {};  // name of the durable replica; empty: none
  int64_t upload_left_ms = 0;
};

// Answer for one key of Get.
struct Found {
  core::Reason reason = core::Reason::kNone;
  core::PutId version;
  uint64_t size_bytes = 0;
  int64_t lease_ms = 0;
  std::vector<Place> places;
  std::string durable;  // name of the durable replica; empty: none
  std::string checksum;
};

struct PutWish {
  uint64_t size_bytes = 4096;
  uint32_t replicas = 1;
  uint64_t request = 0;                    // 0: one that was not used before
  std::vector<std::string> segments = {};  // preferred, by name
  bool prefer_local = false;
  core::Durability durability = core::Durability::kMemory;
  int64_t upload_timeout_ms = 0;
};

// Sixteen shards, so that a test looks at all of them often and audits cost little.
core::MasterOptions SmallOptions();
core::ClientId ClientNamed(const std::string& name);
core::SegmentSpec SpecNamed(const std::string& name, uint64_t base, uint64_t size_bytes);

// Every operation that changes something ends with an audit of all books, unless that was turned off. Then operations on
// objects and segments may be called by many threads at once; sessions are opened, and each pass is run, by one.
class CoreHarness {
 public:
  static constexpr uint64_t kSegmentBytes = 1 << 20;

  explicit CoreHarness(const core::MasterOptions& options);

  core::Master& master() { return master_; }
  ManualClock& clock() { return clock_; }
  cleanup::EndedRegistrationPass& sweep_pass() { return sweep_pass_; }
  int64_t Now() const { return clock_.NowMs(); }
  // For tests with many objects.
  void AuditOnlyAtTheEnd() { audit_steps_ = false; }
  void ExpectBooksBalance();

  // --- sessions ---

  // Opens a session that Tick keeps alive.
  core::Session Open(const std::string& client, uint64_t incarnation = 1, int64_t ttl_ms = 0);
  core::HeartbeatAnswer Heartbeat(const core::Session& session,
                                  const std::vector<uint64_t>& registrations = {});
  // Tick keeps it alive no more.
  void Silence(const core::Session& session);

  // --- segments ---

  // A segment of kSegmentBytes over memory of its own, with an id after its name.
  core::SegmentSpec Spec(const std::string& name);
  core::RegistrationId Mount(const core::Session& session, const core::SegmentSpec& spec);
  core::RegistrationId Mount(const core::Session& session, const std::string& name) {
    return Mount(session, Spec(name));
  }
  core::Reason MountReason(const core::Session& session, const core::SegmentSpec& spec);
  core::Reason Unmount(const core::Session& session, core::RegistrationId registration,
                       int64_t grace_ms = 0);
  // Fails the test if there is none.
  core::SegmentListing Listed(core::RegistrationId registration);
  bool IsListed(core::RegistrationId registration);

  // --- objects ---

  Started Start(const core::Session& session, const std::string& key, const PutWish& wish = {});
  core::Reason End(const core::Session& session, const std::string& key, core::PutId put,
                   core::UploadOutcome upload = core::UploadOutcome::kUnspecified,
                   const std::string& checksum = "");
  core::Reason Revoke(const core::Session& session, const std::string& key, core::PutId put,
                      core::UploadOutcome upload = core::UploadOutcome::kUnspecified);
  // Start and end. Fails the test if either is refused.
  Started Put(const core::Session& session, const std::string& key, const PutWish& wish = {});
  Started PutOn(const core::Session& session, const std::string& key, const std::string& segment);
  core::Reason Remove(const core::Session& session, const std::string& key, bool force = false);
  Found Get(const std::string& key);
  core::Reason Exists(const std::string& key);
  // All keys that the listing tells, sorted.
  std::vector<std::string> Keys(bool filter_invalid, const std::string& prefix = "");
  core::MasterCounts Count() { return master_.Count(Now()); }
  // Puts objects of a size until there is no more room; their places.
  std::vector<Place> Fill(const core::Session& session, const std::string& key_prefix,
                          const PutWish& wish);

  // --- passes ---

  // Runs the sweep until nothing is left; how many rounds it took.
  int Sweep();
  // Moves the clock in steps that no monitor takes for a stall; after each, sessions are kept alive and the timeout
  // pass is run.
  void Tick(int64_t ms);

 private:
  core::Reason Settle(const absl::Status& status);

  core::Master master_;
  ManualClock clock_;
  cleanup::SweepStatistics statistics_;
  cleanup::EndedRegistrationPass sweep_pass_;
  cleanup::TimeoutPass timeout_pass_;
  bool audit_steps_ = true;
  std::atomic<uint64_t> next_base_{uint64_t{1} << 32};
  std::atomic<uint64_t> next_request_{uint64_t{1} << 40};
  std::atomic<uint64_t> next_random_{0};
  std::vector<core::Session> kept_alive_;
};

// Whether two ranges of the same address space share a byte.
inline bool Overlaps(uint64_t begin_a, uint64_t size_a, uint64_t begin_b, uint64_t size_b) {
  return begin_a < begin_b + size_b && begin_b < begin_a + size_a;
}
// Whether one of `places` with `size_bytes` each shares a byte with [address, address + taken_bytes).
bool AnyTouches(const std::vector<Place>& places, uint64_t size_bytes, uint64_t address,
                uint64_t taken_bytes);

// The books are audited once more when the test is over.
class CoreTest : public ::testing::Test, public CoreHarness {
 protected:
  CoreTest() : CoreHarness(SmallOptions()) {}
  explicit CoreTest(const core::MasterOptions& options) : CoreHarness(options) {}

  void TearDown() override { EXPECT_EQ(master().Audit(), ""); }
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_TESTING_CORE_HARNESS_H_

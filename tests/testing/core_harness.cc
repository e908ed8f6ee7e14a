#include "tests/testing/core_harness.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/string_view.h"

namespace holdfast::testing {
namespace {

constexpr int64_t kTickStepMs = 500;
// Between segments, so that a test may make one larger.
constexpr uint64_t kSpacingBytes = uint64_t{1} << 30;

template <typename Id>
Id IdNamed(const std::string& name) {
  EXPECT_LE(name.size(), Id::kBytes) << "names of tests are their ids";
  Id id;
  std::memcpy(id.bytes.data(), name.data(), std::min(name.size(), Id::kBytes));
  return id;
}

std::vector<Place> PlacesOf(const core::ReplicaTable& table, uint32_t first, uint32_t count) {
  std::vector<Place> places;
  for (uint32_t i = first; i < first + count; ++i) {
    const core::ReplicaRow& replica = table.replicas[i];
    const core::SegmentRow& segment = table.segments[replica.segment];
    places.push_back({segment.registration, segment.base, replica.offset_bytes});
  }
  return places;
}

}  // namespace

core::MasterOptions SmallOptions() {
  core::MasterOptions options;
  options.shard_count = 16;
  return options;
}

core::ClientId ClientNamed(const std::string& name) { return IdNamed<core::ClientId>(name); }

core::SegmentSpec SpecNamed(const std::string& name, uint64_t base, uint64_t size_bytes) {
  core::SegmentSpec spec;
  spec.id = IdNamed<core::SegmentId>(name);
  spec.name = name;
  spec.endpoint = name + ":9000";
  spec.transport = "tcp";
  spec.base = base;
  spec.size_bytes = size_bytes;
  return spec;
}

CoreHarness::CoreHarness(const core::MasterOptions& options)
    : master_(options),
      sweep_pass_(&master_, &clock_, &statistics_, {}),
      timeout_pass_(&master_, &clock_) {}

void CoreHarness::ExpectBooksBalance() { EXPECT_EQ(master_.Audit(), ""); }

core::Reason CoreHarness::Settle(const absl::Status& status) {
  if (audit_steps_) ExpectBooksBalance();
  if (status.ok()) return core::Reason::kNone;
  const core::Reason reason = core::ReasonOf(status);
  EXPECT_NE(reason, core::Reason::kNone) << "a refusal without a reason: " << status;
  return reason;
}

core::Session CoreHarness::Open(const std::string& client, uint64_t incarnation, int64_t ttl_ms) {
  core::HeartbeatRequest request;
  request.client = ClientNamed(client);
  request.incarnation = incarnation;
  request.ttl_ms = ttl_ms;
  absl::StatusOr<core::HeartbeatAnswer> answer = master_.Heartbeat(request, Now());
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok()) return {};
  EXPECT_EQ(answer->state, core::SessionState::kOpened);
  const core::Session session{request.client, answer->epoch};
  Silence(session);
  kept_alive_.push_back(session);
  return session;
}

core::HeartbeatAnswer CoreHarness::Heartbeat(const core::Session& session,
                                             const std::vector<uint64_t>& registrations) {
  core::HeartbeatRequest request;
  request.client = session.client;
  request.epoch = session.epoch;
  request.registration_ids = registrations;
  absl::StatusOr<core::HeartbeatAnswer> answer = master_.Heartbeat(request, Now());
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? *answer : core::HeartbeatAnswer();
}

void CoreHarness::Silence(const core::Session& session) {
  kept_alive_.erase(std::remove_if(kept_alive_.begin(), kept_alive_.end(),
                                   [&session](const core::Session& kept) {
                                     return kept.client == session.client;
                                   }),
                    kept_alive_.end());
}

core::SegmentSpec CoreHarness::Spec(const std::string& name) {
  return SpecNamed(name, next_base_.fetch_add(kSpacingBytes), kSegmentBytes);
}

core::RegistrationId CoreHarness::Mount(const core::Session& session,
                                        const core::SegmentSpec& spec) {
  absl::StatusOr<core::MountAnswer> answer = master_.MountSegment(session, spec, Now());
  EXPECT_TRUE(answer.ok()) << answer.status();
  Settle(answer.status());
  return answer.ok() ? answer->registration : core::RegistrationId();
}

core::Reason CoreHarness::MountReason(const core::Session& session, const core::SegmentSpec& spec) {
  return Settle(master_.MountSegment(session, spec, Now()).status());
}

core::Reason CoreHarness::Unmount(const core::Session& session, core::RegistrationId registration,
                                  int64_t grace_ms) {
  return Settle(master_.UnmountSegment(session, registration, grace_ms, Now()));
}

core::SegmentListing CoreHarness::Listed(core::RegistrationId registration) {
  for (const core::SegmentListing& row : master_.ListSegments({}, true, SIZE_MAX, Now())) {
    if (row.registration == registration) return row;
  }
  ADD_FAILURE() << "registration " << registration.value << " is not listed";
  return {};
}

bool CoreHarness::IsListed(core::RegistrationId registration) {
  for (const core::SegmentListing& row : master_.ListSegments({}, true, SIZE_MAX, Now())) {
    if (row.registration == registration) return true;
  }
  return false;
}

Started CoreHarness::Start(const core::Session& session, const std::string& key,
                           const PutWish& wish) {
  core::PutStartItem item;
  item.key = key;
  item.size_bytes = wish.size_bytes;
  item.replicas = wish.replicas;
  item.request = core::RequestId{wish.request != 0 ? wish.request : ++next_request_};
  item.durability = wish.durability;
  item.upload_timeout_ms = wish.upload_timeout_ms;
  const std::vector<absl::string_view> preferred(wish.segments.begin(), wish.segments.end());
  core::PutStartRequest request;
  request.session = session;
  request.items = {&item, 1};
  request.preferred_segments = preferred;
  request.prefer_local = wish.prefer_local;
  request.random = ++next_random_;
  core::PutStartAnswer answer;
  Started started;
  started.reason = Settle(master_.PutStart(request, Now(), &answer));
  if (started.reason != core::Reason::kNone) return started;
  const core::PutStartRow& row = answer.rows.at(0);
  started.reason = row.reason;
  started.put = row.put;
  started.places = PlacesOf(answer, row.first_replica, row.replica_count);
  if (!answer.uploads.empty()) {
    started.upload = answer.uploads.at(0).name;
    started.upload_left_ms = answer.uploads.at(0).time_left_ms;
  }
  return started;
}

core::Reason CoreHarness::End(const core::Session& session, const std::string& key, core::PutId put,
                              core::UploadOutcome upload, const std::string& checksum) {
  const core::PutRef item{key, put, upload, checksum};
  std::vector<core::Outcome> answer;
  const core::Reason refused = Settle(master_.PutEnd(session, {&item, 1}, Now(), &answer));
  return refused != core::Reason::kNone ? refused : answer.at(0).reason;
}

core::Reason CoreHarness::Revoke(const core::Session& session, const std::string& key,
                                 core::PutId put, core::UploadOutcome upload) {
  const core::PutRef item{key, put, upload, {}};
  std::vector<core::Outcome> answer;
  const core::Reason refused = Settle(master_.PutRevoke(session, {&item, 1}, Now(), &answer));
  return refused != core::Reason::kNone ? refused : answer.at(0).reason;
}

Started CoreHarness::Put(const core::Session& session, const std::string& key,
                         const PutWish& wish) {
  Started started = Start(session, key, wish);
  EXPECT_EQ(started.reason, core::Reason::kNone) << "put start of " << key;
  if (started.reason != core::Reason::kNone) return started;
  started.reason = End(session, key, started.put);
  EXPECT_EQ(started.reason, core::Reason::kNone) << "put end of " << key;
  return started;
}

Started CoreHarness::PutOn(const core::Session& session, const std::string& key,
                           const std::string& segment) {
  return Put(session, key, {.segments = {segment}});
}

core::Reason CoreHarness::Remove(const core::Session& session, const std::string& key, bool force) {
  const absl::string_view item = key;
  std::vector<core::Outcome> answer;
  const core::Reason refused = Settle(master_.Remove(session, {&item, 1}, force, Now(), &answer));
  return refused != core::Reason::kNone ? refused : answer.at(0).reason;
}

Found CoreHarness::Get(const std::string& key) {
  const absl::string_view item = key;
  core::GetAnswer answer;
  Found found;
  const absl::Status status = master_.Get({&item, 1}, Now(), &answer);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return found;
  const core::GetRow& row = answer.rows.at(0);
  found.reason = row.reason;
  found.version = row.version;
  found.size_bytes = row.size_bytes;
  found.lease_ms = row.lease_ms;
  found.places = PlacesOf(answer, row.first_replica, row.replica_count);
  if (row.durable != 0) {
    found.durable = answer.durable.at(row.durable - 1).name;
    found.checksum = answer.durable.at(row.durable - 1).checksum;
  }
  return found;
}

core::Reason CoreHarness::Exists(const std::string& key) {
  const absl::string_view item = key;
  std::vector<core::Outcome> answer;
  const absl::Status status = master_.Exists({&item, 1}, &answer);
  EXPECT_TRUE(status.ok()) << status;
  return answer.at(0).reason;
}

std::vector<std::string> CoreHarness::Keys(bool filter_invalid, const std::string& prefix) {
  std::vector<core::KeyListing> rows;
  core::KeyCursor cursor;
  while (master_.ListKeys(filter_invalid, prefix, &cursor, &rows)) {
  }
  std::vector<std::string> keys;
  for (core::KeyListing& row : rows) keys.push_back(std::move(row.key));
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<Place> CoreHarness::Fill(const core::Session& session, const std::string& key_prefix,
                                     const PutWish& wish) {
  const bool audited = audit_steps_;
  audit_steps_ = false;
  std::vector<Place> places;
  for (int i = 0;; ++i) {
    const std::string key = key_prefix + std::to_string(i);
    const Started started = Start(session, key, wish);
    if (started.reason != core::Reason::kNone) {
      EXPECT_EQ(started.reason, core::Reason::kNoSpace);
      break;
    }
    places.insert(places.end(), started.places.begin(), started.places.end());
    EXPECT_EQ(End(session, key, started.put), core::Reason::kNone);
  }
  audit_steps_ = audited;
  if (audit_steps_) ExpectBooksBalance();
  return places;
}

int CoreHarness::Sweep() {
  int rounds = 0;
  while (sweep_pass_.Run()) ++rounds;
  if (audit_steps_) ExpectBooksBalance();
  return rounds;
}

void CoreHarness::Tick(int64_t ms) {
  const int64_t end_ms = Now() + ms;
  while (Now() < end_ms) {
    clock_.AdvanceMs(std::min(kTickStepMs, end_ms - Now()));
    for (const core::Session& session : kept_alive_) Heartbeat(session);
    timeout_pass_.Run();
  }
  if (audit_steps_) ExpectBooksBalance();
}

bool AnyTouches(const std::vector<Place>& places, uint64_t size_bytes, uint64_t address,
                uint64_t taken_bytes) {
  return std::any_of(places.begin(), places.end(), [&](const Place& place) {
    return Overlaps(place.address(), size_bytes, address, taken_bytes);
  });
}

}  // namespace holdfast::testing

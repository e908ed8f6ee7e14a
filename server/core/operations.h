// Arguments and answers of the master's operations: plain data, so that an operation can come from a call, a test or a
// journal alike. Times are milliseconds of the injected steady clock, sizes and offsets are bytes.

#ifndef HOLDFAST_SERVER_CORE_OPERATIONS_H_
#define HOLDFAST_SERVER_CORE_OPERATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/core/ids.h"
#include "server/core/outcome.h"

namespace holdfast::core {

enum class PlacementStrategy : uint8_t {
  kRandom,          // any segment that has room
  kFreeRatioFirst,  // the emptier of two random ones
  kLocalFirst,      // a segment of the writing client, then kFreeRatioFirst
};

// Limits and time-outs. Each is a flag of the master; see options.cc for its reason.
struct MasterOptions {
  uint32_t shard_count = 1024;  // power of two, at most 65,536
  uint32_t max_segments = 65536;
  uint32_t max_clients = 65536;
  uint32_t max_batch_items = 4096;
  uint32_t max_key_bytes = 1024;
  uint32_t max_label_bytes = 256;  // names, endpoints, hosts and the like
  uint32_t max_replicas = 16;
  uint64_t spare_memory_bytes = 8 << 20;  // for objects to come
  int64_t client_ttl_ms = 10'000;
  int64_t client_ttl_min_ms = 1'000;
  int64_t client_ttl_max_ms = 600'000;
  int64_t heartbeat_interval_ms = 1'000;
  int64_t read_lease_ms = 10'000;
  int64_t put_discard_timeout_ms = 30'000;
  int64_t put_release_timeout_ms = 600'000;
  int64_t grace_max_ms = 3'600'000;
  // The master takes itself for stopped when its monitor was not run for so long, and gives every client a fresh time-out.
  int64_t stall_threshold_ms = 2'000;
  // When more than half of the clients (and at least this many) seem to die in one round, they get one more chance.
  uint32_t mass_expiry_min_clients = 4;
  int64_t mass_expiry_grace_ms = 3'000;
  PlacementStrategy strategy = PlacementStrategy::kFreeRatioFirst;
  // Random in the daemon, fixed in tests. Two, because ids are seen by clients, and whoever could compute the seed of the
  // hash from them could choose keys that collide.
  uint64_t seed = 1;       // where ids start
  uint64_t hash_seed = 2;  // of keys
};

struct SegmentSpec {
  SegmentId id;
  std::string name;
  std::string endpoint;
  std::string transport;
  uint64_t base = 0;
  uint64_t size_bytes = 0;
  std::string host;
  std::string rack;
  std::string pool_id;  // empty: an allocator of its own

  friend bool operator==(const SegmentSpec&, const SegmentSpec&) = default;
};

struct MountAnswer {
  RegistrationId registration;
  bool already_mounted = false;
  // Takes objects only when readers and late writers of an earlier registration of this memory are done.
  bool waits_for_earlier = false;
};

struct HeartbeatRequest {
  ClientId client;
  ClientEpoch epoch;         // none: open a session
  uint64_t incarnation = 0;  // random for each client process
  int64_t ttl_ms = 0;        // 0: the master's default
  std::string host;
  std::string peer;                             // where the call came from
  absl::Span<const uint64_t> registration_ids;  // what the client believes to be mounted
  bool close = false;                           // ends the session
};

enum class SessionState : uint8_t { kLive = 1, kOpened = 2, kLost = 3, kClosed = 4 };

struct HeartbeatAnswer {
  SessionState state = SessionState::kLost;
  ClientEpoch epoch;
  int64_t ttl_ms = 0;
  std::vector<uint64_t> ended_registration_ids;
};

// A segment that replicas of one answer point to. `slot` and `lifetime` are the core's own.
struct SegmentRow {
  RegistrationId registration;
  std::string endpoint;
  std::string transport;
  uint64_t base = 0;
  uint32_t slot = 0;
  uint32_t lifetime = 0;
};

struct ReplicaRow {
  uint32_t segment = 0;  // index into the answer's segments
  uint64_t offset_bytes = 0;
};

// Rows of an answer name their replicas as [first_replica, first_replica + replica_count).
struct ReplicaTable {
  std::vector<SegmentRow> segments;
  std::vector<ReplicaRow> replicas;
};

struct GetRow {
  Reason reason = Reason::kNone;
  uint64_t size_bytes = 0;
  PutId version;
  int64_t lease_ms = 0;
  uint32_t first_replica = 0;
  uint32_t replica_count = 0;
};

struct GetAnswer : ReplicaTable {
  std::vector<GetRow> rows;
};

struct PutStartItem {
  absl::string_view key;
  uint64_t size_bytes = 0;
  uint32_t replicas = 1;
  RequestId request;
};

struct PutStartRequest {
  Session session;
  absl::Span<const PutStartItem> items;
  absl::Span<const absl::string_view> preferred_segments;  // names
  bool prefer_local = false;
  uint64_t random = 0;  // this call's randomness
};

struct PutStartRow {
  Reason reason = Reason::kNone;
  PutId put;
  uint32_t first_replica = 0;
  uint32_t replica_count = 0;
};

struct PutStartAnswer : ReplicaTable {
  std::vector<PutStartRow> rows;
};

// One item of PutEnd and PutRevoke.
struct PutRef {
  absl::string_view key;
  PutId put;
};

// --- lists for operators ---

enum class SegmentState : uint8_t { kMounted = 1, kDraining = 2, kGraceful = 3, kEnded = 4 };

struct SegmentListing {
  SegmentSpec spec;
  RegistrationId registration;
  uint32_t slot = 0;  // the core's own
  SegmentState state = SegmentState::kMounted;
  ClientId owner;
  uint64_t allocated_bytes = 0;  // of its allocator: shared by the registrations of one pool
  uint64_t ranges = 0;
  int64_t grace_left_ms = 0;
  bool waits_for_earlier = false;
};

struct ClientListing {
  ClientId client;
  ClientEpoch epoch;
  std::string host;
  std::string peer;
  int64_t last_heartbeat_age_ms = 0;
  int64_t ttl_ms = 0;
  uint32_t segments = 0;
};

// Where a listing of keys goes on. Valid for ever; {0, 0} is the start.
struct KeyCursor {
  uint32_t shard = 0;
  uint32_t record = 0;
};

struct KeyListing {
  std::string key;
  KeyCursor next;  // behind this row
  uint64_t size_bytes = 0;
  uint32_t replicas = 0;
  uint32_t available_replicas = 0;
  bool put_in_progress = false;
};

struct ReplicaListing {
  RegistrationId registration;
  std::string segment_name;
  std::string endpoint;
  uint64_t offset_bytes = 0;
  bool complete = false;
  bool available = false;
};

struct ObjectListing {
  uint64_t size_bytes = 0;
  PutId version;
  int64_t lease_left_ms = 0;
  bool put_in_progress = false;
  int64_t put_age_ms = 0;
  std::vector<ReplicaListing> replicas;
};

struct CleanupCounts {
  uint64_t ended_registrations_waiting = 0;
  uint64_t ended_replicas_waiting = 0;
  int64_t oldest_waiting_age_ms = 0;
  uint64_t swept_replicas = 0;
  uint64_t swept_registrations = 0;
  uint64_t erased_objects = 0;
  uint64_t quarantined_ranges = 0;
  uint64_t quarantined_bytes = 0;
  uint64_t discarded_puts = 0;
  uint64_t expired_clients = 0;
  uint64_t deferred_expiries = 0;
  uint64_t master_stalls = 0;
};

struct MasterCounts {
  uint64_t clients = 0;
  uint64_t segments = 0;
  uint64_t capacity_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t objects = 0;
  uint64_t replicas = 0;
  uint64_t puts_in_progress = 0;
  uint64_t record_memory_bytes = 0;
  CleanupCounts cleanup;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OPERATIONS_H_

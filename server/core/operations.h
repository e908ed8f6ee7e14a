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

// Where the replicas of an object are to lie.
enum class Durability : uint8_t {
  kMemory = 0,
  kMemoryAndDurable = 1,
  kDurable = 2,
};

// What a client knows of its upload when a put ends.
enum class UploadOutcome : uint8_t {
  kUnspecified = 0,  // there was none, or nothing is known
  kNotStarted = 1,   // the store never heard of the name, and never will
  kFinished = 2,     // stored; nothing can land any more
  kAmbiguous = 3,    // may be stored, and may still land until the deadline and its grace are over
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
  // The durable tier. Without it no put may ask for a durable replica.
  bool durable_tier = false;
  std::string name_partition = "00000000";  // the first part of each name in it
  uint32_t ledger_tickets = 65536;          // at most 16 M
  uint32_t ledger_client_percent = 25;      // of the tickets, for one client
  uint32_t ledger_removal_percent =
      10;                              // of the tickets, left to removed objects that wait for one
  int64_t upload_timeout_ms = 60'000;  // unless the put names another
  int64_t upload_timeout_max_ms = 600'000;
  int64_t upload_grace_ms = 120'000;    // after its deadline an upload may still land so long
  int64_t publish_window_ms = 600'000;  // after that a put may still be ended so long
  PlacementStrategy strategy = PlacementStrategy::kFreeRatioFirst;
  // Random in the daemon, fixed in tests. Two, because ids are seen by clients, and whoever could compute the seed of the
  // hash from them could choose keys that collide.
  uint64_t seed = 1;       // where ids start
  uint64_t hash_seed = 2;  // of keys

  // Age at which a put with a durable replica is given up. One for all of them, so that they end in the order of their start.
  int64_t durable_put_release_ms() const {
    return upload_timeout_max_ms + upload_grace_ms + publish_window_ms;
  }
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

// A put that was offered to another client.
struct HandoverEntry {
  std::string key;
  PutId put;
  TicketId ticket;
  uint32_t offer = 0;  // the ledger's number of it
  uint64_t size_bytes = 0;
  std::string checksum;
  Reason refused = Reason::kNone;  // it never was an offer, but has its place in the sequence
};

// One offer on its way to the receiver.
struct OfferRow {
  ClientId from;
  uint64_t handover_id = 0;
  uint64_t sequence = 0;
  HandoverEntry entry;
  bool open = false;  // false: withdrawn, published or given up; acknowledgements pass it
  std::string name;   // in the durable tier, while it is open
};

enum class SessionState : uint8_t { kLive = 1, kOpened = 2, kLost = 3, kClosed = 4 };

struct HeartbeatAnswer {
  SessionState state = SessionState::kLost;
  ClientEpoch epoch;
  int64_t ttl_ms = 0;
  std::vector<uint64_t> ended_registration_ids;
  std::vector<OfferRow> offers;  // to this client, not acknowledged yet
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
  uint32_t durable = 0;  // place in GetAnswer::durable, from 1 on; 0: no durable replica
};

// A published replica in the durable tier.
struct DurableRow {
  std::string name;
  std::string checksum;  // as its writer gave it
};

struct GetAnswer : ReplicaTable {
  std::vector<GetRow> rows;
  std::vector<DurableRow> durable;
};

struct PutStartItem {
  absl::string_view key;
  uint64_t size_bytes = 0;
  uint32_t replicas = 1;  // in memory
  RequestId request;
  Durability durability = Durability::kMemory;
  int64_t upload_timeout_ms = 0;  // 0: the master's default
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

// Where the durable replica of a put is to be uploaded to, and until when.
struct UploadRow {
  uint32_t row = 0;  // of PutStartAnswer::rows
  std::string name;
  int64_t time_left_ms = 0;
};

struct PutStartAnswer : ReplicaTable {
  std::vector<PutStartRow> rows;
  std::vector<UploadRow> uploads;  // in the order of their rows
};

// One item of PutEnd and PutRevoke.
struct PutRef {
  absl::string_view key;
  PutId put;
  UploadOutcome upload = UploadOutcome::kUnspecified;
  absl::string_view checksum = {};  // of the uploaded bytes, for readers; at most 128 bytes
};

// --- hand-over of puts with an unpublished durable replica ---

struct OfferItem {
  absl::string_view key;
  PutId put;
  absl::string_view checksum = {};  // told to the receiver
};

struct OfferRequest {
  Session session;
  ClientId to;
  uint64_t handover_id = 0;     // chosen by the sender
  uint64_t first_sequence = 0;  // of items[0]; the others follow
  absl::Span<const OfferItem> items;
};

struct OfferAnswer {
  std::vector<Outcome> rows;
  uint64_t next_sequence = 0;  // that the next offer must have
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
  bool durable = false;  // a published durable replica
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
  std::string durable_name;  // empty: no durable replica
  std::string durable_checksum;
  bool durable_published = false;
};

// --- the ledger of unpublished names ---

enum class TicketState : uint8_t {
  kFree = 0,
  kReserved = 1,    // a client's: the upload may be absent, running or finished
  kOffered = 2,     // the same, offered to another client that has not acknowledged
  kPublishing = 3,  // the put is ending
  kWaiting = 4,     // to be deleted when no upload can land any more
  kReady = 5,       // to be deleted
  kDeleting = 6,    // in the request to the store
};

struct TicketListing {
  TicketId ticket;
  std::string name;
  TicketState state = TicketState::kFree;
  ClientEpoch owner;               // on whose account; none for removed objects
  int64_t age_ms = 0;              // of the master's debt; 0 while it is a client's
  int64_t not_before_left_ms = 0;  // until an upload can land no more
};

struct LedgerCounts {
  uint64_t tickets_used = 0;
  uint64_t tickets_capacity = 0;
  uint64_t tickets_high_water = 0;
  uint64_t full_refusals = 0;
  uint64_t quota_refusals = 0;
  uint64_t pending_tasks = 0;      // ready or being deleted
  uint64_t pending_names = 0;      // of these tasks
  uint64_t quarantined_names = 0;  // kWaiting
  uint64_t removal_debt = 0;       // removed objects whose names have no ticket yet
  int64_t oldest_owed_age_ms = 0;
  uint64_t published_names = 0;  // since start
  uint64_t unused_names = 0;     // uploads that never started
  uint64_t deleted_names = 0;    // confirmed deletions
  uint64_t retried_names = 0;    // given back by an attempt
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
  uint64_t durable_replicas = 0;  // published, or of puts in progress
  CleanupCounts cleanup;
  LedgerCounts ledger;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OPERATIONS_H_

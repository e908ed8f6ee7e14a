// Client of a Holdfast master: lends memory, puts, gets and removes objects. It moves no bytes: the caller writes and reads
// the memory that the answers name, by its own transport.
//
// A Client keeps one session: a thread of its own sends heartbeats, and when the session is lost (the master restarted,
// or this process was silent for too long) it opens a new one and mounts all segments again. All methods are
// thread-safe and block until the answer is there or the deadline is over.

#ifndef HOLDFAST_CLIENT_H_
#define HOLDFAST_CLIENT_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace holdfast {

// What a caller must handle differently; numbers and names are those of holdfast.v1.Reason in proto/holdfast/v1/types.proto.
enum class Reason : int {
  kNone = 0,
  kObjectNotFound = 1,
  kObjectExists = 2,
  kPutInProgressByOther = 3,
  kPutInProgressByYou = 4,
  kLeased = 5,
  kStalePut = 6,
  kPutComplete = 7,
  kNotPutOwner = 8,
  kUnknownPut = 9,
  kReplicaLost = 10,
  kNoSegment = 20,
  kNoSpace = 21,
  kTooFewSegments = 22,
  kSegmentLimit = 23,
  kClientLimit = 24,
  kLedgerFull = 25,
  kClientQuota = 26,
  kNoDurableTier = 27,
  kOffered = 28,
  kHandoverUnknown = 29,
  kSessionUnknown = 30,
  kSessionStale = 31,
  kProtocolMismatch = 32,
  kSegmentExists = 40,
  kSegmentOverlap = 41,
  kSegmentUnknown = 42,
  kNotSegmentOwner = 43,
  kSegmentState = 44,
  kEmptyKey = 50,
  kKeyTooLong = 51,
  kBadSize = 52,
  kBadReplicaCount = 53,
  kBatchEmpty = 54,
  kBatchTooLarge = 55,
  kBadId = 56,
  kBadField = 57,
  kServerBusy = 60,
};

// Name as in the protocol, without prefix: "OBJECT_NOT_FOUND".
absl::string_view ReasonName(Reason reason);
// The reason that the master gave for a refused request (kNone if it gave none).
Reason ReasonOf(const absl::Status& status);

// Outcome of one item of a batch.
struct ItemStatus {
  absl::StatusCode code = absl::StatusCode::kOk;
  Reason reason = Reason::kNone;
  std::string message;

  bool ok() const { return code == absl::StatusCode::kOk; }
};

// A segment that copies of objects lie on.
struct SegmentLocation {
  uint64_t registration_id = 0;  // present it to the owner of the memory, who refuses ended ones
  std::string endpoint;
  std::string transport;
  uint64_t base = 0;  // in its owner's terms
};

// Where one copy of an object lies. The objects of one answer share their segments.
struct ReplicaLocation {
  std::shared_ptr<const SegmentLocation> segment;
  uint64_t offset_bytes = 0;  // from the segment's base
};
using ReplicaLocations = absl::InlinedVector<ReplicaLocation, 2>;

// Where the replicas of an object are to lie.
enum class Durability : int {
  kMemory = 0,
  kMemoryAndDurable = 1,  // on segments, and in the durable tier
  kDurable = 2,           // in the durable tier alone
};

// What is known of an upload to the durable tier when its put ends.
enum class UploadOutcome : int {
  kUnspecified = 0,  // there was none, or nothing is known
  kNotStarted = 1,   // the store never heard of the name, and never will
  kFinished = 2,     // stored; nothing can land any more
  kAmbiguous = 3,    // may be stored, and may still land
};

struct PutItem {
  std::string key;  // any bytes, 1 to 1,024
  uint64_t size_bytes = 0;
  uint32_t replicas = 1;  // in memory
  Durability durability = Durability::kMemory;
  std::chrono::milliseconds upload_timeout{0};  // 0: the master's default
};

struct PutOptions {
  std::vector<std::string> preferred_segments;  // names, in order
  bool prefer_local = false;                    // segments of this client first
};

// A put that was started. Write the bytes to all replicas, then PutEnd; or PutRevoke.
struct StartedPut {
  ItemStatus status;
  uint64_t put_id = 0;
  ReplicaLocations replicas;
  std::string object_name;  // in the durable tier; empty: no durable replica
  // The upload must have ended by then; measured from before the request was sent.
  std::chrono::steady_clock::time_point upload_deadline;
};

struct PutRef {
  std::string key;
  uint64_t put_id = 0;
  // Of the durable replica. PutEnd publishes it when it is kFinished, and otherwise ends the put in memory alone.
  UploadOutcome upload = UploadOutcome::kUnspecified;
  std::string checksum = {};  // told to readers; at most 128 bytes
};

// What became of an upload, and of a whole durable put.
struct UploadResult {
  ItemStatus status;
  UploadOutcome outcome = UploadOutcome::kUnspecified;
  std::string checksum;
};

struct DurablePutResult {
  ItemStatus status;   // the first error
  ItemStatus cleanup;  // of taking the put back after it; never replaces it
  uint64_t version = 0;
};

// A put with an unpublished durable replica on its way from one client to another.
struct OfferedPut {
  std::array<uint8_t, 16> from_client_id{};
  uint64_t handover_id = 0;
  uint64_t sequence = 0;
  bool open = false;  // false: withdrawn or over; acknowledge its number like the others
  std::string key;
  uint64_t put_id = 0;
  uint64_t size_bytes = 0;
  std::string object_name;
  std::string checksum;
};

struct OfferResult {
  std::vector<ItemStatus> items;
  uint64_t next_sequence = 0;  // that the next offer must have
};

struct FoundObject {
  ItemStatus status;
  uint64_t size_bytes = 0;
  uint64_t version = 0;
  // The bytes may be read until then; measured from before the request was sent, so it never promises too much.
  std::chrono::steady_clock::time_point lease_end;
  ReplicaLocations replicas;
  std::string object_name;  // in the durable tier; empty: no durable replica
  std::string checksum;     // of that one, as its writer gave it
};

struct SegmentOptions {
  std::array<uint8_t, 16> segment_id{};  // all zero: one is made up
  std::string name;
  std::string endpoint;
  std::string transport = "tcp";
  uint64_t base = 0;
  uint64_t size_bytes = 0;
  std::string host;
  std::string rack;
  std::string pool_id;
};

// Events of the session, told on the heartbeat thread. Must not block and must not call the client.
struct SessionEvents {
  // The session was opened again; `remounted` of `wanted` segments are mounted. Ids of registrations have changed.
  std::function<void(size_t remounted, size_t wanted)> on_reopened;
  // The master has ended these registrations: refuse access to them.
  std::function<void(const std::vector<uint64_t>& registration_ids)> on_registrations_ended;
  // Puts that other clients offer to this one, in order, again with each heartbeat until they are acknowledged.
  std::function<void(const std::vector<OfferedPut>& puts)> on_offers;
};

struct ClientOptions {
  std::string master = "127.0.0.1:50051";
  std::array<uint8_t, 16> client_id{};               // all zero: a random one
  std::string host;                                  // label of this client
  std::chrono::milliseconds ttl{0};                  // 0: the master's default
  std::chrono::milliseconds deadline{5000};          // of each call
  std::chrono::milliseconds connect_deadline{5000};  // of Connect
  bool open_session = true;  // false: only reads and administration are possible
  // The durable tier ("file://...", "s3://..."); empty: where the master says. Credentials of S3 come from the usual
  // AWS_* variables.
  std::string durable_store;
  SessionEvents events;
};

class Client {
 public:
  // Connects, opens a session and starts the heartbeat thread. UNAVAILABLE when the master cannot be reached in time,
  // FAILED_PRECONDITION (PROTOCOL_MISMATCH) when it speaks another version.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options);
  // Stops the heartbeat. What the client lends stays until its time-out has run out; Close before is kinder.
  virtual ~Client() = default;

  // Returns the registration id. ALREADY_EXISTS, INVALID_ARGUMENT, RESOURCE_EXHAUSTED as the master says.
  virtual absl::StatusOr<uint64_t> MountSegment(const SegmentOptions& segment) = 0;
  // OK also when it had ended before. `grace`: stay readable so long.
  virtual absl::Status UnmountSegment(
      uint64_t registration_id, std::chrono::milliseconds grace = std::chrono::milliseconds(0)) = 0;
  virtual absl::Status UnmountAll() = 0;
  // Ends the session and all that hangs on it, segments and puts in progress, at once. The client is good for nothing but
  // reads afterwards. OK also when there is no session.
  virtual absl::Status Close() = 0;
  // Registration ids of the segments that are mounted now.
  virtual std::vector<uint64_t> MountedRegistrations() const = 0;

  // One result an item, in order. A repeated call is a new put; retries within the call are recognised by the master.
  virtual absl::StatusOr<std::vector<StartedPut>> PutStart(absl::Span<const PutItem> items,
                                                           const PutOptions& options = {}) = 0;
  virtual absl::StatusOr<std::vector<ItemStatus>> PutEnd(absl::Span<const PutRef> puts) = 0;
  virtual absl::StatusOr<std::vector<ItemStatus>> PutRevoke(absl::Span<const PutRef> puts) = 0;
  virtual absl::StatusOr<std::vector<FoundObject>> Get(absl::Span<const std::string> keys) = 0;
  virtual absl::StatusOr<std::vector<ItemStatus>> Exists(absl::Span<const std::string> keys) = 0;
  // Never repeated by the library: a second removal might hit a newer object.
  virtual absl::StatusOr<std::vector<ItemStatus>> Remove(absl::Span<const std::string> keys,
                                                         bool force = false) = 0;

  // --- the durable tier ---

  // Uploads the durable replica of a put that was started. `payload` is freed when the upload has ended, whatever became
  // of it, before anything else is done.
  virtual UploadResult Upload(const StartedPut& put, std::string payload) = 0;
  // A whole put of one object whose only replica is durable: start, upload, end. When the upload fails, the put is revoked with
  // what is known of it, so that the master deletes the name. A full ledger is waited for, as long as the deadline allows.
  virtual DurablePutResult PutDurable(const std::string& key, std::string payload) = 0;
  // The bytes of the durable replica of an object that Get has found. NOT_FOUND when it has none, or it was removed.
  virtual absl::StatusOr<std::string> ReadDurable(const FoundObject& object) = 0;

  // Hand-over of puts with an unpublished durable replica. `handover_id` is a queue to one receiver, for as long as both
  // sessions live; `sequence` is the number of the first put, 0 at the start. The sender owns them until they are
  // acknowledged. `checksum` of each is told to the receiver, `upload` is not used.
  virtual absl::StatusOr<OfferResult> OfferPuts(const std::array<uint8_t, 16>& to_client_id,
                                                uint64_t handover_id, uint64_t sequence,
                                                absl::Span<const PutRef> puts) = 0;
  // Takes over everything before `next_expected`; returns where the hand-over stands.
  virtual absl::StatusOr<uint64_t> AcknowledgeOffers(const std::array<uint8_t, 16>& from_client_id,
                                                     uint64_t handover_id,
                                                     uint64_t next_expected) = 0;
  // Keeps what was not acknowledged, from `sequence` on, `count` of them (0: all); returns how many.
  virtual absl::StatusOr<uint64_t> WithdrawOffers(uint64_t handover_id, uint64_t sequence,
                                                  uint64_t count) = 0;

  virtual std::array<uint8_t, 16> client_id() const = 0;
  virtual uint64_t client_epoch() const = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_CLIENT_H_

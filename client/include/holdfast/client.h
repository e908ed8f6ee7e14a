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

struct PutItem {
  std::string key;  // any bytes, 1 to 1,024
  uint64_t size_bytes = 0;
  uint32_t replicas = 1;
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
};

struct PutRef {
  std::string key;
  uint64_t put_id = 0;
};

struct FoundObject {
  ItemStatus status;
  uint64_t size_bytes = 0;
  uint64_t version = 0;
  // The bytes may be read until then; measured from before the request was sent, so it never promises too much.
  std::chrono::steady_clock::time_point lease_end;
  ReplicaLocations replicas;
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
};

struct ClientOptions {
  std::string master = "127.0.0.1:50051";
  std::array<uint8_t, 16> client_id{};               // all zero: a random one
  std::string host;                                  // label of this client
  std::chrono::milliseconds ttl{0};                  // 0: the master's default
  std::chrono::milliseconds deadline{5000};          // of each call
  std::chrono::milliseconds connect_deadline{5000};  // of Connect
  bool open_session = true;  // false: only reads and administration are possible
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

  virtual std::array<uint8_t, 16> client_id() const = 0;
  virtual uint64_t client_epoch() const = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_CLIENT_H_

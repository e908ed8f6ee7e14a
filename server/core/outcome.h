// How an operation of the core ended. Request-level failures are absl::Status with a Reason attached; items of a batch
// carry an Outcome, which costs nothing when all went well.

#ifndef HOLDFAST_SERVER_CORE_OUTCOME_H_
#define HOLDFAST_SERVER_CORE_OUTCOME_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace holdfast::core {

// What a caller must handle differently. The numbers are those of holdfast.v1.Reason, checked where they are converted.
enum class Reason : uint8_t {
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

// The code that goes with each reason; one table for items and requests.
absl::StatusCode CodeOf(Reason reason);

// Name of the reason as in the protocol, without its prefix: "OBJECT_NOT_FOUND".
absl::string_view NameOf(Reason reason);

// Outcome of one item. kNone is success.
struct Outcome {
  Reason reason = Reason::kNone;

  bool ok() const { return reason == Reason::kNone; }
  absl::StatusCode code() const { return CodeOf(reason); }
};

// A request-level failure: CodeOf(reason), the message, and the reason for ReasonOf.
absl::Status Refuse(Reason reason, absl::string_view message);

// The reason that Refuse attached, or kNone.
Reason ReasonOf(const absl::Status& status);

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OUTCOME_H_

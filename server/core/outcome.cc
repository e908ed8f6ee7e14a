#include "server/core/outcome.h"

#include <array>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

namespace holdfast::core {
namespace {

struct ReasonRow {
  Reason reason;
  absl::StatusCode code;
  absl::string_view name;
};

constexpr std::array kReasons = {
    ReasonRow{Reason::kNone, absl::StatusCode::kOk, "NONE"},
    ReasonRow{Reason::kObjectNotFound, absl::StatusCode::kNotFound, "OBJECT_NOT_FOUND"},
    ReasonRow{Reason::kObjectExists, absl::StatusCode::kAlreadyExists, "OBJECT_EXISTS"},
    ReasonRow{Reason::kPutInProgressByOther, absl::StatusCode::kAlreadyExists,
              "PUT_IN_PROGRESS_BY_OTHER"},
    ReasonRow{Reason::kPutInProgressByYou, absl::StatusCode::kAlreadyExists,
              "PUT_IN_PROGRESS_BY_YOU"},
    ReasonRow{Reason::kLeased, absl::StatusCode::kFailedPrecondition, "LEASED"},
    ReasonRow{Reason::kStalePut, absl::StatusCode::kFailedPrecondition, "STALE_PUT"},
    ReasonRow{Reason::kPutComplete, absl::StatusCode::kFailedPrecondition, "PUT_COMPLETE"},
    ReasonRow{Reason::kNotPutOwner, absl::StatusCode::kFailedPrecondition, "NOT_PUT_OWNER"},
    ReasonRow{Reason::kUnknownPut, absl::StatusCode::kNotFound, "UNKNOWN_PUT"},
    ReasonRow{Reason::kReplicaLost, absl::StatusCode::kAborted, "REPLICA_LOST"},
    ReasonRow{Reason::kNoSegment, absl::StatusCode::kResourceExhausted, "NO_SEGMENT"},
    ReasonRow{Reason::kNoSpace, absl::StatusCode::kResourceExhausted, "NO_SPACE"},
    ReasonRow{Reason::kTooFewSegments, absl::StatusCode::kResourceExhausted, "TOO_FEW_SEGMENTS"},
    ReasonRow{Reason::kSegmentLimit, absl::StatusCode::kResourceExhausted, "SEGMENT_LIMIT"},
    ReasonRow{Reason::kClientLimit, absl::StatusCode::kResourceExhausted, "CLIENT_LIMIT"},
    ReasonRow{Reason::kLedgerFull, absl::StatusCode::kResourceExhausted, "LEDGER_FULL"},
    ReasonRow{Reason::kClientQuota, absl::StatusCode::kResourceExhausted, "CLIENT_QUOTA"},
    ReasonRow{Reason::kNoDurableTier, absl::StatusCode::kFailedPrecondition, "NO_DURABLE_TIER"},
    ReasonRow{Reason::kOffered, absl::StatusCode::kFailedPrecondition, "OFFERED"},
    ReasonRow{Reason::kHandoverUnknown, absl::StatusCode::kFailedPrecondition, "HANDOVER_UNKNOWN"},
    ReasonRow{Reason::kSessionUnknown, absl::StatusCode::kFailedPrecondition, "SESSION_UNKNOWN"},
    ReasonRow{Reason::kSessionStale, absl::StatusCode::kFailedPrecondition, "SESSION_STALE"},
    ReasonRow{Reason::kProtocolMismatch, absl::StatusCode::kFailedPrecondition,
              "PROTOCOL_MISMATCH"},
    ReasonRow{Reason::kSegmentExists, absl::StatusCode::kAlreadyExists, "SEGMENT_EXISTS"},
    ReasonRow{Reason::kSegmentOverlap, absl::StatusCode::kInvalidArgument, "SEGMENT_OVERLAP"},
    ReasonRow{Reason::kSegmentUnknown, absl::StatusCode::kNotFound, "SEGMENT_UNKNOWN"},
    ReasonRow{Reason::kNotSegmentOwner, absl::StatusCode::kPermissionDenied, "NOT_SEGMENT_OWNER"},
    ReasonRow{Reason::kSegmentState, absl::StatusCode::kFailedPrecondition, "SEGMENT_STATE"},
    ReasonRow{Reason::kEmptyKey, absl::StatusCode::kInvalidArgument, "EMPTY_KEY"},
    ReasonRow{Reason::kKeyTooLong, absl::StatusCode::kInvalidArgument, "KEY_TOO_LONG"},
    ReasonRow{Reason::kBadSize, absl::StatusCode::kInvalidArgument, "BAD_SIZE"},
    ReasonRow{Reason::kBadReplicaCount, absl::StatusCode::kInvalidArgument, "BAD_REPLICA_COUNT"},
    ReasonRow{Reason::kBatchEmpty, absl::StatusCode::kInvalidArgument, "BATCH_EMPTY"},
    ReasonRow{Reason::kBatchTooLarge, absl::StatusCode::kInvalidArgument, "BATCH_TOO_LARGE"},
    ReasonRow{Reason::kBadId, absl::StatusCode::kInvalidArgument, "BAD_ID"},
    ReasonRow{Reason::kBadField, absl::StatusCode::kInvalidArgument, "BAD_FIELD"},
    ReasonRow{Reason::kServerBusy, absl::StatusCode::kResourceExhausted, "SERVER_BUSY"},
};

// Not the address of a message: it names the payload on an absl::Status inside this process.
constexpr absl::string_view kReasonPayload = "holdfast.reason";

const ReasonRow& RowOf(Reason reason) {
  for (const ReasonRow& row : kReasons) {
    if (row.reason == reason) return row;
  }
  return kReasons[0];
}

}  // namespace

absl::StatusCode CodeOf(Reason reason) { return RowOf(reason).code; }

absl::string_view NameOf(Reason reason) { return RowOf(reason).name; }

absl::Status Refuse(Reason reason, absl::string_view message) {
  absl::Status status(CodeOf(reason), message);
  status.SetPayload(kReasonPayload, absl::Cord(NameOf(reason)));
  return status;
}

Reason ReasonOf(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kReasonPayload);
  if (!payload.has_value()) return Reason::kNone;
  for (const ReasonRow& row : kReasons) {
    if (*payload == row.name) return row.reason;
  }
  return Reason::kNone;
}

}  // namespace holdfast::core

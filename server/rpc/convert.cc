#include "server/rpc/convert.h"

#include <algorithm>
#include <string>
#include <utility>

namespace holdfast::rpc {
namespace {

// The numbers of both enumerations are one list; a new reason has to be in both.
constexpr std::pair<core::Reason, v1::Reason> kReasons[] = {
    {core::Reason::kNone, v1::REASON_UNSPECIFIED},
    {core::Reason::kObjectNotFound, v1::REASON_OBJECT_NOT_FOUND},
    {core::Reason::kObjectExists, v1::REASON_OBJECT_EXISTS},
    {core::Reason::kPutInProgressByOther, v1::REASON_PUT_IN_PROGRESS_BY_OTHER},
    {core::Reason::kPutInProgressByYou, v1::REASON_PUT_IN_PROGRESS_BY_YOU},
    {core::Reason::kLeased, v1::REASON_LEASED},
    {core::Reason::kStalePut, v1::REASON_STALE_PUT},
    {core::Reason::kPutComplete, v1::REASON_PUT_COMPLETE},
    {core::Reason::kNotPutOwner, v1::REASON_NOT_PUT_OWNER},
    {core::Reason::kUnknownPut, v1::REASON_UNKNOWN_PUT},
    {core::Reason::kReplicaLost, v1::REASON_REPLICA_LOST},
    {core::Reason::kNoSegment, v1::REASON_NO_SEGMENT},
    {core::Reason::kNoSpace, v1::REASON_NO_SPACE},
    {core::Reason::kTooFewSegments, v1::REASON_TOO_FEW_SEGMENTS},
    {core::Reason::kSegmentLimit, v1::REASON_SEGMENT_LIMIT},
    {core::Reason::kClientLimit, v1::REASON_CLIENT_LIMIT},
    {core::Reason::kLedgerFull, v1::REASON_LEDGER_FULL},
    {core::Reason::kClientQuota, v1::REASON_CLIENT_QUOTA},
    {core::Reason::kNoDurableTier, v1::REASON_NO_DURABLE_TIER},
    {core::Reason::kOffered, v1::REASON_OFFERED},
    {core::Reason::kHandoverUnknown, v1::REASON_HANDOVER_UNKNOWN},
    {core::Reason::kSessionUnknown, v1::REASON_SESSION_UNKNOWN},
    {core::Reason::kSessionStale, v1::REASON_SESSION_STALE},
    {core::Reason::kProtocolMismatch, v1::REASON_PROTOCOL_MISMATCH},
    {core::Reason::kSegmentExists, v1::REASON_SEGMENT_EXISTS},
    {core::Reason::kSegmentOverlap, v1::REASON_SEGMENT_OVERLAP},
    {core::Reason::kSegmentUnknown, v1::REASON_SEGMENT_UNKNOWN},
    {core::Reason::kNotSegmentOwner, v1::REASON_NOT_SEGMENT_OWNER},
    {core::Reason::kSegmentState, v1::REASON_SEGMENT_STATE},
    {core::Reason::kEmptyKey, v1::REASON_EMPTY_KEY},
    {core::Reason::kKeyTooLong, v1::REASON_KEY_TOO_LONG},
    {core::Reason::kBadSize, v1::REASON_BAD_SIZE},
    {core::Reason::kBadReplicaCount, v1::REASON_BAD_REPLICA_COUNT},
    {core::Reason::kBatchEmpty, v1::REASON_BATCH_EMPTY},
    {core::Reason::kBatchTooLarge, v1::REASON_BATCH_TOO_LARGE},
    {core::Reason::kBadId, v1::REASON_BAD_ID},
    {core::Reason::kBadField, v1::REASON_BAD_FIELD},
    {core::Reason::kServerBusy, v1::REASON_SERVER_BUSY},
};

constexpr bool SameNumbers() {
  for (const auto& [core_reason, proto_reason] : kReasons) {
    if (static_cast<int>(core_reason) != static_cast<int>(proto_reason)) return false;
  }
  return true;
}
static_assert(SameNumbers());

static_assert(int(core::SessionState::kClosed) == v1::HeartbeatResponse::STATE_CLOSED);
static_assert(int(core::SegmentState::kMounted) == v1::SEGMENT_STATE_MOUNTED);
static_assert(int(core::SegmentState::kDraining) == v1::SEGMENT_STATE_DRAINING);
static_assert(int(core::SegmentState::kGraceful) == v1::SEGMENT_STATE_GRACEFUL);
static_assert(int(core::Durability::kMemoryAndDurable) == v1::DURABILITY_MEMORY_AND_DURABLE);
static_assert(int(core::Durability::kDurable) == v1::DURABILITY_DURABLE);
static_assert(int(core::UploadOutcome::kNotStarted) == v1::UPLOAD_OUTCOME_NOT_STARTED);
static_assert(int(core::UploadOutcome::kFinished) == v1::UPLOAD_OUTCOME_FINISHED);
static_assert(int(core::UploadOutcome::kAmbiguous) == v1::UPLOAD_OUTCOME_AMBIGUOUS);
static_assert(int(core::TicketState::kReserved) == v1::TICKET_STATE_RESERVED);
static_assert(int(core::TicketState::kOffered) == v1::TICKET_STATE_OFFERED);
static_assert(int(core::TicketState::kPublishing) == v1::TICKET_STATE_PUBLISHING);
static_assert(int(core::TicketState::kWaiting) == v1::TICKET_STATE_WAITING);
static_assert(int(core::TicketState::kReady) == v1::TICKET_STATE_READY);
static_assert(int(core::TicketState::kDeleting) == v1::TICKET_STATE_DELETING);
static_assert(int(core::SegmentState::kEnded) == v1::SEGMENT_STATE_ENDED);

void FillSegment(const core::SegmentRow& row, v1::SegmentRef* out) {
  out->set_registration_id(row.registration.value);
  out->set_endpoint(row.endpoint);
  out->set_transport(row.transport);
  out->set_base(row.base);
}

// A value of a newer or a broken client stays one that the core refuses.
template <typename Enum>
Enum ToEnum(int value) {
  return static_cast<Enum>(std::min(static_cast<uint32_t>(value), 0xffu));
}

template <typename Result>
void SetOutcome(core::Reason reason, Result* out) {
  if (reason == core::Reason::kNone) return;
  out->set_code(static_cast<int>(core::CodeOf(reason)));
  out->set_reason(ToProto(reason));
  const absl::string_view message = Explain(reason);
  if (!message.empty()) out->set_message(message.data(), message.size());
}

template <typename Row>
void AddReplicas(const core::ReplicaTable& table, const Row& row,
                 google::protobuf::RepeatedPtrField<v1::Replica>* out) {
  for (uint32_t i = 0; i < row.replica_count; ++i) {
    const core::ReplicaRow& replica = table.replicas[row.first_replica + i];
    v1::Replica* added = out->Add();
    added->set_segment(replica.segment);
    added->set_offset(replica.offset_bytes);
  }
}

}  // namespace

v1::Reason ToProto(core::Reason reason) { return static_cast<v1::Reason>(reason); }

absl::string_view Explain(core::Reason reason) {
  switch (reason) {
    case core::Reason::kLeased:
      return "a reader holds a lease on it";
    case core::Reason::kStalePut:
      return "this put is over: it was discarded, revoked or replaced";
    case core::Reason::kPutComplete:
      return "the put has ended; remove the object instead";
    case core::Reason::kNotPutOwner:
      return "the put belongs to another client";
    case core::Reason::kUnknownPut:
      return "this put id was never issued";
    case core::Reason::kReplicaLost:
      return "all segments of this put have left; start again";
    case core::Reason::kPutInProgressByOther:
      return "another client is writing it";
    case core::Reason::kPutInProgressByYou:
      return "this client is writing it under another request id";
    case core::Reason::kNoSegment:
      return "no segment takes new objects";
    case core::Reason::kNoSpace:
      return "no segment has a free range that is large enough";
    case core::Reason::kTooFewSegments:
      return "more replicas wanted than segments take new objects";
    case core::Reason::kEmptyKey:
      return "the key is empty";
    case core::Reason::kKeyTooLong:
      return "the key is too long";
    case core::Reason::kBadSize:
      return "the size is zero or larger than any segment";
    case core::Reason::kBadReplicaCount:
      return "too many replicas";
    case core::Reason::kBadId:
      return "request_id is missing";
    case core::Reason::kLedgerFull:
      return "every ticket for unpublished names is taken; wait a second or more";
    case core::Reason::kClientQuota:
      return "this client holds its share of the tickets; end or revoke puts first";
    case core::Reason::kNoDurableTier:
      return "this master has no durable tier";
    case core::Reason::kOffered:
      return "the put is offered to another client already";
    case core::Reason::kHandoverUnknown:
      return "the hand-over does not go on here: a session has ended, or an offer is missing";
    case core::Reason::kBadField:
      return "an argument has no meaning here: a time-out, an outcome of the upload, or a checksum";
    default:
      return "";
  }
}

absl::StatusOr<core::Session> FromProto(const v1::Session& session) {
  core::Session out;
  if (!core::ClientId::Parse(session.client_id(), &out.client)) {
    return core::Refuse(core::Reason::kBadId, "session: client_id is not 16 bytes");
  }
  out.epoch.value = session.client_epoch();
  return out;
}

absl::StatusOr<core::SegmentSpec> FromProto(const v1::SegmentSpec& spec) {
  core::SegmentSpec out;
  if (!core::SegmentId::Parse(spec.segment_id(), &out.id)) {
    return core::Refuse(core::Reason::kBadId, "mount segment: segment_id is not 16 bytes");
  }
  out.name = spec.name();
  out.endpoint = spec.endpoint();
  out.transport = spec.transport();
  out.base = spec.base();
  out.size_bytes = spec.size();
  out.host = spec.host();
  out.rack = spec.rack();
  out.pool_id = spec.pool_id();
  return out;
}

void ToProto(const core::SegmentSpec& spec, v1::SegmentSpec* out) {
  out->set_segment_id(std::string(spec.id.AsBytes()));
  out->set_name(spec.name);
  out->set_endpoint(spec.endpoint);
  out->set_transport(spec.transport);
  out->set_base(spec.base);
  out->set_size(spec.size_bytes);
  out->set_host(spec.host);
  out->set_rack(spec.rack);
  out->set_pool_id(spec.pool_id);
}

std::vector<absl::string_view> Keys(const google::protobuf::RepeatedPtrField<std::string>& keys) {
  return {keys.begin(), keys.end()};
}

std::vector<core::PutRef> Puts(const google::protobuf::RepeatedPtrField<v1::PutRef>& puts) {
  std::vector<core::PutRef> out;
  out.reserve(static_cast<size_t>(puts.size()));
  for (const v1::PutRef& put : puts) {
    out.push_back({put.key(), core::PutId{put.put_id()}, ToEnum<core::UploadOutcome>(put.upload()),
                   put.checksum()});
  }
  return out;
}

std::vector<core::PutStartItem> Items(
    const google::protobuf::RepeatedPtrField<v1::PutStartItem>& items) {
  std::vector<core::PutStartItem> out;
  out.reserve(static_cast<size_t>(items.size()));
  for (const v1::PutStartItem& item : items) {
    out.push_back({item.key(), item.size(), item.replicas(), core::RequestId{item.request_id()},
                   ToEnum<core::Durability>(item.durability()), item.upload_timeout_ms()});
  }
  return out;
}

void ToProto(const std::vector<core::Outcome>& outcomes,
             google::protobuf::RepeatedPtrField<v1::ItemResult>* out) {
  out->Reserve(static_cast<int>(outcomes.size()));
  for (const core::Outcome& outcome : outcomes) SetOutcome(outcome.reason, out->Add());
}

void ToProto(const core::GetAnswer& answer, v1::GetResponse* out) {
  for (const core::SegmentRow& segment : answer.segments) {
    FillSegment(segment, out->add_segments());
  }
  out->mutable_results()->Reserve(static_cast<int>(answer.rows.size()));
  for (const core::GetRow& row : answer.rows) {
    v1::GetResult* result = out->add_results();
    SetOutcome(row.reason, result);
    if (row.reason != core::Reason::kNone) continue;
    result->set_size(row.size_bytes);
    result->set_version(row.version.value);
    result->set_lease_ms(static_cast<uint32_t>(row.lease_ms));
    AddReplicas(answer, row, result->mutable_replicas());
    if (row.durable == 0) continue;
    const core::DurableRow& durable = answer.durable[row.durable - 1];
    result->mutable_durable()->set_object_name(durable.name);
    result->mutable_durable()->set_checksum(durable.checksum);
  }
}

void ToProto(const core::PutStartAnswer& answer, v1::PutStartResponse* out) {
  for (const core::SegmentRow& segment : answer.segments) {
    FillSegment(segment, out->add_segments());
  }
  out->mutable_results()->Reserve(static_cast<int>(answer.rows.size()));
  for (const core::PutStartRow& row : answer.rows) {
    v1::PutStartResult* result = out->add_results();
    SetOutcome(row.reason, result);
    if (row.reason != core::Reason::kNone) continue;
    result->set_put_id(row.put.value);
    AddReplicas(answer, row, result->mutable_replicas());
  }
  for (const core::UploadRow& upload : answer.uploads) {
    v1::PutStartResult* result = out->mutable_results(static_cast<int>(upload.row));
    result->set_object_name(upload.name);
    result->set_upload_left_ms(static_cast<uint32_t>(upload.time_left_ms));
  }
}

void ToProto(const core::SegmentListing& row, v1::SegmentInfo* out) {
  ToProto(row.spec, out->mutable_spec());
  out->set_registration_id(row.registration.value);
  out->set_state(static_cast<v1::SegmentState>(row.state));
  out->set_client_id(std::string(row.owner.AsBytes()));
  out->set_allocated_bytes(row.allocated_bytes);
  out->set_ranges(row.ranges);
  out->set_grace_left_ms(static_cast<uint64_t>(row.grace_left_ms));
  out->set_waits_for_earlier_registration(row.waits_for_earlier);
  out->set_drained(row.state == core::SegmentState::kDraining && row.ranges == 0);
}

void ToProto(const core::ClientListing& row, v1::ClientInfo* out) {
  out->set_client_id(std::string(row.client.AsBytes()));
  out->set_client_epoch(row.epoch.value);
  out->set_host(row.host);
  out->set_last_heartbeat_age_ms(static_cast<uint64_t>(row.last_heartbeat_age_ms));
  out->set_ttl_ms(static_cast<uint32_t>(row.ttl_ms));
  out->set_segments(row.segments);
  out->set_peer(row.peer);
}

void ToProto(const core::KeyListing& row, v1::ListedKey* out) {
  out->set_key(row.key);
  out->set_size(row.size_bytes);
  out->set_replicas(row.replicas);
  out->set_available_replicas(row.available_replicas);
  out->set_put_in_progress(row.put_in_progress);
  out->set_durable(row.durable);
}

void ToProto(const core::ObjectListing& row, v1::GetObjectResponse* out) {
  out->set_size(row.size_bytes);
  out->set_version(row.version.value);
  out->set_lease_left_ms(static_cast<uint64_t>(row.lease_left_ms));
  out->set_put_in_progress(row.put_in_progress);
  out->set_put_age_ms(static_cast<uint64_t>(row.put_age_ms));
  for (const core::ReplicaListing& replica : row.replicas) {
    v1::ReplicaInfo* info = out->add_replicas();
    info->set_registration_id(replica.registration.value);
    info->set_segment_name(replica.segment_name);
    info->set_endpoint(replica.endpoint);
    info->set_offset(replica.offset_bytes);
    info->set_complete(replica.complete);
    info->set_available(replica.available);
  }
  if (row.durable_name.empty()) return;
  out->mutable_durable()->set_object_name(row.durable_name);
  out->mutable_durable()->set_checksum(row.durable_checksum);
  out->set_durable_published(row.durable_published);
}

void ToProto(const core::OfferRow& row, v1::Offer* out) {
  out->set_from_client_id(std::string(row.from.AsBytes()));
  out->set_handover_id(row.handover_id);
  out->set_seq(row.sequence);
  out->set_open(row.open);
  if (!row.open) return;
  out->set_key(row.entry.key);
  out->set_put_id(row.entry.put.value);
  out->set_size(row.entry.size_bytes);
  out->set_object_name(row.name);
  out->set_checksum(row.entry.checksum);
}

void ToProto(const core::TicketListing& row, v1::UnpublishedName* out) {
  out->set_object_name(row.name);
  out->set_state(static_cast<v1::TicketState>(row.state));
  out->set_client_epoch(row.owner.value);
  out->set_owed_age_ms(static_cast<uint64_t>(row.age_ms));
  out->set_not_before_left_ms(static_cast<uint64_t>(row.not_before_left_ms));
}

void ToProto(const core::LedgerCounts& counts, v1::LedgerStatus* out) {
  out->set_tickets_used(counts.tickets_used);
  out->set_tickets_capacity(counts.tickets_capacity);
  out->set_tickets_high_water(counts.tickets_high_water);
  out->set_full_refusals(counts.full_refusals);
  out->set_quota_refusals(counts.quota_refusals);
  out->set_pending_tasks(counts.pending_tasks);
  out->set_pending_names(counts.pending_names);
  out->set_quarantined_names(counts.quarantined_names);
  out->set_removal_debt(counts.removal_debt);
  out->set_oldest_owed_age_ms(static_cast<uint64_t>(counts.oldest_owed_age_ms));
  out->set_published_names(counts.published_names);
  out->set_unused_names(counts.unused_names);
  out->set_deleted_names(counts.deleted_names);
  out->set_retried_names(counts.retried_names);
}

void ToProto(const core::CleanupCounts& counts, v1::CleanupStatus* out) {
  out->set_ended_registrations_waiting(counts.ended_registrations_waiting);
  out->set_ended_replicas_waiting(counts.ended_replicas_waiting);
  out->set_oldest_waiting_age_ms(static_cast<uint64_t>(counts.oldest_waiting_age_ms));
  out->set_swept_replicas(counts.swept_replicas);
  out->set_swept_registrations(counts.swept_registrations);
  out->set_erased_objects(counts.erased_objects);
  out->set_quarantined_ranges(counts.quarantined_ranges);
  out->set_quarantined_bytes(counts.quarantined_bytes);
  out->set_discarded_puts(counts.discarded_puts);
  out->set_expired_clients(counts.expired_clients);
  out->set_deferred_expiries(counts.deferred_expiries);
  out->set_master_stalls(counts.master_stalls);
}

std::string ToToken(const core::KeyCursor& cursor) {
  std::string token;
  for (const uint32_t word : {cursor.shard, cursor.record}) {
    for (int shift = 24; shift >= 0; shift -= 8) token.push_back(static_cast<char>(word >> shift));
  }
  return token;
}

bool FromToken(absl::string_view token, core::KeyCursor* cursor) {
  *cursor = core::KeyCursor();
  if (token.empty()) return true;
  if (token.size() != 8) return false;
  uint64_t both = 0;
  for (const char byte : token) both = both << 8 | static_cast<uint8_t>(byte);
  *cursor = {static_cast<uint32_t>(both >> 32), static_cast<uint32_t>(both)};
  return true;
}

}  // namespace holdfast::rpc

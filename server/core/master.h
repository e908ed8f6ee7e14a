// The domain: every operation of a client or an operator, on plain data, without network, threads or clocks. Time and
// randomness are arguments.
//
// Thread-safe. Locks are leaves: no operation holds two at once.
// An operation on items never fails as a whole once its items are looked at: limits and the session are checked first,
// and a refused call has changed nothing.

#ifndef HOLDFAST_SERVER_CORE_MASTER_H_
#define HOLDFAST_SERVER_CORE_MASTER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/core/client_sessions.h"
#include "server/core/handover_book.h"
#include "server/core/ids.h"
#include "server/core/object_table.h"
#include "server/core/operations.h"
#include "server/core/outcome.h"
#include "server/core/placement.h"
#include "server/core/quarantine.h"
#include "server/core/segment_registry.h"
#include "server/core/segment_table_builder.h"
#include "server/core/unpublished_ledger.h"

namespace holdfast::core {

class Master {
 public:
  explicit Master(const MasterOptions& options);

  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  const MasterOptions& options() const { return options_; }

  // The checks that every call on items begins with. BATCH_EMPTY, BATCH_TOO_LARGE; SESSION_*, BAD_ID.
  absl::Status CheckBatch(absl::string_view operation, size_t items) const;
  absl::Status CheckSession(const Session& session) const { return sessions_.Check(session); }

  // --- sessions ---

  // BAD_ID, BAD_FIELD, CLIENT_LIMIT. An epoch that is not the live one answers kLost.
  absl::StatusOr<HeartbeatAnswer> Heartbeat(const HeartbeatRequest& request, int64_t now_ms);

  // --- segments ---

  // BAD_FIELD, BAD_SIZE, BAD_ID, SESSION_*, SEGMENT_EXISTS, SEGMENT_OVERLAP, SEGMENT_LIMIT.
  absl::StatusOr<MountAnswer> MountSegment(const Session& session, const SegmentSpec& spec,
                                           int64_t now_ms);
  // OK for a registration that has ended or never was. SESSION_*, NOT_SEGMENT_OWNER, BAD_FIELD. O(1).
  absl::Status UnmountSegment(const Session& session, RegistrationId registration, int64_t grace_ms,
                              int64_t now_ms);
  // The same for an operator, whoever owns the segment.
  absl::Status UnmountSegmentByOperator(RegistrationId registration, int64_t grace_ms,
                                        int64_t now_ms);
  // SEGMENT_UNKNOWN, SEGMENT_STATE.
  absl::Status DrainSegment(RegistrationId registration);
  absl::Status UndrainSegment(RegistrationId registration);

  // --- objects: answers have one row an item, in order ---

  // BATCH_EMPTY, BATCH_TOO_LARGE, SESSION_*.
  absl::Status PutStart(const PutStartRequest& request, int64_t now_ms, PutStartAnswer* answer);
  absl::Status PutEnd(const Session& session, absl::Span<const PutRef> items, int64_t now_ms,
                      std::vector<Outcome>* answer);
  absl::Status PutRevoke(const Session& session, absl::Span<const PutRef> items, int64_t now_ms,
                         std::vector<Outcome>* answer);
  absl::Status Remove(const Session& session, absl::Span<const absl::string_view> keys, bool force,
                      int64_t now_ms, std::vector<Outcome>* answer);

  // BATCH_EMPTY, BATCH_TOO_LARGE.
  absl::Status Get(absl::Span<const absl::string_view> keys, int64_t now_ms,
                   GetAnswer* answer) const;
  absl::Status Exists(absl::Span<const absl::string_view> keys, std::vector<Outcome>* answer) const;
  // The two halves of Get: the second takes out what has ended since the first has looked.
  absl::Status BuildGet(absl::Span<const absl::string_view> keys, int64_t now_ms,
                        GetAnswer* answer) const;
  void RecheckGet(GetAnswer* answer) const;

  // --- hand-over of puts with an unpublished durable replica ---

  // The sender stays the owner of each until it is acknowledged. A repeated offer changes nothing.
  // BATCH_EMPTY, BATCH_TOO_LARGE, SESSION_*, HANDOVER_UNKNOWN, LEDGER_FULL.
  absl::Status OfferTickets(const OfferRequest& request, OfferAnswer* answer);
  // The receiver takes over everything before `next_expected`. A number beyond what was offered moves nothing.
  // *acknowledged: where the hand-over stands then. SESSION_*, HANDOVER_UNKNOWN.
  absl::Status AckTickets(const Session& session, const ClientId& from, uint64_t handover_id,
                          uint64_t next_expected, int64_t now_ms, uint64_t* acknowledged);
  // The sender keeps what was not acknowledged of [first, first + count), or of all from `first` on if `count` is 0.
  // SESSION_*, HANDOVER_UNKNOWN.
  absl::Status WithdrawOffer(const Session& session, uint64_t handover_id, uint64_t first_sequence,
                             uint64_t count, uint64_t* withdrawn);

  // --- for operators ---

  // Up to `max_rows` registrations with an id above `after`, in order of their ids. Empty when there are no more.
  std::vector<SegmentListing> ListSegments(RegistrationId after, bool include_ended,
                                           size_t max_rows, int64_t now_ms) const;
  // Clients of stripe `stripe` of client_stripes().
  std::vector<ClientListing> ListClients(uint32_t stripe, int64_t now_ms) const;
  uint32_t client_stripes() const;
  // One bounded step of a listing: at most a few hundred records under one reader lock. Returns false at the end.
  bool ListKeys(bool filter_invalid, absl::string_view prefix, KeyCursor* cursor,
                std::vector<KeyListing>* rows) const;
  absl::StatusOr<ObjectListing> GetObject(absl::string_view key, int64_t now_ms) const;
  MasterCounts Count(int64_t now_ms) const;

  // --- cleanup: called by the passes of server/cleanup, each step bounded ---

  // Ends sessions and graceful registrations whose time has run out, frees what was in quarantine long enough, and gives
  // waiting registrations their space. Never touches the object table. True if there is something for the sweep.
  bool ExpireStep(int64_t now_ms);
  // True while registrations or sessions have ended and were not swept.
  bool SweepPending() const;
  // Discards puts whose release time is over: up to 64 replicas of each of the shards [first, first + count), under one
  // lock each.
  void DiscardDuePuts(uint32_t first_shard, uint32_t count, int64_t now_ms);
  // Ends the hand-overs from and to a session that has ended.
  void EndHandovers(ClientEpoch session);
  // What a step of the sweep did.
  void NoteSwept(const ObjectShard::SweepCounts& counts);
  // Gives ranges without replicas back: to their allocator, to the quarantine, or to nobody; and durable names to the
  // ledger, as one task.
  void Release(const Freed& freed, int64_t now_ms);

  // Makes memory for objects ready, and gives back what is not needed. May wait for the system; to be called every
  // fraction of a second.
  void ReplenishMemory() { table_.chunks().Replenish(); }

  // Recounts every book against the others; empty if they agree. For tests and audits while nothing else runs.
  std::string Audit() const;

  ObjectTable& table() { return table_; }
  SegmentRegistry& registry() { return registry_; }
  Quarantine& quarantine() { return quarantine_; }
  ClientSessions& sessions() { return sessions_; }
  UnpublishedLedger& ledger() { return ledger_; }
  const UnpublishedLedger& ledger() const { return ledger_; }
  const ObjectTable& table() const { return table_; }
  const SegmentRegistry& registry() const { return registry_; }
  const Placement& placement() const { return placement_; }

 private:
  Reason CheckKey(absl::string_view key) const;
  Reason CheckPutItem(const PutStartItem& item) const;
  PutStartRow StartOnePut(const PutStartRequest& request, const PutStartItem& item, uint64_t hash,
                          int64_t now_ms, CallRandom* random, SegmentTableBuilder* table,
                          PutStartAnswer* answer);
  PutStartRow InsertOnePut(const PutStartRequest& request, const PutStartItem& item, uint64_t hash,
                           TicketId ticket, int64_t now_ms, CallRandom* random,
                           SegmentTableBuilder* table, PutStartAnswer* answer);
  // Answers with the object as it stands. Under the shard's lock, which keeps the slots of linked replicas.
  PutStartRow Describe(const ObjectShard& shard, Handle handle, int64_t now_ms,
                       SegmentTableBuilder* table, PutStartAnswer* answer) const
      ABSL_SHARED_LOCKS_REQUIRED(shard.mu);
  Reason PlaceReplicas(const PutStartRequest& request, const PutStartItem& item, CallRandom* random,
                       NewReplicas* replicas);
  // When an upload that starts now can land no more.
  int64_t NotBeforeMs(const PutStartItem& item, int64_t now_ms) const;
  void FreeUnused(const NewReplicas& replicas);
  bool AllLive(const NewReplicas& replicas) const;
  GetRow FindOne(absl::string_view key, uint64_t hash, int64_t now_ms, SegmentTableBuilder* table,
                 GetAnswer* answer) const;
  Reason ProbeOne(absl::string_view key, uint64_t hash) const;
  void ReleaseOne(const FreedRange& range, int64_t now_ms);
  // Ranges of an ended private registration have no use for a quarantine of their own: they become its residue.
  void SettleQuarantine(uint32_t slot, int64_t now_ms);
  Outcome EndOnePut(const Session& session, const PutRef& item, uint64_t hash, int64_t now_ms);
  // What ends a put, under the shard's lock. *publishing: the ticket that is being published, none before it is known; set
  // when it has to be, before anything is changed.
  Outcome CompletePut(const Session& session, const PutRef& item, uint64_t hash,
                      TicketId* publishing, Freed* freed);
  // Offers it in the ledger and fills in the entry. kNone, or why not.
  Reason MakeOffer(const OfferRequest& request, ClientEpoch receiver, const OfferItem& item,
                   HandoverEntry* entry);
  Outcome OfferOne(const OfferRequest& request, ClientEpoch receiver, uint64_t sequence,
                   const OfferItem& item);
  // Gives the put to another session. False if it is not (or no longer) a put of `from`.
  bool MovePut(const HandoverEntry& entry, ClientEpoch from, ClientEpoch to);
  std::vector<OfferRow> PendingOffers(ClientEpoch receiver) const;
  // Takes back what a call has started whose answer will not be given.
  void RevokeStarted(const PutStartRequest& request, const PutStartAnswer& answer, int64_t now_ms);
  Outcome RevokeOnePut(const Session& session, const PutRef& item, bool writer_is_done,
                       int64_t now_ms, Freed* freed);
  Outcome RemoveOne(absl::string_view key, bool force, int64_t now_ms, Freed* freed);
  bool WasIssued(PutId put) const;

  const MasterOptions options_;
  SlotTable slots_;
  Placement placement_;
  SegmentRegistry registry_;
  Quarantine quarantine_;
  ClientSessions sessions_;
  UnpublishedLedger ledger_;
  HandoverBook handovers_;
  ObjectTable table_;
  const uint64_t first_put_;
  std::atomic<uint64_t> next_put_;
  std::atomic<int64_t> last_expire_step_ms_{-1};
  std::atomic<uint64_t> stalls_{0};
  std::atomic<uint64_t> swept_replicas_{0};
  std::atomic<uint64_t> erased_objects_{0};
  std::atomic<uint64_t> discarded_puts_{0};
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_MASTER_H_

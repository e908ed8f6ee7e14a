// holdfast cleanup status|list

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

Properties LedgerLines(const v1::LedgerStatus& ledger) {
  Properties lines;
  lines.Add("tickets", absl::StrCat(ledger.tickets_used(), " of ", ledger.tickets_capacity(),
                                    " used, at most ", ledger.tickets_high_water()));
  lines.Add("names to delete",
            absl::StrCat(ledger.pending_names(), " in ", ledger.pending_tasks(), " tasks, ",
                         ledger.quarantined_names(), " whose upload may still land"));
  lines.Add("removed objects without a ticket", absl::StrCat(ledger.removal_debt()));
  lines.Add("oldest is owed for", HumanDuration(ledger.oldest_owed_age_ms()));
  lines.Add("published names", absl::StrCat(ledger.published_names()));
  lines.Add("deleted names", absl::StrCat(ledger.deleted_names()));
  lines.Add("uploads that never started", absl::StrCat(ledger.unused_names()));
  std::string failures = absl::StrCat(ledger.retried_names());
  for (const auto& [code, count] : ledger.delete_failures()) {
    absl::StrAppend(&failures, ", ", code, " ", count);
  }
  lines.Add("failed deletions", failures);
  lines.Add("refused puts", absl::StrCat(ledger.full_refusals(), " for a full ledger, ",
                                         ledger.quota_refusals(), " for a client's share"));
  return lines;
}

int ShowCleanup(Context& context) {
  const absl::StatusOr<v1::GetCleanupStatusResponse> response =
      context.CallAdmin(&v1::AdminService::Stub::GetCleanupStatus, "get cleanup status",
                        v1::GetCleanupStatusRequest());
  if (!response.ok()) return context.Fail(response.status());
  if (context.json()) {
    context.PrintJson(*response);
    return kDone;
  }
  const v1::CleanupStatus& cleanup = response->cleanup();
  Properties lines;
  lines.Add("ended registrations waiting", absl::StrCat(cleanup.ended_registrations_waiting()));
  lines.Add("their ranges waiting", absl::StrCat(cleanup.ended_replicas_waiting()));
  lines.Add("oldest waits for", HumanDuration(cleanup.oldest_waiting_age_ms()));
  lines.Add("quarantined", absl::StrCat(cleanup.quarantined_ranges(), " ranges, ",
                                        HumanSize(cleanup.quarantined_bytes())));
  lines.Add("swept registrations", absl::StrCat(cleanup.swept_registrations()));
  lines.Add("swept replicas", absl::StrCat(cleanup.swept_replicas()));
  lines.Add("objects that lost their last replica", absl::StrCat(cleanup.erased_objects()));
  lines.Add("discarded puts", absl::StrCat(cleanup.discarded_puts()));
  lines.Add("expired clients", absl::StrCat(cleanup.expired_clients()));
  lines.Add("deferred expiries", absl::StrCat(cleanup.deferred_expiries()));
  lines.Add("stalls of the master", absl::StrCat(cleanup.master_stalls()));
  lines.Add("lock hold p99.9",
            absl::StrFormat("%.0f us, %.0f us on the processor", cleanup.lock_hold_p999_us(),
                            cleanup.lock_hold_cpu_p999_us()));
  lines.Write(context.out());
  if (response->ledger().tickets_capacity() > 0) {
    context.out() << '\n';
    LedgerLines(response->ledger()).Write(context.out());
  }
  return kDone;
}

absl::string_view StateText(v1::TicketState state) {
  switch (state) {
    case v1::TICKET_STATE_RESERVED:
      return "reserved";
    case v1::TICKET_STATE_OFFERED:
      return "offered";
    case v1::TICKET_STATE_PUBLISHING:
      return "publishing";
    case v1::TICKET_STATE_WAITING:
      return "waiting";
    case v1::TICKET_STATE_READY:
      return "ready";
    case v1::TICKET_STATE_DELETING:
      return "deleting";
    default:
      return "unknown";
  }
}

int ListUnpublished(Context& context) {
  const absl::StatusOr<uint64_t> limit = context.arguments().Count("limit", 0);
  if (!limit.ok()) return context.Usage(limit.status().message());
  v1::ListUnpublishedRequest request;
  request.set_limit(*limit);
  v1::ListUnpublishedResponse all;
  using Align = Table::Align;
  Table table({{"NAME"},
               {"STATE"},
               {"OWED FOR", Align::kRight},
               {"UPLOAD MAY LAND", Align::kRight},
               {"CLIENT EPOCH", Align::kRight}});
  const absl::Status status = context.ReadAdmin(
      &v1::AdminService::Stub::ListUnpublished, "list unpublished names", request,
      [&](const v1::ListUnpublishedResponse& page) {
        for (const v1::UnpublishedName& name : page.names()) {
          const bool owed = name.state() >= v1::TICKET_STATE_WAITING;
          table.Add({name.object_name(), std::string(StateText(name.state())),
                     owed ? HumanDuration(name.owed_age_ms()) : "",
                     name.not_before_left_ms() == 0 ? "no more"
                                                    : HumanDuration(name.not_before_left_ms()),
                     name.client_epoch() == 0 ? "" : absl::StrCat(name.client_epoch())});
        }
        if (context.json()) all.MergeFrom(page);
      });
  if (context.json()) {
    context.PrintJson(all);
  } else {
    table.Write(context.out());
  }
  return status.ok() ? kDone : context.Fail(status);
}

}  // namespace

std::vector<Command> CleanupCommands() {
  Command status{.noun = "cleanup", .verb = "status"};
  status.help = "Shows what is left to clean up, and what was cleaned up since the master started.";
  status.run = &ShowCleanup;
  Command list{.noun = "cleanup", .verb = "list"};
  list.help =
      "Lists the names in the durable tier that may hold bytes and are not published.\n"
      "Reserved and offered ones are a client's; waiting, ready and deleting ones the master's.";
  list.flags = {{"limit", "N", "at most so many (default: all)"}};
  list.run = &ListUnpublished;
  return {status, list};
}

}  // namespace holdfast::cli

// holdfast status

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

std::string Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? ""
                    : absl::StrFormat(" (%.1f %%)", 100.0 * static_cast<double>(part) /
                                                        static_cast<double>(whole));
}

int ShowStatus(Context& context) {
  const absl::StatusOr<v1::GetStatusResponse> status =
      context.CallAdmin(&v1::AdminService::Stub::GetStatus, "get status", v1::GetStatusRequest());
  if (!status.ok()) return context.Fail(status.status());
  if (context.json()) {
    context.PrintJson(*status);
    return kDone;
  }
  Properties lines;
  lines.Add("version", status->version());
  lines.Add("master", absl::StrFormat("%016x", status->master_id()));
  lines.Add("uptime", HumanDuration(status->uptime_ms()));
  lines.Add("clients", absl::StrCat(status->clients()));
  lines.Add("segments", absl::StrCat(status->segments()));
  lines.Add("capacity", HumanSize(status->capacity_bytes()));
  lines.Add("allocated", absl::StrCat(HumanSize(status->allocated_bytes()),
                                      Share(status->allocated_bytes(), status->capacity_bytes())));
  lines.Add("objects", absl::StrCat(status->objects()));
  lines.Add("replicas", absl::StrCat(status->replicas()));
  lines.Add("puts in progress", absl::StrCat(status->puts_in_progress()));
  lines.Add("calls in flight", absl::StrCat(status->rpc_in_flight()));
  lines.Add("cleanup",
            absl::StrCat(status->cleanup().ended_registrations_waiting(), " ended registrations, ",
                         status->cleanup().ended_replicas_waiting(), " ranges waiting"));
  if (const v1::LedgerStatus& ledger = status->ledger(); ledger.tickets_capacity() > 0) {
    lines.Add("durable replicas", absl::StrCat(status->durable_replicas()));
    lines.Add("unpublished names",
              absl::StrCat(ledger.tickets_used(), " of ", ledger.tickets_capacity(), " tickets",
                           Share(ledger.tickets_used(), ledger.tickets_capacity())));
  }
  lines.Write(context.out());
  return kDone;
}

}  // namespace

std::vector<Command> StatusCommands() {
  return {{.noun = "status",
           .help = "Shows what the master holds and how busy it is.",
           .run = &ShowStatus}};
}

}  // namespace holdfast::cli

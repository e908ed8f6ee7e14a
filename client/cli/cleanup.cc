// holdfast cleanup status

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

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
  return kDone;
}

}  // namespace

std::vector<Command> CleanupCommands() {
  return {
      {.noun = "cleanup",
       .verb = "status",
       .help = "Shows what is left to clean up, and what was cleaned up since the master started.",
       .run = &ShowCleanup}};
}

}  // namespace holdfast::cli

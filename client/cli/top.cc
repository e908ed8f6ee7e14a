// holdfast top

#include <unistd.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/segment_text.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

using Stub = v1::AdminService::Stub;

struct Sample {
  std::chrono::steady_clock::time_point time;
  v1::GetStatusResponse status;
  v1::ListSegmentsResponse segments;
};

absl::StatusOr<Sample> Take(Context& context) {
  Sample sample;
  absl::StatusOr<v1::GetStatusResponse> status =
      context.CallAdmin(&Stub::GetStatus, "get status", v1::GetStatusRequest());
  if (!status.ok()) return status.status();
  sample.time = std::chrono::steady_clock::now();
  sample.status = *std::move(status);
  v1::ListSegmentsRequest request;
  request.set_include_ended(true);
  absl::Status listed = context.ReadAdmin(
      &Stub::ListSegments, "list segments", request,
      [&sample](const v1::ListSegmentsResponse& page) { sample.segments.MergeFrom(page); });
  if (!listed.ok()) return listed;
  return sample;
}

// "+1200/s" since the sample before, when there is one of the same master.
std::string Rate(const Sample* before, const Sample& now, uint64_t old_value, uint64_t value) {
  if (before == nullptr || before->status.master_id() != now.status.master_id()) return "";
  const double seconds = std::chrono::duration<double>(now.time - before->time).count();
  if (seconds <= 0) return "";
  return absl::StrFormat("  %+.0f/s",
                         (static_cast<double>(value) - static_cast<double>(old_value)) / seconds);
}

void Write(const Sample* before, const Sample& now, std::ostream& out) {
  const v1::GetStatusResponse& status = now.status;
  const v1::GetStatusResponse old = before == nullptr ? v1::GetStatusResponse() : before->status;
  const v1::CleanupStatus& cleanup = status.cleanup();
  Properties lines;
  lines.Add("holdfast", absl::StrCat(status.version(), ", up ", HumanDuration(status.uptime_ms())));
  lines.Add("clients", absl::StrCat(status.clients()));
  lines.Add("objects",
            absl::StrCat(status.objects(), Rate(before, now, old.objects(), status.objects())));
  lines.Add("replicas",
            absl::StrCat(status.replicas(), Rate(before, now, old.replicas(), status.replicas())));
  lines.Add("allocated", absl::StrCat(HumanSize(status.allocated_bytes()), " of ",
                                      HumanSize(status.capacity_bytes())));
  lines.Add("puts in progress", absl::StrCat(status.puts_in_progress()));
  lines.Add("calls in flight", absl::StrCat(status.rpc_in_flight()));
  lines.Add("cleanup", absl::StrCat(cleanup.ended_registrations_waiting(), " registrations, ",
                                    cleanup.ended_replicas_waiting(), " ranges waiting"));
  lines.Add("swept replicas",
            absl::StrCat(cleanup.swept_replicas(), Rate(before, now, old.cleanup().swept_replicas(),
                                                        cleanup.swept_replicas())));
  lines.Write(out);
  out << '\n';
  WriteSegmentTable(now.segments, out);
}

int ShowTop(Context& context) {
  const absl::StatusOr<std::chrono::milliseconds> interval =
      context.arguments().Duration("interval", std::chrono::seconds(1));
  if (!interval.ok()) return context.Usage(interval.status().message());
  const absl::StatusOr<uint64_t> iterations = context.arguments().Count("iterations", 0);
  if (!iterations.ok()) return context.Usage(iterations.status().message());
  const bool clear = isatty(STDOUT_FILENO) == 1 && !context.json();
  Sample before;
  for (uint64_t i = 0; *iterations == 0 || i < *iterations; ++i) {
    if (i > 0) absl::SleepFor(absl::FromChrono(*interval));
    absl::StatusOr<Sample> now = Take(context);
    if (!now.ok()) return context.Fail(now.status());
    if (context.json()) {
      context.PrintJson(now->status);
    } else {
      if (clear) context.out() << "\x1b[H\x1b[2J";
      Write(i == 0 ? nullptr : &before, *now, context.out());
      if (!clear) context.out() << '\n';
    }
    context.out().flush();
    if (!context.out()) return kDone;  // nobody reads any more
    before = *std::move(now);
  }
  return kDone;
}

}  // namespace

std::vector<Command> TopCommands() {
  Command top{.noun = "top",
              .help = "Shows status and segments again and again, until it is interrupted."};
  top.flags = {{"interval", "TIME", "between two views (default 1s)"},
               {"iterations", "N", "views to show, for scripts (default: without end)"}};
  top.run = &ShowTop;
  return {top};
}

}  // namespace holdfast::cli

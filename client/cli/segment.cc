// holdfast segment list|show|unmount|drain|undrain

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/command.h"
#include "client/cli/segment_text.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

using Stub = v1::AdminService::Stub;

absl::StatusOr<v1::ListSegmentsResponse> FetchSegments(Context& context, absl::string_view name,
                                                       bool include_ended) {
  v1::ListSegmentsRequest request;
  request.set_name(std::string(name));
  request.set_include_ended(include_ended);
  v1::ListSegmentsResponse all;
  absl::Status status =
      context.ReadAdmin(&Stub::ListSegments, "list segments", request,
                        [&all](const v1::ListSegmentsResponse& page) { all.MergeFrom(page); });
  if (!status.ok()) return status;
  return all;
}

// The segments that an argument "ID|NAME" means: a number is a registration id, anything else a name.
absl::StatusOr<v1::ListSegmentsResponse> FindSegments(Context& context, const std::string& word,
                                                      bool include_ended) {
  uint64_t registration_id = 0;
  const bool is_id = absl::SimpleAtoi(word, &registration_id);
  absl::StatusOr<v1::ListSegmentsResponse> listed =
      FetchSegments(context, is_id ? "" : word, include_ended);
  if (!listed.ok()) return listed;
  v1::ListSegmentsResponse found;
  for (const v1::SegmentInfo& segment : listed->segments()) {
    if (!is_id || segment.registration_id() == registration_id) *found.add_segments() = segment;
  }
  if (found.segments().empty()) {
    return absl::NotFoundError(
        absl::StrCat("no segment ", is_id ? "with registration id " : "named ", word));
  }
  return found;
}

// The one registration that "ID|NAME" means. False: `exit` says how the command ends.
bool FindRegistration(Context& context, uint64_t* registration_id, int* exit) {
  const std::string& word = context.arguments().positional()[0];
  if (absl::SimpleAtoi(word, registration_id)) return true;
  const absl::StatusOr<v1::ListSegmentsResponse> found =
      FindSegments(context, word, /*include_ended=*/false);
  if (!found.ok()) {
    *exit = context.Fail(found.status());
    return false;
  }
  if (found->segments_size() > 1) {
    const std::string ids =
        absl::StrJoin(found->segments(), " ", [](std::string* text, const v1::SegmentInfo& info) {
          absl::StrAppend(text, info.registration_id());
        });
    *exit = context.Usage(absl::StrCat("several segments are named ", Escape(word),
                                       "; say which registration: ", ids));
    return false;
  }
  *registration_id = found->segments(0).registration_id();
  return true;
}

int ListSegments(Context& context) {
  const absl::StatusOr<v1::ListSegmentsResponse> all =
      FetchSegments(context, context.arguments().Text("name"), context.arguments().Has("ended"));
  if (!all.ok()) return context.Fail(all.status());
  if (context.json()) {
    context.PrintJson(*all);
  } else {
    WriteSegmentTable(*all, context.out());
  }
  return kDone;
}

int ShowSegment(Context& context) {
  const absl::StatusOr<v1::ListSegmentsResponse> found =
      FindSegments(context, context.arguments().positional()[0], /*include_ended=*/true);
  if (!found.ok()) return context.Fail(found.status());
  if (context.json()) {
    context.PrintJson(*found);
    return kDone;
  }
  for (int i = 0; i < found->segments_size(); ++i) {
    if (i > 0) context.out() << '\n';
    WriteSegment(found->segments(i), context.out());
  }
  return kDone;
}

template <class Request, class Response>
int ChangeSegment(Context& context,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  absl::string_view operation, absl::string_view done, Request request) {
  uint64_t registration_id = 0;
  int exit = kDone;
  if (!FindRegistration(context, &registration_id, &exit)) return exit;
  request.set_registration_id(registration_id);
  const absl::StatusOr<Response> response = context.CallAdmin(method, operation, request);
  if (!response.ok()) return context.Fail(response.status());
  if (context.json()) {
    context.PrintJson(*response);
  } else {
    context.out() << done << ' ' << registration_id << '\n';
  }
  return kDone;
}

int UnmountSegment(Context& context) {
  const absl::StatusOr<std::chrono::milliseconds> grace =
      context.arguments().Duration("grace", std::chrono::milliseconds(0));
  if (!grace.ok()) return context.Usage(grace.status().message());
  v1::UnmountSegmentByOperatorRequest request;
  request.set_grace_ms(static_cast<uint32_t>(grace->count()));
  return ChangeSegment(context, &Stub::UnmountSegmentByOperator, "unmount", "unmounted", request);
}

int DrainSegment(Context& context) {
  return ChangeSegment(context, &Stub::DrainSegment, "drain", "draining",
                       v1::DrainSegmentRequest());
}

int UndrainSegment(Context& context) {
  return ChangeSegment(context, &Stub::UndrainSegment, "undrain", "undrained",
                       v1::UndrainSegmentRequest());
}

}  // namespace

std::vector<Command> SegmentCommands() {
  Command list{.noun = "segment", .verb = "list", .help = "Lists the segments that are mounted."};
  list.flags = {{"name", "NAME", "only those of this name"},
                {"ended", "", "also those that have ended and wait for cleanup"}};
  list.run = &ListSegments;
  Command show{.noun = "segment",
               .verb = "show",
               .positional = "ID|NAME",
               .positional_min = 1,
               .positional_max = 1};
  show.help =
      "Shows everything about the segments of one registration id or name, ended ones included.";
  show.run = &ShowSegment;
  Command unmount = show;
  unmount.verb = "unmount";
  unmount.help =
      "Ends a registration, whoever owns it: nothing on it is readable any more.\n"
      "With a grace period it stays readable so long, and takes no new objects.";
  unmount.flags = {{"grace", "TIME", "stay readable so long (default 0s)"}};
  unmount.run = &UnmountSegment;
  Command drain = show;
  drain.verb = "drain";
  drain.help = "Takes a segment out of placement; what lies on it stays readable.";
  drain.run = &DrainSegment;
  Command undrain = show;
  undrain.verb = "undrain";
  undrain.help = "Lets a drained segment take new objects again.";
  undrain.run = &UndrainSegment;
  return {list, show, unmount, drain, undrain};
}

}  // namespace holdfast::cli

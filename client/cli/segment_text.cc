#include "client/cli/segment_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/text.h"
#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

std::string UsedPercent(const v1::SegmentInfo& segment) {
  if (segment.spec().size() == 0) return "-";
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(segment.allocated_bytes()) /
                                        static_cast<double>(segment.spec().size()));
}

}  // namespace

std::string StateText(const v1::SegmentInfo& segment) {
  std::string text;
  switch (segment.state()) {
    case v1::SEGMENT_STATE_MOUNTED:
      text = "mounted";
      break;
    case v1::SEGMENT_STATE_DRAINING:
      text = segment.drained() ? "drained" : "draining";
      break;
    case v1::SEGMENT_STATE_GRACEFUL:
      text = absl::StrCat("graceful ", HumanDuration(segment.grace_left_ms()));
      break;
    case v1::SEGMENT_STATE_ENDED:
      text = "ended";
      break;
    default:
      text = absl::StrCat("state ", static_cast<int>(segment.state()));
  }
  if (segment.waits_for_earlier_registration()) absl::StrAppend(&text, ", waits");
  return text;
}

void WriteSegmentTable(const v1::ListSegmentsResponse& segments, std::ostream& out) {
  using Align = Table::Align;
  Table table({{"REGISTRATION", Align::kRight},
               {"NAME"},
               {"STATE"},
               {"SIZE", Align::kRight},
               {"ALLOCATED", Align::kRight},
               {"USED", Align::kRight},
               {"RANGES", Align::kRight},
               {"HOST"},
               {"ENDPOINT"},
               {"POOL"}});
  for (const v1::SegmentInfo& segment : segments.segments()) {
    const v1::SegmentSpec& spec = segment.spec();
    table.Add({absl::StrCat(segment.registration_id()), spec.name(), StateText(segment),
               HumanSize(spec.size()), HumanSize(segment.allocated_bytes()), UsedPercent(segment),
               absl::StrCat(segment.ranges()), spec.host(), spec.endpoint(), spec.pool_id()});
  }
  table.Write(out);
}

void WriteSegment(const v1::SegmentInfo& segment, std::ostream& out) {
  const v1::SegmentSpec& spec = segment.spec();
  Properties lines;
  lines.Add("registration", absl::StrCat(segment.registration_id()));
  lines.Add("name", spec.name());
  lines.Add("segment", HexId(spec.segment_id()));
  lines.Add("state", StateText(segment));
  lines.Add("client", HexId(segment.client_id()));
  lines.Add("endpoint", spec.endpoint());
  lines.Add("transport", spec.transport());
  lines.Add("base", absl::StrFormat("0x%x", spec.base()));
  lines.Add("size", absl::StrCat(HumanSize(spec.size()), " (", spec.size(), ")"));
  lines.Add("allocated",
            absl::StrCat(HumanSize(segment.allocated_bytes()), " (", UsedPercent(segment), ")"));
  lines.Add("ranges", absl::StrCat(segment.ranges()));
  lines.Add("host", spec.host());
  lines.Add("rack", spec.rack());
  lines.Add("pool", spec.pool_id());
  lines.Write(out);
}

}  // namespace holdfast::cli

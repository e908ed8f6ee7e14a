// Segments as text.

#ifndef HOLDFAST_CLIENT_CLI_SEGMENT_TEXT_H_
#define HOLDFAST_CLIENT_CLI_SEGMENT_TEXT_H_

#include <ostream>
#include <string>

#include "holdfast/v1/admin.pb.h"

namespace holdfast::cli {

// "mounted", "drained", "graceful 4.2 s", ...
std::string StateText(const v1::SegmentInfo& segment);
void WriteSegmentTable(const v1::ListSegmentsResponse& segments, std::ostream& out);
// Every field on a line of its own.
void WriteSegment(const v1::SegmentInfo& segment, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLIENT_CLI_SEGMENT_TEXT_H_

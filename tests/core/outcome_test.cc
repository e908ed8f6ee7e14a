// Reasons: each has a code and a name of its own, and survives the way through a status.

#include "server/core/outcome.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace holdfast::core {
namespace {

// What a caller handles must not be lost on the way.
TEST(OutcomeTest, EveryReasonSurvivesARefusal) {
  int reasons = 0;
  std::set<std::string> names;
  for (int number = 1; number < 256; ++number) {
    const auto reason = static_cast<Reason>(number);
    if (NameOf(reason) == NameOf(Reason::kNone)) continue;
    ++reasons;
    names.insert(std::string(NameOf(reason)));
    const absl::Status status = Refuse(reason, "because");
    EXPECT_EQ(ReasonOf(status), reason);
    EXPECT_EQ(status.code(), CodeOf(reason));
    EXPECT_EQ(status.message(), "because");
    EXPECT_FALSE(status.ok()) << NameOf(reason) << " would look like success";
  }
  EXPECT_GE(reasons, 30);
  EXPECT_EQ(static_cast<int>(names.size()), reasons);
}

// A status of anybody else has no reason.
TEST(OutcomeTest, AForeignStatusHasNoReason) {
  EXPECT_EQ(ReasonOf(absl::InternalError("x")), Reason::kNone);
  EXPECT_EQ(ReasonOf(absl::OkStatus()), Reason::kNone);
}

}  // namespace
}  // namespace holdfast::core

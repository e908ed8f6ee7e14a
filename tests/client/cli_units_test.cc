#include <gtest/gtest.h>

#include "client/cli/units.h"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

TEST(UnitsTest, SizesAreBinary) {
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("4096"), 4096);
  EXPECT_EQ(*ParseSize("7B"), 7);
  EXPECT_EQ(*ParseSize("64KiB"), 64ull << 10);
  EXPECT_EQ(*ParseSize("64MiB"), 64ull << 20);
  EXPECT_EQ(*ParseSize("2GiB"), 2ull << 30);
  EXPECT_EQ(*ParseSize("3TiB"), 3ull << 40);
  EXPECT_EQ(*ParseSize("18446744073709551615"), UINT64_MAX);
}

TEST(UnitsTest, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "MiB", "-1", "+1", "1.5MiB", "1 MiB", "1MB", "1mib", "0x10",
                           "18446744073709551616", "16777216TiB", "99999999999999999999999"}) {
    EXPECT_EQ(ParseSize(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(UnitsTest, DurationsNameTheirUnit) {
  EXPECT_EQ(*ParseDuration("0s"), milliseconds(0));
  EXPECT_EQ(*ParseDuration("250ms"), milliseconds(250));
  EXPECT_EQ(*ParseDuration("5s"), milliseconds(5000));
  EXPECT_EQ(*ParseDuration("2m"), milliseconds(120'000));
  EXPECT_EQ(*ParseDuration("1h"), milliseconds(3'600'000));
}

// The wire has 32 bits of milliseconds: more would wrap around to less.
TEST(UnitsTest, WhatIsNoDurationIsRefused) {
  for (const char* text :
       {"", "5", "s", "-5s", "1.5s", "5 s", "5S", "4294968s", "99999999999999999999ms"}) {
    EXPECT_EQ(ParseDuration(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(UnitsTest, SizesForPeopleHaveOneDigitBehindThePoint) {
  EXPECT_EQ(HumanSize(0), "0 B");
  EXPECT_EQ(HumanSize(1023), "1023 B");
  EXPECT_EQ(HumanSize(1024), "1.0 KiB");
  EXPECT_EQ(HumanSize(64ull << 20), "64.0 MiB");
  EXPECT_EQ(HumanSize((1ull << 20) - 1), "1.0 MiB");
  EXPECT_EQ(HumanSize(UINT64_MAX), "16.0 EiB");
}

TEST(UnitsTest, DurationsForPeopleHaveTwoUnits) {
  EXPECT_EQ(HumanDuration(0), "0 ms");
  EXPECT_EQ(HumanDuration(12'540), "12.5 s");
  EXPECT_EQ(HumanDuration(200'000), "3 m 20 s");
  EXPECT_EQ(HumanDuration(18'060'000), "5 h 1 m");
  EXPECT_EQ(HumanDuration(183'600'000), "2 d 3 h");
}

}  // namespace
}  // namespace holdfast::cli

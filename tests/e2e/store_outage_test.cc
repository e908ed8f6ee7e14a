// The outage in small, with the real programs: the store hangs while the ledger is full. Its figures are for the benchmark;
// what must hold at any size and on any machine is asserted here. The benchmark itself fails when a put is admitted or a name is
// dropped; what it says is checked all the same.

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/net/program.h"

namespace holdfast {
namespace {

using testing::Field;
using testing::OutputOf;

// A dead store costs new durable puts, which are told so before they upload, and nothing else: what is owed stays owed, traffic in
// memory goes on, and everything is deleted once the store answers.
TEST(StoreOutageTest,
     R31_R32_R54_AHangingStoreCostsOnlyNewDurablePutsAndTheLedgerDrainsAfterwards) {
  const std::string json = OutputOf(
      "holdfast-bench --json store-outage --seconds=2 --tickets=3000 --keys=20000 --delete-ms=20");
  ASSERT_NE(json, "") << "the benchmark has failed";
  EXPECT_EQ(Field(json, "tickets"), 3000);
  EXPECT_GT(Field(json, "traffic_p99_during_ms"), 0) << "no traffic";
  EXPECT_GT(Field(json, "ledger_full_refusals"), 0);
  EXPECT_EQ(Field(json, "uploads_seen"), 0);
  EXPECT_EQ(Field(json, "tickets_used_min_during"), 3000);
  EXPECT_GE(Field(json, "drain_seconds"), 0) << "not drained";
  EXPECT_EQ(Field(json, "timeouts"), 0);
  EXPECT_EQ(Field(json, "errors"), 0);
}

// It switches its store on and off, which it could not do to a master that runs elsewhere.
TEST(StoreOutageTest, ItRefusesAMasterOfSomebodyElse) {
  EXPECT_EQ(OutputOf("holdfast-bench --master=127.0.0.1:1 store-outage --seconds=1 2>/dev/null"),
            "");
}

}  // namespace
}  // namespace holdfast

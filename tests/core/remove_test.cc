// Remove: what protects an object, what force means, and when the memory comes back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

class RemoveTest : public testing::CoreTest {
 protected:
  const Session client_ = Open("client");
  const RegistrationId a_ = Mount(client_, "a");
};

// What nobody reads is gone at once, memory and all.
TEST_F(RemoveTest, AnObjectWithoutALeaseIsGoneAtOnce) {
  Put(client_, "key");
  EXPECT_EQ(Remove(client_, "key"), Reason::kNone);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(Count().allocated_bytes, 0u);
  EXPECT_EQ(Remove(client_, "key"), Reason::kObjectNotFound);
}

// A lease is what a reader relies on; it ends by itself, and a later one counts.
TEST_F(RemoveTest, F27_ALeasedObjectIsRefusedUntilItsLeaseIsOver) {
  Put(client_, "key");
  Get("key");
  Tick(5000);
  Get("key");
  Tick(9999);
  EXPECT_EQ(Remove(client_, "key"), Reason::kLeased);
  Tick(100);  // leases are kept in ticks of 64 ms, rounded up
  EXPECT_EQ(Remove(client_, "key"), Reason::kNone);
}

// Probes must not keep objects for ever: only a read that may be followed by a transfer takes a lease.
TEST_F(RemoveTest, F26_ExistsTakesNoLease) {
  Put(client_, "key");
  EXPECT_EQ(Exists("key"), Reason::kNone);
  Keys(true);
  EXPECT_EQ(Remove(client_, "key"), Reason::kNone);
}

// Force hides the object now, but its bytes are somebody's until the lease is over.
TEST_F(RemoveTest, F27_ForceKeepsALeasedRangeInQuarantine) {
  const testing::Started put = Put(client_, "key");
  Get("key");
  EXPECT_EQ(Remove(client_, "key", /*force=*/true), Reason::kNone);
  EXPECT_EQ(Exists("key"), Reason::kObjectNotFound);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 1u);
  EXPECT_EQ(Count().cleanup.quarantined_bytes, 4096u);
  EXPECT_NE(Put(client_, "key").places.at(0), put.places.at(0));
  Tick(10'500);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 0u);
  EXPECT_EQ(Put(client_, "next").places.at(0), put.places.at(0));
}

// The version of an answer tells a reader whose lease was cut by force that the object is another one.
TEST_F(RemoveTest, F27_TheObjectThatIsPutAgainHasAnotherVersion) {
  Put(client_, "key");
  const testing::Found before = Get("key");
  EXPECT_EQ(Remove(client_, "key", /*force=*/true), Reason::kNone);
  Put(client_, "key");
  EXPECT_NE(Get("key").version, before.version);
}

// A put in progress is nobody's business but its owner's and, by force, an operator's.
TEST_F(RemoveTest, F16_AnUnfinishedPutIsRemovedOnlyByForceAndItsRangeWaitsForTheWriter) {
  const testing::Started put = Start(client_, "key");
  EXPECT_EQ(Remove(client_, "key"), Reason::kObjectNotFound);
  EXPECT_EQ(Count().puts_in_progress, 1u);
  EXPECT_EQ(Remove(client_, "key", /*force=*/true), Reason::kNone);
  EXPECT_EQ(Count().puts_in_progress, 0u);
  EXPECT_EQ(Count().cleanup.quarantined_ranges, 1u);
  EXPECT_NE(Put(client_, "key").places.at(0), put.places.at(0));
  Tick(600'000);
  EXPECT_EQ(Count().allocated_bytes, 4096u);
}

// What an unmount has hidden is not there to be removed, but force may clear it away before the sweep does.
TEST_F(RemoveTest, R2_ALostObjectIsAbsentForRemoveAndClearedByForce) {
  Put(client_, "key");
  Unmount(client_, a_);
  EXPECT_EQ(Remove(client_, "key"), Reason::kObjectNotFound);
  EXPECT_EQ(Remove(client_, "key", /*force=*/true), Reason::kNone);
  EXPECT_EQ(Count().objects, 0u);
  Sweep();
  EXPECT_FALSE(IsListed(a_));
}

// The lease of a surviving copy protects the object; a dead copy does not.
TEST_F(RemoveTest, R8_AnObjectWithASurvivorIsProtectedByItsLease) {
  const RegistrationId b = Mount(client_, "b");
  Put(client_, "key", {.replicas = 2});
  Get("key");
  Unmount(client_, b);
  EXPECT_EQ(Remove(client_, "key"), Reason::kLeased);
  EXPECT_EQ(Remove(client_, "key", /*force=*/true), Reason::kNone);
}

}  // namespace
}  // namespace holdfast::core

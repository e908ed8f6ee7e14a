// Puts with a durable replica, row by row of the state table of tickets.

#include <gtest/gtest.h>

#include <string>

#include "tests/testing/durable_harness.h"

namespace holdfast::testing {
namespace {

using core::Durability;
using core::Reason;
using core::UploadOutcome;

class DurablePutTest : public DurableTest {
 protected:
  core::Session client_ = Open("client");
  core::Session other_ = Open("other");
};

class SmallLedgerTest : public DurableTest {
 protected:
  SmallLedgerTest() : DurableTest(DurableOptions(/*tickets=*/4)) {}

  core::Session client_ = Open("client");
};

// Row 1. The name is told only with a ticket taken for it.
TEST_F(DurablePutTest, R31_PutStartTakesATicketAndTellsTheNameAndTheDeadline) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(started.reason, Reason::kNone);
  EXPECT_EQ(started.upload.size(), 42u);
  EXPECT_EQ(started.upload_left_ms, 60'000);
  EXPECT_TRUE(started.places.empty());
  EXPECT_EQ(Ledger().tickets_used, 1u);
  EXPECT_EQ(Exists("k"), Reason::kObjectNotFound);
}

// Row 2. A full ledger refuses before anything is uploaded, and gives up nothing that it owes.
TEST_F(SmallLedgerTest, R32_AFullLedgerRefusesBeforeAnyNameIsTold) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(StartDurable(client_, "k" + std::to_string(i)).reason, Reason::kNone);
  }
  const Started refused = StartDurable(client_, "one more");
  EXPECT_EQ(refused.reason, Reason::kLedgerFull);
  EXPECT_EQ(refused.upload, "");
  EXPECT_EQ(Ledger().tickets_used, 4u);
  EXPECT_EQ(Ledger().full_refusals, 1u);
  EXPECT_EQ(Keys(/*filter_invalid=*/false).size(), 4u) << "nothing half done";
}

// The bound that the README states is one of names: four objects of a tebibyte are four tickets.
TEST_F(SmallLedgerTest, R55_TheBoundIsOneOfNamesNotOfBytes) {
  for (int i = 0; i < 4; ++i) {
    const PutWish wish{.size_bytes = uint64_t{1} << 40, .durability = Durability::kDurable};
    ASSERT_EQ(Start(client_, "k" + std::to_string(i), wish).reason, Reason::kNone);
  }
  EXPECT_EQ(Start(client_, "small", {.size_bytes = 1, .durability = Durability::kDurable}).reason,
            Reason::kLedgerFull);
}

// Row 3. A repeated PutStart may be the second copy of a request whose answer was lost.
TEST_F(DurablePutTest, R21_AReplayedPutStartGetsTheSameNameAndNoSecondTicket) {
  const PutWish wish{.request = 7, .durability = Durability::kDurable};
  const Started first = Start(client_, "k", wish);
  Tick(1000);
  const Started again = Start(client_, "k", wish);
  EXPECT_EQ(again.reason, Reason::kNone);
  EXPECT_EQ(again.put, first.put);
  EXPECT_EQ(again.upload, first.upload);
  EXPECT_EQ(again.upload_left_ms, first.upload_left_ms - 1000);
  EXPECT_EQ(Ledger().tickets_used, 1u);
}

// Rows 4 and 5.
TEST_F(DurablePutTest, R33_PutEndPublishesNameAndMetadataTogetherAndReleasesTheTicket) {
  const Started started = StartDurable(client_, "k");
  Upload(started);
  EXPECT_EQ(Get("k").reason, Reason::kObjectNotFound);
  EXPECT_EQ(Publish(client_, "k", started), Reason::kNone);
  const Found found = Get("k");
  EXPECT_EQ(found.reason, Reason::kNone);
  EXPECT_EQ(found.durable, started.upload);
  EXPECT_EQ(found.checksum, "sum");
  EXPECT_EQ(found.size_bytes, 4096u);
  EXPECT_EQ(Ledger().tickets_used, 0u);
  EXPECT_EQ(Ledger().published_names, 1u);
}

// Row 6. What stands in the way of the put leaves the name with its client.
TEST_F(DurablePutTest, R33_ARefusedEndLeavesTheTicketWithTheClient) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(Publish(other_, "k", started), Reason::kNotPutOwner);
  EXPECT_EQ(End(client_, "k", started.put), Reason::kBadField) << "says nothing of its upload";
  EXPECT_EQ(Ledger().tickets_used, 1u);
  EXPECT_EQ(Publish(client_, "k", started), Reason::kNone);
}

// Row 8. The answer to an end may be lost; the repetition must find what the first one did.
TEST_F(DurablePutTest, R33_ARepeatedEndIsOk) {
  const Started started = PutDurable(client_, "k");
  EXPECT_EQ(Publish(client_, "k", started), Reason::kNone);
  EXPECT_EQ(Ledger().tickets_used, 0u);
}

// Row 9. The one-way door: once the master has decided to delete a name, nobody publishes it.
TEST_F(DurablePutTest, R50_ANameInCleanupIsNeverPublished) {
  const Started started = StartDurable(client_, "k");
  Upload(started);
  ASSERT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kAmbiguous), Reason::kNone);
  EXPECT_EQ(Publish(client_, "k", started), Reason::kStalePut) << "while it waits";
  Tick(180'001);
  EXPECT_EQ(Publish(client_, "k", started), Reason::kStalePut) << "when it is ready";
  Drain();
  EXPECT_EQ(Publish(client_, "k", started), Reason::kStalePut) << "when it is gone";
  EXPECT_EQ(Exists("k"), Reason::kObjectNotFound);
}

// Row 10.
TEST_F(DurablePutTest, R35_AnUploadThatNeverStartedReleasesAtOnce) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kNotStarted), Reason::kNone);
  EXPECT_EQ(Ledger().tickets_used, 0u);
  EXPECT_EQ(Ledger().unused_names, 1u);
  Retry();
  EXPECT_TRUE(store().deletes().empty());
}

// Row 11. Nothing can land any more, so there is nothing to wait for.
TEST_F(DurablePutTest, R34_AFinishedUploadIsDeletedAtOnceAndReleasedWhenThatIsConfirmed) {
  const Started started = StartDurable(client_, "k");
  Upload(started);
  EXPECT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kFinished), Reason::kNone);
  EXPECT_EQ(Ledger().pending_tasks, 1u);
  EXPECT_EQ(Ledger().tickets_used, 1u);
  Retry();
  EXPECT_FALSE(store().Holds(started.upload));
  EXPECT_EQ(Ledger().tickets_used, 0u);
}

// Row 12, and why: an upload of which nothing is known may land after a delete has found nothing.
TEST_F(DurablePutTest, R35_AnAmbiguousUploadIsDeletedOnlyWhenNothingCanLandAnyMore) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kAmbiguous), Reason::kNone);
  EXPECT_EQ(Ledger().quarantined_names, 1u);
  Tick(179'000);
  Retry();
  EXPECT_TRUE(store().deletes().empty()) << "too early: the upload may still be on its way";
  store().Land(started.upload);
  Tick(1'001);
  Retry();
  EXPECT_EQ(store().names().size(), 0u);
  EXPECT_EQ(Ledger().tickets_used, 0u);
}

// The caller that says nothing is the one that knows nothing.
TEST_F(DurablePutTest, R35_ARevokeWithoutAnOutcomeCountsAsAmbiguous) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(Revoke(client_, "k", started.put), Reason::kNone);
  EXPECT_EQ(Ledger().quarantined_names, 1u);
}

// Row 13. Nobody is left who could tell.
TEST_F(DurablePutTest, R35_ADeadClientsNamesAreDeletedAfterTheirDeadline) {
  const Started started = StartDurable(client_, "k");
  Upload(started);
  Silence(client_);
  Tick(11'000);
  Sweep();
  EXPECT_EQ(Ledger().quarantined_names, 1u);
  EXPECT_EQ(Keys(/*filter_invalid=*/false).size(), 0u);
  Drain();
  EXPECT_TRUE(store().names().empty());
}

// Row 13, the other way to lose a session.
TEST_F(DurablePutTest, R35_ANewEpochOfTheClientGivesUpTheNamesOfTheOldOne) {
  const Started started = StartDurable(client_, "k");
  Upload(started);
  Silence(client_);
  const core::Session reborn = Open("client", /*incarnation=*/2);
  Sweep();
  EXPECT_EQ(Ledger().quarantined_names, 1u);
  EXPECT_EQ(Publish(reborn, "k", started), Reason::kStalePut);
  Drain();
}

// Row 13a. A client that lives and says nothing does not hold its ticket for ever.
TEST_F(DurablePutTest, R35_APutThatIsNeverEndedIsGivenUpInTheEnd) {
  const Started started = StartDurable(client_, "k");
  Upload(started);
  Tick(1'319'000);
  EXPECT_EQ(Ledger().tickets_used, 1u);
  EXPECT_EQ(Ledger().pending_tasks, 0u);
  Tick(2'000);
  EXPECT_EQ(Ledger().pending_tasks, 1u);
  EXPECT_EQ(Publish(client_, "k", started), Reason::kStalePut);
  Drain();
  EXPECT_TRUE(store().names().empty());
}

// Row 13b. A new put must not take the key from one whose bytes may still be landing.
TEST_F(DurablePutTest, R50_APutIsNotDiscardedWhileItsUploadMayLand) {
  const Started first = StartDurable(client_, "k");
  Tick(179'000);
  EXPECT_EQ(StartDurable(other_, "k").reason, Reason::kPutInProgressByOther);
  Tick(1'001);
  const Started second = StartDurable(other_, "k");
  EXPECT_EQ(second.reason, Reason::kNone);
  EXPECT_NE(second.upload, first.upload);
  EXPECT_EQ(Ledger().pending_names, 1u) << "the first name is owed";
  EXPECT_EQ(Publish(client_, "k", first), Reason::kStalePut);
  Upload(second);
  EXPECT_EQ(Publish(other_, "k", second), Reason::kNone);
  Drain();
  EXPECT_EQ(Get("k").durable, second.upload);
  EXPECT_EQ(store().names(), std::set<std::string>{second.upload});
}

// Row 26. A late revoke of a published put deletes nothing.
TEST_F(DurablePutTest, R50_ARevokeOfAPublishedPutDeletesNothing) {
  const Started started = PutDurable(client_, "k");
  EXPECT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kAmbiguous), Reason::kPutComplete);
  Drain();
  EXPECT_TRUE(store().Holds(started.upload));
}

// Row 25.
TEST_F(DurablePutTest, R49_ARepeatedRevokeDoesNotCountTwice) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kFinished), Reason::kNone);
  EXPECT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kFinished), Reason::kNone);
  EXPECT_EQ(Ledger().tickets_used, 1u);
  EXPECT_EQ(Ledger().pending_names, 1u);
}

// Beside copies in memory: both are told, and the object outlives the segment.
TEST_F(DurablePutTest, R2_ADurableReplicaSurvivesTheUnmountOfEverySegment) {
  const core::RegistrationId segment = Mount(client_, "s");
  const Started started = Start(client_, "k", {.durability = Durability::kMemoryAndDurable});
  EXPECT_EQ(started.places.size(), 1u);
  Upload(started);
  ASSERT_EQ(Publish(client_, "k", started), Reason::kNone);
  EXPECT_EQ(Get("k").places.size(), 1u);
  EXPECT_EQ(Get("k").durable, started.upload);
  Unmount(client_, segment);
  EXPECT_EQ(Exists("k"), Reason::kNone);
  EXPECT_TRUE(Get("k").places.empty());
  Sweep();
  EXPECT_EQ(Get("k").durable, started.upload);
  EXPECT_EQ(Keys(/*filter_invalid=*/true), std::vector<std::string>{"k"});
  EXPECT_EQ(Start(client_, "k", {}).reason, Reason::kObjectExists);
}

// The upload is done, so the put is worth ending although its memory has left.
TEST_F(DurablePutTest, R7_APutThatLostItsMemoryIsPublishedByItsDurableReplica) {
  const core::RegistrationId segment = Mount(client_, "s");
  const Started started = Start(client_, "k", {.durability = Durability::kMemoryAndDurable});
  Upload(started);
  Unmount(client_, segment);
  Sweep();
  EXPECT_EQ(Publish(client_, "k", started), Reason::kNone);
  EXPECT_EQ(Get("k").durable, started.upload);
}

// The upload failed and the memory is there: the object is worth having; the name is not forgotten.
TEST_F(DurablePutTest, R35_APutWhoseUploadFailedEndsInMemoryAndItsNameIsOwed) {
  Mount(client_, "s");
  const Started started = Start(client_, "k", {.durability = Durability::kMemoryAndDurable});
  EXPECT_EQ(End(client_, "k", started.put, UploadOutcome::kAmbiguous), Reason::kNone);
  EXPECT_EQ(Get("k").places.size(), 1u);
  EXPECT_EQ(Get("k").durable, "");
  EXPECT_EQ(Ledger().quarantined_names, 1u);
  Drain();
}

// Without memory there is nothing to end with.
TEST_F(DurablePutTest, R35_ADurablePutWhoseUploadFailedCannotEnd) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(End(client_, "k", started.put, UploadOutcome::kAmbiguous), Reason::kReplicaLost);
  EXPECT_EQ(Ledger().tickets_used, 1u) << "the put is still the client's to revoke";
  EXPECT_EQ(Revoke(client_, "k", started.put, UploadOutcome::kAmbiguous), Reason::kNone);
}

// Removing is never refused, and takes effect at once; the name goes the way of all others.
TEST_F(DurablePutTest, R34_ARemovedObjectIsUnreadableAtOnceAndItsNameIsDeleted) {
  const Started started = PutDurable(client_, "k");
  EXPECT_EQ(Remove(client_, "k"), Reason::kNone);
  EXPECT_EQ(Exists("k"), Reason::kObjectNotFound);
  EXPECT_EQ(Ledger().pending_names, 1u);
  Drain();
  EXPECT_FALSE(store().Holds(started.upload));
}

// Somebody was told that the bytes may be read so long.
TEST_F(DurablePutTest, R34_ANameUnderAReadLeaseIsDeletedAfterTheLease) {
  const Started started = PutDurable(client_, "k");
  EXPECT_EQ(Get("k").lease_ms, 10'000);
  EXPECT_EQ(Remove(client_, "k"), Reason::kLeased);
  EXPECT_EQ(Remove(client_, "k", /*force=*/true), Reason::kNone);
  Retry();
  EXPECT_TRUE(store().Holds(started.upload));
  Tick(10'100);
  Retry();
  EXPECT_FALSE(store().Holds(started.upload));
}

// The key is free as soon as the object is removed, whatever becomes of the old bytes.
TEST_F(DurablePutTest, R50_AKeyIsPutAgainWhileItsOldNameIsStillOwed) {
  const Started old = PutDurable(client_, "k");
  ASSERT_EQ(Remove(client_, "k"), Reason::kNone);
  const Started fresh = PutDurable(client_, "k");
  Drain();
  EXPECT_EQ(store().names(), std::set<std::string>{fresh.upload});
  EXPECT_NE(fresh.upload, old.upload);
}

// The bound holds, the removal is not refused, and what has no ticket yet waits for one.
TEST_F(SmallLedgerTest, R32_RemovalsBeyondTheBoundWaitAsDebtAndAreDeletedInTheEnd) {
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) {
    keys.push_back("k" + std::to_string(i));
    PutDurable(client_, keys.back());
  }
  for (const std::string& key : keys) EXPECT_EQ(Remove(client_, key), Reason::kNone);
  EXPECT_EQ(Ledger().tickets_used, 4u);
  EXPECT_EQ(Ledger().removal_debt, 6u);
  EXPECT_EQ(StartDurable(client_, "new").reason, Reason::kLedgerFull);
  Drain();
  EXPECT_EQ(Ledger().removal_debt, 0u);
  EXPECT_TRUE(store().names().empty());
}

// Puts would otherwise take every ticket that comes free, and the debt of removed objects would never be paid.
TEST(RemovalReserveTest, R32_NewPutsLeaveTheLastTicketsToRemovedObjects) {
  DurableHarness harness(DurableOptions(/*tickets=*/10));
  const core::Session client = harness.Open("client");
  std::vector<Started> puts;
  harness.PutDurable(client, "a");
  harness.PutDurable(client, "b");
  for (int i = 0; i < 10; ++i) {
    puts.push_back(harness.StartDurable(client, "k" + std::to_string(i)));
    ASSERT_EQ(puts.back().reason, Reason::kNone);
  }
  ASSERT_EQ(harness.Remove(client, "a"), Reason::kNone);
  ASSERT_EQ(harness.Remove(client, "b"), Reason::kNone);
  EXPECT_EQ(harness.Ledger().removal_debt, 2u);
  // A ticket that comes free goes to the debt, and while there is more of it, not to a new put.
  ASSERT_EQ(harness.Revoke(client, "k0", puts[0].put, UploadOutcome::kNotStarted), Reason::kNone);
  EXPECT_EQ(harness.Ledger().removal_debt, 1u);
  EXPECT_EQ(harness.Ledger().tickets_used, 10u);
  EXPECT_EQ(harness.StartDurable(client, "late").reason, Reason::kLedgerFull);
}

// One broken uploader must not stop all writers.
TEST(ClientShareTest, R32_OneClientHoldsAtMostItsShareOfTheTickets) {
  core::MasterOptions options = DurableOptions(/*tickets=*/8);
  options.ledger_client_percent = 25;
  DurableHarness harness(options);
  const core::Session greedy = harness.Open("greedy");
  const core::Session modest = harness.Open("modest");
  ASSERT_EQ(harness.StartDurable(greedy, "a").reason, Reason::kNone);
  const Started second = harness.StartDurable(greedy, "b");
  EXPECT_EQ(harness.StartDurable(greedy, "c").reason, Reason::kClientQuota);
  EXPECT_EQ(harness.StartDurable(modest, "c").reason, Reason::kNone);
  // What it left behind counts until it is gone.
  ASSERT_EQ(harness.Revoke(greedy, "b", second.put, UploadOutcome::kFinished), Reason::kNone);
  EXPECT_EQ(harness.StartDurable(greedy, "d").reason, Reason::kClientQuota);
  harness.Retry();
  EXPECT_EQ(harness.StartDurable(greedy, "d").reason, Reason::kNone);
  EXPECT_EQ(harness.Ledger().quota_refusals, 2u);
}

// --- bad input ---

TEST_F(DurablePutTest, R18_AnUploadTimeoutBeyondTheLimitIsRefused) {
  EXPECT_EQ(StartDurable(client_, "k", 600'001).reason, Reason::kBadField);
  EXPECT_EQ(StartDurable(client_, "k", 600'000).reason, Reason::kNone);
}

TEST_F(DurablePutTest, R18_AChecksumThatIsTooLongIsRefusedAndThePutGoesOn) {
  const Started started = StartDurable(client_, "k");
  EXPECT_EQ(End(client_, "k", started.put, UploadOutcome::kFinished, std::string(129, 'x')),
            Reason::kBadField);
  EXPECT_EQ(Publish(client_, "k", started), Reason::kNone);
}

TEST(NoDurableTierTest, R18_WithoutADurableTierAPutThatWantsItIsRefused) {
  CoreHarness harness(SmallOptions());
  const core::Session client = harness.Open("client");
  EXPECT_EQ(harness.Start(client, "k", {.durability = Durability::kDurable}).reason,
            Reason::kNoDurableTier);
  EXPECT_EQ(harness.Count().ledger.tickets_capacity, 0u);
}

// A put that finds no room in memory holds no ticket afterwards.
TEST_F(DurablePutTest, R32_APutThatIsRefusedForItsMemoryGivesItsTicketBack) {
  EXPECT_EQ(Start(client_, "k", {.durability = Durability::kMemoryAndDurable}).reason,
            Reason::kNoSegment);
  EXPECT_EQ(Ledger().tickets_used, 0u);
}

TEST_F(DurablePutTest, ObjectsAndTicketsAreListedWithTheirNames) {
  const Started published = PutDurable(client_, "published");
  const Started going_on = StartDurable(client_, "going on");
  const auto listed = master().GetObject("published", Now());
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->durable_name, published.upload);
  EXPECT_TRUE(listed->durable_published);
  EXPECT_FALSE(master().GetObject("going on", Now())->durable_published);
  std::vector<core::TicketListing> rows;
  uint32_t slot = 0;
  while (master().ledger().List(&slot, 16, Now(), &rows)) {
  }
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, going_on.upload);
  EXPECT_EQ(rows[0].state, core::TicketState::kReserved);
  EXPECT_EQ(rows[0].owner, client_.epoch);
  EXPECT_EQ(rows[0].not_before_left_ms, 180'000);
}

}  // namespace
}  // namespace holdfast::testing

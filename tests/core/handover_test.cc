// Puts that change hands between clients: whatever is lost, repeated or out of order, each name has one owner.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/testing/durable_harness.h"

namespace holdfast::testing {
namespace {

using core::Reason;
using core::UploadOutcome;

class HandoverTest : public DurableTest {
 protected:
  static constexpr uint64_t kHandover = 11;

  Started Uploaded(const std::string& key) {
    const Started started = StartDurable(sender_, key);
    Upload(started);
    return started;
  }
  core::OfferAnswer Offer(const std::vector<std::pair<std::string, core::PutId>>& puts,
                          uint64_t first_sequence, uint64_t handover = kHandover) {
    std::vector<core::OfferItem> items;
    items.reserve(puts.size());
    for (const auto& [key, put] : puts) items.push_back({key, put, "sum"});
    core::OfferRequest request;
    request.session = sender_;
    request.to = receiver_.client;
    request.handover_id = handover;
    request.first_sequence = first_sequence;
    request.items = items;
    core::OfferAnswer answer;
    const absl::Status status = master().OfferTickets(request, &answer);
    if (!status.ok()) answer.rows.assign(1, {core::ReasonOf(status)});
    ExpectBooksBalance();
    return answer;
  }
  // Where the hand-over stands; -1 when it was refused.
  int64_t Ack(uint64_t next_expected, uint64_t handover = kHandover) {
    uint64_t acknowledged = 0;
    const absl::Status status = master().AckTickets(receiver_, sender_.client, handover,
                                                    next_expected, Now(), &acknowledged);
    ExpectBooksBalance();
    return status.ok() ? static_cast<int64_t>(acknowledged) : -1;
  }
  core::ClientEpoch OwnerOf(const std::string& name) {
    std::vector<core::TicketListing> rows;
    uint32_t slot = 0;
    while (master().ledger().List(&slot, 1000, Now(), &rows)) {
    }
    for (const core::TicketListing& row : rows) {
      if (row.name == name) return row.owner;
    }
    return {};
  }

  core::Session sender_ = Open("sender");
  core::Session receiver_ = Open("receiver");
};

// Rows 14 and 15: the whole put moves, its claim on the key included.
TEST_F(HandoverTest, R39_AnAcknowledgedPutIsTheReceivers) {
  const Started put = Uploaded("k");
  EXPECT_TRUE(Offer({{"k", put.put}}, 0).rows[0].ok());
  EXPECT_EQ(OwnerOf(put.upload), sender_.epoch) << "until it is acknowledged";
  const std::vector<core::OfferRow> offers = Heartbeat(receiver_).offers;
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_EQ(offers[0].from, sender_.client);
  EXPECT_EQ(offers[0].sequence, 0u);
  EXPECT_EQ(offers[0].name, put.upload);
  EXPECT_EQ(offers[0].entry.key, "k");
  EXPECT_EQ(offers[0].entry.checksum, "sum");
  EXPECT_TRUE(offers[0].open);
  EXPECT_EQ(Ack(1), 1);
  EXPECT_EQ(OwnerOf(put.upload), receiver_.epoch);
  EXPECT_EQ(Publish(sender_, "k", put), Reason::kNotPutOwner);
  EXPECT_EQ(Publish(receiver_, "k", put), Reason::kNone);
  EXPECT_EQ(Get("k").durable, put.upload);
  EXPECT_TRUE(Heartbeat(receiver_).offers.empty());
}

// An acknowledgement may be repeated, and an old one may come late.
TEST_F(HandoverTest, R39_AcknowledgementsAreCumulativeAndIdempotent) {
  const Started a = Uploaded("a");
  const Started b = Uploaded("b");
  Offer({{"a", a.put}, {"b", b.put}}, 0);
  EXPECT_EQ(Ack(2), 2);
  EXPECT_EQ(Ack(2), 2);
  EXPECT_EQ(Ack(1), 2);
  EXPECT_EQ(OwnerOf(a.upload), receiver_.epoch);
  EXPECT_EQ(OwnerOf(b.upload), receiver_.epoch);
}

// Row 16. A receipt for something that was never offered is a mistake, and must not move what was.
TEST_F(HandoverTest, R39_AnAckBeyondWhatWasOfferedMovesNothing) {
  const Started a = Uploaded("a");
  Offer({{"a", a.put}}, 0);
  EXPECT_EQ(Ack(2), 0);
  EXPECT_EQ(OwnerOf(a.upload), sender_.epoch);
}

// A lost offer is seen by the gap that it leaves.
TEST_F(HandoverTest, R39_AnOfferBehindAGapIsRefused) {
  const Started a = Uploaded("a");
  const core::OfferAnswer answer = Offer({{"a", a.put}}, 1);
  EXPECT_EQ(answer.rows[0].reason, Reason::kHandoverUnknown);
  EXPECT_EQ(answer.next_sequence, 0u);
  EXPECT_TRUE(Heartbeat(receiver_).offers.empty());
}

TEST_F(HandoverTest, R39_ARepeatedOfferChangesNothing) {
  const Started a = Uploaded("a");
  Offer({{"a", a.put}}, 0);
  const core::OfferAnswer again = Offer({{"a", a.put}}, 0);
  EXPECT_TRUE(again.rows[0].ok());
  EXPECT_EQ(again.next_sequence, 1u);
  EXPECT_EQ(Heartbeat(receiver_).offers.size(), 1u);
}

// Row 15a: the number stays as a tombstone, so that the ones behind it can be acknowledged.
TEST_F(HandoverTest, R39_AWithdrawnOfferIsPassedByTheAcknowledgement) {
  const Started a = Uploaded("a");
  const Started b = Uploaded("b");
  Offer({{"a", a.put}, {"b", b.put}}, 0);
  uint64_t withdrawn = 0;
  ASSERT_TRUE(master().WithdrawOffer(sender_, kHandover, 0, 1, &withdrawn).ok());
  EXPECT_EQ(withdrawn, 1u);
  const std::vector<core::OfferRow> offers = Heartbeat(receiver_).offers;
  ASSERT_EQ(offers.size(), 2u);
  EXPECT_FALSE(offers[0].open);
  EXPECT_TRUE(offers[1].open);
  EXPECT_EQ(Ack(2), 2);
  EXPECT_EQ(OwnerOf(a.upload), sender_.epoch);
  EXPECT_EQ(OwnerOf(b.upload), receiver_.epoch);
  EXPECT_EQ(Publish(sender_, "a", a), Reason::kNone);
}

// Row 19.
TEST_F(HandoverTest, R39_APublishByTheSenderCancelsTheOffer) {
  const Started a = Uploaded("a");
  Offer({{"a", a.put}}, 0);
  EXPECT_EQ(Publish(sender_, "a", a), Reason::kNone);
  EXPECT_FALSE(Heartbeat(receiver_).offers[0].open);
  EXPECT_EQ(Ack(1), 1);
  EXPECT_EQ(Ledger().tickets_used, 0u);
  EXPECT_EQ(Publish(receiver_, "a", a), Reason::kNone)
      << "it is complete, and a repeated end is OK";
}

// A stale offer of the same name must not be taken for the new one.
TEST_F(HandoverTest, R39_AnAckOfAWithdrawnOfferDoesNotTakeALaterOneOfTheSameName) {
  const Started a = Uploaded("a");
  Offer({{"a", a.put}}, 0, /*handover=*/1);
  uint64_t withdrawn = 0;
  ASSERT_TRUE(master().WithdrawOffer(sender_, 1, 0, 0, &withdrawn).ok());
  Offer({{"a", a.put}}, 0, /*handover=*/2);
  EXPECT_EQ(Ack(1, /*handover=*/1), 1);
  EXPECT_EQ(OwnerOf(a.upload), sender_.epoch);
  EXPECT_EQ(Ack(1, /*handover=*/2), 1);
  EXPECT_EQ(OwnerOf(a.upload), receiver_.epoch);
}

// Row 17.
TEST_F(HandoverTest, R39_WhenTheReceiverDiesFirstTheSenderKeepsItsNames) {
  const Started a = Uploaded("a");
  Offer({{"a", a.put}}, 0);
  Silence(receiver_);
  Tick(11'000);
  Sweep();
  EXPECT_EQ(OwnerOf(a.upload), sender_.epoch);
  EXPECT_EQ(Ledger().pending_names + Ledger().quarantined_names, 0u);
  EXPECT_EQ(Publish(sender_, "a", a), Reason::kNone);
}

// Row 18.
TEST_F(HandoverTest, R39_WhenTheSenderDiesFirstTheNamesAreDeletedAndTheAckRefused) {
  const Started a = Uploaded("a");
  Offer({{"a", a.put}}, 0);
  Silence(sender_);
  Tick(11'000);
  Sweep();
  EXPECT_EQ(Ledger().quarantined_names, 1u);
  EXPECT_EQ(Ack(1), -1);
  EXPECT_EQ(Publish(receiver_, "a", a), Reason::kStalePut);
  Drain();
  EXPECT_TRUE(store().names().empty());
}

// The receiver owns what it has acknowledged, whatever becomes of the sender; and when it dies, the master does.
TEST_F(HandoverTest, R39_AfterTheAckOnlyTheReceiversLifeMatters) {
  const Started a = Uploaded("a");
  const Started b = Uploaded("b");
  Offer({{"a", a.put}, {"b", b.put}}, 0);
  Ack(2);
  Silence(sender_);
  Tick(11'000);
  Sweep();
  EXPECT_EQ(Publish(receiver_, "a", a), Reason::kNone);
  Silence(receiver_);
  Tick(11'000);
  Sweep();
  EXPECT_EQ(Ledger().quarantined_names, 1u);
  Drain();
  EXPECT_EQ(store().names(), std::set<std::string>{a.upload});
}

// R40: recording a receipt does no I/O, so a store that hangs does not hold it up.
TEST_F(HandoverTest, R40_AnAckDoesNotWaitForAStoreThatHangs) {
  const Started a = Uploaded("a");
  const Started b = Uploaded("b");
  ASSERT_EQ(Revoke(sender_, "b", b.put, UploadOutcome::kFinished), Reason::kNone);
  store().Hang(true);
  std::thread worker([this] { retry_pass().Run(); });
  while (store().deletes().empty()) std::this_thread::yield();
  Offer({{"a", a.put}}, 0);
  EXPECT_EQ(Ack(1), 1);
  store().Hang(false);
  worker.join();
}

// R49: one ticket, however often its name is offered.
TEST_F(HandoverTest, R49_ANameThatIsOfferedTwiceIsOneTicket) {
  const Started a = Uploaded("a");
  Offer({{"a", a.put}}, 0, /*handover=*/1);
  EXPECT_EQ(Offer({{"a", a.put}}, 0, /*handover=*/2).rows[0].reason, Reason::kOffered);
  EXPECT_EQ(Ledger().tickets_used, 1u);
}

// Share limits are checked when it is offered, not when it is too late to say no.
TEST(HandoverShareTest, R32_AnOfferThatWouldExceedTheReceiversShareIsRefused) {
  core::MasterOptions options = DurableOptions(/*tickets=*/8);
  options.ledger_client_percent = 25;
  DurableHarness harness(options);
  const core::Session sender = harness.Open("sender");
  const core::Session receiver = harness.Open("receiver");
  harness.StartDurable(receiver, "own 1");
  harness.StartDurable(receiver, "own 2");
  const Started put = harness.StartDurable(sender, "k");
  const core::OfferItem item{"k", put.put};
  core::OfferRequest request;
  request.session = sender;
  request.to = receiver.client;
  request.items = {&item, 1};
  core::OfferAnswer answer;
  ASSERT_TRUE(harness.master().OfferTickets(request, &answer).ok());
  EXPECT_EQ(answer.rows[0].reason, Reason::kClientQuota);
  EXPECT_EQ(harness.End(sender, "k", put.put, UploadOutcome::kFinished), Reason::kNone);
}

// --- bad input ---

TEST_F(HandoverTest, R18_OffersOfWhatIsNotAnOpenDurablePutAreRefusedOneByOne) {
  Mount(sender_, "s");
  const Started plain = Start(sender_, "plain");
  const Started done = PutDurable(sender_, "done");
  const Started foreign = StartDurable(receiver_, "foreign");
  const core::OfferAnswer answer = Offer({{"plain", plain.put},
                                          {"done", done.put},
                                          {"foreign", foreign.put},
                                          {"none", core::PutId{1}},
                                          {"", core::PutId{1}}},
                                         0);
  ASSERT_EQ(answer.rows.size(), 5u);
  EXPECT_EQ(answer.rows[0].reason, Reason::kBadField);
  EXPECT_EQ(answer.rows[1].reason, Reason::kPutComplete);
  EXPECT_EQ(answer.rows[2].reason, Reason::kNotPutOwner);
  EXPECT_EQ(answer.rows[3].reason, Reason::kUnknownPut);
  EXPECT_EQ(answer.rows[4].reason, Reason::kEmptyKey);
  EXPECT_EQ(answer.next_sequence, 5u) << "each has its number, so that the others keep theirs";
  for (const core::OfferRow& row : Heartbeat(receiver_).offers) EXPECT_FALSE(row.open);
  EXPECT_EQ(Offer({{"plain", plain.put}}, 0).rows[0].reason, Reason::kBadField) << "told again";
  EXPECT_EQ(Ack(5), 5);
}

TEST_F(HandoverTest, R18_OffersToNobodyAndAcksOfNothingAreRefused) {
  const Started a = Uploaded("a");
  Silence(receiver_);
  Tick(11'000);
  Sweep();
  EXPECT_EQ(Offer({{"a", a.put}}, 0).rows[0].reason, Reason::kHandoverUnknown);
  receiver_ = Open("receiver", /*incarnation=*/2);
  EXPECT_EQ(Ack(1), -1);
  uint64_t withdrawn = 0;
  EXPECT_EQ(core::ReasonOf(master().WithdrawOffer(sender_, 99, 0, 0, &withdrawn)),
            Reason::kHandoverUnknown);
}

// Tombstones are memory too: a sender that offers and withdraws for ever is stopped.
TEST_F(HandoverTest, R32_OffersThatAreNeverAcknowledgedAreBounded) {
  const Started a = Uploaded("a");
  Reason reason = Reason::kNone;
  int offered = 0;
  for (; offered < 1000 && reason == Reason::kNone; ++offered) {
    const core::OfferAnswer answer = Offer({{"a", a.put}}, static_cast<uint64_t>(offered));
    reason = answer.rows[0].reason;
    uint64_t withdrawn = 0;
    master().WithdrawOffer(sender_, kHandover, 0, 0, &withdrawn).IgnoreError();
  }
  EXPECT_EQ(reason, Reason::kClientQuota);
  EXPECT_EQ(offered, 17);
}

}  // namespace
}  // namespace holdfast::testing

// The ledger under many threads: its edge, the races of publication, and the end of its worker.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/pass_worker.h"
#include "tests/testing/durable_harness.h"
#include "tests/testing/parallel.h"

namespace holdfast::testing {
namespace {

using core::Reason;
using core::UploadOutcome;

constexpr int kRepeats = 100;  // R62

// R30: never one more, and never one less while somebody asks.
TEST(LedgerRaceTest, R30_R62_SixteenThreadsAtTheEdgeTakeExactlyAllTickets) {
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    constexpr uint32_t kTickets = 100;
    core::UnpublishedLedger ledger(DurableOptions(kTickets));
    std::atomic<uint32_t> taken{0};
    std::atomic<uint32_t> refused{0};
    Parallel threads;
    for (uint64_t t = 0; t < 16; ++t) {
      threads.Add([&, t] {
        for (int i = 0; i < 10; ++i) {
          core::TicketId ticket;
          const Reason reason = ledger.Reserve(core::ClientEpoch{t + 1}, 0, &ticket);
          (reason == Reason::kNone ? taken : refused).fetch_add(1);
          EXPECT_TRUE(reason == Reason::kNone || reason == Reason::kLedgerFull);
        }
      });
    }
    threads.Run();
    EXPECT_EQ(taken, kTickets);
    EXPECT_EQ(refused, 160 - kTickets);
    const core::LedgerCounts counts = ledger.Count(0);
    EXPECT_EQ(counts.tickets_used, kTickets);
    EXPECT_EQ(counts.tickets_high_water, kTickets);
  }
}

class LedgerRacesTest : public DurableTest {
 protected:
  LedgerRacesTest() : DurableTest(DurableOptions(/*tickets=*/4096)) { AuditOnlyAtTheEnd(); }

  core::Session client_ = Open("client");
  core::Session other_ = Open("other");
};

// Publication against everything that can take the put or the object away in its middle: whoever wins, the name is in the
// metadata or on its way out, never both, never neither.
TEST_F(LedgerRacesTest, R50_APublishAgainstARevokeAndARemovalHasOneOutcome) {
  for (int i = 0; i < 400; ++i) {
    const std::string key = absl::StrCat("k", i);
    const Started put = StartDurable(client_, key);
    Upload(put);
    Reason published = Reason::kNone;
    Parallel threads;
    threads.Add([&] { published = Publish(client_, key, put); });
    threads.Add([&] { Revoke(client_, key, put.put, UploadOutcome::kFinished); });
    threads.Add([&] { Remove(other_, key, /*force=*/true); });
    threads.Run();
    const bool readable = Get(key).reason == Reason::kNone;
    EXPECT_TRUE(published == Reason::kNone || !readable);
    EXPECT_EQ(Ledger().pending_names + Ledger().quarantined_names, readable ? 0u : 1u);
    ExpectBooksBalance();
    // What a forced removal took from an uploader that had not ended waits for its deadline.
    Drain();
    EXPECT_EQ(store().Holds(put.upload), readable);
    if (readable) Remove(other_, key, /*force=*/true);
    Drain();
  }
}

// The receiver's acknowledgement against the sender's own end, its withdrawal and the worker.
TEST_F(LedgerRacesTest, R39_AnAckAgainstAPublishAndAWithdrawalLeavesOneOwner) {
  for (int i = 0; i < 400; ++i) {
    const std::string key = absl::StrCat("k", i);
    const Started put = StartDurable(client_, key);
    Upload(put);
    const core::OfferItem item{key, put.put};
    core::OfferRequest request;
    request.session = client_;
    request.to = other_.client;
    request.handover_id = static_cast<uint64_t>(i) + 1;
    request.items = {&item, 1};
    core::OfferAnswer answer;
    ASSERT_TRUE(master().OfferTickets(request, &answer).ok());
    Parallel threads;
    threads.Add([&] { Publish(client_, key, put); });
    threads.Add([&] {
      uint64_t acknowledged = 0;
      EXPECT_TRUE(
          master()
              .AckTickets(other_, client_.client, request.handover_id, 1, Now(), &acknowledged)
              .ok());
    });
    threads.Add([&] {
      uint64_t withdrawn = 0;
      EXPECT_TRUE(master().WithdrawOffer(client_, request.handover_id, 0, 0, &withdrawn).ok());
    });
    threads.Run();
    ExpectBooksBalance();
    // One of the two can end it, or it is ended already; then it is readable.
    const Reason mine = Publish(client_, key, put);
    const Reason theirs = Publish(other_, key, put);
    EXPECT_TRUE(mine == Reason::kNone || theirs == Reason::kNone);
    EXPECT_EQ(Get(key).durable, put.upload);
    EXPECT_EQ(Ledger().tickets_used, 0u);
    master().EndHandovers(core::ClientEpoch{});
  }
}

// The end of a session against the ends of its puts.
TEST_F(LedgerRacesTest, R35_ASessionThatEndsWhileItPublishesLosesNoName) {
  for (int i = 0; i < 100; ++i) {
    const core::Session session = Open("mortal", static_cast<uint64_t>(i) + 10);
    std::vector<Started> puts;
    for (int k = 0; k < 8; ++k) {
      puts.push_back(StartDurable(session, absl::StrCat(i, "-", k)));
      Upload(puts.back());
    }
    Parallel threads;
    threads.Add([&] {
      for (int k = 0; k < 8; ++k)
        Publish(session, absl::StrCat(i, "-", k), puts[static_cast<size_t>(k)]);
    });
    threads.Add([&] {
      core::HeartbeatRequest close;
      close.client = session.client;
      close.epoch = session.epoch;
      close.close = true;
      EXPECT_TRUE(master().Heartbeat(close, Now()).ok());
      while (sweep_pass().Run()) {
      }
    });
    threads.Run();
    Sweep();
    ExpectBooksBalance();
    uint64_t readable = 0;
    for (int k = 0; k < 8; ++k) readable += Get(absl::StrCat(i, "-", k)).durable.empty() ? 0 : 1;
    EXPECT_EQ(readable + Ledger().quarantined_names + Ledger().pending_names, 8u);
    Drain();
    for (int k = 0; k < 8; ++k) Remove(client_, absl::StrCat(i, "-", k), /*force=*/true);
    Tick(11'000);
    Drain();
    EXPECT_TRUE(store().names().empty());
  }
}

// R62, the failed hand-over: either side dies while the receipt is on its way. Whoever owned the name then, it is deleted.
TEST_F(LedgerRacesTest, R39_R62_AnAckAgainstTheEndOfEitherSideLosesNoName) {
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const uint64_t incarnation = static_cast<uint64_t>(repeat) + 10;
    const core::Session sender = Open("sender", incarnation);
    const core::Session receiver = Open("receiver", incarnation);
    const std::string key = absl::StrCat("k", repeat);
    const Started put = StartDurable(sender, key);
    Upload(put);
    const core::OfferItem item{key, put.put};
    core::OfferRequest request;
    request.session = sender;
    request.to = receiver.client;
    request.handover_id = 1;
    request.items = {&item, 1};
    core::OfferAnswer answer;
    ASSERT_TRUE(master().OfferTickets(request, &answer).ok());
    Parallel threads;
    threads.Add([&] {
      uint64_t acknowledged = 0;
      (void)master().AckTickets(receiver, sender.client, 1, 1, Now(), &acknowledged);
    });
    threads.Add([&] {
      core::HeartbeatRequest close;
      const core::Session& dies = repeat % 2 == 0 ? sender : receiver;
      close.client = dies.client;
      close.epoch = dies.epoch;
      close.close = true;
      EXPECT_TRUE(master().Heartbeat(close, Now()).ok());
      while (sweep_pass().Run()) {
      }
    });
    threads.Run();
    Sweep();
    ExpectBooksBalance();
    // The one that lives owns it, or nobody does and it is on its way out.
    const core::Session& lives = repeat % 2 == 0 ? receiver : sender;
    const bool published = Publish(lives, key, put) == Reason::kNone;
    EXPECT_EQ(Ledger().tickets_used, published ? 0u : 1u);
    if (published) Remove(lives, key, /*force=*/true);
    Drain();
    EXPECT_TRUE(store().names().empty());
    core::HeartbeatRequest close;
    close.client = lives.client;
    close.epoch = lives.epoch;
    close.close = true;
    EXPECT_TRUE(master().Heartbeat(close, Now()).ok());
    Sweep();
    Drain();
  }
}

// R37, R62: batches that the store confirms in part, while others queue. What was confirmed is released, once.
TEST(LedgerRaceTest, R37_R62_PartlyConfirmedBatchesReleaseExactlyWhatWasConfirmed) {
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    core::UnpublishedLedger ledger(DurableOptions(/*tickets=*/256));
    FakeStore store;
    ManualClock clock;
    cleanup::RetryStatistics statistics;
    cleanup::RetryPass pass(&ledger, &store, &clock, &statistics, {.names_per_request = 7});
    std::atomic<uint64_t> queued{0};
    std::atomic<bool> done{false};
    Parallel threads;
    threads.Add([&] {
      for (int i = 0; i < 60; ++i) {
        core::TicketId ticket;
        ASSERT_EQ(ledger.Reserve(core::ClientEpoch{1}, 0, &ticket), Reason::kNone);
        const core::DurableEnd end{ticket, false, UploadOutcome::kFinished, 0};
        ledger.Settle({&end, 1}, clock.NowMs());
        queued.fetch_add(1);
      }
      done = true;
    });
    threads.Add([&] {
      uint64_t round = 0;
      while (!done || ledger.Count(clock.NowMs()).tickets_used > 0) {
        DeleteFault fault;
        fault.applied = round % 4 == 1;
        fault.answered = round % 4 == 3;
        if (round % 2 == 1) store.FailNextDelete(fault);
        pass.Run();
        clock.AdvanceMs(1000);
        ++round;
      }
    });
    threads.Run();
    EXPECT_EQ(ledger.Count(clock.NowMs()).deleted_names, queued);
    EXPECT_EQ(ledger.Audit({}), "");
  }
}

// R44, R62: a task that fails goes round the queue while others come and go, and holds up none of them.
TEST(LedgerRaceTest, R45_R62_ATaskThatFailsRotatesBehindThoseThatComeIn) {
  constexpr int kRotations = 30;
  for (int repeat = 0; repeat < kRotations; ++repeat) {
    core::UnpublishedLedger ledger(DurableOptions(/*tickets=*/256));
    FakeStore store;
    ManualClock clock;
    cleanup::RetryStatistics statistics;
    cleanup::RetryPass pass(&ledger, &store, &clock, &statistics, {});
    const auto owe = [&] {
      core::TicketId ticket;
      EXPECT_EQ(ledger.Reserve(core::ClientEpoch{1}, 0, &ticket), Reason::kNone);
      std::string name = ledger.NameOf(ticket);
      const core::DurableEnd end{ticket, false, UploadOutcome::kFinished, 0};
      ledger.Settle({&end, 1}, clock.NowMs());
      return name;
    };
    store.Poison(owe());
    std::atomic<bool> done{false};
    Parallel threads;
    threads.Add([&] {
      for (int i = 0; i < 100; ++i) owe();
      done = true;
    });
    threads.Add([&] {
      while (!done || ledger.Count(clock.NowMs()).tickets_used > 1) {
        pass.Run();
        clock.AdvanceMs(500);
      }
    });
    threads.Run();
    EXPECT_EQ(ledger.Count(clock.NowMs()).deleted_names, 100u);
    store.Heal();
    clock.AdvanceMs(1000);
    pass.Run();
    EXPECT_EQ(ledger.Count(clock.NowMs()).tickets_used, 0u);
  }
}

// R46: names that are queued while the worker ends are deleted or left, and never lost.
TEST(LedgerRaceTest, R46_R62_EnqueueAgainstCloseLosesNoTaskAlsoWhenTheStoreHangs) {
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    core::UnpublishedLedger ledger(DurableOptions(/*tickets=*/1024));
    FakeStore store;
    ManualClock clock;
    cleanup::RetryStatistics statistics;
    cleanup::RetryPass pass(&ledger, &store, &clock, &statistics, {});
    base::PassWorker worker("retry", {}, [&pass] { return pass.Run(); });
    std::atomic<uint64_t> queued{0};
    Parallel threads;
    for (uint64_t t = 0; t < 3; ++t) {
      threads.Add([&, t] {
        for (int i = 0; i < 50; ++i) {
          core::TicketId ticket;
          if (ledger.Reserve(core::ClientEpoch{t + 1}, 0, &ticket) != Reason::kNone) continue;
          const core::DurableEnd end{ticket, false, UploadOutcome::kFinished, 0};
          ledger.Settle({&end, 1}, clock.NowMs());
          queued.fetch_add(1);
          worker.Request();
        }
      });
    }
    threads.Add([&] {
      // A store that hangs is given up; one that works may end what it does.
      if (repeat % 2 == 0) {
        store.Hang(true);
        store.Cancel();
      }
      worker.Stop();
    });
    threads.Run();
    const core::LedgerCounts counts = ledger.Count(clock.NowMs());
    EXPECT_EQ(counts.deleted_names + counts.pending_names, queued);
    EXPECT_EQ(counts.tickets_used, counts.pending_names);
    EXPECT_EQ(ledger.Audit({}), "");
  }
}

}  // namespace
}  // namespace holdfast::testing

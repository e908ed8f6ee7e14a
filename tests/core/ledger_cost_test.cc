// What the ledger's steps cost beside many names that are owed. Not by a clock: by what they take from the heap, and by the pages
// of the tickets that they look at. A walk over the backlog would look at hundreds.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "server/core/unpublished_ledger.h"
#include "tests/core/allocations.h"
#include "tests/testing/durable_harness.h"

namespace holdfast::core {
namespace {

constexpr uint32_t kTickets = 65'536;
constexpr size_t kTicketBytes = 64;
// Ends of the queue and of the list of ages, and the neighbours that are linked to them.
constexpr uint64_t kLooksMax = 8;

// Memory that faults at the first look at each of its pages. One at a time: the handler of a signal has no other place to look.
class WatchedPages {
 public:
  WatchedPages(char* begin, size_t bytes) {
    page_bytes_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    // Whole pages only: what lies beside it on the first and the last one is others'.
    begin_ = (reinterpret_cast<uintptr_t>(begin) + page_bytes_ - 1) / page_bytes_ * page_bytes_;
    end_ = (reinterpret_cast<uintptr_t>(begin) + bytes) / page_bytes_ * page_bytes_;
    looks_ = 0;
    struct sigaction action = {};
    action.sa_sigaction = &OnFault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
    mprotect(reinterpret_cast<void*>(begin_), end_ - begin_, PROT_NONE);
  }
  ~WatchedPages() {
    mprotect(reinterpret_cast<void*>(begin_), end_ - begin_, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &before_, nullptr);
  }
  WatchedPages(const WatchedPages&) = delete;
  WatchedPages& operator=(const WatchedPages&) = delete;

  static uint64_t looks() { return looks_; }

 private:
  static void OnFault(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    if (at < begin_ || at >= end_) _exit(1);  // a fault of its own, which would come again for ever
    looks_ = looks_ + 1;
    mprotect(reinterpret_cast<void*>(at / page_bytes_ * page_bytes_), page_bytes_,
             PROT_READ | PROT_WRITE);
  }

  static inline uintptr_t begin_ = 0;
  static inline uintptr_t end_ = 0;
  static inline size_t page_bytes_ = 0;
  static inline volatile uint64_t looks_ = 0;
  struct sigaction before_ = {};
};

struct Cost {
  uint64_t allocations = 0;
  uint64_t looks = 0;  // pages
};

// A ledger that owes so many names, each a task of its own. The names are given up out of the order of their tickets, so that
// neighbours in the queue are not neighbours in memory.
class Backlog {
 public:
  explicit Backlog(uint32_t names) {
    testing::watched_bytes = (kTickets + 1) * kTicketBytes;
    ledger_ = std::make_unique<UnpublishedLedger>(testing::DurableOptions(kTickets));
    testing::watched_bytes = 0;
    block_ = testing::watched_block.exchange(nullptr);
    std::vector<TicketId> tickets(names);
    for (TicketId& ticket : tickets) EXPECT_EQ(Reserve(&ticket), Reason::kNone);
    const uint32_t stride = 12'347;  // prime to the numbers of names that are used here
    for (uint64_t i = 0; i < names; ++i) GiveUp(tickets[i * stride % names]);
    EXPECT_EQ(ledger_->Count(0).pending_tasks, names);
  }

  UnpublishedLedger& ledger() { return *ledger_; }
  Reason Reserve(TicketId* ticket) { return ledger_->Reserve(ClientEpoch{1}, 0, ticket); }
  void GiveUp(TicketId ticket) {
    const DurableEnd end{ticket, false, UploadOutcome::kFinished, 0};
    ledger_->Settle({&end, 1}, 0);
  }
  bool watched() const { return block_ != nullptr; }

  Cost Measure(const std::function<void()>& step) {
    step();  // once before: tables that grow do so now
    const uint64_t before = testing::allocations;
    step();
    Cost cost;
    cost.allocations = testing::allocations - before;
    const WatchedPages pages(block_, kTickets * kTicketBytes);
    step();
    cost.looks = WatchedPages::looks();
    return cost;
  }

 private:
  std::unique_ptr<UnpublishedLedger> ledger_;
  char* block_ = nullptr;
};

struct Step {
  const char* name;
  void (*run)(Backlog*);
};

void TakeOne(Backlog* backlog, bool confirmed) {
  const auto batch = backlog->ledger().Take(1, true, 0);
  backlog->ledger().Finish(batch, {confirmed}, 0);
}

const Step kSteps[] = {
    {"publish",
     [](Backlog* backlog) {
       TicketId ticket;
       backlog->Reserve(&ticket);
       backlog->ledger().BeginPublish(ticket, ClientEpoch{1});
       backlog->ledger().FinishPublish(ticket, 0);
     }},
    {"enqueue",
     [](Backlog* backlog) {
       TicketId ticket;
       backlog->Reserve(&ticket);
       backlog->GiveUp(ticket);
     }},
    {"dequeue and fail", [](Backlog* backlog) { TakeOne(backlog, false); }},
    {"dequeue and delete", [](Backlog* backlog) { TakeOne(backlog, true); }},
    {"figures, with the oldest age", [](Backlog* backlog) { backlog->ledger().Count(0); }},
};

// A scan anywhere in these steps, for a figure, a name or a neighbour, would make a dead store cost every put.
TEST(LedgerCostTest, R48_R53_AStepCostsTheSameBesideAHundredNamesAndSixtyThousand) {
  for (const Step& step : kSteps) {
    SCOPED_TRACE(step.name);
    Backlog few(100);
    Backlog many(60'000);
    ASSERT_TRUE(few.watched() && many.watched());
    const Cost beside_few = few.Measure([&] { step.run(&few); });
    const Cost beside_many = many.Measure([&] { step.run(&many); });
    EXPECT_EQ(beside_many.allocations, beside_few.allocations);
    EXPECT_LE(beside_many.looks, kLooksMax);
  }
}

// The measure itself works: a listing looks at what it lists.
TEST(LedgerCostTest, R53_AWalkOverTheBacklogWouldBeSeen) {
  Backlog many(60'000);
  ASSERT_TRUE(many.watched());
  constexpr size_t kRows = 4000;
  const Cost cost = many.Measure([&] {
    uint32_t slot = 0;
    std::vector<TicketListing> rows;
    many.ledger().List(&slot, kRows, 0, &rows);
  });
  EXPECT_GT(cost.looks, 2 * kLooksMax);  // 62 pages of 4 KiB
  EXPECT_GE(cost.allocations, kRows);
}

}  // namespace
}  // namespace holdfast::core

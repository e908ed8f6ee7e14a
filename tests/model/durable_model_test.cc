// Random clients, uploads, publishes, deaths, hand-overs and store faults against the ledger, with an oracle that knows what
// every client and the store have really done; and the same with planted mistakes, each of which the oracle has to find.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/core/object_shard.h"
#include "tests/testing/durable_harness.h"

namespace holdfast::testing {
namespace {

using core::Durability;
using core::Reason;
using core::UploadOutcome;

constexpr int kClients = 3;
constexpr int kKeys = 8;
constexpr uint32_t kTickets = 12;

// A mistake that is made on purpose.
enum class Plant {
  kNone,
  kReleaseOnAmbiguousDelete,
  kPublishFromCleanup,
  kReleaseBeforeConfirmation,
  kReceiptBeyondAGap,
  kDeleteBeforeNotBefore,
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The store of a deployment that says "deleted" when it does not know.
class LyingStore : public FakeStore {
 public:
  std::vector<tier::DeleteResult> Delete(absl::Span<const std::string> names,
                                         absl::Time deadline) override {
    std::vector<tier::DeleteResult> results = FakeStore::Delete(names, deadline);
    for (tier::DeleteResult& result : results) {
      if (result.state == tier::DeleteState::kUnknown) result.state = tier::DeleteState::kDeleted;
    }
    return results;
  }
};

// What a client has done with a name.
struct ModelPut {
  std::string key;
  core::PutId put;
  std::string name;
  int owner = 0;
  bool open = true;  // not ended, revoked or lost, as far as its owner knows
  UploadOutcome upload = UploadOutcome::kNotStarted;
  int64_t lands_until_ms = 0;  // an ambiguous upload may land so long
  bool may_land = false;
};

class DurableRun : public DurableHarness {
 public:
  DurableRun(uint64_t seed, Plant plant)
      : DurableHarness(Options(seed)),
        plant_(plant),
        random_(seed),
        lying_pass_(&master().ledger(), &lying_store_, &clock(), &retry_statistics(), {}) {
    AuditOnlyAtTheEnd();
    for (int c = 0; c < kClients; ++c) {
      sessions_.push_back(Open(ClientName(c), ++incarnation_));
    }
  }

  // The first thing that was wrong; empty: nothing.
  const std::string& verdict() const { return verdict_; }

  void Step() {
    switch (Below(16)) {
      case 0:
      case 1:
      case 2:
        StartPut(Key(), Below(kClients));
        break;
      case 3:
      case 4:
      case 5:
        UploadSome();
        break;
      case 6:
      case 7:
        EndSome();
        break;
      case 8:
        RevokeSome();
        break;
      case 9:
        Remove(sessions_[static_cast<size_t>(Below(kClients))], Key(), /*force=*/true);
        break;
      case 10:
        OfferSome();
        break;
      case 11:
        AcknowledgeSome(Below(kClients));
        break;
      case 12:
        if (Below(6) == 0) Die(Below(kClients));
        break;
      case 13:
        Pass(Below(8) == 0 ? 60'000 : Below(2'000));
        break;
      default:
        RetryRound();
    }
    LandSome();
    Check();
  }

  // Everything heals; what is owed is paid, and the store holds exactly what is published.
  void Finish() {
    Store().Heal();
    for (int c = 0; c < kClients; ++c) Die(c);
    for (int i = 0; i < 3'000 && Ledger().tickets_used > 0 && verdict_.empty(); ++i) {
      Pass(1'000);
      LandSome();
      RetryRound(/*faults=*/false);
      Check();
    }
    if (Ledger().tickets_used > 0) Blame("the ledger does not drain");
    if (Store().names() != PublishedNames()) Blame("the store holds other names than the objects");
  }

 private:
  static core::MasterOptions Options(uint64_t seed) {
    core::MasterOptions options = DurableOptions(kTickets);
    options.seed = seed;
    options.hash_seed = seed + 1;
    options.ledger_client_percent = 60;
    options.upload_grace_ms = 20'000;
    options.upload_timeout_ms = 10'000;
    options.upload_timeout_max_ms = 10'000;
    options.publish_window_ms = 60'000;
    options.mass_expiry_min_clients = 1000;
    return options;
  }
  static std::string ClientName(int client) { return absl::StrCat("client-", client); }

  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint64_t>(bound)); }
  std::string Key() { return absl::StrCat("key-", Below(kKeys)); }
  FakeStore& Store() { return plant_ == Plant::kReleaseOnAmbiguousDelete ? lying_store_ : store(); }
  const core::Session& SessionOf(const ModelPut& put) const {
    return sessions_[static_cast<size_t>(put.owner)];
  }
  void Blame(const std::string& what) {
    if (verdict_.empty()) verdict_ = what;
  }
  // An open put of whichever client; nullptr if there is none.
  ModelPut* SomeOpenPut() {
    std::vector<ModelPut*> open;
    for (ModelPut& put : puts_) {
      if (put.open) open.push_back(&put);
    }
    return open.empty() ? nullptr : open[static_cast<size_t>(Below(static_cast<int>(open.size())))];
  }
  ModelPut* PutNamed(const std::string& name) {
    for (ModelPut& put : puts_) {
      if (put.name == name) return &put;
    }
    return nullptr;
  }

  // --- what clients do ---

  void StartPut(const std::string& key, int client) {
    const Started started = StartDurable(sessions_[static_cast<size_t>(client)], key);
    if (started.reason != Reason::kNone) return;
    if (PutNamed(started.upload) != nullptr) Blame("a name was minted twice");
    ModelPut put;
    put.key = key;
    put.put = started.put;
    put.name = started.upload;
    put.owner = client;
    put.lands_until_ms = Now() + started.upload_left_ms + 20'000;
    puts_.push_back(put);
  }

  void UploadSome() {
    ModelPut* put = SomeOpenPut();
    if (put == nullptr || put->upload != UploadOutcome::kNotStarted) return;
    if (Now() >= put->lands_until_ms - 20'000) return;  // its deadline is over: the client gives up
    switch (Below(4)) {
      case 0:  // applied, and then an error
        Store().Land(put->name);
        put->upload = UploadOutcome::kAmbiguous;
        break;
      case 1:  // an error, and it lands later or never
        put->upload = UploadOutcome::kAmbiguous;
        put->may_land = true;
        break;
      default:
        Store().Land(put->name);
        put->upload = UploadOutcome::kFinished;
    }
  }

  void LandSome() {
    for (ModelPut& put : puts_) {
      if (!put.may_land || Below(8) != 0) continue;
      put.may_land = false;
      if (Now() < put.lands_until_ms) Store().Land(put.name);
    }
  }

  void EndSome() {
    ModelPut* put = SomeOpenPut();
    if (put == nullptr || put->upload != UploadOutcome::kFinished) return;
    const Reason reason = Publish(SessionOf(*put), put->key, {.put = put->put});
    if (reason == Reason::kNone) published_.insert(put->name);
    // Its answer may have been lost; then it is said again, and maybe a revoke after it.
    if (Below(4) == 0) Publish(SessionOf(*put), put->key, {.put = put->put});
    if (Below(4) == 0) {
      Revoke(SessionOf(*put), put->key, put->put, UploadOutcome::kAmbiguous);
    }
    put->open = false;
    if (reason == Reason::kStalePut && plant_ == Plant::kPublishFromCleanup) PublishAnyway(*put);
  }

  void RevokeSome() {
    ModelPut* put = SomeOpenPut();
    if (put == nullptr) return;
    Revoke(SessionOf(*put), put->key, put->put, put->upload);
    put->open = false;
    if (plant_ == Plant::kPublishFromCleanup) PublishAnyway(*put);
  }

  // The mistake: metadata that points to a name which the ledger is about to delete.
  void PublishAnyway(const ModelPut& put) {
    std::vector<core::TicketListing> rows = Listed();
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&put](const core::TicketListing& r) { return r.name == put.name; });
    if (row == rows.end()) return;
    const uint64_t hash = master().table().Hash(put.key);
    core::ObjectShard& shard = master().table().ShardOf(hash);
    absl::MutexLock lock(&shard.mu);
    if (shard.Find(hash, put.key) != 0) return;
    core::ObjectShard::NewObject object;
    object.key = put.key;
    object.size_bytes = 1;
    object.put = put.put;
    object.owner = SessionOf(put).epoch;
    object.ticket = row->ticket;
    shard.Complete(shard.Insert(hash, object), "");
  }

  void OfferSome() {
    ModelPut* put = SomeOpenPut();
    if (put == nullptr) return;
    const int to = Below(kClients);
    const uint64_t id = static_cast<uint64_t>(put->owner * kClients + to) + 1;
    uint64_t& next = next_sequence_[id];
    // All that this client has, so that an acknowledgement has something to skip.
    std::vector<core::OfferItem> items;
    for (const ModelPut& other : puts_) {
      if (other.open && other.owner == put->owner) items.push_back({other.key, other.put});
    }
    core::OfferRequest request;
    request.session = SessionOf(*put);
    request.to = sessions_[static_cast<size_t>(to)].client;
    request.handover_id = id;
    request.first_sequence = next;
    request.items = items;
    core::OfferAnswer answer;
    if (!master().OfferTickets(request, &answer).ok()) return;
    next = answer.next_sequence;
    if (Below(5) != 0) return;
    uint64_t withdrawn = 0;
    master().WithdrawOffer(request.session, id, next - 1, 1, &withdrawn).IgnoreError();
  }

  // Some of the offers do not reach the receiver, which acknowledges what it has noted without a gap.
  void AcknowledgeSome(int receiver) {
    const core::Session session = sessions_[static_cast<size_t>(receiver)];
    std::map<std::pair<core::ClientId, uint64_t>, std::vector<core::OfferRow>> by_handover;
    for (core::OfferRow& row : Heartbeat(session).offers) {
      by_handover[{row.from, row.handover_id}].push_back(std::move(row));
    }
    for (auto& [key, rows] : by_handover) {
      uint64_t next_expected = rows.front().sequence;
      bool gap = false;
      for (const core::OfferRow& row : rows) {
        if (Below(3) == 0) {
          gap = true;  // this one was lost on its way
          continue;
        }
        if (gap && plant_ != Plant::kReceiptBeyondAGap) break;
        next_expected = row.sequence + 1;
        if (row.open) noted_.insert({row.name, session.epoch});
      }
      uint64_t acknowledged = 0;
      if (!master()
               .AckTickets(session, key.first, key.second, next_expected, Now(), &acknowledged)
               .ok()) {
        continue;
      }
      if (acknowledged != next_expected) Blame("an acknowledgement did not move");
    }
    // Who owns what after that, the ledger says; the clients know it too, by then.
    for (const core::TicketListing& row : Listed()) {
      ModelPut* put = PutNamed(row.name);
      if (put != nullptr && row.owner == session.epoch) put->owner = receiver;
    }
  }

  void Die(int client) {
    Silence(sessions_[static_cast<size_t>(client)]);
    sessions_[static_cast<size_t>(client)] = Open(ClientName(client), ++incarnation_);
    for (auto it = next_sequence_.begin(); it != next_sequence_.end();) {
      const auto present = it++;
      const uint64_t id = present->first - 1;
      if (id / kClients == static_cast<uint64_t>(client) ||
          id % kClients == static_cast<uint64_t>(client)) {
        next_sequence_.erase(present);
      }
    }
    Sweep();
    for (ModelPut& put : puts_) {
      if (put.owner == client) put.open = false;
    }
  }

  void Pass(int64_t ms) { Tick(ms); }

  // --- the worker ---

  void RetryRound(bool faults = true) {
    const size_t before = Store().deletes().size();
    if (faults && Below(3) == 0) {
      Store().FailNextDelete({.applied = Below(2) == 0, .answered = Below(2) == 0});
    }
    switch (plant_) {
      case Plant::kReleaseOnAmbiguousDelete:
        lying_pass_.Run();
        break;
      case Plant::kReleaseBeforeConfirmation: {
        const auto batch = master().ledger().Take(3, false, Now());
        master().ledger().Finish(batch, std::vector<bool>(batch.names.size(), true), Now());
        if (!batch.names.empty()) Store().Delete(batch.names, absl::InfiniteFuture());
        break;
      }
      case Plant::kDeleteBeforeNotBefore: {
        const auto batch = master().ledger().Take(3, false, Now() + 3'600'000);
        if (!batch.names.empty()) Store().Delete(batch.names, absl::InfiniteFuture());
        master().ledger().Finish(batch, std::vector<bool>(batch.names.size(), true), Now());
        break;
      }
      default:
        retry_pass().Run();
    }
    const auto deletes = Store().deletes();
    for (size_t i = before; i < deletes.size(); ++i) {
      for (const std::string& name : deletes[i]) CheckDelete(name);
    }
  }

  // --- the oracle ---

  std::vector<core::TicketListing> Listed() {
    std::vector<core::TicketListing> rows;
    uint32_t slot = 0;
    while (master().ledger().List(&slot, 1000, Now(), &rows)) {
    }
    return rows;
  }
  std::set<std::string> PublishedNames() {
    std::set<std::string> names;
    for (const std::string& key : Keys(/*filter_invalid=*/true)) {
      const auto object = master().GetObject(key, Now());
      if (object.ok() && object->durable_published) names.insert(object->durable_name);
    }
    return names;
  }
  void CheckDelete(const std::string& name) {
    if (PublishedNames().contains(name)) Blame(absl::StrCat("deletes the published ", name));
    const ModelPut* put = PutNamed(name);
    if (put == nullptr) return Blame("deletes a name that was never told");
    const bool known = put->upload == UploadOutcome::kFinished && !put->may_land;
    if (!known && Now() < put->lands_until_ms) Blame("deletes while an upload may land");
  }
  void Check() {
    const core::LedgerCounts counts = Ledger();
    if (counts.tickets_used > kTickets) Blame("more tickets than there are");
    const std::vector<core::TicketListing> rows = Listed();
    if (rows.size() != counts.tickets_used) Blame("a ticket is not listed");
    std::set<std::string> in_ledger;
    for (const core::TicketListing& row : rows) {
      if (!in_ledger.insert(row.name).second) Blame("a name has two tickets");
      CheckOwner(row);
    }
    for (const std::string& name : PublishedNames()) {
      if (in_ledger.contains(name)) Blame("a published name is in the ledger");
      if (!Store().Holds(name)) Blame("a published name has no bytes");
      if (!published_.contains(name)) Blame("published what was not ended");
    }
    if (plant_ == Plant::kNone) {
      if (const std::string error = master().Audit(); !error.empty()) Blame(error);
    }
  }
  // A name changes hands only when its new owner has noted it.
  void CheckOwner(const core::TicketListing& row) {
    auto [first, is_new] = first_owner_.try_emplace(row.name, row.owner);
    if (row.owner == core::ClientEpoch() || row.owner == first->second) return;
    if (!noted_.contains({row.name, row.owner})) Blame("a client owns what it has not noted");
  }

  const Plant plant_;
  std::mt19937_64 random_;
  LyingStore lying_store_;
  cleanup::RetryPass lying_pass_;
  uint64_t incarnation_ = 0;
  std::vector<core::Session> sessions_;
  std::vector<ModelPut> puts_;
  std::map<uint64_t, uint64_t> next_sequence_;  // by hand-over
  std::set<std::pair<std::string, core::ClientEpoch>> noted_;
  std::map<std::string, core::ClientEpoch> first_owner_;
  std::set<std::string> published_;
  std::string verdict_;
};

// What the oracle says of one run.
std::string Judge(uint64_t seed, Plant plant, uint64_t steps) {
  DurableRun run(seed, plant);
  for (uint64_t step = 0; step < steps && run.verdict().empty(); ++step) run.Step();
  if (run.verdict().empty()) run.Finish();
  return run.verdict();
}

// Promise 2 in every order that chance finds: each name has one owner until it is published or known to be gone, the bound
// holds, published and deleted never meet, and in the end nothing is owed and nothing is left behind.
TEST(DurableModelTest, R30_R35_R39_R50_R54_RandomLivesOfNamesAgreeWithTheOracle) {
  const uint64_t first = FromEnvironment("HOLDFAST_SEED", std::random_device{}());
  const uint64_t runs = FromEnvironment("HOLDFAST_MODEL_RUNS", 600);
  const uint64_t steps = FromEnvironment("HOLDFAST_MODEL_STEPS", 400);
  std::printf("HOLDFAST_SEED=%llu\n", static_cast<unsigned long long>(first));
  for (uint64_t run = 0; run < runs; ++run) {
    ASSERT_EQ(Judge(first + run, Plant::kNone, steps), "")
        << "HOLDFAST_SEED=" << first + run << " HOLDFAST_MODEL_RUNS=1";
    ASSERT_FALSE(::testing::Test::HasFailure()) << "HOLDFAST_SEED=" << first + run;
  }
}

// An oracle that finds nothing in a wrong master proves nothing about a right one.
class PlantedFaultTest : public ::testing::TestWithParam<Plant> {};

TEST_P(PlantedFaultTest, R50_TheOracleFindsThePlantedMistake) {
  const uint64_t first = FromEnvironment("HOLDFAST_SEED", 1);
  int caught = 0;
  for (uint64_t run = 0; run < 50; ++run) {
    caught += Judge(first + run, GetParam(), 400).empty() ? 0 : 1;
  }
  EXPECT_GT(caught, 0) << "of 50 runs";
  std::printf("caught in %d of 50 runs\n", caught);
}

INSTANTIATE_TEST_SUITE_P(Mistakes, PlantedFaultTest,
                         ::testing::Values(Plant::kReleaseOnAmbiguousDelete,
                                           Plant::kPublishFromCleanup,
                                           Plant::kReleaseBeforeConfirmation,
                                           Plant::kReceiptBeyondAGap,
                                           Plant::kDeleteBeforeNotBefore));

}  // namespace
}  // namespace holdfast::testing

// Between an unmount and its sweep: every read path has the same answer, by one predicate, also when the end comes in
// the middle of a read. The sweep is not run unless a test says so, so the window stays open.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/core/segment_table_builder.h"
#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using testing::CoreHarness;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct ReadPath {
  const char* name;
  // Whether this path shows the key as readable.
  bool (*sees)(CoreHarness& harness, const std::string& key);
};

bool Contains(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool GetSees(CoreHarness& harness, const std::string& key) {
  const testing::Found found = harness.Get(key);
  EXPECT_EQ(found.reason == Reason::kNone, !found.places.empty()) << "found, and nowhere";
  return found.reason == Reason::kNone;
}

bool BatchGetSees(CoreHarness& harness, const std::string& key) {
  const std::vector<absl::string_view> keys = {"no such key", key, "anchor"};
  GetAnswer answer;
  EXPECT_TRUE(harness.master().Get(keys, harness.Now(), &answer).ok());
  EXPECT_EQ(answer.rows[0].reason, Reason::kObjectNotFound);
  EXPECT_EQ(answer.rows[2].reason, Reason::kNone);
  EXPECT_EQ(answer.rows[1].reason == Reason::kNone, answer.rows[1].replica_count > 0);
  return answer.rows[1].reason == Reason::kNone;
}

bool ExistsSees(CoreHarness& harness, const std::string& key) {
  return harness.Exists(key) == Reason::kNone;
}

bool BatchExistsSees(CoreHarness& harness, const std::string& key) {
  const std::vector<absl::string_view> keys = {"no such key", key, "anchor"};
  std::vector<Outcome> answer;
  EXPECT_TRUE(harness.master().Exists(keys, &answer).ok());
  EXPECT_EQ(answer[0].reason, Reason::kObjectNotFound);
  EXPECT_TRUE(answer[2].ok());
  return answer[1].ok();
}

bool ListSees(CoreHarness& harness, const std::string& key) {
  return Contains(harness.Keys(/*filter_invalid=*/true), key);
}

bool PrefixListSees(CoreHarness& harness, const std::string& key) {
  return Contains(harness.Keys(/*filter_invalid=*/true, key), key);
}

// The physical list shows the record, but counts no replica that cannot be read.
bool PhysicalListSees(CoreHarness& harness, const std::string& key) {
  std::vector<KeyListing> rows;
  KeyCursor cursor;
  while (harness.master().ListKeys(/*filter_invalid=*/false, key, &cursor, &rows)) {
  }
  return std::any_of(rows.begin(), rows.end(),
                     [](const KeyListing& row) { return row.available_replicas > 0; });
}

bool GetObjectSees(CoreHarness& harness, const std::string& key) {
  const absl::StatusOr<ObjectListing> object = harness.master().GetObject(key, harness.Now());
  return object.ok() && std::any_of(object->replicas.begin(), object->replicas.end(),
                                    [](const ReplicaListing& row) { return row.available; });
}

// Remove without force says NOT_FOUND to what cannot be read, LEASED or OK to what can.
bool RemoveSees(CoreHarness& harness, const std::string& key) {
  return harness.Remove(harness.Open("remover"), key) != Reason::kObjectNotFound;
}

class EveryReadPathTest : public testing::CoreTest, public ::testing::WithParamInterface<ReadPath> {
 protected:
  EveryReadPathTest() { PutOn(client_, "anchor", "staying"); }
  bool Sees(const std::string& key) { return GetParam().sees(*this, key); }

  const Session client_ = Open("client");
  const RegistrationId leaving_ = Mount(client_, "leaving");
  const RegistrationId staying_ = Mount(client_, "staying");
};

INSTANTIATE_TEST_SUITE_P(
    Paths, EveryReadPathTest,
    ::testing::Values(ReadPath{"Get", GetSees}, ReadPath{"BatchGet", BatchGetSees},
                      ReadPath{"Exists", ExistsSees}, ReadPath{"BatchExists", BatchExistsSees},
                      ReadPath{"ListKeys", ListSees}, ReadPath{"ListKeysByPrefix", PrefixListSees},
                      ReadPath{"PhysicalListKeys", PhysicalListSees},
                      ReadPath{"GetObject", GetObjectSees}, ReadPath{"Remove", RemoveSees}),
    [](const auto& path) { return path.param.name; });

// Against a test that sees nothing whatever happens.
TEST_P(EveryReadPathTest, R2_ShowsWhatCanBeRead) {
  PutOn(client_, "key", "leaving");
  EXPECT_TRUE(Sees("key"));
}

// Readers of a dead replica go to a host that is not there, or worse, to memory that is somebody else's by now.
TEST_P(EveryReadPathTest, R2_R3_HidesAReplicaFromTheUnmountOn) {
  PutOn(client_, "key", "leaving");
  Unmount(client_, leaving_);
  ASSERT_EQ(Count().cleanup.ended_registrations_waiting, 1u) << "the window is not open";
  EXPECT_FALSE(Sees("key"));
}

// The death of a client must look like an unmount to readers.
TEST_P(EveryReadPathTest, R12_HidesWhatAnExpiredClientHasLent) {
  const Session dying = Open("dying");
  Mount(dying, "dying");
  PutOn(client_, "key", "dying");
  Silence(dying);
  Tick(10'001);
  EXPECT_FALSE(Sees("key"));
}

// Loss of one of two is no loss.
TEST_P(EveryReadPathTest, R8_ShowsAnObjectWithASurvivor) {
  Put(client_, "key", {.replicas = 2});
  Unmount(client_, leaving_);
  EXPECT_TRUE(Sees("key"));
}

// What is not written yet must not be read.
TEST_P(EveryReadPathTest, F23_HidesAPutInProgress) {
  Start(client_, "key");
  EXPECT_FALSE(Sees("key"));
}

// A put whose segment has gone does not become visible by its end.
TEST_P(EveryReadPathTest, R18_HidesAPutThatEndedAfterItsSegment) {
  const testing::Started started = Start(client_, "key", {.segments = {"leaving"}});
  Unmount(client_, leaving_);
  EXPECT_EQ(End(client_, "key", started.put), Reason::kReplicaLost);
  EXPECT_FALSE(Sees("key"));
}

// A drained segment is full of good data.
TEST_P(EveryReadPathTest, R7_ShowsWhatLiesOnADrainedSegment) {
  PutOn(client_, "key", "leaving");
  ASSERT_TRUE(master().DrainSegment(leaving_).ok());
  EXPECT_TRUE(Sees("key"));
}

class RecheckTest : public testing::CoreTest {
 protected:
  // The first half of Get, for as many keys as are named.
  GetAnswer Build(const std::vector<absl::string_view>& keys) {
    GetAnswer answer;
    EXPECT_TRUE(master().BuildGet(keys, Now(), &answer).ok());
    return answer;
  }
  static std::vector<RegistrationId> SegmentsOf(const GetAnswer& answer) {
    std::vector<RegistrationId> ids;
    for (const SegmentRow& row : answer.segments) ids.push_back(row.registration);
    return ids;
  }

  const Session client_ = Open("client");
};

// An answer is built in pieces; what ends meanwhile must not leave the master any more.
TEST_F(RecheckTest, R4_AnEndBetweenBuildAndRecheckTakesTheReplicaOut) {
  const RegistrationId a = Mount(client_, "a");
  Put(client_, "key");
  GetAnswer answer = Build({"key"});
  ASSERT_EQ(answer.rows[0].reason, Reason::kNone);
  Unmount(client_, a);
  master().RecheckGet(&answer);
  EXPECT_EQ(answer.rows[0].reason, Reason::kObjectNotFound);
  EXPECT_EQ(answer.rows[0].replica_count, 0u);
  EXPECT_EQ(answer.rows[0].lease_ms, 0);
  EXPECT_THAT(answer.replicas, IsEmpty());
  EXPECT_THAT(answer.segments, IsEmpty());
}

// The rest of the answer stays right: indices are moved, rows keep their order.
TEST_F(RecheckTest, R4_WhatSurvivesARecheckStaysInTheAnswer) {
  const RegistrationId a = Mount(client_, "a");
  const RegistrationId b = Mount(client_, "b");
  PutOn(client_, "on-a", "a");
  Put(client_, "on-both", {.replicas = 2});
  const testing::Started on_b = PutOn(client_, "on-b", "b");
  GetAnswer answer = Build({"on-a", "on-both", "none", "on-b"});
  ASSERT_EQ(answer.segments.size(), 2u);
  Unmount(client_, a);
  master().RecheckGet(&answer);
  EXPECT_THAT(SegmentsOf(answer), ElementsAre(b));
  EXPECT_EQ(answer.rows[0].reason, Reason::kObjectNotFound);
  EXPECT_EQ(answer.rows[1].reason, Reason::kNone);
  EXPECT_EQ(answer.rows[1].replica_count, 1u);
  EXPECT_EQ(answer.rows[2].reason, Reason::kObjectNotFound);
  ASSERT_EQ(answer.rows[3].replica_count, 1u);
  const ReplicaRow& last = answer.replicas.at(answer.rows[3].first_replica);
  EXPECT_EQ(last.segment, 0u);
  EXPECT_EQ(last.offset_bytes, on_b.places.at(0).offset_bytes);
}

// The slot of a swept registration goes to the next one: it must not be taken for what the reader has looked at.
TEST_F(RecheckTest, R4_ASuccessorInTheSameSlotIsNotTakenForTheOldRegistration) {
  const RegistrationId a = Mount(client_, "a");
  const uint32_t slot = Listed(a).slot;
  Put(client_, "key");
  GetAnswer answer = Build({"key"});
  Unmount(client_, a);
  Sweep();
  const RegistrationId b = Mount(client_, "b");
  ASSERT_EQ(Listed(b).slot, slot) << "the slot was not used again";
  master().RecheckGet(&answer);
  EXPECT_EQ(answer.rows[0].reason, Reason::kObjectNotFound);
  EXPECT_THAT(answer.segments, IsEmpty());
}

// Within one batch the slot may change hands between two items: those are two segments of the answer.
TEST_F(RecheckTest, R4_ASlotThatChangesHandsWithinABatchIsTwoSegments) {
  const RegistrationId a = Mount(client_, "a");
  const uint32_t slot = Listed(a).slot;
  ReplicaTable table;
  SegmentTableBuilder builder(&master().registry(), &table);
  builder.Add(slot, 0);
  Unmount(client_, a);
  Sweep();
  const RegistrationId b = Mount(client_, "b");
  ASSERT_EQ(Listed(b).slot, slot);
  builder.Add(slot, 64);
  builder.Add(slot, 128);
  ASSERT_EQ(table.segments.size(), 2u);
  EXPECT_EQ(table.segments[table.replicas[0].segment].registration, a);
  EXPECT_EQ(table.segments[table.replicas[1].segment].registration, b);
  EXPECT_EQ(table.replicas[2].segment, table.replicas[1].segment);
  EXPECT_FALSE(AllSegmentsLive(master().registry(), table));
}

class ListingFilterTest : public testing::CoreTest {
 protected:
  ListingFilterTest() {
    PutOn(client_, "lost", "leaving");
    PutOn(client_, "kept", "staying");
    Start(client_, "unfinished", {.segments = {"staying"}});
    Unmount(client_, leaving_);
  }

  const Session client_ = Open("client");
  const RegistrationId leaving_ = Mount(client_, "leaving");
  const RegistrationId staying_ = Mount(client_, "staying");
};

// Operators see by default what clients can read.
TEST_F(ListingFilterTest, R13_TheFilteredListHasWhatCanBeRead) {
  EXPECT_THAT(Keys(/*filter_invalid=*/true), ElementsAre("kept"));
}

// And what takes memory, when they ask for it, until it is swept.
TEST_F(ListingFilterTest, R13_ThePhysicalListHasWhatTakesMemory) {
  EXPECT_THAT(Keys(/*filter_invalid=*/false), ElementsAre("kept", "lost", "unfinished"));
  Sweep();
  EXPECT_THAT(Keys(/*filter_invalid=*/false), ElementsAre("kept", "unfinished"));
}

// What is shown of one object does not contradict the read paths.
TEST_F(ListingFilterTest, R2_GetObjectShowsADeadReplicaAsCompleteAndNotAvailable) {
  const absl::StatusOr<ObjectListing> object = master().GetObject("lost", Now());
  ASSERT_TRUE(object.ok()) << object.status();
  ASSERT_EQ(object->replicas.size(), 1u);
  EXPECT_EQ(object->replicas[0].registration, leaving_);
  EXPECT_TRUE(object->replicas[0].complete);
  EXPECT_FALSE(object->replicas[0].available);
}

}  // namespace
}  // namespace holdfast::core

// A batch is independent items, answered in order, checked as a whole before anything is done.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using ::testing::ElementsAre;

class BatchTest : public testing::CoreTest {
 protected:
  Reason StartAll(const std::vector<PutStartItem>& items, PutStartAnswer* answer) {
    PutStartRequest request;
    request.session = client_;
    request.items = items;
    request.random = 1;
    return ReasonOf(master().PutStart(request, Now(), answer));
  }
  template <typename Row>
  static std::vector<Reason> ReasonsOf(const std::vector<Row>& rows) {
    std::vector<Reason> reasons;
    for (const Row& row : rows) reasons.push_back(row.reason);
    return reasons;
  }
  PutStartItem Item(absl::string_view key, uint64_t size_bytes = 4096, uint32_t replicas = 1) {
    return {key, size_bytes, replicas, RequestId{++next_request_}};
  }

  const Session client_ = Open("client");
  const RegistrationId a_ = Mount(client_, "a");
  uint64_t next_request_ = 0;
};

// One bad item costs nobody else's.
TEST_F(BatchTest, F53_EachItemOfAStartHasItsOwnAnswerInOrder) {
  Put(client_, "existing");
  const std::string longer(1025, 'k');
  std::vector<PutStartItem> items = {Item("new"),
                                     Item("existing"),
                                     Item("too large", 2 * kSegmentBytes),
                                     Item(""),
                                     Item("new"),
                                     Item(longer),
                                     Item("empty", 0),
                                     Item("too many", 4096, 17),
                                     Item("too few segments", 4096, 2),
                                     Item("without request"),
                                     Item("last")};
  items[9].request = RequestId();
  PutStartAnswer answer;
  ASSERT_EQ(StartAll(items, &answer), Reason::kNone);
  EXPECT_THAT(ReasonsOf(answer.rows),
              ElementsAre(Reason::kNone, Reason::kObjectExists, Reason::kNoSpace, Reason::kEmptyKey,
                          Reason::kPutInProgressByYou, Reason::kKeyTooLong, Reason::kBadSize,
                          Reason::kBadReplicaCount, Reason::kTooFewSegments, Reason::kBadId,
                          Reason::kNone));
  EXPECT_EQ(answer.replicas.size(), 2u);
  EXPECT_EQ(answer.segments.size(), 1u) << "a segment is named once";
  EXPECT_EQ(Count().allocated_bytes, 3 * 4096u);
  ExpectBooksBalance();
}

// Two items for one key are two puts, of which the first has won, unless they are the same request.
TEST_F(BatchTest, F53_DuplicatesInABatchMakeOneAllocation) {
  std::vector<PutStartItem> items = {Item("key"), Item("key"), Item("key")};
  items[2].request = items[0].request;
  PutStartAnswer answer;
  ASSERT_EQ(StartAll(items, &answer), Reason::kNone);
  EXPECT_THAT(ReasonsOf(answer.rows),
              ElementsAre(Reason::kNone, Reason::kPutInProgressByYou, Reason::kNone));
  EXPECT_EQ(answer.rows[2].put, answer.rows[0].put);
  EXPECT_EQ(Count().allocated_bytes, 4096u);
}

// Ends and revokes of good and bad ids side by side.
TEST_F(BatchTest, F53_EachItemOfAnEndAndARevokeHasItsOwnAnswerInOrder) {
  const testing::Started one = Start(client_, "one");
  const testing::Started two = Start(client_, "two");
  const std::vector<PutRef> ends = {
      {"none", one.put}, {"one", one.put}, {"", one.put}, {"one", one.put}, {"two", PutId{5}}};
  std::vector<Outcome> answer;
  ASSERT_TRUE(master().PutEnd(client_, ends, Now(), &answer).ok());
  EXPECT_THAT(ReasonsOf(answer), ElementsAre(Reason::kStalePut, Reason::kNone, Reason::kEmptyKey,
                                             Reason::kNone, Reason::kUnknownPut));
  const std::vector<PutRef> revokes = {
      {"one", one.put}, {"two", two.put}, {"two", two.put}, {"two", PutId{5}}};
  answer.clear();
  ASSERT_TRUE(master().PutRevoke(client_, revokes, Now(), &answer).ok());
  EXPECT_THAT(ReasonsOf(answer),
              ElementsAre(Reason::kPutComplete, Reason::kNone, Reason::kNone, Reason::kUnknownPut));
  ExpectBooksBalance();
}

// The same key twice is read twice, and missing ones keep their place.
TEST_F(BatchTest, F53_ReadsAnswerDuplicatesAndMissingKeysInPlace) {
  Put(client_, "one", {.size_bytes = 100});
  Put(client_, "two", {.size_bytes = 200});
  const std::vector<absl::string_view> keys = {"two", "none", "one", "two"};
  GetAnswer got;
  ASSERT_TRUE(master().Get(keys, Now(), &got).ok());
  EXPECT_THAT(ReasonsOf(got.rows),
              ElementsAre(Reason::kNone, Reason::kObjectNotFound, Reason::kNone, Reason::kNone));
  EXPECT_EQ(got.rows[0].size_bytes, 200u);
  EXPECT_EQ(got.rows[2].size_bytes, 100u);
  EXPECT_EQ(got.rows[3].version, got.rows[0].version);
  std::vector<Outcome> exists;
  ASSERT_TRUE(master().Exists(keys, &exists).ok());
  EXPECT_THAT(ReasonsOf(exists),
              ElementsAre(Reason::kNone, Reason::kObjectNotFound, Reason::kNone, Reason::kNone));
}

// Removing the same key twice in a batch finds it once.
TEST_F(BatchTest, F53_RemoveAnswersItemByItem) {
  Put(client_, "one");
  Put(client_, "two");
  const std::vector<absl::string_view> keys = {"one", "none", "one", "two"};
  std::vector<Outcome> answer;
  ASSERT_TRUE(master().Remove(client_, keys, false, Now(), &answer).ok());
  EXPECT_THAT(ReasonsOf(answer), ElementsAre(Reason::kNone, Reason::kObjectNotFound,
                                             Reason::kObjectNotFound, Reason::kNone));
  EXPECT_EQ(Count().objects, 0u);
}

// A batch large enough for the look-ahead of the table to be in full swing has every answer in its place.
TEST_F(BatchTest, F53_ALongBatchKeepsItsOrder) {
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back("key-" + std::to_string(i));
  std::vector<PutStartItem> items;
  for (size_t i = 0; i < names.size(); ++i) items.push_back(Item(names[i], 1000 + i));
  PutStartAnswer started;
  ASSERT_EQ(StartAll(items, &started), Reason::kNone);
  std::vector<PutRef> ends;
  for (size_t i = 0; i < names.size(); ++i) ends.push_back({names[i], started.rows[i].put});
  std::vector<Outcome> ended;
  ASSERT_TRUE(master().PutEnd(client_, ends, Now(), &ended).ok());
  const std::vector<absl::string_view> keys(names.rbegin(), names.rend());
  GetAnswer got;
  ASSERT_TRUE(master().Get(keys, Now(), &got).ok());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(ended[i].ok());
    EXPECT_EQ(got.rows[i].size_bytes, 999 + keys.size() - i) << keys[i];
  }
}

// An empty batch is a mistake of the caller, and saying OK would hide it.
TEST_F(BatchTest, F53_AnEmptyBatchIsRefused) {
  PutStartAnswer started;
  GetAnswer got;
  std::vector<Outcome> answer;
  EXPECT_EQ(StartAll({}, &started), Reason::kBatchEmpty);
  EXPECT_EQ(ReasonOf(master().Get({}, Now(), &got)), Reason::kBatchEmpty);
  EXPECT_EQ(ReasonOf(master().Exists({}, &answer)), Reason::kBatchEmpty);
  EXPECT_EQ(ReasonOf(master().PutEnd(client_, {}, Now(), &answer)), Reason::kBatchEmpty);
  EXPECT_EQ(ReasonOf(master().PutRevoke(client_, {}, Now(), &answer)), Reason::kBatchEmpty);
  EXPECT_EQ(ReasonOf(master().Remove(client_, {}, true, Now(), &answer)), Reason::kBatchEmpty);
}

// One item too many is refused as a whole, before anything is allocated; the limit itself is allowed.
TEST_F(BatchTest, F52_ABatchAboveTheLimitIsRefusedBeforeAnythingIsDone) {
  const size_t limit = master().options().max_batch_items;
  std::vector<std::string> names;
  for (size_t i = 0; i <= limit; ++i) names.push_back(std::to_string(i));
  std::vector<PutStartItem> items;
  for (const std::string& name : names) items.push_back(Item(name, 64));
  PutStartAnswer started;
  EXPECT_EQ(StartAll(items, &started), Reason::kBatchTooLarge);
  EXPECT_EQ(Count().allocated_bytes, 0u);
  items.pop_back();
  EXPECT_EQ(StartAll(items, &started), Reason::kNone);
  EXPECT_EQ(Count().puts_in_progress, limit);

  const std::vector<absl::string_view> keys(names.begin(), names.end());
  std::vector<PutRef> refs;
  for (const std::string& name : names) refs.push_back({name, PutId{1}});
  GetAnswer got;
  std::vector<Outcome> answer;
  EXPECT_EQ(ReasonOf(master().Get(keys, Now(), &got)), Reason::kBatchTooLarge);
  EXPECT_EQ(ReasonOf(master().Exists(keys, &answer)), Reason::kBatchTooLarge);
  EXPECT_EQ(ReasonOf(master().Remove(client_, keys, true, Now(), &answer)), Reason::kBatchTooLarge);
  EXPECT_EQ(ReasonOf(master().PutEnd(client_, refs, Now(), &answer)), Reason::kBatchTooLarge);
  EXPECT_EQ(ReasonOf(master().PutRevoke(client_, refs, Now(), &answer)), Reason::kBatchTooLarge);
  EXPECT_EQ(Count().puts_in_progress, limit);
}

// Each name is looked up for each item, so their number is bounded.
TEST_F(BatchTest, TooManyPreferredSegmentsAreRefused) {
  EXPECT_EQ(Start(client_, "key", {.segments = std::vector<std::string>(65, "a")}).reason,
            Reason::kBadField);
  EXPECT_EQ(Start(client_, "key", {.segments = std::vector<std::string>(64, "a")}).reason,
            Reason::kNone);
}

}  // namespace
}  // namespace holdfast::core

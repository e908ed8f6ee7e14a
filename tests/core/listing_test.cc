// Listing keys while others put and remove them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ListingTest : public testing::CoreTest {
 protected:
  ListingTest() {
    SegmentSpec spec = Spec("a");
    spec.size_bytes = 64 << 20;
    Mount(client_, spec);
    AuditOnlyAtTheEnd();
  }
  void PutMany(const std::string& prefix, int count) {
    for (int i = 0; i < count; ++i) PutSmall(prefix + std::to_string(i));
  }
  void PutSmall(const std::string& key) { Put(client_, key, {.size_bytes = 64}); }

  const Session client_ = Open("client");
};

// Every key once, whatever else is in the table.
TEST_F(ListingTest, EveryKeyIsListedOnce) {
  PutMany("key-", 20'000);  // several chunks of records in each shard
  const std::vector<std::string> keys = Keys(true);
  EXPECT_EQ(keys.size(), 20'000u);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 20'000u);
}

// A step of a listing holds a shard's lock, so it is short however many objects there are.
TEST_F(ListingTest, AStepIsBounded) {
  PutMany("key-", 20'000);
  KeyCursor cursor;
  size_t largest = 0;
  bool more = true;
  while (more) {
    std::vector<KeyListing> rows;
    more = master().ListKeys(true, "", &cursor, &rows);
    largest = std::max(largest, rows.size());
  }
  EXPECT_LE(largest, 500u);
  EXPECT_GT(largest, 0u);
}

// Between the steps of a long listing the table changes; who is there all the time is listed exactly once.
TEST_F(ListingTest, F52_KeysThatStayAreListedOnceWhileOthersComeAndGo) {
  PutMany("stays-", 2000);
  PutMany("goes-", 2000);
  std::map<std::string, int> seen;
  KeyCursor cursor;
  int step = 0;
  for (bool more = true; more; ++step) {
    std::vector<KeyListing> rows;
    more = master().ListKeys(true, "", &cursor, &rows);
    for (const KeyListing& row : rows) ++seen[row.key];
    for (int i = 0; i < 20; ++i) {
      PutSmall("comes-" + std::string(1 + step % 90, 'x') + std::to_string(step * 20 + i));
      Remove(client_, "goes-" + std::to_string(step * 20 + i));
    }
  }
  ASSERT_GT(step, 20);
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(seen["stays-" + std::to_string(i)], 1) << i;
  }
  for (const auto& [key, times] : seen) EXPECT_LE(times, 1) << key;
}

// A client that stopped in the middle goes on behind any row that it has seen.
TEST_F(ListingTest, F52_AListingGoesOnBehindAnyRow) {
  PutMany("key-", 400);
  std::vector<KeyListing> all;
  KeyCursor cursor;
  while (master().ListKeys(true, "", &cursor, &all)) {
  }
  for (size_t i = 0; i < all.size(); i += 7) {
    std::vector<KeyListing> rest;
    cursor = all[i].next;
    while (master().ListKeys(true, "", &cursor, &rest)) {
    }
    ASSERT_EQ(rest.size(), all.size() - i - 1);
    if (i + 1 < all.size()) {
      EXPECT_EQ(rest[0].key, all[i + 1].key);
    }
  }
}

// A cursor stays good when the row that it came from, or the whole shard, is gone.
TEST_F(ListingTest, F52_ACursorOutlivesItsRow) {
  PutMany("key-", 400);
  std::vector<KeyListing> rows;
  KeyCursor cursor;
  ASSERT_TRUE(master().ListKeys(true, "", &cursor, &rows));
  const KeyCursor behind = rows.at(2).next;
  const std::string key = rows[3].key;
  Remove(client_, rows[2].key);
  std::vector<KeyListing> rest;
  cursor = behind;
  master().ListKeys(true, "", &cursor, &rest);
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(rest[0].key, key);
  for (int i = 0; i < 400; ++i) Remove(client_, "key-" + std::to_string(i));
  cursor = behind;
  rest.clear();
  while (master().ListKeys(true, "", &cursor, &rest)) {
  }
  EXPECT_THAT(rest, IsEmpty());
}

// A cursor comes from a client, so any numbers may come.
TEST_F(ListingTest, ACursorFromNowhereEndsTheListing) {
  PutMany("key-", 10);
  for (KeyCursor cursor :
       {KeyCursor{UINT32_MAX, UINT32_MAX}, KeyCursor{16, 0}, KeyCursor{15, UINT32_MAX}}) {
    std::vector<KeyListing> rows;
    int steps = 0;
    while (master().ListKeys(true, "", &cursor, &rows)) ASSERT_LT(++steps, 100);
    EXPECT_THAT(rows, IsEmpty());
  }
}

// A prefix is bytes, like a key.
TEST_F(ListingTest, APrefixSelectsByBytes) {
  PutSmall("ab");
  PutSmall("abc");
  PutSmall("b");
  PutSmall(std::string("ab\0c", 4));
  EXPECT_THAT(Keys(true, "ab"), ElementsAre("ab", std::string("ab\0c", 4), "abc"));
  EXPECT_THAT(Keys(true, std::string("ab\0", 3)), ElementsAre(std::string("ab\0c", 4)));
  EXPECT_THAT(Keys(true, "abcd"), IsEmpty());
}

// Puts in progress are shown as such in the physical view.
TEST_F(ListingTest, ThePhysicalViewTellsUnfinishedPuts) {
  Start(client_, "unfinished", {.size_bytes = 100});
  std::vector<KeyListing> rows;
  KeyCursor cursor;
  while (master().ListKeys(false, "", &cursor, &rows)) {
  }
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].put_in_progress);
  EXPECT_EQ(rows[0].size_bytes, 100u);
  EXPECT_EQ(rows[0].replicas, 1u);
  EXPECT_EQ(rows[0].available_replicas, 0u);
}

// Segments are listed in pages, in the order of their ids, each once.
TEST_F(ListingTest, SegmentsAreListedInPages) {
  for (int i = 0; i < 20; ++i) Mount(client_, "s" + std::to_string(i));
  std::vector<RegistrationId> ids;
  RegistrationId after;
  for (;;) {
    const std::vector<SegmentListing> page = master().ListSegments(after, false, 6, Now());
    if (page.empty()) break;
    EXPECT_LE(page.size(), 6u);
    for (const SegmentListing& row : page) ids.push_back(row.registration);
    after = page.back().registration;
  }
  EXPECT_EQ(ids.size(), 21u);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
}

// One object in full, as an operator asks for it.
TEST_F(ListingTest, GetObjectTellsLeaseVersionAndAgeOfThePut) {
  const testing::Started put = Put(client_, "key", {.size_bytes = 100});
  Get("key");
  Tick(1000);
  const absl::StatusOr<ObjectListing> object = master().GetObject("key", Now());
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(object->size_bytes, 100u);
  EXPECT_EQ(object->version, put.put);
  EXPECT_NEAR(static_cast<double>(object->lease_left_ms), 9000, 64);
  EXPECT_FALSE(object->put_in_progress);
  Start(client_, "unfinished", {.size_bytes = 64});
  Tick(2000);
  const absl::StatusOr<ObjectListing> unfinished = master().GetObject("unfinished", Now());
  ASSERT_TRUE(unfinished.ok());
  EXPECT_TRUE(unfinished->put_in_progress);
  EXPECT_EQ(unfinished->put_age_ms, 2000);
  EXPECT_EQ(ReasonOf(master().GetObject("none", Now()).status()), Reason::kObjectNotFound);
}

}  // namespace
}  // namespace holdfast::core

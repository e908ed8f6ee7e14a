// The memory of a shard's records: slots that do not move, are used again, and go back.

#include "server/core/record_arena.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

namespace holdfast::core {
namespace {

// The used slots as a walk finds them, in the order of their handles.
std::vector<Handle> Walk(const RecordArena& arena) {
  std::vector<Handle> found;
  for (uint32_t chunk = 0; chunk < arena.chunks(); ++chunk) {
    for (Handle handle = arena.FirstUsed(chunk); handle != 0; handle = arena.NextUsed(handle)) {
      found.push_back(handle);
    }
  }
  return found;
}

std::byte* BytesBehindHeader(RecordArena& arena, Handle handle) {
  return static_cast<std::byte*>(arena.At(handle)) + sizeof(SlotHeader);
}

class RecordArenaTest : public ::testing::Test {
 protected:
  ChunkPool chunks_{1};
  RecordArena arena_{&chunks_};
};

// Lists go by walks, and a record that a walk misses would be invisible for operators.
TEST_F(RecordArenaTest, AWalkFindsExactlyTheUsedSlots) {
  std::vector<Handle> kept;
  std::vector<Handle> freed;
  for (size_t i = 0; i < 3000; ++i) {
    const Handle handle = arena_.Allocate(53 + i % 700);
    (i % 3 == 0 ? freed : kept).push_back(handle);
  }
  for (Handle handle : freed) arena_.Free(handle);
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(Walk(arena_), kept);
}

// A shard that has shrunk to nothing gives its memory back, but for one chunk.
TEST_F(RecordArenaTest, F121_MemoryGoesBackWhenTheLastSlotIsFreed) {
  std::vector<Handle> handles;
  for (int i = 0; i < 5000; ++i) handles.push_back(arena_.Allocate(100));
  EXPECT_GT(arena_.chunks(), 20u);
  for (Handle handle : handles) arena_.Free(handle);
  EXPECT_LE(arena_.chunks(), 1u);
  EXPECT_TRUE(Walk(arena_).empty());
  EXPECT_NE(arena_.Allocate(100), 0u);
  EXPECT_EQ(Walk(arena_).size(), 1u);
}

// Churn at a constant number of objects must not grow the master: sizes change with the keys.
TEST_F(RecordArenaTest, F121_ChurnWithMixedSizesReusesMemory) {
  std::vector<Handle> handles;
  for (size_t i = 0; i < 2000; ++i) handles.push_back(arena_.Allocate(60 + i * 7 % 60));
  const uint32_t before = arena_.chunks();
  for (size_t round = 0; round < 100'000; ++round) {
    const size_t victim = round * 7919 % handles.size();
    arena_.Free(handles[victim]);
    handles[victim] = arena_.Allocate(60 + round * 31 % 60);
  }
  EXPECT_LE(arena_.chunks(), before + before / 2);
}

// Slots are aligned for what lies in them and as large as was asked, up to the largest.
TEST_F(RecordArenaTest, SlotsAreAlignedAndLargeEnough) {
  for (size_t bytes : {size_t{1}, size_t{53}, size_t{1376}, RecordArena::kMaxSlotBytes}) {
    const Handle handle = arena_.Allocate(bytes);
    EXPECT_NE(handle, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena_.At(handle)) % 8, 0u);
    const auto* header = static_cast<const SlotHeader*>(arena_.At(handle));
    EXPECT_GE(header->units * RecordArena::kUnitBytes, bytes);
  }
}

// Random steps against a map: no slot is handed out twice, none overlaps another, contents stay, walks agree.
TEST(RecordArenaPropertyTest, SlotsAreDisjointAndKeepTheirContents) {
  struct Used {
    size_t bytes;
    uint8_t mark;
  };
  EXPECT_TRUE(rc::check("slots are disjoint and keep their contents", [] {
    ChunkPool chunks(1);
    RecordArena arena(&chunks);
    std::map<Handle, Used> used;
    const int steps = *rc::gen::inRange(1, 400);
    for (int step = 0; step < steps; ++step) {
      if (used.empty() || *rc::gen::inRange(0, 100) < 60) {
        const auto bytes =
            *rc::gen::inRange<size_t>(sizeof(SlotHeader) + 48, RecordArena::kMaxSlotBytes + 1);
        const Handle handle = arena.Allocate(bytes);
        RC_ASSERT(used.count(handle) == 0u);
        const auto mark = static_cast<uint8_t>(step);
        std::memset(BytesBehindHeader(arena, handle), mark, bytes - sizeof(SlotHeader));
        used[handle] = {bytes, mark};
      } else {
        auto victim = used.begin();
        std::advance(victim, *rc::gen::inRange<size_t>(0, used.size()));
        arena.Free(victim->first);
        used.erase(victim);
      }
      std::vector<Handle> expected;
      for (const auto& [handle, slot] : used) {
        expected.push_back(handle);
        const std::vector<std::byte> wanted(slot.bytes - sizeof(SlotHeader), std::byte{slot.mark});
        RC_ASSERT(std::memcmp(BytesBehindHeader(arena, handle), wanted.data(), wanted.size()) == 0);
      }
      RC_ASSERT(Walk(arena) == expected);
    }
  }));
}

}  // namespace
}  // namespace holdfast::core

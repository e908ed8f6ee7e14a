// What the allocator of a segment promises: exact, disjoint ranges, books that balance after every step,
// holes that close again, and classes that never promise room that is not there.
#include "server/core/offset_allocator.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/core/size_class.h"

namespace holdfast::core {
namespace {

using Reserved = OffsetAllocator::Reserved;
using ReservedRange = OffsetAllocator::ReservedRange;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTiB = uint64_t{1} << 40;

uint64_t RoundedUp(uint64_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

// The live ranges as a plain sorted map; compares an allocator with it.
class Model {
 public:
  struct Live {
    uint32_t index;
    uint64_t size_bytes;
  };

  explicit Model(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // False when the range overlaps a live one or leaves the segment.
  bool Add(uint32_t index, uint64_t offset_bytes, uint64_t size_bytes) {
    if (offset_bytes % 64 != 0 || offset_bytes + size_bytes > capacity_bytes_) return false;
    const auto above = live_.lower_bound(offset_bytes);
    if (above != live_.end() && above->first < offset_bytes + size_bytes) return false;
    if (above != live_.begin()) {
      const auto below = std::prev(above);
      if (below->first + below->second.size_bytes > offset_bytes) return false;
    }
    live_[offset_bytes] = {index, size_bytes};
    allocated_bytes_ += size_bytes;
    return true;
  }

  uint32_t Remove(size_t position) {
    const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(position % live_.size()));
    const uint32_t index = it->second.index;
    allocated_bytes_ -= it->second.size_bytes;
    live_.erase(it);
    return index;
  }

  uint64_t LargestFreeBytes() const {
    uint64_t largest = 0;
    uint64_t end = 0;
    for (const auto& [offset, live] : live_) {
      largest = std::max(largest, offset - end);
      end = offset + live.size_bytes;
    }
    return std::max(largest, capacity_bytes_ - end);
  }

  // The first difference, or empty.
  std::string Compare(const OffsetAllocator& allocator) const {
    if (std::string error = allocator.Audit(); !error.empty()) return error;
    if (allocator.allocated_bytes() != allocated_bytes_) return "allocated bytes differ";
    if (allocator.allocated_bytes() + allocator.free_bytes() != allocator.capacity_bytes())
      return "books differ";
    if (allocator.live_ranges() != live_.size()) return "live ranges differ";
    for (const auto& [offset, live] : live_) {
      if (allocator.SizeOf(live.index) != live.size_bytes) return "a size differs";
    }
    const uint64_t largest_units = LargestFreeBytes() / 64;
    if (allocator.LargestFreeClass() != FloorClass(largest_units)) return "largest class differs";
    if (allocator.LargestFreePlacementClass() != PlacementClass(largest_units))
      return "largest bucket differs";
    return "";
  }

  const std::map<uint64_t, Live>& live() const { return live_; }

 private:
  const uint64_t capacity_bytes_;
  uint64_t allocated_bytes_ = 0;
  std::map<uint64_t, Live> live_;  // by offset in bytes
};

// One random step. A refusal is legal only when no free range is of a greater class than the request's.
std::string Step(OffsetAllocator& allocator, Model& model, bool allocate, uint64_t number) {
  if (!allocate) {
    if (!model.live().empty()) allocator.Free(model.Remove(number));
    return model.Compare(allocator);
  }
  const SizeClass largest = allocator.LargestFreeClass();
  const std::optional<AllocatedRange> range = allocator.Allocate(number);
  if (range.has_value()) {
    if (!model.Add(range->index, range->offset_bytes, RoundedUp(number))) return "overlap";
  } else if (largest > FloorClass(UnitsRoundedUp(number))) {
    return "refused though the class promised room";
  }
  return model.Compare(allocator);
}

std::string FreeAllAndRefill(OffsetAllocator& allocator, Model& model, uint64_t seed) {
  while (!model.live().empty()) {
    allocator.Free(model.Remove(seed++ * 2654435761u));
    if (std::string error = model.Compare(allocator); !error.empty()) return error;
  }
  if (allocator.capacity_bytes() == 0) return "";
  const std::optional<AllocatedRange> whole = allocator.Allocate(allocator.capacity_bytes());
  if (!whole.has_value() || whole->offset_bytes != 0)
    return "the emptied segment is not one free range";
  allocator.Free(whole->index);
  return allocator.Audit();
}

// ---- size classes -------------------------------------------------------------------------------------

template <typename ClassOf, typename UnitsMin>
void ExpectClassInvariants(uint64_t units, ClassOf class_of, UnitsMin units_min) {
  const uint16_t size_class = class_of(units);
  ASSERT_LE(units_min(size_class), units);
  ASSERT_EQ(class_of(units_min(size_class)), size_class);
  if (units < kSegmentUnitsMax) {
    // The next class begins above, so whatever is of a greater class is larger.
    ASSERT_GT(units_min(static_cast<uint16_t>(size_class + 1)), units);
    ASSERT_GE(class_of(units + 1), size_class);
    ASSERT_LE(class_of(units + 1), size_class + 1);
  }
}

void ExpectBothInvariants(uint64_t units) {
  ASSERT_NO_FATAL_FAILURE(ExpectClassInvariants(units, FloorClass, FloorClassUnitsMin)) << units;
  ASSERT_NO_FATAL_FAILURE(ExpectClassInvariants(units, PlacementClass, PlacementClassUnitsMin))
      << units;
  // What makes LargestFreePlacementClass exact.
  ASSERT_EQ(PlacementClass(FloorClassUnitsMin(FloorClass(units))), PlacementClass(units)) << units;
}

// "A greater class surely fits" carries placement: a broken step here is a put that fails with room left.
TEST(SizeClassTest, GreaterClassMeansLargerForAllSmallSizes) {
  for (uint64_t units = 0; units <= 1 << 18; ++units)
    ASSERT_NO_FATAL_FAILURE(ExpectBothInvariants(units));
}

TEST(SizeClassTest, GreaterClassMeansLargerAroundPowersOfTwoAndAtRandom) {
  for (int bit = 0; bit <= 40; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (const uint64_t units : {power - 1, power, power + 1}) {
      ASSERT_NO_FATAL_FAILURE(ExpectBothInvariants(std::min(units, kSegmentUnitsMax)));
    }
  }
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200000; ++i)
    ASSERT_NO_FATAL_FAILURE(ExpectBothInvariants(random() >> (24 + random() % 40)));
}

TEST(SizeClassTest, SmallSizesAreExactAndZeroIsAlone) {
  for (uint64_t units = 0; units < 64; ++units) EXPECT_EQ(FloorClass(units), units);
  for (uint64_t units = 0; units < 8; ++units) EXPECT_EQ(PlacementClass(units), units);
}

// Arrays are indexed by a request's class; a size that no segment can have must not leave them.
TEST(SizeClassTest, SizesAboveTheLargestSegmentStayInTheLastClass) {
  EXPECT_EQ(FloorClass(UINT64_MAX), kFloorClasses - 1);
  EXPECT_EQ(PlacementClass(UINT64_MAX), kPlacementClasses - 1);
  EXPECT_LE(kPlacementClasses, 160);
  EXPECT_EQ(UnitsRoundedUp(UINT64_MAX), uint64_t{1} << 58);
  EXPECT_EQ(UnitsRoundedUp(0), 0u);
  EXPECT_EQ(UnitsRoundedUp(1), 1u);
  EXPECT_EQ(UnitsRoundedUp(64), 1u);
  EXPECT_EQ(UnitsRoundedUp(65), 2u);
}

// ---- allocator, by example ----------------------------------------------------------------------------

TEST(OffsetAllocatorTest, WholeSegmentCanBeAllocatedAndFreedAgain) {
  for (const uint64_t size_bytes :
       {uint64_t{64}, uint64_t{6400}, kMiB + 4096 + 64, kGiB, 64 * kTiB}) {
    OffsetAllocator allocator(size_bytes);
    for (int round = 0; round < 2; ++round) {
      const std::optional<AllocatedRange> range = allocator.Allocate(size_bytes);
      ASSERT_TRUE(range.has_value()) << size_bytes;
      EXPECT_EQ(range->offset_bytes, 0u);
      EXPECT_EQ(allocator.free_bytes(), 0u);
      EXPECT_EQ(allocator.LargestFreeClass(), 0);
      EXPECT_EQ(allocator.LargestFreePlacementClass(), 0);
      EXPECT_FALSE(allocator.Allocate(1).has_value());
      EXPECT_EQ(allocator.Audit(), "");
      allocator.Free(range->index);
      EXPECT_EQ(allocator.Audit(), "");
    }
  }
}

// Rounding to a class instead of a unit would cost up to 3 % of every segment.
TEST(OffsetAllocatorTest, RangesAreExactTo64Bytes) {
  OffsetAllocator allocator(kGiB);
  uint64_t expected_bytes = 0;
  for (const uint64_t size_bytes : {1, 63, 64, 65, 4095, 4097, 1000001, 33554433}) {
    const std::optional<AllocatedRange> range = allocator.Allocate(size_bytes);
    ASSERT_TRUE(range.has_value());
    EXPECT_EQ(allocator.SizeOf(range->index), RoundedUp(size_bytes));
    EXPECT_EQ(range->offset_bytes, expected_bytes);
    expected_bytes += RoundedUp(size_bytes);
    EXPECT_EQ(allocator.allocated_bytes(), expected_bytes);
  }
}

// KV-cache blocks are all of one size: a segment full of them must be refillable to the last block, also
// when the size is not the smallest of its class.
TEST(OffsetAllocatorTest, UniformSizesReuseTheirHolesExactly) {
  for (const uint64_t size_bytes :
       {uint64_t{64}, uint64_t{100000}, uint64_t{131072}, 3 * kMiB + 192}) {
    const uint64_t count = 1000;
    OffsetAllocator allocator(count * RoundedUp(size_bytes));
    std::vector<AllocatedRange> ranges;
    for (uint64_t i = 0; i < count; ++i) {
      const std::optional<AllocatedRange> range = allocator.Allocate(size_bytes);
      ASSERT_TRUE(range.has_value());
      ranges.push_back(*range);
    }
    EXPECT_EQ(allocator.free_bytes(), 0u);
    for (size_t i = 0; i < count; i += 2) allocator.Free(ranges[i].index);
    for (size_t i = 0; i < count; i += 2)
      ASSERT_TRUE(allocator.Allocate(size_bytes).has_value()) << i;
    EXPECT_EQ(allocator.free_bytes(), 0u);
    EXPECT_EQ(allocator.Audit(), "");
  }
}

// Cutting the large rest while exact holes lie about would fragment a segment that serves one size.
TEST(OffsetAllocatorTest, ExactHoleIsPreferredToALargerRange) {
  for (const uint64_t size_bytes : {uint64_t{640}, uint64_t{131072}, 3 * kMiB + 192}) {
    OffsetAllocator allocator(kGiB);
    const AllocatedRange first = *allocator.Allocate(size_bytes);
    ASSERT_TRUE(allocator.Allocate(64).has_value());
    allocator.Free(first.index);
    EXPECT_EQ(allocator.Allocate(size_bytes)->offset_bytes, first.offset_bytes) << size_bytes;
  }
}

// All four ways in which a freed range meets its neighbours.
TEST(OffsetAllocatorTest, FreedRangeJoinsBothNeighbours) {
  OffsetAllocator allocator(5 * 64);
  std::vector<uint32_t> index;
  for (int i = 0; i < 5; ++i) index.push_back(allocator.Allocate(64)->index);
  allocator.Free(index[1]);
  EXPECT_EQ(allocator.LargestFreeClass(), 1);
  allocator.Free(index[3]);
  EXPECT_EQ(allocator.LargestFreeClass(), 1);
  allocator.Free(index[2]);
  EXPECT_EQ(allocator.LargestFreeClass(), 3);
  allocator.Free(index[0]);
  EXPECT_EQ(allocator.LargestFreeClass(), 4);
  allocator.Free(index[4]);
  EXPECT_EQ(allocator.LargestFreeClass(), 5);
  EXPECT_EQ(allocator.Audit(), "");
}

// A hole of the request's class that lies behind others is found when nothing larger is left.
TEST(OffsetAllocatorTest, FallsBackToTheRestOfTheOwnClass) {
  // 64 and 65 units share a class. One hole of 65 goes in first, so it is the last of its bin.
  OffsetAllocator allocator(64 * (66 + 20 * 65));
  const AllocatedRange fitting = *allocator.Allocate(64 * 65);
  ASSERT_TRUE(allocator.Allocate(64).has_value());
  std::vector<AllocatedRange> small;
  for (int i = 0; i < 20; ++i) {
    small.push_back(*allocator.Allocate(64 * 64));
    ASSERT_TRUE(allocator.Allocate(64).has_value());
  }
  ASSERT_EQ(allocator.free_bytes(), 0u);
  allocator.Free(fitting.index);
  for (const AllocatedRange& range : small) allocator.Free(range.index);
  const std::optional<AllocatedRange> again = allocator.Allocate(64 * 65);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset_bytes, fitting.offset_bytes);
}

TEST(OffsetAllocatorTest, SegmentBelowOneUnitHasNoCapacity) {
  for (const uint64_t size_bytes : {0, 1, 63}) {
    OffsetAllocator allocator(size_bytes, {{0, 10}});
    EXPECT_EQ(allocator.capacity_bytes(), 0u);
    EXPECT_EQ(allocator.LargestFreeClass(), 0);
    EXPECT_FALSE(allocator.Allocate(1).has_value());
    EXPECT_TRUE(allocator.TakeReservedRanges().empty());
    EXPECT_EQ(allocator.Audit(), "");
  }
}

TEST(OffsetAllocatorTest, CapacityIsRoundedDown) {
  OffsetAllocator allocator(1000);
  EXPECT_EQ(allocator.capacity_bytes(), 960u);
  EXPECT_FALSE(allocator.Allocate(961).has_value());
  EXPECT_FALSE(allocator.Allocate(UINT64_MAX).has_value());
  EXPECT_TRUE(allocator.Allocate(960).has_value());
}

TEST(OffsetAllocatorTest, OffsetsPast4GiBUnitsAreKept) {
  OffsetAllocator allocator(64 * kTiB);
  const AllocatedRange low = *allocator.Allocate(64 * kTiB - 128);
  const AllocatedRange high = *allocator.Allocate(128);
  EXPECT_EQ(high.offset_bytes, 64 * kTiB - 128);
  EXPECT_EQ(allocator.SizeOf(low.index), 64 * kTiB - 128);
  EXPECT_EQ(allocator.Audit(), "");
}

// ---- node storage -------------------------------------------------------------------------------------

// 8 million objects in one segment: the books must stay at 24 bytes a range, and go away with them.
TEST(OffsetAllocatorTest, NodeStorageFollowsTheLiveRanges) {
  const uint32_t count = 100000;
  OffsetAllocator allocator(uint64_t{count} * 64);
  const uint64_t empty_bytes = allocator.metadata_bytes();
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < count; ++i) indices.push_back(allocator.Allocate(64)->index);
    EXPECT_LT(allocator.metadata_bytes() - empty_bytes, count * 24.5 + 4096 * 24);
    std::shuffle(indices.begin(), indices.end(), std::mt19937(7));
    for (const uint32_t index : indices) allocator.Free(index);
    EXPECT_EQ(allocator.metadata_bytes(), empty_bytes);
    EXPECT_EQ(allocator.Audit(), "");
    EXPECT_EQ(allocator.LargestFreeClass(), FloorClass(count));
  }
}

// 10,000 segments are mounted in one master.
TEST(OffsetAllocatorTest, EmptySegmentCostsAFewKilobytes) {
  EXPECT_LT(OffsetAllocator(64 * kTiB).metadata_bytes() + sizeof(OffsetAllocator), 6 * 1024u);
  EXPECT_LT(OffsetAllocator(kGiB).metadata_bytes() + sizeof(OffsetAllocator), 4 * 1024u);
}

// ---- reserved ranges ----------------------------------------------------------------------------------

std::vector<std::pair<uint64_t, uint64_t>> OffsetsAndSizes(
    const std::vector<ReservedRange>& ranges) {
  std::vector<std::pair<uint64_t, uint64_t>> result;
  for (const ReservedRange& range : ranges)
    result.emplace_back(range.offset_bytes, range.size_bytes);
  return result;
}

using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(OffsetAllocatorReservedTest, RangesAreSortedWidenedMergedAndClipped) {
  const std::vector<Reserved> reserved = {
      {900, 1000},  // reaches past the end
      {130, 10},    // inside one unit
      {320, 64},   {330, 100},
      {340, 1},                              // overlap
      {500, 20},   {512, 64},                // meet after widening: [448, 576)
      {700, 0},                              // empty
      {4096, 64},  {UINT64_MAX, UINT64_MAX}  // outside
  };
  OffsetAllocator allocator(1024, reserved);
  const std::vector<ReservedRange> taken = allocator.TakeReservedRanges();
  EXPECT_EQ(OffsetsAndSizes(taken), (Pairs{{128, 64}, {320, 256}, {896, 128}}));
  EXPECT_TRUE(allocator.TakeReservedRanges().empty());
  EXPECT_EQ(allocator.live_ranges(), 3u);
  EXPECT_EQ(allocator.allocated_bytes(), 448u);
  EXPECT_EQ(allocator.Audit(), "");
  for (const ReservedRange& range : taken) {
    EXPECT_EQ(allocator.SizeOf(range.index), range.size_bytes);
    allocator.Free(range.index);
    EXPECT_EQ(allocator.Audit(), "");
  }
  EXPECT_TRUE(allocator.Allocate(1024).has_value());
}

TEST(OffsetAllocatorReservedTest, SizeThatOverflowsIsClipped) {
  OffsetAllocator allocator(1024, {{512, UINT64_MAX}});
  EXPECT_EQ(OffsetsAndSizes(allocator.TakeReservedRanges()), (Pairs{{512, 512}}));
  EXPECT_EQ(allocator.free_bytes(), 512u);
}

// The tail below one unit is no part of the capacity, so a range only there is outside.
TEST(OffsetAllocatorReservedTest, WholeSegmentAndTail) {
  OffsetAllocator allocator(1000, {{0, 1000}, {970, 5}});
  EXPECT_EQ(OffsetsAndSizes(allocator.TakeReservedRanges()), (Pairs{{0, 960}}));
  EXPECT_EQ(allocator.LargestFreeClass(), 0);
  EXPECT_EQ(allocator.Audit(), "");
}

// Inherited quarantine: the memory may still be written to, so no allocation may touch it.
TEST(OffsetAllocatorReservedTest, ReservedMemoryIsNotHandedOut) {
  EXPECT_TRUE(rc::check("reserved ranges and allocations are disjoint", [] {
    const auto spans = *rc::gen::container<std::vector<std::pair<uint64_t, uint64_t>>>(
        rc::gen::pair(rc::gen::inRange<uint64_t>(0, 17000), rc::gen::inRange<uint64_t>(0, 3000)));
    std::vector<Reserved> reserved;
    for (const auto& [offset, size] : spans) reserved.push_back({offset, size});
    OffsetAllocator allocator(16384 + 17, reserved);
    Model model(allocator.capacity_bytes());
    for (const ReservedRange& range : allocator.TakeReservedRanges()) {
      RC_ASSERT(model.Add(range.index, range.offset_bytes, range.size_bytes));
    }
    RC_ASSERT(model.Compare(allocator) == "");
    std::vector<bool> is_reserved(16384 / 64, false);
    for (const auto& [offset, size] : spans) {
      for (uint64_t unit = offset / 64; unit < (offset + size + 63) / 64 && size > 0; ++unit) {
        if (unit < is_reserved.size()) is_reserved[unit] = true;
      }
    }
    const auto reserved_units =
        static_cast<uint64_t>(std::count(is_reserved.begin(), is_reserved.end(), true));
    RC_ASSERT(allocator.allocated_bytes() == reserved_units * 64);
    while (const std::optional<AllocatedRange> range = allocator.Allocate(64)) {
      RC_ASSERT(!is_reserved[range->offset_bytes / 64]);
      RC_ASSERT(model.Add(range->index, range->offset_bytes, 64));
    }
    RC_ASSERT(allocator.free_bytes() == 0u);
    RC_ASSERT(FreeAllAndRefill(allocator, model, 1) == "");
  }));
}

// ---- properties ---------------------------------------------------------------------------------------

// Shrinks to a short list of steps. Sizes are drawn from three scales, so that bins of all kinds occur.
TEST(OffsetAllocatorPropertyTest, BooksBalanceAfterEveryStep) {
  EXPECT_TRUE(rc::check("books balance after every step", [] {
    const auto size_bytes = *rc::gen::inRange<uint64_t>(0, 200000);
    const auto size =
        rc::gen::oneOf(rc::gen::inRange<uint64_t>(1, 300), rc::gen::inRange<uint64_t>(1, 9000),
                       rc::gen::inRange<uint64_t>(1, 100000));
    const auto steps = *rc::gen::container<std::vector<std::pair<bool, uint64_t>>>(
        rc::gen::pair(rc::gen::map(rc::gen::inRange(0, 3), [](int i) { return i != 0; }), size));
    OffsetAllocator allocator(size_bytes);
    Model model(allocator.capacity_bytes());
    for (const auto& [allocate, number] : steps)
      RC_ASSERT(Step(allocator, model, allocate, number) == "");
    RC_ASSERT(FreeAllAndRefill(allocator, model, 1) == "");
  }));
}

// Long runs at a high fill, which a shrinking generator does not reach: hundreds of holes, nodes that are
// used again, storage that grows by several chunks' worth.
TEST(OffsetAllocatorPropertyTest, BooksBalanceOverLongRuns) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (const uint64_t size_bytes : {uint64_t{40000}, kMiB, 16 * kMiB, kTiB + 4096}) {
    OffsetAllocator allocator(size_bytes);
    Model model(allocator.capacity_bytes());
    for (int step = 0; step < 10000; ++step) {
      const bool allocate = random() % 100 < (step % 1000 < 600 ? 75u : 35u);
      const uint64_t size_max = std::max<uint64_t>(size_bytes >> (1 + random() % 12), 2);
      ASSERT_EQ(Step(allocator, model, allocate, 1 + random() % size_max), "") << "step " << step;
    }
    ASSERT_EQ(FreeAllAndRefill(allocator, model, seed), "");
  }
}

// ---- misuse -------------------------------------------------------------------------------------------

// A double free would hand one range to two objects; the process must stop instead.
TEST(OffsetAllocatorDeathTest, FreeOfWhatIsNotAllocatedDies) {
  OffsetAllocator allocator(1024);
  const AllocatedRange first = *allocator.Allocate(64);
  const AllocatedRange second = *allocator.Allocate(64);
  EXPECT_DEATH(allocator.Free(first.index + 1000), "check failed");
  EXPECT_DEATH(allocator.Free(UINT32_MAX), "check failed");
  EXPECT_DEATH(allocator.Free(0), "check failed");  // the sentinel
  allocator.Free(first.index);
  EXPECT_DEATH(allocator.Free(first.index), "check failed");
  EXPECT_DEATH(allocator.SizeOf(first.index), "check failed");
  allocator.Free(second.index);
  EXPECT_DEATH(allocator.Free(second.index), "check failed");
  EXPECT_EQ(allocator.Audit(), "");
}

TEST(OffsetAllocatorDeathTest, SizeZeroAndTooLargeASegmentDie) {
  OffsetAllocator allocator(1024);
  EXPECT_DEATH(allocator.Allocate(0), "check failed: size_bytes > 0");
  EXPECT_DEATH(OffsetAllocator(kSegmentBytesMax + 1), "check failed");
}

}  // namespace
}  // namespace holdfast::core

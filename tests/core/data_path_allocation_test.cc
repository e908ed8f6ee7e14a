// Checking whether a replica is available, and binding one to its registration, are done for every key of every call:
// they must not go to the heap.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "absl/synchronization/mutex.h"
#include "tests/core/allocations.h"
#include "tests/testing/core_harness.h"

namespace holdfast::testing {

std::atomic<uint64_t> allocations{0};
std::atomic<size_t> watched_bytes{0};
std::atomic<char*> watched_block{nullptr};

}  // namespace holdfast::testing

namespace {

void* Allocate(size_t bytes) {
  holdfast::testing::allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (bytes == holdfast::testing::watched_bytes.load(std::memory_order_relaxed)) {
    holdfast::testing::watched_block.store(static_cast<char*>(memory));
  }
  return memory;
}

}  // namespace

// For this whole program; a count is all that they add. Not inlined, or the compiler takes new and free for a mismatch.
#define HOLDFAST_REPLACED __attribute__((noinline))
HOLDFAST_REPLACED void* operator new(size_t bytes) { return Allocate(bytes); }
HOLDFAST_REPLACED void* operator new[](size_t bytes) { return Allocate(bytes); }
HOLDFAST_REPLACED void operator delete(void* memory) noexcept { std::free(memory); }
HOLDFAST_REPLACED void operator delete[](void* memory) noexcept { std::free(memory); }
HOLDFAST_REPLACED void operator delete(void* memory, size_t) noexcept { std::free(memory); }
HOLDFAST_REPLACED void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace holdfast::core {
namespace {

using testing::allocations;

constexpr int kTimes = 1'000'000;

class DataPathTest : public testing::CoreTest {
 protected:
  const Session client_ = Open("client");
  const RegistrationId a_ = Mount(client_, "a");
};

// The counter itself works.
TEST_F(DataPathTest, R14_TheCounterCounts) {
  const uint64_t before = allocations.load();
  auto* number = new std::atomic<int>(1);
  number->store(2);
  delete number;
  EXPECT_GT(allocations.load(), before);
}

// The predicate of every read path.
TEST_F(DataPathTest, R14_AvailabilityChecksAllocateNothing) {
  Put(client_, "key");
  const uint64_t hash = master().table().Hash("key");
  const ObjectShard& shard = master().table().ShardOf(hash);
  absl::ReaderMutexLock lock(&shard.mu);
  const Handle handle = shard.Find(hash, "key");
  ASSERT_NE(handle, 0u);
  const uint64_t before = allocations.load();
  int available = 0;
  for (int i = 0; i < kTimes; ++i) {
    const ObjectRecord& object = shard.At(handle);
    available += shard.IsAvailable(object, 0) && shard.AnyAvailable(handle) ? 1 : 0;
  }
  const uint64_t after = allocations.load();
  EXPECT_EQ(available, kTimes);
  EXPECT_EQ(after - before, 0u);
}

// The hold that binds a range to its registration.
TEST(SlotBindingTest, R14_BindingARangeToARegistrationAllocatesNothing) {
  SlotTable slots(8);
  Placement placement(&slots);
  SegmentRegistry registry(testing::SmallOptions(), &slots, &placement);
  std::vector<QuarantinedRange> inherited;
  ASSERT_TRUE(registry
                  .Mount({testing::ClientNamed("client"), ClientEpoch{1}},
                         testing::SpecNamed("a", 0, 1 << 20), 0, &inherited)
                  .ok());
  Slot& slot = slots.At(0);
  const uint32_t lifetime = slot.lifetime();
  const uint64_t before = allocations.load();
  int bound = 0;
  for (int i = 0; i < kTimes; ++i) {
    if (slot.TryHold(lifetime)) {
      ++bound;
      EXPECT_FALSE(slot.DropHolds(1));
    }
  }
  const uint64_t after = allocations.load();
  EXPECT_EQ(bound, kTimes);
  EXPECT_EQ(after - before, 0u);
}

// A look-up of one key by name, once the answer has its room.
TEST_F(DataPathTest, R14_LookingAKeyUpAllocatesNothing) {
  Put(client_, "key");
  const uint64_t hash = master().table().Hash("key");
  const ObjectShard& shard = master().table().ShardOf(hash);
  const uint64_t before = allocations.load();
  int found = 0;
  for (int i = 0; i < kTimes; ++i) {
    absl::ReaderMutexLock lock(&shard.mu);
    found += shard.Find(hash, "key") != 0 ? 1 : 0;
  }
  const uint64_t after = allocations.load();
  EXPECT_EQ(found, kTimes);
  EXPECT_EQ(after - before, 0u);
}

}  // namespace
}  // namespace holdfast::core

// What may be mounted, and what a slot of the registry promises.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "server/core/object_record.h"
#include "tests/testing/core_harness.h"

namespace holdfast::core {
namespace {

class MountTest : public testing::CoreTest {
 protected:
  MountAnswer MountAgain(const SegmentSpec& spec) {
    absl::StatusOr<MountAnswer> answer = master().MountSegment(client_, spec, Now());
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(MountAnswer{});
  }

  const Session client_ = Open("client");
};

// The answer to a mount may be lost; sending it again must not make a second registration.
TEST_F(MountTest, R20_ARepeatedMountAnswersTheSameRegistration) {
  const SegmentSpec spec = Spec("a");
  const RegistrationId first = Mount(client_, spec);
  Put(client_, "key");
  const MountAnswer again = MountAgain(spec);
  EXPECT_EQ(again.registration, first);
  EXPECT_TRUE(again.already_mounted);
  EXPECT_EQ(Exists("key"), Reason::kNone);
  EXPECT_EQ(Count().segments, 1u);
}

// The same id with anything else different is a mistake, and the live one is left alone.
TEST_F(MountTest, ALiveSegmentIdWithOtherParametersIsRefused) {
  const SegmentSpec spec = Spec("a");
  Mount(client_, spec);
  Put(client_, "key");
  SegmentSpec moved = spec;
  moved.base += 4 * kSegmentBytes;
  SegmentSpec smaller = spec;
  smaller.size_bytes /= 2;
  SegmentSpec elsewhere = spec;
  elsewhere.endpoint = "elsewhere";
  EXPECT_EQ(MountReason(client_, moved), Reason::kSegmentExists);
  EXPECT_EQ(MountReason(client_, smaller), Reason::kSegmentExists);
  EXPECT_EQ(MountReason(client_, elsewhere), Reason::kSegmentExists);
  EXPECT_EQ(Exists("key"), Reason::kNone);
}

// A segment id belongs to who has mounted it.
TEST_F(MountTest, ALiveSegmentIdOfAnotherClientIsRefused) {
  const SegmentSpec spec = Spec("a");
  Mount(client_, spec);
  EXPECT_EQ(MountReason(Open("other"), spec), Reason::kSegmentExists);
}

// Two registrations over the same bytes would overwrite each other's objects.
TEST_F(MountTest, OverlapWithALiveSegmentOfTheSameClientIsRefused) {
  const SegmentSpec spec = Spec("a");
  Mount(client_, spec);
  for (const auto& [name, shift] : {std::pair{"below", -1}, {"same", 0}, {"above", 1}}) {
    SegmentSpec other = Spec(name);
    other.base = spec.base + static_cast<uint64_t>(shift * int64_t{64});
    EXPECT_EQ(MountReason(client_, other), Reason::kSegmentOverlap) << name;
  }
  SegmentSpec next = Spec("next");
  next.base = spec.base + spec.size_bytes;
  EXPECT_EQ(MountReason(client_, next), Reason::kNone) << "neighbours do not overlap";
}

// Addresses of two hosts have nothing to do with each other.
TEST_F(MountTest, EqualAddressesOfTwoClientsAreNoOverlap) {
  SegmentSpec mine = Spec("mine");
  SegmentSpec yours = Spec("yours");
  yours.base = mine.base;
  Mount(client_, mine);
  EXPECT_EQ(MountReason(Open("other"), yours), Reason::kNone);
}

// An ended registration holds no claim on addresses, swept or not.
TEST_F(MountTest, OverlapWithAnEndedSegmentIsAllowed) {
  SegmentSpec first = Spec("first");
  SegmentSpec second = Spec("second");
  second.base = first.base;
  const RegistrationId old_id = Mount(client_, first);
  Unmount(client_, old_id);
  EXPECT_EQ(MountReason(client_, second), Reason::kNone);
  Sweep();
  EXPECT_EQ(Count().segments, 1u);
}

// One pooled device may be mapped by one client several times.
TEST_F(MountTest, R6_OverlapWithinAPoolIsAllowed) {
  SegmentSpec first = Spec("first");
  SegmentSpec second = Spec("second");
  first.pool_id = second.pool_id = "cxl";
  second.base = first.base;
  Mount(client_, first);
  EXPECT_EQ(MountReason(client_, second), Reason::kNone);
  EXPECT_EQ(Count().capacity_bytes, kSegmentBytes) << "the pool is counted once";
}

// Members of a pool share one allocator, so they have to agree on its size.
TEST_F(MountTest, R6_APoolOfAnotherSizeIsRefused) {
  SegmentSpec first = Spec("first");
  SegmentSpec second = Spec("second");
  first.pool_id = second.pool_id = "cxl";
  second.size_bytes /= 2;
  const RegistrationId registration = Mount(client_, first);
  EXPECT_EQ(MountReason(client_, second), Reason::kBadSize);
  Unmount(client_, registration);
  Sweep();
  EXPECT_EQ(MountReason(client_, second), Reason::kNone) << "the pool died with its last member";
}

// A range must not wrap around the end of the address space, where an overlap would not be seen.
TEST_F(MountTest, BaseAndSizeThatOverflowAreRefused) {
  SegmentSpec spec = Spec("a");
  spec.base = std::numeric_limits<uint64_t>::max() - kSegmentBytes + 1;
  EXPECT_EQ(MountReason(client_, spec), Reason::kBadSize);
  spec.base -= 1;
  EXPECT_EQ(MountReason(client_, spec), Reason::kNone);
}

// Sizes below one unit have no room at all, and above 64 TiB offsets do not fit a replica.
TEST_F(MountTest, SizesOutOfBoundsAreRefused) {
  for (uint64_t size : {uint64_t{0}, uint64_t{63}, kSegmentBytesMax + 1}) {
    SegmentSpec spec = Spec("a");
    spec.size_bytes = size;
    EXPECT_EQ(MountReason(client_, spec), Reason::kBadSize) << size;
  }
  SegmentSpec largest = Spec("largest");
  largest.size_bytes = kSegmentBytesMax;
  EXPECT_EQ(MountReason(client_, largest), Reason::kNone);
}

// Labels are kept for each registration, so their length is bounded: each of them, to the byte.
TEST_F(MountTest, LabelsHaveALimit) {
  const std::string longest(256, 'x');
  for (auto label : {&SegmentSpec::name, &SegmentSpec::endpoint, &SegmentSpec::transport,
                     &SegmentSpec::host, &SegmentSpec::rack, &SegmentSpec::pool_id}) {
    SegmentSpec spec = Spec("a");
    spec.*label = longest + "x";
    EXPECT_EQ(MountReason(client_, spec), Reason::kBadField);
    spec.*label = longest;
    EXPECT_EQ(MountReason(client_, spec), Reason::kNone);
    Unmount(client_, master().ListSegments({}, false, 1, Now()).at(0).registration);
  }
}

// Without an identity there is nothing to recognise a repeated mount by.
TEST_F(MountTest, AnIdIsNeeded) {
  SegmentSpec spec = Spec("a");
  spec.id = SegmentId();
  EXPECT_EQ(MountReason(client_, spec), Reason::kBadId);
}

class SegmentLimitTest : public testing::CoreTest {
 protected:
  static MasterOptions ThreeSegments() {
    MasterOptions options = testing::SmallOptions();
    options.max_segments = 3;
    return options;
  }
  SegmentLimitTest() : CoreTest(ThreeSegments()) {}

  const Session client_ = Open("client");
};

// The table of slots is bounded, refuses loudly, and takes more when something has been cleaned up.
TEST_F(SegmentLimitTest, TheLimitIsExactAndGivesWayAfterASweep) {
  const RegistrationId first = Mount(client_, "1");
  Mount(client_, "2");
  Mount(client_, "3");
  EXPECT_EQ(MountReason(client_, Spec("4")), Reason::kSegmentLimit);
  Unmount(client_, first);
  EXPECT_EQ(MountReason(client_, Spec("4")), Reason::kSegmentLimit) << "the slot is not swept yet";
  Sweep();
  EXPECT_EQ(MountReason(client_, Spec("4")), Reason::kNone);
}

// A slot number of a replica has 20 bits; a limit beyond that would make two registrations look like one.
TEST(SlotTableTest, R15_TheNumberOfSlotsFitsAReplicaWhateverTheOptionSays) {
  const SlotTable slots(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(slots.max_slots(), 1u << 20);
}

// The offset of a replica is packed into 40 bits of 64-byte units: the last unit of the largest segment must survive.
TEST(ReplicaRecordTest, R15_TheLargestOffsetSurvivesPacking) {
  ReplicaRecord replica;
  for (uint64_t offset : {uint64_t{0}, uint64_t{64}, uint64_t{1} << 38, kSegmentBytesMax - 64}) {
    replica.set_offset_bytes(offset);
    EXPECT_EQ(replica.offset_bytes(), offset);
  }
}

class SlotTest : public testing::CoreTest {
 protected:
  // What placement would give to a put, now.
  SegmentChoice Choose() {
    CallRandom random(1);
    Placement::Query query;
    query.size_bytes = 4096;
    const std::optional<SegmentChoice> choice = master().placement().Choose(query, &random);
    EXPECT_TRUE(choice.has_value());
    return choice.value_or(SegmentChoice{});
  }

  const Session client_ = Open("client");
};

// A put has chosen a slot; before it allocates, the registration ends and another takes the slot. The range must not come
// from the successor, which was not chosen and may have another endpoint.
TEST_F(SlotTest, R19_AnAllocationIsNeverBoundToASuccessor) {
  const RegistrationId a = Mount(client_, "a");
  const SegmentChoice choice = Choose();
  Unmount(client_, a);
  Sweep();
  const RegistrationId b = Mount(client_, "b");
  ASSERT_EQ(Listed(b).slot, choice.slot);
  EXPECT_FALSE(master().registry().Allocate(choice, 4096).has_value());
  EXPECT_EQ(Listed(b).ranges, 0u);
}

// The same without a successor: what has ended gives nothing.
TEST_F(SlotTest, R19_AnEndedRegistrationGivesNoRange) {
  const RegistrationId a = Mount(client_, "a");
  const SegmentChoice choice = Choose();
  Unmount(client_, a);
  EXPECT_FALSE(master().registry().Allocate(choice, 4096).has_value());
  EXPECT_EQ(Listed(a).ranges, 0u);
}

// A range in the hands of a thread keeps the slot, so that the number means the same registration until it is let go.
TEST_F(SlotTest, R19_ASlotIsNotUsedAgainWhileARangeIsHeld) {
  const RegistrationId a = Mount(client_, "a");
  const SegmentChoice choice = Choose();
  const std::optional<AllocatedRange> range = master().registry().Allocate(choice, 4096);
  ASSERT_TRUE(range.has_value());
  ASSERT_TRUE(master().UnmountSegment(client_, a, 0, Now()).ok());
  while (sweep_pass().Run()) {
  }
  EXPECT_TRUE(IsListed(a)) << "swept, and still held";
  AuditOnlyAtTheEnd();
  const RegistrationId b = Mount(client_, "b");
  EXPECT_NE(Listed(b).slot, choice.slot);
  // The private allocator is dead to the world; the late free must neither touch it nor miss the slot.
  master().registry().Free(choice.slot, range->index);
  EXPECT_FALSE(IsListed(a));
  const RegistrationId c = Mount(client_, "c");
  EXPECT_EQ(Listed(c).slot, choice.slot);
}

// A quarantined range of a pool keeps the slot of the registration that it was taken for.
TEST_F(SlotTest, ASlotIsNotUsedAgainWhileAPooledRangeIsInQuarantine) {
  SegmentSpec spec_a = Spec("a");
  SegmentSpec spec_b = Spec("b");
  spec_a.pool_id = spec_b.pool_id = "cxl";
  const RegistrationId a = Mount(client_, spec_a);
  Mount(client_, spec_b);
  const uint32_t slot = Listed(a).slot;
  PutOn(client_, "key", "a");
  Get("key");  // a lease
  Unmount(client_, a);
  Sweep();
  EXPECT_TRUE(IsListed(a));
  EXPECT_NE(Listed(Mount(client_, "c")).slot, slot);
  Tick(11'000);
  EXPECT_FALSE(IsListed(a));
  EXPECT_EQ(Listed(Mount(client_, "d")).slot, slot);
}

}  // namespace
}  // namespace holdfast::core

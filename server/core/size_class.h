// Classes of sizes, in the way of TLSF (Masmano et al., "TLSF: a new dynamic memory allocator for
// real-time systems", 2004): each power of two is cut into equal sub-classes, so that a class is a few
// bit operations away from a size. `FloorClass` (32 sub-classes) indexes the free ranges of one segment,
// `PlacementClass` (4 sub-classes) sorts segments by their largest free range.
#ifndef HOLDFAST_SERVER_CORE_SIZE_CLASS_H_
#define HOLDFAST_SERVER_CORE_SIZE_CLASS_H_

#include <bit>
#include <cstdint>

namespace holdfast::core {

// Ranges are exact to one unit: a cache line, and the strictest alignment that a transport asks for.
inline constexpr uint64_t kUnitBytes = 64;
// The largest segment: 64 TiB.
inline constexpr uint64_t kSegmentUnitsMax = uint64_t{1} << 40;
inline constexpr uint64_t kSegmentBytesMax = kSegmentUnitsMax * kUnitBytes;

// Both kinds of class share these properties; sizes are in units:
//  * class 0 holds the size 0 only ("no space");
//  * monotone: a larger size never has a smaller class;
//  * hence a range whose class is greater than the class of a request is larger than the request, so it
//    fits; in the same class it may or may not fit;
//  * sizes above `kSegmentUnitsMax`, which no range has, are in the class of `kSegmentUnitsMax`.
using SizeClass = uint16_t;
using PlacementBucket = uint16_t;

namespace size_class_internal {

// With S = 2^kSubClassBits: sizes below 2 * S are their own class, above that a class is 1/S of a power
// of two wide.
template <int kSubClassBits>
constexpr uint16_t ClassOf(uint64_t units) {
  if (units > kSegmentUnitsMax) units = kSegmentUnitsMax;
  const int shift = std::bit_width(units >> kSubClassBits) - 1;
  if (shift <= 0) return static_cast<uint16_t>(units);
  return static_cast<uint16_t>((static_cast<uint64_t>(shift) << kSubClassBits) + (units >> shift));
}

template <int kSubClassBits>
constexpr uint64_t SmallestOf(uint16_t size_class) {
  const int shift = (size_class >> kSubClassBits) - 1;
  if (shift <= 0) return size_class;
  return (size_class - (static_cast<uint64_t>(shift) << kSubClassBits)) << shift;
}

}  // namespace size_class_internal

// `size_bytes` in units, rounded up. Cannot overflow.
constexpr uint64_t UnitsRoundedUp(uint64_t size_bytes) {
  return size_bytes / kUnitBytes + (size_bytes % kUnitBytes != 0 ? 1 : 0);
}

// The class of a free range, and of a request. Exact below 64 units, within 1/32 above.
constexpr SizeClass FloorClass(uint64_t units) { return size_class_internal::ClassOf<5>(units); }

// The smallest size in a class, in units.
constexpr uint64_t FloorClassUnitsMin(SizeClass size_class) {
  return size_class_internal::SmallestOf<5>(size_class);
}

// The bucket of a segment whose largest free range has this size, and of a request. Exact below 8 units,
// within 1/4 above. Every bucket is a union of whole classes of `FloorClass`.
constexpr PlacementBucket PlacementClass(uint64_t units) {
  return size_class_internal::ClassOf<2>(units);
}

// The smallest size in a bucket, in units.
constexpr uint64_t PlacementClassUnitsMin(PlacementBucket bucket) {
  return size_class_internal::SmallestOf<2>(bucket);
}

// Numbers of classes, for arrays that are indexed by one.
inline constexpr int kFloorClasses = FloorClass(kSegmentUnitsMax) + 1;
inline constexpr int kPlacementClasses = PlacementClass(kSegmentUnitsMax) + 1;
static_assert(kFloorClasses == 1153);
static_assert(kPlacementClasses == 157);

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_SIZE_CLASS_H_

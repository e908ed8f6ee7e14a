// The allocator of one segment: hands out ranges of [0, size) that are exact to 64 bytes, in constant
// time, and never touches the memory that it manages (which is on another machine).
#ifndef HOLDFAST_SERVER_CORE_OFFSET_ALLOCATOR_H_
#define HOLDFAST_SERVER_CORE_OFFSET_ALLOCATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "server/core/size_class.h"

namespace holdfast::core {

struct AllocatedRange {
  uint32_t index;  // names the range until it is freed; is used again afterwards
  uint64_t offset_bytes;
};

// A two-level segregated fit (TLSF, see size_class.h) over an ordered list of ranges.
//
// Thread rule: none of its own; the owner's lock guards every call, const ones too.
//
// Invariants (`Audit` checks all of them):
//  * the ranges tile [0, capacity) in the order of the list, without gap or overlap;
//  * no two neighbours are both free;
//  * a free range is in the bin of its class, an allocated one in none; a bit is set if its bin has a range;
//  * allocated + free = capacity.
// Offsets, sizes and capacity are multiples of 64 bytes. A live range costs 24 bytes.
class OffsetAllocator {
  struct Node;

 public:
  struct Reserved {
    uint64_t offset_bytes;
    uint64_t size_bytes;
  };
  struct ReservedRange {
    uint32_t index;
    uint64_t offset_bytes;
    uint64_t size_bytes;
  };

  // Storage without further use; destroying it is all that can be done with it.
  using ReleasedStorage = std::vector<std::unique_ptr<Node[]>>;

  // Manages [0, size_bytes); what does not fill a unit of 64 bytes at the end is left out. Crashes when
  // `size_bytes` is above `kSegmentBytesMax`.
  // `reserved` is allocated from the start (quarantine inherited from an earlier registration over the
  // same memory). In any order; each is clipped to the capacity and widened to whole units; those that
  // then overlap or touch become one range; empty ones are ignored.
  explicit OffsetAllocator(uint64_t size_bytes, absl::Span<const Reserved> reserved = {});

  OffsetAllocator(const OffsetAllocator&) = delete;
  OffsetAllocator& operator=(const OffsetAllocator&) = delete;

  // Hands over the ranges that the constructor made of `reserved`, in ascending order; each is to be
  // freed like any other. Empty from the second call on.
  std::vector<ReservedRange> TakeReservedRanges();

  // A range of `size_bytes`, rounded up to 64. Crashes when `size_bytes` is 0.
  // nullopt, and nothing changes: no free range of a greater class than the request's, and none that
  // fits among the first 64 of its own class. (So, rarely, a range that would fit is overlooked: one
  // that is at most 1/32 larger than the request.)
  std::optional<AllocatedRange> Allocate(uint64_t size_bytes);

  // Gives the range back and joins it with its free neighbours. Crashes when `index` names no allocated range.
  // The call that frees the last range also empties the storage of nodes and returns what is surplus. Releasing it
  // costs one deallocation per 4,096 ranges of the peak (milliseconds for millions), so a caller that holds a
  // contended lock lets the result die after it; others ignore it.
  ReleasedStorage Free(uint32_t index);

  // The size in bytes of an allocated range, as rounded up. Crashes when `index` names none.
  uint64_t SizeOf(uint32_t index) const;

  uint64_t capacity_bytes() const { return capacity_units_ * kUnitBytes; }
  uint64_t allocated_bytes() const { return allocated_units_ * kUnitBytes; }
  uint64_t free_bytes() const { return (capacity_units_ - allocated_units_) * kUnitBytes; }
  uint32_t live_ranges() const { return live_ranges_; }
  // Heap bytes of the books themselves.
  uint64_t metadata_bytes() const {
    return nodes_.heap_bytes() + bins_.heap_bytes() +
           reserved_ranges_.capacity() * sizeof(ReservedRange);
  }

  // The class of the largest free range, 0 if nothing is free. O(1).
  SizeClass LargestFreeClass() const { return bins_.Largest(); }
  // The same as a placement bucket; exact, because a bucket is a union of whole classes. A request of a
  // smaller bucket surely fits; one of this bucket may or may not. O(1).
  PlacementBucket LargestFreePlacementClass() const {
    return PlacementClass(FloorClassUnitsMin(LargestFreeClass()));
  }

  // Walks everything and says which invariant does not hold; empty if all do. Takes time in
  // proportion to the number of ranges: for tests and offline audits.
  std::string Audit() const;

 private:
  enum class State : uint64_t {
    kUnused = 0,  // on the stack of unused nodes
    kFree = 1,
    kAllocated = 2,
    kEnd = 3,  // the sentinel
  };

  // One range. It ends where the next one begins.
  struct Node {
    uint64_t offset_units : 62;
    State state : 2;
    uint32_t previous;      // the neighbour below
    uint32_t next;          // the neighbour above; of an unused node: the one below it on the stack
    uint32_t bin_previous;  // of a free range: the one before it in its bin, or kNone
    uint32_t bin_next;      // of a free range: the one after it in its bin, or kNone
  };
  static_assert(sizeof(Node) == 24);

  static constexpr uint32_t kNone = UINT32_MAX;
  // The list of ranges is a ring; the sentinel closes it, at the offset `capacity_units_`.
  static constexpr uint32_t kSentinel = 0;

  // Nodes by 32-bit index, in chunks, so that growing never copies more than the first chunk. That one
  // starts small and doubles, so that a segment with few ranges costs little.
  class NodePool {
   public:
    // `At` of an index in [0, used()). The reference is valid until the next `Take` or `Clear`.
    Node& At(uint32_t index) { return chunks_[index / kChunkNodes][index % kChunkNodes]; }
    const Node& At(uint32_t index) const {
      return chunks_[index / kChunkNodes][index % kChunkNodes];
    }
    // An index that no other node has, with unspecified contents; kNone when all 2^32 - 1 are taken.
    uint32_t Take();
    void GiveBack(uint32_t index);
    // Forgets all nodes, begins again with a small first chunk and returns the old ones.
    ReleasedStorage Clear();
    bool Shrinkable() const { return node_slots_ > kFirstChunkNodes; }

    uint32_t used() const { return used_; }  // nodes ever taken since `Clear`
    uint32_t unused_top() const { return unused_top_; }
    uint64_t heap_bytes() const;

   private:
    static constexpr uint32_t kChunkNodes = 4096;
    static constexpr uint32_t kFirstChunkNodes = 16;

    void Grow();

    ReleasedStorage chunks_;
    uint64_t node_slots_ = 0;  // in all chunks; nodes from used_ on are uninitialised
    uint32_t used_ = 0;
    uint32_t unused_top_ = kNone;
  };

  // The first free range of each class, and a bitmap of two levels of the classes that have one.
  class Bins {
   public:
    explicit Bins(SizeClass class_max) : heads_(size_t{class_max} + 1, kNone) {}

    uint32_t head(SizeClass size_class) const { return heads_[size_class]; }
    void SetHead(SizeClass size_class, uint32_t index);
    // The smallest class above `size_class` that is not empty, 0 if there is none.
    SizeClass NextAbove(SizeClass size_class) const;
    SizeClass Largest() const;
    // The first disagreement between heads and bitmap, or empty.
    std::string Audit() const;

    size_t size() const { return heads_.size(); }
    uint64_t heap_bytes() const { return heads_.capacity() * sizeof(uint32_t); }

   private:
    static constexpr int kRows = (kFloorClasses + 31) / 32;

    std::vector<uint32_t> heads_;  // by class; only the classes up to that of the capacity
    std::array<uint32_t, kRows> rows_ = {};
    uint64_t rows_nonempty_ = 0;
  };

  uint64_t UnitsOf(const Node& node) const {
    return nodes_.At(node.next).offset_units - node.offset_units;
  }
  // Makes the list of no ranges. Returns the storage of the old one.
  ReleasedStorage Clear();
  // Links a new node between `previous` and the node after it. kNone: no node is left.
  uint32_t InsertAfter(uint32_t previous, uint64_t offset_units, State state);
  // Takes the node out of the list; its range falls to the neighbour below.
  void Unlink(uint32_t index);
  void AddToBin(uint32_t index);
  void RemoveFromBin(uint32_t index);
  uint32_t FindFit(uint64_t units) const;
  const Node& CheckedAllocated(uint32_t index) const;
  std::string AuditList() const;
  std::string AuditBins() const;

  const uint64_t capacity_units_;
  uint64_t allocated_units_ = 0;
  uint32_t live_ranges_ = 0;
  NodePool nodes_;
  Bins bins_;
  std::vector<ReservedRange> reserved_ranges_;
};

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_OFFSET_ALLOCATOR_H_

#include "server/core/offset_allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"

namespace holdfast::core {
namespace {

// How many ranges of the request's own class are tried before a larger range is cut: a few, so that
// objects of one size fill the holes that their like have left, and a free segment can be taken whole.
constexpr int kOwnClassTriesFirst = 4;
// How many are tried in all when there is no larger range. Bounds the time of a refusal.
constexpr int kOwnClassTriesMax = 64;

struct UnitSpan {
  uint64_t begin;
  uint64_t end;
};

// Clips, widens, sorts and merges; see the constructor's contract.
std::vector<UnitSpan> NormalizeReserved(absl::Span<const OffsetAllocator::Reserved> reserved,
                                        uint64_t capacity_units) {
  std::vector<UnitSpan> spans;
  spans.reserve(reserved.size());
  for (const OffsetAllocator::Reserved& range : reserved) {
    const uint64_t capacity_bytes = capacity_units * kUnitBytes;
    if (range.size_bytes == 0 || range.offset_bytes >= capacity_bytes) continue;
    // Compared without adding first: offset + size may overflow.
    const uint64_t end_bytes = range.size_bytes >= capacity_bytes - range.offset_bytes
                                   ? capacity_bytes
                                   : range.offset_bytes + range.size_bytes;
    spans.push_back({range.offset_bytes / kUnitBytes, UnitsRoundedUp(end_bytes)});
  }
  std::sort(spans.begin(), spans.end(),
            [](const UnitSpan& a, const UnitSpan& b) { return a.begin < b.begin; });
  std::vector<UnitSpan> merged;
  for (const UnitSpan& span : spans) {
    if (!merged.empty() && span.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, span.end);
    } else {
      merged.push_back(span);
    }
  }
  return merged;
}

// Crashes here, before members are built in proportion to the size.
uint64_t CheckedCapacityUnits(uint64_t size_bytes) {
  HOLDFAST_CHECK(size_bytes <= kSegmentBytesMax);
  return size_bytes / kUnitBytes;
}

}  // namespace

OffsetAllocator::OffsetAllocator(uint64_t size_bytes, absl::Span<const Reserved> reserved)
    : capacity_units_(CheckedCapacityUnits(size_bytes)), bins_(FloorClass(capacity_units_)) {
  Clear();
  uint32_t last = kSentinel;
  uint64_t end_units = 0;
  const auto append = [&](uint64_t new_end_units, State state) {
    last = InsertAfter(last, end_units, state);
    HOLDFAST_CHECK(last != kNone);
    end_units = new_end_units;
  };
  for (const UnitSpan& span : NormalizeReserved(reserved, capacity_units_)) {
    if (span.begin > end_units) append(span.begin, State::kFree);
    append(span.end, State::kAllocated);
    allocated_units_ += span.end - span.begin;
    ++live_ranges_;
    reserved_ranges_.push_back(
        {last, span.begin * kUnitBytes, (span.end - span.begin) * kUnitBytes});
  }
  if (end_units < capacity_units_) append(capacity_units_, State::kFree);
  for (uint32_t index = nodes_.At(kSentinel).next; index != kSentinel;
       index = nodes_.At(index).next) {
    if (nodes_.At(index).state == State::kFree) AddToBin(index);
  }
}

std::vector<OffsetAllocator::ReservedRange> OffsetAllocator::TakeReservedRanges() {
  return std::exchange(reserved_ranges_, {});
}

std::optional<AllocatedRange> OffsetAllocator::Allocate(uint64_t size_bytes) {
  HOLDFAST_CHECK(size_bytes > 0);
  const uint64_t units = UnitsRoundedUp(size_bytes);
  const uint32_t index = FindFit(units);
  if (index == kNone) return std::nullopt;
  const uint64_t offset_units = nodes_.At(index).offset_units;
  RemoveFromBin(index);
  if (UnitsOf(nodes_.At(index)) > units) {
    const uint32_t rest = InsertAfter(index, offset_units + units, State::kFree);
    if (rest == kNone) {
      AddToBin(index);
      return std::nullopt;
    }
    AddToBin(rest);
  }
  nodes_.At(index).state = State::kAllocated;
  allocated_units_ += units;
  ++live_ranges_;
  return AllocatedRange{index, offset_units * kUnitBytes};
}

OffsetAllocator::ReleasedStorage OffsetAllocator::Free(uint32_t index) {
  const uint64_t units = UnitsOf(CheckedAllocated(index));
  allocated_units_ -= units;
  --live_ranges_;
  nodes_.At(index).state = State::kFree;
  const uint32_t next = nodes_.At(index).next;
  if (nodes_.At(next).state == State::kFree) {
    RemoveFromBin(next);
    Unlink(next);
  }
  const uint32_t previous = nodes_.At(index).previous;
  if (nodes_.At(previous).state == State::kFree) {
    RemoveFromBin(previous);
    Unlink(index);
    index = previous;
  }
  ReleasedStorage released;
  if (live_ranges_ == 0 && nodes_.Shrinkable()) {
    // No index is outstanding, so the one range that is left may move to another node.
    released = Clear();
    index = InsertAfter(kSentinel, 0, State::kFree);
  }
  AddToBin(index);
  return released;
}

uint64_t OffsetAllocator::SizeOf(uint32_t index) const {
  return UnitsOf(CheckedAllocated(index)) * kUnitBytes;
}

const OffsetAllocator::Node& OffsetAllocator::CheckedAllocated(uint32_t index) const {
  HOLDFAST_CHECK(index < nodes_.used());
  const Node& node = nodes_.At(index);
  HOLDFAST_CHECK(node.state == State::kAllocated);
  return node;
}

uint32_t OffsetAllocator::FindFit(uint64_t units) const {
  if (units > capacity_units_ - allocated_units_) return kNone;
  const SizeClass own_class = FloorClass(units);
  uint32_t index = bins_.head(own_class);
  int tries = 0;
  for (; index != kNone && tries < kOwnClassTriesFirst; ++tries) {
    const Node& node = nodes_.At(index);
    if (UnitsOf(node) >= units) return index;
    index = node.bin_next;
  }
  const SizeClass larger_class = bins_.NextAbove(own_class);
  if (larger_class != 0) return bins_.head(larger_class);
  for (; index != kNone && tries < kOwnClassTriesMax; ++tries) {
    const Node& node = nodes_.At(index);
    if (UnitsOf(node) >= units) return index;
    index = node.bin_next;
  }
  return kNone;
}

OffsetAllocator::ReleasedStorage OffsetAllocator::Clear() {
  ReleasedStorage released = nodes_.Clear();
  const uint32_t sentinel = nodes_.Take();
  HOLDFAST_CHECK(sentinel == kSentinel);
  Node& node = nodes_.At(sentinel);
  node.offset_units = capacity_units_;
  node.state = State::kEnd;
  node.previous = kSentinel;
  node.next = kSentinel;
  return released;
}

uint32_t OffsetAllocator::InsertAfter(uint32_t previous, uint64_t offset_units, State state) {
  const uint32_t index = nodes_.Take();
  if (index == kNone) return kNone;
  Node& node = nodes_.At(index);
  Node& below = nodes_.At(previous);
  node.offset_units = offset_units;
  node.state = state;
  node.previous = previous;
  node.next = below.next;
  nodes_.At(below.next).previous = index;
  below.next = index;
  return index;
}

void OffsetAllocator::Unlink(uint32_t index) {
  const Node& node = nodes_.At(index);
  nodes_.At(node.previous).next = node.next;
  nodes_.At(node.next).previous = node.previous;
  nodes_.GiveBack(index);
}

void OffsetAllocator::AddToBin(uint32_t index) {
  Node& node = nodes_.At(index);
  const SizeClass size_class = FloorClass(UnitsOf(node));
  const uint32_t head = bins_.head(size_class);
  node.bin_previous = kNone;
  node.bin_next = head;
  if (head != kNone) nodes_.At(head).bin_previous = index;
  bins_.SetHead(size_class, index);
}

void OffsetAllocator::RemoveFromBin(uint32_t index) {
  const Node& node = nodes_.At(index);
  if (node.bin_next != kNone) nodes_.At(node.bin_next).bin_previous = node.bin_previous;
  if (node.bin_previous != kNone) {
    nodes_.At(node.bin_previous).bin_next = node.bin_next;
  } else {
    bins_.SetHead(FloorClass(UnitsOf(node)), node.bin_next);
  }
}

uint32_t OffsetAllocator::NodePool::Take() {
  if (unused_top_ != kNone) {
    const uint32_t index = unused_top_;
    unused_top_ = At(index).next;
    return index;
  }
  if (used_ == kNone) return kNone;
  if (used_ == node_slots_) Grow();
  return used_++;
}

void OffsetAllocator::NodePool::GiveBack(uint32_t index) {
  Node& node = At(index);
  node.state = State::kUnused;
  node.next = unused_top_;
  unused_top_ = index;
}

OffsetAllocator::ReleasedStorage OffsetAllocator::NodePool::Clear() {
  ReleasedStorage released = std::exchange(chunks_, {});
  node_slots_ = 0;
  used_ = 0;
  unused_top_ = kNone;
  Grow();
  return released;
}

void OffsetAllocator::NodePool::Grow() {
  if (node_slots_ >= kChunkNodes) {
    chunks_.push_back(std::make_unique_for_overwrite<Node[]>(kChunkNodes));
    node_slots_ += kChunkNodes;
    return;
  }
  const uint64_t slots = std::max<uint64_t>(kFirstChunkNodes, node_slots_ * 2);
  auto chunk = std::make_unique_for_overwrite<Node[]>(slots);
  if (chunks_.empty()) {
    chunks_.push_back(std::move(chunk));
  } else {
    std::copy_n(chunks_[0].get(), used_, chunk.get());
    chunks_[0] = std::move(chunk);
  }
  node_slots_ = slots;
}

uint64_t OffsetAllocator::NodePool::heap_bytes() const {
  return node_slots_ * sizeof(Node) + chunks_.capacity() * sizeof(chunks_[0]);
}

void OffsetAllocator::Bins::SetHead(SizeClass size_class, uint32_t index) {
  heads_[size_class] = index;
  const int row = size_class / 32;
  const uint32_t bit = uint32_t{1} << (size_class % 32);
  const uint64_t row_bit = uint64_t{1} << row;
  if (index != kNone) {
    rows_[row] |= bit;
    rows_nonempty_ |= row_bit;
  } else {
    rows_[row] &= ~bit;
    if (rows_[row] == 0) rows_nonempty_ &= ~row_bit;
  }
}

SizeClass OffsetAllocator::Bins::NextAbove(SizeClass size_class) const {
  int row = size_class / 32;
  // Shifted in 64 bits, where a shift by 32 is defined: the bits above this class in its row.
  uint32_t bits = rows_[row] & static_cast<uint32_t>(~uint64_t{0} << (size_class % 32 + 1));
  if (bits == 0) {
    const uint64_t rows = rows_nonempty_ & (~uint64_t{0} << (row + 1));
    if (rows == 0) return 0;
    row = std::countr_zero(rows);
    bits = rows_[row];
  }
  return static_cast<SizeClass>(row * 32 + std::countr_zero(bits));
}

SizeClass OffsetAllocator::Bins::Largest() const {
  if (rows_nonempty_ == 0) return 0;
  const int row = std::bit_width(rows_nonempty_) - 1;
  return static_cast<SizeClass>(row * 32 + std::bit_width(rows_[row]) - 1);
}

std::string OffsetAllocator::Bins::Audit() const {
  for (size_t size_class = 0; size_class < heads_.size(); ++size_class) {
    const bool bit = (rows_[size_class / 32] >> (size_class % 32)) & 1;
    if (bit != (heads_[size_class] != kNone)) {
      return absl::StrCat("class ", size_class, ": bitmap and head disagree");
    }
  }
  uint64_t rows_expected = 0;
  for (int row = 0; row < kRows; ++row) {
    if (rows_[row] != 0) rows_expected |= uint64_t{1} << row;
  }
  if (rows_expected != rows_nonempty_) return "bitmap: the levels disagree";
  if (static_cast<size_t>(Largest()) >= heads_.size()) return "bitmap: a bit above the classes";
  return "";
}

std::string OffsetAllocator::Audit() const {
  if (std::string error = AuditList(); !error.empty()) return error;
  if (std::string error = bins_.Audit(); !error.empty()) return error;
  return AuditBins();
}

std::string OffsetAllocator::AuditList() const {
  uint64_t ranges = 0;
  uint64_t live = 0;
  uint64_t allocated_units = 0;
  uint64_t end_units = 0;
  uint32_t previous = kSentinel;
  for (uint32_t index = nodes_.At(kSentinel).next; index != kSentinel;) {
    if (index >= nodes_.used()) return absl::StrCat("range ", index, ": no such node");
    if (++ranges >= nodes_.used()) return "the list of ranges is not a ring through the sentinel";
    const Node& node = nodes_.At(index);
    if (node.state != State::kFree && node.state != State::kAllocated) {
      return absl::StrCat("range ", index, ": neither free nor allocated");
    }
    if (node.previous != previous) return absl::StrCat("range ", index, ": wrong neighbour below");
    if (node.next >= nodes_.used()) return absl::StrCat("range ", index, ": wrong neighbour above");
    if (ranges == 1 && node.offset_units != 0) return "the first range does not begin at 0";
    end_units = nodes_.At(node.next).offset_units;
    if (end_units <= node.offset_units) return absl::StrCat("range ", index, ": empty or reversed");
    if (node.state == State::kAllocated) {
      ++live;
      allocated_units += end_units - node.offset_units;
    } else if (nodes_.At(previous).state == State::kFree) {
      return absl::StrCat("range ", index, ": it and the neighbour below are free");
    }
    previous = index;
    index = node.next;
  }
  const Node& sentinel = nodes_.At(kSentinel);
  if (sentinel.state != State::kEnd || sentinel.offset_units != capacity_units_ ||
      sentinel.previous != previous || end_units != capacity_units_) {
    return "the sentinel does not end the list at the capacity";
  }
  if (live != live_ranges_) return absl::StrCat("live ranges: ", live_ranges_, " counted ", live);
  if (allocated_units != allocated_units_) {
    return absl::StrCat("allocated units: ", allocated_units_, " counted ", allocated_units);
  }
  uint64_t unused = 0;
  for (uint32_t index = nodes_.unused_top(); index != kNone; index = nodes_.At(index).next) {
    if (index >= nodes_.used() || nodes_.At(index).state != State::kUnused ||
        unused >= nodes_.used()) {
      return absl::StrCat("node ", index, ": wrong on the stack of unused nodes");
    }
    ++unused;
  }
  if (1 + ranges + unused != nodes_.used()) return "a node is neither in the list nor unused";
  return "";
}

std::string OffsetAllocator::AuditBins() const {
  uint64_t binned = 0;
  uint64_t binned_units = 0;
  for (size_t size_class = 0; size_class < bins_.size(); ++size_class) {
    uint32_t previous = kNone;
    for (uint32_t index = bins_.head(static_cast<SizeClass>(size_class)); index != kNone;) {
      if (index >= nodes_.used() || ++binned > nodes_.used()) {
        return absl::StrCat("class ", size_class, ": broken list");
      }
      const Node& node = nodes_.At(index);
      if (node.state != State::kFree || node.bin_previous != previous ||
          FloorClass(UnitsOf(node)) != size_class) {
        return absl::StrCat("class ", size_class, ": range ", index,
                            " is not free, linked or of it");
      }
      binned_units += UnitsOf(node);
      previous = index;
      index = node.bin_next;
    }
  }
  // Every binned range is a distinct free one, so equal sums mean that every free one is binned.
  if (binned_units != capacity_units_ - allocated_units_) {
    return absl::StrCat("free units: ", capacity_units_ - allocated_units_, " in bins ",
                        binned_units);
  }
  return "";
}

}  // namespace holdfast::core

// Durations counted in classes, cheap enough for every call and every lock hold.

#ifndef HOLDFAST_SERVER_BASE_DURATION_HISTOGRAM_H_
#define HOLDFAST_SERVER_BASE_DURATION_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace holdfast::base {

// Counts durations in classes of 1/8 of a power of two of nanoseconds. Lock-free; figures are a moment old at most.
class DurationHistogram {
 public:
  void Record(int64_t ns) {
    const uint64_t value = ns < 0 ? 0 : static_cast<uint64_t>(ns);
    counts_[ClassOf(value)].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(value, std::memory_order_relaxed);
  }

  uint64_t count() const {
    uint64_t sum = 0;
    for (const auto& count : counts_) sum += count.load(std::memory_order_relaxed);
    return sum;
  }
  double sum_seconds() const {
    return static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9;
  }
  // Durations of at most `ns`, to the width of a class.
  uint64_t CountUpTo(int64_t ns) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kClasses && UpperBound(i) <= static_cast<uint64_t>(ns); ++i) {
      sum += counts_[i].load(std::memory_order_relaxed);
    }
    return sum;
  }
  // Upper end, in microseconds, of the class that holds the given share (0 to 1); 0 when nothing was recorded.
  double PercentileUs(double share) const {
    const uint64_t total = count();
    if (total == 0) return 0;
    const auto wanted = static_cast<uint64_t>(share * static_cast<double>(total));
    uint64_t sum = 0;
    for (size_t i = 0; i < kClasses; ++i) {
      sum += counts_[i].load(std::memory_order_relaxed);
      if (sum > wanted || sum == total) return static_cast<double>(UpperBound(i)) / 1000.0;
    }
    return 0;
  }

 private:
  static constexpr size_t kSubBits = 3;
  static constexpr size_t kClasses = (64 - kSubBits + 1) << kSubBits;

  static size_t ClassOf(uint64_t value) {
    const int shift = static_cast<int>(std::bit_width(value >> kSubBits)) - 1;
    if (shift <= 0) return value;
    return (static_cast<size_t>(shift) << kSubBits) + (value >> shift);
  }
  // The largest value of a class.
  static uint64_t UpperBound(size_t index) {
    const auto shift = static_cast<int64_t>(index >> kSubBits) - 1;
    if (shift <= 0) return index;
    const uint64_t low = (index & ((1u << kSubBits) - 1)) + (1u << kSubBits);
    return ((low + 1) << shift) - 1;
  }

  std::array<std::atomic<uint64_t>, kClasses> counts_ = {};
  std::atomic<uint64_t> sum_ns_{0};
};

}  // namespace holdfast::base

#endif  // HOLDFAST_SERVER_BASE_DURATION_HISTOGRAM_H_

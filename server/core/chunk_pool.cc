#include "server/core/chunk_pool.h"

#include <sys/mman.h>

#include <bit>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"

namespace holdfast::core {
namespace {

// How far a place is above the start of its block.
size_t OffsetInBlock(const std::byte* place) {
  return reinterpret_cast<uintptr_t>(place) % ChunkPool::kBlockBytes;
}

void Unmap(std::byte* begin, size_t bytes) {
  if (bytes > 0) HOLDFAST_CHECK(munmap(begin, bytes) == 0);
}

// One block, not touched yet. In one page where the system has pages of this size.
std::byte* MapBlock() {
  constexpr size_t kBytes = ChunkPool::kBlockBytes;
  void* mapped =
      mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  HOLDFAST_CHECK(mapped != MAP_FAILED);
  auto* begin = static_cast<std::byte*>(mapped);
  const size_t below = (kBytes - OffsetInBlock(begin)) % kBytes;
  Unmap(begin, below);
  Unmap(begin + below + kBytes, kBytes - below);
  madvise(begin + below, kBytes, MADV_HUGEPAGE);
  return begin + below;
}

void Touch(std::byte* block) {
  constexpr size_t kPageBytes = 4096;
  for (size_t at = 0; at < ChunkPool::kBlockBytes; at += kPageBytes) {
    *static_cast<volatile std::byte*>(block + at) = std::byte{0};
  }
}

}  // namespace

ChunkPool::~ChunkPool() {
  absl::MutexLock lock(&mu_);
  for (const auto& [begin, block] : blocks_) Unmap(begin, kBlockBytes);
}

void ChunkPool::AddBlock(std::byte* begin) {
  Block block;
  block.free.fill(~uint64_t{0});
  block.free_chunks = kBlockChunks;
  blocks_[begin] = block;
  empty_.insert(begin);
  blocks_count_.fetch_add(1);
}

std::byte* ChunkPool::TakeFree() {
  if (partial_.empty() && empty_.empty()) return nullptr;
  if (partial_.empty()) partial_.insert(empty_.extract(empty_.begin()));
  std::byte* const begin = *partial_.begin();
  Block& block = blocks_[begin];
  const size_t word = block.free[0] != 0 ? 0 : 1;
  const auto chunk = word * 64 + static_cast<size_t>(std::countr_zero(block.free[word]));
  block.free[word] &= block.free[word] - 1;
  if (--block.free_chunks == 0) partial_.erase(begin);
  return begin + chunk * kChunkBytes;
}

std::byte* ChunkPool::Take() {
  {
    absl::MutexLock lock(&mu_);
    if (std::byte* chunk = TakeFree()) return chunk;
  }
  std::byte* const block = MapBlock();
  absl::MutexLock lock(&mu_);
  AddBlock(block);
  return TakeFree();
}

void ChunkPool::GiveBack(std::byte* chunk) {
  const size_t offset = OffsetInBlock(chunk);
  std::byte* const begin = chunk - offset;
  const size_t index = offset / kChunkBytes;
  absl::MutexLock lock(&mu_);
  auto it = blocks_.find(begin);
  HOLDFAST_CHECK(it != blocks_.end());
  Block& block = it->second;
  const uint64_t bit = uint64_t{1} << (index % 64);
  HOLDFAST_CHECK((block.free[index / 64] & bit) == 0);
  block.free[index / 64] |= bit;
  if (block.free_chunks++ == 0) partial_.insert(begin);
  if (block.free_chunks == kBlockChunks) empty_.insert(partial_.extract(begin));
}

void ChunkPool::Replenish() {
  std::vector<std::byte*> surplus;
  uint32_t missing = 0;
  {
    absl::MutexLock lock(&mu_);
    if (empty_.size() < spare_blocks_)
      missing = spare_blocks_ - static_cast<uint32_t>(empty_.size());
    while (empty_.size() > size_t{2} * spare_blocks_) {
      surplus.push_back(*empty_.rbegin());
      blocks_.erase(surplus.back());
      empty_.erase(surplus.back());
      blocks_count_.fetch_sub(1);
    }
  }
  for (std::byte* block : surplus) Unmap(block, kBlockBytes);
  for (; missing > 0; --missing) {
    std::byte* const block = MapBlock();
    Touch(block);
    absl::MutexLock lock(&mu_);
    AddBlock(block);
  }
}

std::string ChunkPool::Audit(uint64_t* taken_chunks) const {
  absl::MutexLock lock(&mu_);
  *taken_chunks = 0;
  for (const auto& [begin, block] : blocks_) {
    uint32_t free = 0;
    for (uint64_t word : block.free) free += static_cast<uint32_t>(std::popcount(word));
    if (free != block.free_chunks) {
      return absl::StrCat("a block has ", free, " free chunks, not ", block.free_chunks);
    }
    if (empty_.contains(begin) != (free == kBlockChunks) ||
        partial_.contains(begin) != (free > 0 && free < kBlockChunks)) {
      return "a block is in the wrong list";
    }
    *taken_chunks += kBlockChunks - free;
  }
  return blocks_.size() == blocks_count_.load() ? "" : "the number of blocks is wrong";
}

}  // namespace holdfast::core

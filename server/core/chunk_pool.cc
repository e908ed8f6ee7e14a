#include "server/core/chunk_pool.h"

#include <sys/mman.h>

#include <bit>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/core/check.h"

namespace holdfast::core {
namespace {

// One block, not touched yet. In one page where the system has pages of this size.
uintptr_t MapBlock() {
  constexpr size_t kBytes = ChunkPool::kBlockBytes;
  void* mapped =
      mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  HOLDFAST_CHECK(mapped != MAP_FAILED);
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t block = (begin + kBytes - 1) & ~(kBytes - 1);
  if (block > begin) munmap(mapped, block - begin);
  if (block < begin + kBytes) {
    munmap(reinterpret_cast<void*>(block + kBytes), begin + kBytes - block);
  }
  madvise(reinterpret_cast<void*>(block), kBytes, MADV_HUGEPAGE);
  return block;
}

void Touch(uintptr_t block) {
  constexpr size_t kPageBytes = 4096;
  for (size_t at = 0; at < ChunkPool::kBlockBytes; at += kPageBytes) {
    *reinterpret_cast<volatile char*>(block + at) = 0;
  }
}

void Unmap(uintptr_t block) {
  HOLDFAST_CHECK(munmap(reinterpret_cast<void*>(block), ChunkPool::kBlockBytes) == 0);
}

}  // namespace

ChunkPool::~ChunkPool() {
  absl::MutexLock lock(&mu_);
  for (const auto& [address, block] : blocks_) Unmap(address);
}

void ChunkPool::AddBlock(uintptr_t address) {
  Block block;
  block.free.fill(~uint64_t{0});
  block.free_chunks = kBlockChunks;
  blocks_[address] = block;
  empty_.insert(address);
  blocks_count_.fetch_add(1);
}

std::byte* ChunkPool::TakeFree() {
  if (partial_.empty() && empty_.empty()) return nullptr;
  if (partial_.empty()) partial_.insert(empty_.extract(empty_.begin()));
  const uintptr_t address = *partial_.begin();
  Block& block = blocks_[address];
  const size_t word = block.free[0] != 0 ? 0 : 1;
  const auto chunk = word * 64 + static_cast<size_t>(std::countr_zero(block.free[word]));
  block.free[word] &= block.free[word] - 1;
  if (--block.free_chunks == 0) partial_.erase(address);
  return reinterpret_cast<std::byte*>(address + chunk * kChunkBytes);
}

std::byte* ChunkPool::Take() {
  {
    absl::MutexLock lock(&mu_);
    if (std::byte* chunk = TakeFree()) return chunk;
  }
  const uintptr_t address = MapBlock();
  absl::MutexLock lock(&mu_);
  AddBlock(address);
  return TakeFree();
}

void ChunkPool::GiveBack(std::byte* chunk) {
  const auto place = reinterpret_cast<uintptr_t>(chunk);
  const uintptr_t address = place & ~(kBlockBytes - 1);
  const auto index = static_cast<uint32_t>((place - address) / kChunkBytes);
  absl::MutexLock lock(&mu_);
  auto it = blocks_.find(address);
  HOLDFAST_CHECK(it != blocks_.end());
  Block& block = it->second;
  const uint64_t bit = uint64_t{1} << (index % 64);
  HOLDFAST_CHECK((block.free[index / 64] & bit) == 0);
  block.free[index / 64] |= bit;
  if (block.free_chunks++ == 0) partial_.insert(address);
  if (block.free_chunks == kBlockChunks) empty_.insert(partial_.extract(address));
}

void ChunkPool::Replenish() {
  std::vector<uintptr_t> surplus;
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
  for (uintptr_t address : surplus) Unmap(address);
  for (; missing > 0; --missing) {
    const uintptr_t address = MapBlock();
    Touch(address);
    absl::MutexLock lock(&mu_);
    AddBlock(address);
  }
}

std::string ChunkPool::Audit(uint64_t* taken_chunks) const {
  absl::MutexLock lock(&mu_);
  *taken_chunks = 0;
  for (const auto& [address, block] : blocks_) {
    uint32_t free = 0;
    for (uint64_t word : block.free) free += static_cast<uint32_t>(std::popcount(word));
    if (free != block.free_chunks) {
      return absl::StrCat("a block has ", free, " free chunks, not ", block.free_chunks);
    }
    if (empty_.contains(address) != (free == kBlockChunks) ||
        partial_.contains(address) != (free > 0 && free < kBlockChunks)) {
      return "a block is in the wrong list";
    }
    *taken_chunks += kBlockChunks - free;
  }
  return blocks_.size() == blocks_count_.load() ? "" : "the number of blocks is wrong";
}

}  // namespace holdfast::core

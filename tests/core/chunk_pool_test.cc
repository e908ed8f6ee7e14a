// The memory that records are made of: ready when it is needed, and gone when it is not.

#include "server/core/chunk_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <set>
#include <vector>

namespace holdfast::core {
namespace {

constexpr uint32_t kSpareBlocks = 2;

class ChunkPoolTest : public ::testing::Test {
 protected:
  uint64_t Taken() const {
    uint64_t taken = 0;
    EXPECT_EQ(pool_.Audit(&taken), "");
    return taken;
  }
  uint64_t blocks() const { return pool_.block_bytes() / ChunkPool::kBlockBytes; }

  ChunkPool pool_{kSpareBlocks};
};

TEST_F(ChunkPoolTest, ChunksAreAlignedAndDisjoint) {
  std::set<std::byte*> chunks;
  for (uint32_t i = 0; i < 2 * ChunkPool::kBlockChunks; ++i) {
    std::byte* chunk = pool_.Take();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(chunk) % ChunkPool::kChunkBytes, 0u);
    EXPECT_TRUE(chunks.insert(chunk).second);
    std::memset(chunk, 0xab, ChunkPool::kChunkBytes);
  }
  EXPECT_EQ(blocks(), 2u);
  EXPECT_EQ(Taken(), chunks.size());
}

// What is ready is used before the system is asked, which a put would have to wait for.
TEST_F(ChunkPoolTest, SpareBlocksAreReadyAfterReplenish) {
  pool_.Replenish();
  EXPECT_EQ(blocks(), kSpareBlocks);
  for (uint32_t i = 0; i < kSpareBlocks * ChunkPool::kBlockChunks; ++i) pool_.Take();
  EXPECT_EQ(blocks(), kSpareBlocks);
  pool_.Replenish();
  EXPECT_EQ(blocks(), 2 * kSpareBlocks);
}

// Blocks that are made ready while others are in use must not be begun before those are full: memory would grow with time.
TEST_F(ChunkPoolTest, BlocksInUseAreFilledBeforeSpareOnesAreBegun) {
  for (uint32_t i = 0; i < 40 * ChunkPool::kBlockChunks; ++i) {
    pool_.Take();
    if (i % 50 == 0) pool_.Replenish();
  }
  EXPECT_LE(blocks(), 40 + kSpareBlocks);
}

// An emptied cache gives its memory back, but for what is kept ready.
TEST_F(ChunkPoolTest, F121_EmptyBlocksGoBackToTheSystem) {
  std::vector<std::byte*> chunks;
  for (uint32_t i = 0; i < 20 * ChunkPool::kBlockChunks; ++i) chunks.push_back(pool_.Take());
  EXPECT_EQ(blocks(), 20u);
  for (std::byte* chunk : chunks) pool_.GiveBack(chunk);
  EXPECT_EQ(Taken(), 0u);
  pool_.Replenish();
  EXPECT_EQ(blocks(), 2 * kSpareBlocks);
  EXPECT_EQ(Taken(), 0u);
}

TEST_F(ChunkPoolTest, AChunkThatIsGivenBackTwiceAborts) {
  pool_.Take();
  std::byte* chunk = pool_.Take();
  pool_.GiveBack(chunk);
  EXPECT_DEATH(pool_.GiveBack(chunk), "check failed");
}

TEST(ChunkPoolProperty, BooksAgreeAfterEveryStep) {
  EXPECT_TRUE(rc::check("books agree after every step", [] {
    ChunkPool pool(*rc::gen::inRange<uint32_t>(0, 3));
    std::vector<std::byte*> taken;
    for (int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000))) {
      if (step < 20) {
        pool.Replenish();
      } else if (step < 500 || taken.empty()) {
        for (int i = 0; i < step; ++i) taken.push_back(pool.Take());
      } else {
        for (int i = 0; i < step && !taken.empty(); ++i) {
          std::swap(taken[static_cast<size_t>(i * step) % taken.size()], taken.back());
          pool.GiveBack(taken.back());
          taken.pop_back();
        }
      }
      uint64_t count = 0;
      RC_ASSERT(pool.Audit(&count) == "");
      RC_ASSERT(count == taken.size());
    }
  }));
}

}  // namespace
}  // namespace holdfast::core

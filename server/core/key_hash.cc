#include "server/core/key_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace holdfast::core {

uint64_t HashKey(uint64_t seed, absl::string_view key) {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

uint64_t FirstId(uint64_t seed, uint64_t stream) {
  return (XXH3_64bits_withSeed(&stream, sizeof(stream), seed) >> 2) | 1;
}

}  // namespace holdfast::core

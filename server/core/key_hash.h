// The hash of keys and the start of ids. Both are seeded: by chance in the daemon, so that nobody can choose keys that
// collide or guess an id of an earlier run; by a constant in tests, so that a run can be repeated (which the hash of
// the container library, different in each process, does not allow).

#ifndef HOLDFAST_SERVER_CORE_KEY_HASH_H_
#define HOLDFAST_SERVER_CORE_KEY_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace holdfast::core {

uint64_t HashKey(uint64_t seed, absl::string_view key);

// The first id of a kind: above zero, different for each seed and stream, with room for 2^62 more.
uint64_t FirstId(uint64_t seed, uint64_t stream);

}  // namespace holdfast::core

#endif  // HOLDFAST_SERVER_CORE_KEY_HASH_H_

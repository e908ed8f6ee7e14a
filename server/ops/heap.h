// The allocator of the process.

#ifndef HOLDFAST_SERVER_OPS_HEAP_H_
#define HOLDFAST_SERVER_OPS_HEAP_H_

#include <cstdint>

namespace holdfast::ops {

// Memory is asked for in pages of 2 MiB from now on, where the system has them: objects lie at random places of gigabytes,
// and most of a look-up is waiting for memory. To be called first.
void UseHugePages();

// Bytes that the allocator holds: what is in use and what it keeps for later.
uint64_t HeapBytes();

}  // namespace holdfast::ops

#endif  // HOLDFAST_SERVER_OPS_HEAP_H_

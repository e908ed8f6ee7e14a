#include "server/ops/heap.h"

#ifdef HOLDFAST_WITH_MIMALLOC
#include <mimalloc.h>
#else
#include <malloc.h>
#endif

namespace holdfast::ops {

#ifdef HOLDFAST_WITH_MIMALLOC

void UseHugePages() { mi_option_enable(mi_option_large_os_pages); }

uint64_t HeapBytes() {
  size_t unused = 0;
  size_t committed = 0;
  mi_process_info(&unused, &unused, &unused, &unused, &unused, &committed, &unused, &unused);
  return committed;
}

#else  // under sanitizers, which bring an allocator of their own

void UseHugePages() {}

uint64_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.arena + heap.hblkhd;
}

#endif

}  // namespace holdfast::ops

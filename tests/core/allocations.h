// What goes to the heap in this program, whose operator new is replaced in data_path_allocation_test.cc.

#ifndef HOLDFAST_TESTS_CORE_ALLOCATIONS_H_
#define HOLDFAST_TESTS_CORE_ALLOCATIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast::testing {

extern std::atomic<uint64_t> allocations;  // so far
// Where the last allocation of `watched_bytes` lies.
extern std::atomic<size_t> watched_bytes;
extern std::atomic<char*> watched_block;

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_CORE_ALLOCATIONS_H_

// HOLDFAST_CHECK(condition): a check of an invariant that is active in every build. A broken invariant
// of the core means that the books are wrong, and going on could hand out memory that is in use, so the
// process prints `file:line: check failed: condition` to stderr and aborts.
#ifndef HOLDFAST_SERVER_CORE_CHECK_H_
#define HOLDFAST_SERVER_CORE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace holdfast::core {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace holdfast::core

// An expression of type void; `condition` is evaluated exactly once.
#define HOLDFAST_CHECK(condition)                      \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::holdfast::core::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // HOLDFAST_SERVER_CORE_CHECK_H_

// Tells ThreadSanitizer about absl::Mutex. Debian builds abseil without instrumentation, so TSan sees no order between
// what is done under its locks and takes all of it for races. Each call is wrapped (ld --wrap, see tsan.cmake) in the
// annotations that abseil itself makes when it is built with TSan: between pre and post TSan ignores this thread, which
// covers the conditions that the library evaluates under the lock. They are not checked for races.

#include <sanitizer/tsan_interface.h>

#include "absl/time/time.h"

namespace {

constexpr unsigned kWrite = 0;
constexpr unsigned kRead = __tsan_mutex_read_lock;

// Pairs the annotations around a call that takes (or lets go of) the lock.
template <typename Call>
void Acquire(void* mu, unsigned how, Call call) {
  __tsan_mutex_pre_lock(mu, how);
  call();
  __tsan_mutex_post_lock(mu, how, 0);
}
template <typename Call>
void Release(void* mu, unsigned how, Call call) {
  __tsan_mutex_pre_unlock(mu, how);
  call();
  __tsan_mutex_post_unlock(mu, how);
}
// A wait lets go and takes again. The library does both, so to TSan it is an unlock before and a lock around it.
template <typename Call>
void Wait(void* mu, Call call) {
  Release(mu, kWrite, [] {});
  Acquire(mu, kWrite, call);
}

}  // namespace

#define REAL(symbol) __real__ZN4absl7debian3##symbol
#define WRAP(symbol) __wrap__ZN4absl7debian3##symbol

extern "C" {

#define WRAP_LOCK(symbol, direction, how)           \
  void REAL(symbol)(void* mu);                      \
  void WRAP(symbol)(void* mu) {                     \
    direction(mu, how, [mu] { REAL(symbol)(mu); }); \
  }
WRAP_LOCK(5Mutex4LockEv, Acquire, kWrite)
WRAP_LOCK(5Mutex6UnlockEv, Release, kWrite)
WRAP_LOCK(5Mutex10ReaderLockEv, Acquire, kRead)
WRAP_LOCK(5Mutex12ReaderUnlockEv, Release, kRead)

#define WRAP_TRY(symbol, how)                                              \
  bool REAL(symbol)(void* mu);                                             \
  bool WRAP(symbol)(void* mu) {                                            \
    __tsan_mutex_pre_lock(mu, (how) | __tsan_mutex_try_lock);              \
    const bool taken = REAL(symbol)(mu);                                   \
    const unsigned failed = taken ? 0 : __tsan_mutex_try_lock_failed;      \
    __tsan_mutex_post_lock(mu, (how) | __tsan_mutex_try_lock | failed, 0); \
    return taken;                                                          \
  }
WRAP_TRY(5Mutex7TryLockEv, kWrite)
WRAP_TRY(5Mutex13ReaderTryLockEv, kRead)

// A condition belongs to the lock, so its address is all that is passed on.
void REAL(5Mutex8LockWhenERKNS0_9ConditionE)(void* mu, const void* condition);
void WRAP(5Mutex8LockWhenERKNS0_9ConditionE)(void* mu, const void* condition) {
  Acquire(mu, kWrite, [=] { REAL(5Mutex8LockWhenERKNS0_9ConditionE)(mu, condition); });
}
void REAL(5Mutex14ReaderLockWhenERKNS0_9ConditionE)(void* mu, const void* condition);
void WRAP(5Mutex14ReaderLockWhenERKNS0_9ConditionE)(void* mu, const void* condition) {
  Acquire(mu, kRead, [=] { REAL(5Mutex14ReaderLockWhenERKNS0_9ConditionE)(mu, condition); });
}
// Waits under a reader's lock are not told apart here; this project has none.
void REAL(5Mutex5AwaitERKNS0_9ConditionE)(void* mu, const void* condition);
void WRAP(5Mutex5AwaitERKNS0_9ConditionE)(void* mu, const void* condition) {
  Wait(mu, [=] { REAL(5Mutex5AwaitERKNS0_9ConditionE)(mu, condition); });
}

#define WRAP_TIMED_WAIT(symbol, Limit)                              \
  bool REAL(symbol)(void* mu, const void* condition, Limit limit);  \
  bool WRAP(symbol)(void* mu, const void* condition, Limit limit) { \
    bool met = false;                                               \
    Wait(mu, [&] { met = REAL(symbol)(mu, condition, limit); });    \
    return met;                                                     \
  }
WRAP_TIMED_WAIT(5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE, absl::Duration)
WRAP_TIMED_WAIT(5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE, absl::Time)

// CondVar waits name the lock as their second argument.
void REAL(7CondVar4WaitEPNS0_5MutexE)(void* condition, void* mu);
void WRAP(7CondVar4WaitEPNS0_5MutexE)(void* condition, void* mu) {
  Wait(mu, [=] { REAL(7CondVar4WaitEPNS0_5MutexE)(condition, mu); });
}
bool REAL(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(void*, void*, absl::Duration);
bool WRAP(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(void* condition, void* mu,
                                                                absl::Duration limit) {
  bool timed_out = false;
  Wait(mu, [&] {
    timed_out = REAL(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(condition, mu, limit);
  });
  return timed_out;
}

#define WRAP_DESTRUCTOR(symbol)       \
  void REAL(symbol)(void* mu);        \
  void WRAP(symbol)(void* mu) {       \
    __tsan_mutex_destroy(mu, kWrite); \
    REAL(symbol)(mu);                 \
  }
WRAP_DESTRUCTOR(5MutexD1Ev)

}  // extern "C"

#undef REAL
#undef WRAP
#define REAL(symbol) __real__ZNK4absl7debian3##symbol
#define WRAP(symbol) __wrap__ZNK4absl7debian3##symbol

extern "C" {

// A notification is one release, and an acquire by each who waited for it.
void __real__ZN4absl7debian312Notification6NotifyEv(void* notification);
void __wrap__ZN4absl7debian312Notification6NotifyEv(void* notification) {
  __tsan_release(notification);
  __real__ZN4absl7debian312Notification6NotifyEv(notification);
}
void REAL(12Notification19WaitForNotificationEv)(const void* notification);
void WRAP(12Notification19WaitForNotificationEv)(const void* notification) {
  REAL(12Notification19WaitForNotificationEv)(notification);
  __tsan_acquire(const_cast<void*>(notification));
}
bool REAL(12Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(const void*,
                                                                         absl::Duration);
bool WRAP(12Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(const void* notification,
                                                                         absl::Duration limit) {
  const bool notified =
      REAL(12Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(notification, limit);
  if (notified) __tsan_acquire(const_cast<void*>(notification));
  return notified;
}
// Each decrement is a release, the wait an acquire.
bool __real__ZN4absl7debian315BlockingCounter14DecrementCountEv(void* counter);
bool __wrap__ZN4absl7debian315BlockingCounter14DecrementCountEv(void* counter) {
  __tsan_release(counter);
  return __real__ZN4absl7debian315BlockingCounter14DecrementCountEv(counter);
}
void __real__ZN4absl7debian315BlockingCounter4WaitEv(void* counter);
void __wrap__ZN4absl7debian315BlockingCounter4WaitEv(void* counter) {
  __real__ZN4absl7debian315BlockingCounter4WaitEv(counter);
  __tsan_acquire(counter);
}

}  // extern "C"

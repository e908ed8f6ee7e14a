# For the ThreadSanitizer build only: makes TSan understand Debian's abseil, see tsan_mutex.cc. The names have
# Debian's inline namespace in them: with another abseil nothing is wrapped, and the false reports are back.

set(wrapped
  _ZN4absl7debian35Mutex4LockEv _ZN4absl7debian35Mutex6UnlockEv
  _ZN4absl7debian35Mutex10ReaderLockEv _ZN4absl7debian35Mutex12ReaderUnlockEv
  _ZN4absl7debian35Mutex7TryLockEv _ZN4absl7debian35Mutex13ReaderTryLockEv
  _ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE
  _ZN4absl7debian35Mutex14ReaderLockWhenERKNS0_9ConditionE
  _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE
  _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE
  _ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE
  _ZN4absl7debian35MutexD1Ev
  _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE
  _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE
  _ZN4absl7debian312Notification6NotifyEv
  _ZNK4absl7debian312Notification19WaitForNotificationEv
  _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE
  _ZN4absl7debian315BlockingCounter14DecrementCountEv
  _ZN4absl7debian315BlockingCounter4WaitEv)

add_library(holdfast_tsan STATIC ${CMAKE_SOURCE_DIR}/cmake/tsan_mutex.cc)
target_link_libraries(holdfast_tsan PUBLIC absl::synchronization absl::time)
list(TRANSFORM wrapped PREPEND "-Wl,--wrap=" OUTPUT_VARIABLE wrap_options)
target_link_options(holdfast_tsan INTERFACE ${wrap_options})
# After the project's own libraries, which are what needs it.
target_link_libraries(holdfast_base PUBLIC holdfast_tsan)

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the address and thread sanitizers must be told about stacks that are switched by
/// hand. Without sanitizers every function here is empty.

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define TERN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TERN_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TERN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TERN_TSAN 1
#endif
#endif

#ifdef TERN_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TERN_TSAN
#include <sanitizer/tsan_interface.h>
#endif

// For a function that is entered on a pooled stack and never returns: the thread sanitizer keeps a
// record of calls with each stack, which would grow by one with each use. What it calls for its
// synchronisation is marked as the opposite.
#if defined(TERN_TSAN) && defined(__clang__)
#define TERN_UNRECORDED __attribute__((disable_sanitizer_instrumentation))
#define TERN_RECORDED __attribute__((noinline))
#else
#define TERN_UNRECORDED
#define TERN_RECORDED inline
#endif

namespace tern::detail {

#ifdef TERN_ASAN
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif
#ifdef TERN_TSAN
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif
inline constexpr bool sanitized = address_sanitizer || thread_sanitizer;

namespace asan {
/// Before leaving a stack. `fake_stack` is where its fake frames are kept; null when it is never
/// entered again.
[[gnu::always_inline]] inline void start_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* low,
                                                [[maybe_unused]] std::size_t size) {
#ifdef TERN_ASAN
  __sanitizer_start_switch_fiber(fake_stack, low, size);
#endif
}
/// After arriving on a stack; gives the bounds of the stack that was left.
[[gnu::always_inline]] inline void finish_switch([[maybe_unused]] void* fake_stack,
                                                 [[maybe_unused]] const void** left_low,
                                                 [[maybe_unused]] std::size_t* left_size) {
#ifdef TERN_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, left_low, left_size);
#endif
}
/// Before memory that held stacks is given back: frames that were never unwound have left marks on
/// it, which would outlive it.
inline void forget([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) {
#ifdef TERN_ASAN
  __asan_unpoison_memory_region(memory, size);
#endif
}
} // namespace asan

namespace tsan {
/// It does not know what a barrier that the kernel runs on all threads orders.
#ifdef TERN_TSAN
inline constexpr bool enabled = true;
#else
inline constexpr bool enabled = false;
#endif
inline void* create_fiber() {
#ifdef TERN_TSAN
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
inline void destroy_fiber([[maybe_unused]] void* fiber) {
#ifdef TERN_TSAN
  if (fiber) __tsan_destroy_fiber(fiber);
#endif
}
/// For its reports. The name is copied.
inline void name_fiber([[maybe_unused]] void* fiber, [[maybe_unused]] const char* name) {
#ifdef TERN_TSAN
  __tsan_set_fiber_name(fiber, name);
#endif
}
inline void* current_fiber() {
#ifdef TERN_TSAN
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
// Always inlined: a call's entry and exit would be recorded on two different fibers.
[[gnu::always_inline]] inline void switch_to([[maybe_unused]] void* fiber) {
#ifdef TERN_TSAN
  __tsan_switch_to_fiber(fiber, 0);
#endif
}
} // namespace tsan

} // namespace tern::detail

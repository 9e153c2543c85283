// SPDX-License-Identifier: Apache-2.0
// An exception that threads share is freed by the last one that lets go of it, and so is the text
// that copies of a std::runtime_error share. The counts that order this are atomic, but in
// libstdc++.so, which is not built with the thread sanitizer: it sees the memory freed and the
// earlier reads of other threads, and not what orders them.
//
// So each function that lowers such a count is told to the sanitizer here, for that count only: it
// comes after all earlier ones that lowered the same count. What threads do with different
// exceptions stays unordered, and a race between them is reported (catch_blocks.cpp). Linked into
// every program that is built with the thread sanitizer.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)

#include <exception>
#include <stdexcept>

#include <dlfcn.h>

extern "C" {
void __tsan_acquire(void* at);
void __tsan_release(void* at);
}

namespace {

void lowers_count_of(const void* shared) {
  auto* const at = const_cast<void*>(shared);
  __tsan_release(at);
  __tsan_acquire(at);
}

// The word before an exception, which is libstdc++'s and in the same piece of memory: the sanitizer
// forgets it when that is freed, and an atomic member of the exception itself is not ordered by it.
const void* count_of(const void* exception) { return static_cast<const char*>(exception) - sizeof(void*); }

// libstdc++'s function. Not with a guarded static: its first call would come before all others, in
// every thread. Not instrumented for the same reason: all threads that find nothing write the same.
template <class F> __attribute__((no_sanitize("thread"), noinline)) F& next(F*& found, const char* symbol) {
  if (!found) found = reinterpret_cast<F*>(dlsym(RTLD_NEXT, symbol));
  return *found;
}

} // namespace

extern "C" { // NOLINTBEGIN(bugprone-reserved-identifier): these take the places of libstdc++'s

void __cxa_end_catch() {
  static void (*found)() = nullptr;
  // Null for what is no C++ exception, as the end of a thread by pthread_cancel.
  if (const std::exception_ptr caught = std::current_exception()) {
    const void* exception = nullptr; // an exception_ptr is a pointer to it, by the C++ ABI
    static_assert(sizeof caught == sizeof exception);
    __builtin_memcpy(&exception, &caught, sizeof exception);
    lowers_count_of(count_of(exception));
  }
  next(found, "__cxa_end_catch")();
}

// std::exception_ptr::_M_release(), which its destructor and assignments call.
void _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv(void** pointer) {
  static void (*found)(void**) = nullptr;
  if (*pointer) lowers_count_of(count_of(*pointer));
  next(found, "_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv")(pointer);
}

// std::runtime_error::~runtime_error(), as the destructor of a derived class calls it, of an object
// by itself, and with delete. Copies share what what() returns, but for the empty text, which is
// never freed.
#define TERN_ORDERED_DESTRUCTOR(symbol)                                                                                \
  void symbol(std::runtime_error* e) {                                                                                 \
    static void (*found)(std::runtime_error*) = nullptr;                                                               \
    if (const char* const text = e->std::runtime_error::what(); *text) lowers_count_of(text);                          \
    next(found, #symbol)(e);                                                                                           \
  }
TERN_ORDERED_DESTRUCTOR(_ZNSt13runtime_errorD2Ev)
TERN_ORDERED_DESTRUCTOR(_ZNSt13runtime_errorD1Ev)
TERN_ORDERED_DESTRUCTOR(_ZNSt13runtime_errorD0Ev)
#undef TERN_ORDERED_DESTRUCTOR

} // NOLINTEND(bugprone-reserved-identifier)

#endif
#endif

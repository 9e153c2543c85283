// SPDX-License-Identifier: Apache-2.0
// Exceptions that threads share are freed by whoever lets go of them last, at the end of a catch block as a rule, in
// libstdc++.so, which is not built with the thread sanitizer: it sees the memory freed and the reads before in other
// threads, but not the count that orders them. No suppression can name that, as calls in between leave no frames. Here
// the ends of all catch blocks are ordered, for programs that this is linked into; what they do otherwise is seen as
// ever.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)

#include <dlfcn.h>

extern "C" {
void __tsan_acquire(void* at);
void __tsan_release(void* at);

void __cxa_end_catch() { // NOLINT(bugprone-reserved-identifier): it takes the place of that one
  static char order;
  static const auto next = reinterpret_cast<void (*)()>(dlsym(RTLD_NEXT, "__cxa_end_catch"));
  __tsan_release(&order);
  __tsan_acquire(&order);
  next();
}
}

#endif
#endif

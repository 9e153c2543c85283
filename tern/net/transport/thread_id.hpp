// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which thread is this? For the price of a register. Internal.

namespace tern::net {

/// Another for each thread that lives. As assembly where that is known, because compilers keep what
/// they believe to be constant while a fiber changes its thread.
inline const void* this_thread_id() noexcept {
#if defined(__x86_64__) && defined(__ELF__) && defined(__LP64__)
  const void* mark;
  asm volatile("movq %%fs:0, %0" : "=r"(mark));
  return mark;
#else
  static thread_local char mark;
  const void* at = &mark;
  asm volatile("" : "+r"(at));
  return at;
#endif
}

} // namespace tern::net

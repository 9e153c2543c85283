// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The switch from one stack to another.
///
/// On x86-64 and aarch64 a few instructions of our own: they save what a compiler cannot be told to
/// save and reload the floating-point control words only if they differ, which is all that the ABI
/// asks for. (Boost.Context reloads them each time, and loading MXCSR with other sticky flags costs
/// 50 ns, which numeric programs meet all the time.) Elsewhere, and with -DTERN_BOOST_CONTEXT, it
/// is Boost.Context's.

#include <cstddef>
#include <cstdint>

#if !((defined(__x86_64__) && defined(__LP64__)) || defined(__aarch64__)) && !defined(TERN_BOOST_CONTEXT)
#define TERN_BOOST_CONTEXT
#endif
#ifdef TERN_BOOST_CONTEXT
#include <boost/context/detail/fcontext.hpp>
#else
#include <tern/task/fiber/context_switch_inline.hpp>
#endif

namespace tern::detail {

#ifdef TERN_BOOST_CONTEXT

/// Where a context that does not run goes on.
struct switch_point {
  boost::context::detail::fcontext_t sp = nullptr;
};
inline void inherit_control_words(switch_point&) noexcept {}

[[gnu::always_inline]] inline void switch_stack(switch_point& from, switch_point& to) noexcept {
  const auto came = boost::context::detail::jump_fcontext(to.sp, &from);
  static_cast<switch_point*>(came.data)->sp = came.fctx;
}

/// Makes the first switch to `point` call `Entry()` on the stack that ends at `top`.
template <void (*Entry)()> void prepare_stack(switch_point& point, void* top, std::size_t size) noexcept {
  point.sp = boost::context::detail::make_fcontext(top, size, [](boost::context::detail::transfer_t came) {
    static_cast<switch_point*>(came.data)->sp = came.fctx;
    Entry();
  });
}

#else

#if defined(__x86_64__)

/// What the C and C++ standards call the floating-point environment, without the sticky flags.
struct control_words {
  std::uint32_t mxcsr = 0x1f80;
  std::uint16_t x87 = 0x037f;
};
// Each is read again as wide as it was written: a wider load would have to wait for both stores (20
// cycles).
[[gnu::always_inline]] inline void read_control_words(control_words& c) noexcept {
  asm volatile("stmxcsr %0" : "=m"(c.mxcsr));
  asm volatile("fnstcw %0" : "=m"(c.x87));
}
[[gnu::always_inline]] inline bool differ(const control_words& a, const control_words& b) noexcept {
  return (((a.mxcsr ^ b.mxcsr) & 0xffc0) | static_cast<std::uint32_t>(a.x87 ^ b.x87)) != 0; // the rest is sticky flags
}
inline void load_control_words(const control_words& c) noexcept {
  asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(c.mxcsr), "m"(c.x87));
}

#else // aarch64

struct control_words {
  std::uint64_t fpcr = 0;
};
[[gnu::always_inline]] inline void read_control_words(control_words& c) noexcept {
  asm volatile("mrs %0, fpcr" : "=r"(c.fpcr));
}
[[gnu::always_inline]] inline bool differ(const control_words& a, const control_words& b) noexcept {
  return a.fpcr != b.fpcr;
}
inline void load_control_words(const control_words& c) noexcept { asm volatile("msr fpcr, %0" : : "r"(c.fpcr)); }

#endif

struct switch_point {
  void* sp = nullptr; // there lie: the address to go on at, and the registers that are saved
  control_words words;
};
/// A new stack begins with the words of the context that makes it.
inline void inherit_control_words(switch_point& p) noexcept { read_control_words(p.words); }

/// Saves the words of `from`, and loads those of `to` if they differ.
[[gnu::always_inline]] inline void meet_control_words(switch_point& from, switch_point& to) noexcept {
  read_control_words(from.words);
  if (differ(from.words, to.words)) [[unlikely]]
    load_control_words(to.words);
}

/// Saves where the caller is in `from` and goes on at `to`; returns when a context switches to
/// `from`. Must be inlined into a function that is not, so that what it returns to belongs to one
/// stack.
[[gnu::always_inline]] inline void switch_stack(switch_point& from, switch_point& to) noexcept {
  meet_control_words(from, to);
  swap_stack(&from.sp, to.sp);
}

/// Makes the first switch to `point` call `Entry()`, which never returns, on the stack that ends at
/// `top`.
template <void (*Entry)()> void prepare_stack(switch_point& point, void* top, std::size_t) noexcept {
  // address: alignment, which is the same wherever the stack lies
  auto** sp = reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15});
#if defined(__x86_64__)
  *--sp = nullptr; // where a call would have left its return address: the last frame, for debuggers
  *--sp = reinterpret_cast<void*>(Entry);
#else
  sp -= 4;
  sp[0] = reinterpret_cast<void*>(Entry);
  sp[1] = sp[2] = sp[3] = nullptr;
#endif
  point.sp = static_cast<void*>(sp);
}

#endif

} // namespace tern::detail

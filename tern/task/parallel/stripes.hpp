// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The same step for a few parts of a range at once: what the steps of sorting are made of.

#include <cstddef>
#include <source_location>
#include <type_traits>
#include <utility>

namespace tern::detail {

/// Calls `f(data, i)` for i = 0, …, n - 1, the first one here, the others in tasklets; returns when
/// all have ended.
/// \throws the first exception that a call threw. Without memory for tasklets the calls are made
/// here: to give up between steps could lose elements.
void run_stripes(std::size_t n, void (*f)(void* data, std::size_t i), void* data, const std::source_location& made);

/// The same with a function object, whose type is erased: one call is a step of thousands of
/// elements.
template <class F> void each_stripe(std::size_t n, F&& f, const std::source_location& made) {
  using function = std::remove_reference_t<F>;
  if (n == 1) return f(std::size_t{0});
  run_stripes(
      n, [](void* data, std::size_t i) { (*static_cast<function*>(data))(i); },
      const_cast<std::remove_const_t<function>*>(&f), made);
}

} // namespace tern::detail

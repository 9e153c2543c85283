// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A heap that counts what it gives, and refuses it when it is told to: operator new of the tests.
///
/// Sanitizers bring an operator new of their own, which finds what a replaced one would hide: with
/// them nothing is counted and nothing refused.

#include <atomic>
#include <cstddef>

#include <tern/task/fiber/sanitizer.hpp>

namespace tern::hetero::test_heap {

constexpr bool replaced = !tern::detail::sanitized;

extern thread_local long allocations; ///< of this thread
extern thread_local long allowed;     ///< so many more; negative: any number

/// Of blocks of one size that want more than the usual alignment, in whatever thread, one of so
/// many is refused. One at a time.
class refusal {
public:
  refusal(std::size_t bytes, unsigned one_of) noexcept;
  ~refusal();
  refusal(const refusal&) = delete;
  refusal& operator=(const refusal&) = delete;
  static unsigned refused() noexcept; ///< so many have been
};

} // namespace tern::hetero::test_heap

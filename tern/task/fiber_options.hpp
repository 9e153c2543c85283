// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How a fiber is made: its name, priority, stack and worker. Included by fiber.hpp and
/// scheduler.hpp.

#include <tern/base/language/compiler.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tern {

enum class priority : std::uint8_t { high = 0, normal = 1, low = 2 };

/// How a fiber is made.
struct fiber_options {
  /// For messages, reports and debuggers; copied, 47 bytes of it are kept.
  std::string_view name = {};
  /// A worker runs all ready fibers of a higher priority first, but now and then one of a lower, so
  /// that none starves.
  tern::priority priority = priority::normal;
  /// Of its stack; 0: the scheduler's. Rounded up to a power of two, at least 16 KiB.
  std::size_t stack_bytes = 0;
  /// The worker that alone runs it; -1: any. For code that depends on `thread_local` or `errno`.
  int worker = -1;
};

/// What lies below a stack, so that a fiber that needs more than it has does not write over
/// another's.
enum class stack_guard : std::uint8_t {
  automatic, ///< the best that works here
  regions,   ///< memory that cannot be touched, made by MADV_GUARD_INSTALL (Linux 6.13); free
  pages,     ///< the same made by mprotect, for the first quarter of vm.max_map_count stacks, since each costs two
             ///< mappings; a canary for the others
  canary,    ///< a pattern that is checked when the fiber is left: finds the overflow late
};

namespace detail {

/// A fiber's name as a fiber keeps it: copied as one piece.
using fiber_name = std::array<char, 48>;

} // namespace detail
} // namespace tern

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What `fiber_local` variables are kept in.

#include <deque>

#include <tern/task/fiber/fiber_closure.hpp>

namespace tern::detail {

struct local_table {
  std::deque<local_slot> slots; // by key; stays where it is while it grows
  std::uint64_t made = 0;
  local_table() = default;
  local_table(const local_table&) = delete;
  local_table& operator=(const local_table&) = delete;
  ~local_table() { clear(); }
  /// Destroys the last made first; what a destructor makes anew goes too.
  void clear() noexcept;
};

void destroy_locals(fiber& f) noexcept;

} // namespace tern::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data that are combined with those of an object. Internal; for layers above.

#include <cstddef>
#include <cstdint>
#include <exception>

#include <tern/base/unique_function.hpp>
#include <tern/hetero/access.hpp>

namespace tern::hetero::detail {

/// Combines `n` elements of `from` with those of `into`.
using combine_function = void (*)(std::byte* into, const std::byte* from, std::int64_t n);

struct combine_request {
  object_state* target;
  box part;
  object_state* data;          ///< as many elements, packed
  object_state* old = nullptr; ///< likewise: gets what was there; null: nothing does
  combine_function combine = nullptr;
  bool in_order = false; ///< else it commutes with others that do, unless it gives the old ones
  unique_function<void(std::exception_ptr)> over; ///< called once it is done. Must not wait
};
/// Submits a hidden task of the host that does it. In any context; waits for nothing. The caller's
/// handles may go when this returns.
void submit_combine(combine_request what);

/// A new object of the same elements and runtime, of the extents of `part`. In any context.
object_state* new_object_like(const object_state& o, const box& part);

std::size_t element_bytes(const object_state& o) noexcept;

/// Does the order of the object's tasks take a lock now that a fiber may hold? Then what must not
/// wait leaves its place to a fiber.
bool is_reducing(const object_state& o) noexcept;

} // namespace tern::hetero::detail

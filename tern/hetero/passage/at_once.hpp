// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data that can leave an object in the moment: no task is made for them. Internal; for layers
/// above.
///
/// That is so where all tasks that are to write them have ended, none of these failed, the host has
/// them, and the caller is on a worker of the object's scheduler that records nothing. It comes to
/// the same as a task that follows them, which would begin and end now (`outgoing` is for all other
/// cases). Threads: a worker's.

#include <cstddef>

#include <tern/base/bytes.hpp>
#include <tern/hetero/access.hpp>

namespace tern::hetero::detail {

/// Is it so now? Nothing keeps it so.
bool can_leave_at_once(object_state& o, const box& part) noexcept;
/// Copies the part, packed, if it is so. \return whether. It holds the object's lock meanwhile: for
/// what is small.
bool copy_at_once(object_state& o, const box& part, std::byte* to) noexcept;
/// The memory of an object that is given away: if it is so, the part is all of it, the caller's is
/// its last handle, and no other memory has copies. Nothing is valid in it afterwards. \return
/// empty: it is not so. \throws std::bad_alloc, and then nothing has changed.
byte_buffer give_at_once(object_state& o, const box& part);

/// May the host's memory of an object whose last handle is the caller's be handed over?
bool may_be_given(const object_state& o, const box& part) noexcept;
/// Takes the host's memory out of such an object. \throws as give_at_once.
byte_buffer take_memory_of(object_state& o);

} // namespace tern::hetero::detail

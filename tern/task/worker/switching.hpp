// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a worker needs to run fibers, besides `enter` and `leave` (fiber_state.hpp).

namespace tern::detail {

struct fiber;
struct worker;

/// The calling thread works for `w` from now on.
void enter_thread(worker& w) noexcept;

// What the scheduler does with a fiber that has left its stack; it defines these. On the worker
// that ran it.

/// `f` has left its stack for ever.
void fiber_ended(fiber* f, void*);
/// `f` has given way to the others.
void fiber_yielded(fiber* f, void*);

} // namespace tern::detail

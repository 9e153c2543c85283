// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What waiting needs of the scheduler, which defines these. So this room knows no scheduler.

namespace tern::detail {

struct fiber;
struct timer;
struct worker_head;

/// `f`, which has left its stack to wait, can run again. Any thread.
void resume(fiber& f) noexcept;
/// The same, by a fiber that is likely to end or wait soon: `f` goes on then, before others that
/// can run.
void resume_next(fiber& f) noexcept;
/// The timer fires at its deadline, on the clock of `where`, which is the calling worker. It may
/// fire before this returns.
void set_timer(worker_head& where, timer& t) noexcept;
/// Waits while it is taken out to be fired.
/// \return false if it has been, too.
bool remove_timer(worker_head& where, timer& t) noexcept;

} // namespace tern::detail

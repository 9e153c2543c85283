// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the trace is told of fibers and workers (tern/trace). None of it lies on a fast path: a scheduler that is made
/// while nothing is recorded never calls it. Internal.

#include <cstdint>

namespace tern::detail {

struct fiber;
struct worker;

/// `f`, which is traced, is entered, for the first time or again; or it has got another name.
void trace_enters(fiber& f) noexcept;
/// It leaves its stack, for a reason that it tells itself, or has ended.
void trace_leaves(fiber& f, bool for_ever) noexcept;
/// Its memory is for another fiber from now on.
void trace_forgets(fiber& f) noexcept;

/// A worker's track, which is made now. \return the number.
std::uint32_t new_track(const worker& w) noexcept;
/// What the calling thread does is `w`'s from now on; null: its own.
void trace_as(const worker* w) noexcept;
/// The calling thread begins to work for `w`, perhaps inside a fiber of another scheduler (`outer`), and stops.
void trace_begins(worker& w, worker* outer) noexcept;
void trace_ends(worker* outer) noexcept;

/// Virtual time for a recording in a simulation (trace::recorder_settings::clock): the latest that this thread knows.
std::int64_t virtual_ticks() noexcept;

} // namespace tern::detail

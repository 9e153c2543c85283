// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the trace is told of workers (tern/trace). Internal.

#include <cstdint>

namespace tern::detail {

struct worker;

/// A worker's track, which is made now.
/// \return the number.
std::uint32_t new_track(const worker& w) noexcept;
/// What the calling thread does is `w`'s from now on; null: its own.
void trace_as(const worker* w) noexcept;
/// The calling thread begins to work for `w`, perhaps inside a fiber of another scheduler
/// (`outer`), and stops.
void trace_begins(worker& w, worker* outer) noexcept;
void trace_ends(worker* outer) noexcept;

} // namespace tern::detail

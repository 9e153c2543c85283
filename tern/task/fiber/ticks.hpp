// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Time as fibers see it: `fiber_clock` in nanoseconds, and a cheaper counter. In a
/// simulation both are virtual. Internal to Tern's layers.

#include <cstdint>

namespace tern::detail {

/// Nanoseconds of `fiber_clock`: real ones, or the simulated worker's.
std::int64_t clock_now() noexcept;
/// The processor's counter; in a simulation the virtual time in nanoseconds.
std::int64_t ticks() noexcept;
/// `ticks` when the calling worker last looked for work: costs nothing. Elsewhere `ticks`.
std::int64_t rough_ticks() noexcept;
/// The processor's counter, in a simulation too.
std::int64_t raw_ticks() noexcept;
/// How far the processor's counter goes in so many seconds.
std::int64_t ticks_in(double seconds) noexcept;
/// The seconds of so many `ticks` of the calling thread.
double seconds_in(std::int64_t ticks) noexcept;
/// How many seconds of real time ago `raw_ticks` was `moment`. Any thread.
double seconds_since_raw(std::int64_t moment) noexcept;
/// Virtual time for a recording in a simulation (trace::recorder_settings::clock): the latest that
/// this thread knows.
std::int64_t virtual_ticks() noexcept;

} // namespace tern::detail

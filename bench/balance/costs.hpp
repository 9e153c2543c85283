// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What it costs to balance when there is nothing to balance. On two ranks that are processes of
/// their own, in their main fibers; the policy is that of the options.

namespace tern::bench::balance {

/// Half a round trip of 64 bytes between objects of two ranks. \param most seconds that may be
/// taken.
double round_trip_microseconds(double most);

/// CPU seconds of both ranks for `rounds` times so many objects on each, each of which computes for
/// so many seconds.
double even_cpu_seconds(int objects, int rounds, double each);

} // namespace tern::bench::balance

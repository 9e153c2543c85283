// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tasks compute, and how long that takes when nothing else is to be done. Compiled once for
/// all contestants: runtimes are compared, and not compilers.

namespace tern::bench::grain {

enum class kernel {
  compute, ///< an iteration: 16 multiplications and additions, in registers
  memory   ///< an iteration: a line of the cache is read and written, of more than the caches hold
};

void compute(kernel what, long iterations) noexcept;

/// Seconds for an iteration while so many threads, or that many ranks each with one, do the same:
/// the mean of the threads' best. Takes about 10 ms.
double calibrate(kernel what, int threads);

} // namespace tern::bench::grain

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the trace is told of fibers (tern/trace). None of it lies on a fast path: a scheduler
/// that is made while nothing is recorded never calls it. Internal.

namespace tern::detail {

struct fiber;

/// `f`, which is traced, is entered, for the first time or again; or it has got another name.
void trace_enters(fiber& f) noexcept;
/// It leaves its stack, for a reason that it notes itself, or has ended.
void trace_leaves(fiber& f, bool for_ever) noexcept;
/// Its memory is for another fiber from now on.
void trace_forgets(fiber& f) noexcept;

} // namespace tern::detail

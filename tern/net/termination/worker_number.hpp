// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The calling worker's number, for counters that each worker has for itself. Internal.

#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net::detail {

/// The calling thread's number among the workers of `core`; -1 on any other thread.
inline int worker_number(const tern::detail::scheduler_core* core) noexcept {
  const tern::detail::worker* const w = tern::detail::this_worker();
  return w && w->home == core ? w->index : -1;
}

} // namespace tern::net::detail

// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber/worker_head.hpp>

namespace tern::detail {
worker_head no_worker;
}
constinit thread_local tern::detail::worker_head* tern_this_worker = &tern::detail::no_worker;

#ifndef TERN_THIS_WORKER_IN_HEADER
tern::detail::worker_head* tern::detail::this_worker_head() noexcept { return tern_this_worker; }
#endif

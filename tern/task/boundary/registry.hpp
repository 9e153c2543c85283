// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which schedulers exist: for dumps, for debuggers, for the handler of stack overflows.
/// Nothing else may use it, since ranks that live in one process must not know of each other.

#include <mutex>

namespace tern::detail {

struct scheduler_core;

/// Of the process: protects `tern_schedulers`, and the schedulers in it from their end.
extern std::mutex schedulers_lock;

void register_core(scheduler_core& c);
void unregister_core(scheduler_core& c) noexcept;

} // namespace tern::detail

/// Null where there is none. What the debugger's script starts from; see tools/gdb.
extern "C" __attribute__((visibility("default"))) tern::detail::scheduler_core* tern_schedulers[256];

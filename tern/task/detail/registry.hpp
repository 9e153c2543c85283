// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which schedulers exist: for dumps, for debuggers, for the handler of stack overflows. Nothing else may use it, since
/// ranks that live in one process must not know of each other.

#include <cstdint>
#include <string>

namespace tern::detail {

struct scheduler_core;

void register_core(scheduler_core& c);
void unregister_core(scheduler_core& c) noexcept;
/// "fiber 12 'solver'", or "a fiber that has ended" if none lies at that address now.
std::string describe_fiber_at(std::uintptr_t address);
/// A line for each fiber, each preceded by a line break.
std::string describe_fibers(scheduler_core& c);

/// The calling thread handles its stack overflows on a stack of its own while this exists.
class overflow_watch {
public:
  overflow_watch() noexcept;
  ~overflow_watch();
  overflow_watch(const overflow_watch&) = delete;
  overflow_watch& operator=(const overflow_watch&) = delete;

private:
  void* memory_ = nullptr;
};

} // namespace tern::detail

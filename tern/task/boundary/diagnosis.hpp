// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the scheduler asks of report/, which defines these.

#include <string>

namespace tern::detail {

struct scheduler_core;

/// A line for each fiber, and those of the layer above, each preceded by a line break.
std::string describe_fibers(scheduler_core& c);
/// Looks for fibers that wait for each other in a circle.
/// \return the message about them; empty if there are none.
/// \pre no fiber runs.
std::string find_deadlock(scheduler_core& c);

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

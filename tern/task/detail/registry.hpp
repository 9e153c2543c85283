// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which schedulers exist: for dumps, for debuggers, for the handler of stack overflows. Nothing else may use it, since
/// ranks that live in one process must not know of each other.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tern::detail {

struct fiber;
struct scheduler_core;

void register_core(scheduler_core& c);
void unregister_core(scheduler_core& c) noexcept;
/// "fiber 12 'solver'", or "a fiber that has ended" if none lies at that address now.
std::string describe_fiber_at(std::uintptr_t address);
/// A line for each fiber, each preceded by a line break.
std::string describe_fibers(scheduler_core& c);

enum class fiber_state : std::uint8_t { ended, runs, idle, ready, waits };
/// What can be said of a fiber without looking at its stack.
struct fiber_note {
  const fiber* who = nullptr;
  std::uint64_t id = 0;
  fiber_state state = fiber_state::ready;
  std::string called; ///< "12 'name'"
  std::string kind;   ///< "mutex", "runs": the same for fibers that are in the same situation
  std::string text;   ///< "waits for mutex 0x5555 that fiber 2 'main' has"
  double since = 0;   ///< seconds that it has waited
  std::string made;   ///< "made at solve.cpp:31", "main function of rank 0"
};
/// Of all fibers, by id. \param limit how long to wait for a lock that others may hold for ever.
/// \return false if that was not enough.
bool note_fibers(scheduler_core& c, std::vector<fiber_note>& notes, std::chrono::milliseconds limit);

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

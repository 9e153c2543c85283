// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What can be said of fibers without looking at their stacks. Internal.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tern::detail {

struct fiber;
struct scheduler_core;

/// "fiber 12 'solver'", or "a fiber that has ended" if none lies at that address now.
std::string describe_fiber_at(std::uintptr_t address);
/// `scheduler_extension::describe` and `at_work` of the scheduler's, if it has one.
/// \pre the scheduler does not end meanwhile.
std::string describe_extension(scheduler_core& c, std::chrono::milliseconds limit);
int devices_at_work(const scheduler_core& c) noexcept;

enum class fiber_state : std::uint8_t { ended, runs, idle, ready, waits };
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
/// Of all fibers, by id.
/// \param limit how long to wait for a lock that others may hold for ever.
/// \return false if that was not enough.
bool note_fibers(scheduler_core& c, std::vector<fiber_note>& notes, std::chrono::milliseconds limit);

} // namespace tern::detail

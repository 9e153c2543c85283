// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which schedulers exist: for dumps, for debuggers, for the handler of stack overflows. Nothing else may use it, since
/// ranks that live in one process must not know of each other.

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tern::detail {

struct fiber;
struct scheduler_core;
class scheduler_extension;

/// \return not locked if that takes too long: whoever has it may have crashed, or stand still for ever.
template <class Lock> std::unique_lock<Lock> try_within(Lock& lock, std::chrono::milliseconds limit) {
  std::unique_lock<Lock> hold(lock, std::try_to_lock);
  for (const auto until = std::chrono::steady_clock::now() + limit;
       !hold && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    static_cast<void>(hold.try_lock());
  }
  return hold;
}

void register_core(scheduler_core& c);
void unregister_core(scheduler_core& c) noexcept;
/// "fiber 12 'solver'", or "a fiber that has ended" if none lies at that address now.
std::string describe_fiber_at(std::uintptr_t address);
/// A line for each fiber, and those of the layer above, each preceded by a line break.
std::string describe_fibers(scheduler_core& c);
/// `scheduler_extension::describe` and `at_work` of the scheduler's, if it has one. \pre the scheduler does not end
/// meanwhile.
std::string describe_extension(scheduler_core& c, std::chrono::milliseconds limit);
int devices_at_work(const scheduler_core& c) noexcept;
/// The scheduler is about to end: no dump looks at its extension any more. \return the extension; null: it has none.
scheduler_extension* detach_extension(scheduler_core& c) noexcept;

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

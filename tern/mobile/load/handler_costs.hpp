// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long the functions take that are invoked on objects. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tern::mobile::detail {

/// The longest time that each handler took lately. Tells quick invocations, which begin at once
/// also while a policy is in use, from those that wait for a worker. Thread-safe after `prepare`.
class handler_costs {
public:
  /// Makes room for all handlers of the program, once. One thread at a time; `is_quick` and `note`
  /// come after it.
  void prepare();
  /// Does it take less time than a place in a queue is worth? False if it has never run.
  bool is_quick(std::uint32_t handler) const noexcept;
  /// Two threads that note at once may lose one of the times.
  void note(std::uint32_t handler, double seconds) noexcept;
  /// Counts a quick invocation. \return whether this one is to be measured: one in sixteen is.
  bool measures_next() noexcept;

private:
  /// By handler, in seconds; 0: it has never run. Made when it is wanted first.
  std::unique_ptr<std::atomic<float>[]> handler_cost_;
  std::atomic<unsigned> quick_runs_{0};
};

} // namespace tern::mobile::detail

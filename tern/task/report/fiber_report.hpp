// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the workers and fibers of one scheduler do, for reports: few lines however many
/// fibers there are, with the stacks of those that wait. Internal.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tern/task/report/dump.hpp>
#include <tern/task/report/unwind.hpp>

namespace tern::detail {

struct fiber;
struct scheduler_core;
struct worker;

/// Which workers have been in the same fiber since when, as far as repeated looks tell. One thread.
class busy_watch {
public:
  /// Before a look at all schedulers.
  void begin();
  /// \return the seconds of CPU time that workers which run a fiber have used since the last look.
  double look(scheduler_core& c);
  /// Seconds; negative: not known.
  double busy_for(const worker& w) const noexcept;

private:
  struct seen {
    const worker* who;
    const fiber* in;
    std::uint64_t entered;
    double since, cpu;
  };
  std::vector<seen> before_, now_;
  std::size_t next_ = 0;
};

/// How much to look at. One for all schedulers of a report: what one has used up the others do
/// without.
struct fiber_report_limits {
  stack_reader* stacks = nullptr;                                                             ///< null: without stacks
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max(); ///< for stacks
  std::size_t shown = 300; ///< stacks that are printed
  const busy_watch* busy = nullptr;
  std::chrono::milliseconds lock{200}; ///< to wait for a lock whose holder may have crashed
};

/// Lines of two and more spaces' indent, each with its line break. While others run it shows
/// several moments. Fibers that are in the same situation, were made in the same place and have the
/// same stack are told of once.
std::string report_fibers(scheduler_core& c, fiber_report_limits& limits);

} // namespace tern::detail

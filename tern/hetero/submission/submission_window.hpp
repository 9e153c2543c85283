// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How far ahead of what has run tasks are submitted. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tern/hetero/record/record_pool.hpp>
#include <tern/hetero/submission/wait_all.hpp>

namespace tern::hetero::detail {

/// Bytes of a level-2 cache of this machine. What most have where the system does not say.
std::size_t level2_cache_bytes() noexcept;

/// How many tasks may be left while others are submitted, at first: so many that their records fill
/// a quarter of a level-2 cache, as objects want space there, too, but enough for each worker to
/// find some. A power of two.
std::uint64_t first_window(std::size_t cache_bytes, int workers) noexcept;

/// Makes a fiber that submits tasks wait while too many are left: their records would have left the
/// caches before the tasks run.
///
/// A window bounds what the workers can choose from, so it grows where that costs more than caches
/// do. It doubles if no task completed during a wait, or if at the end of four in a row a worker
/// had nothing to do while no task was ready; else it halves, down to the first one. A fiber that
/// has to submit more before any task can run never waits for longer than `longest` at a time.
///
/// The widest window alone holds up
/// - tasks that submit tasks, which are part of what is left themselves;
/// - tasks that a policy places: it chooses from what has been submitted, and devices want much;
/// - tasks with much data (`object_state::large_bytes` of one object). Their records are a small
///   part of what they take into the caches. A worker that can choose runs tasks of the same data
///   one after the other.
///
/// Threads: any worker of the scheduler. Source: StarPU's limits on submitted tasks
/// (STARPU_LIMIT_MAX_SUBMITTED_TASKS), with a size from the caches instead of the user.
class submission_window {
public:
  static constexpr std::uint64_t widest = 32 * 1024;

  /// \param asked the option's value; 0: by the caches, and changing.
  submission_window(outstanding_tasks& outstanding, int asked, int workers, bool simulated) noexcept;

  /// The calling worker has submitted so many more. \param wide they are held up by the widest
  /// window only. May suspend the calling fiber.
  void submitted(const worker_part& mine, std::uint64_t tasks, bool wide) {
    // One of so many looks: to count takes a look at every worker's part.
    const std::uint64_t all = mine.submitted.load(std::memory_order_relaxed);
    if (((all ^ (all - tasks)) & ~(look_every_ - 1)) != 0) [[unlikely]]
      look(wide);
  }
  /// How many tasks may be left now.
  std::uint64_t now() const noexcept { return now_.load(std::memory_order_relaxed); }

private:
  void look(bool wide);

  outstanding_tasks& outstanding_;
  const std::uint64_t first_, most_;
  const std::uint64_t look_every_; // a power of two
  // Hints: of two changes at once one may be lost.
  std::atomic<std::uint64_t> now_;
  std::atomic<int> narrow_waits_{0}; // in a row
};

} // namespace tern::hetero::detail

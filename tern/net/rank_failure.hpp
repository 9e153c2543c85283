// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Ranks that die or stop while the job goes on.
///
/// Tern notices it and ends the job with a message that names the rank (docs/howto/debug.md). A
/// program may want to do something before:
///
///     tern::on_rank_failure([](const tern::rank_failure& f) { save_what_is_left(f.rank); });
///
/// **An MPI job cannot go on without one of its ranks**, as no MPI can. There the functions are
/// called on those ranks of the same host that have a free worker, and a second later the job ends,
/// whatever they do. In a simulation (fault `crash`) and under transports that outlive a rank,
/// every other rank is told, and nothing ends by itself: but what waits for that rank waits for
/// ever, collectives of the world and the end of the job included, unless the work is protected
/// (mobile/protect.hpp): then it fails with error(rank_lost), and the job goes on.

#include <functional>
#include <string>
#include <vector>

#include <tern/task/fiber.hpp>

namespace tern {

struct rank_failure {
  int rank = -1;
  std::string host;             ///< where it was; empty if that is not known
  fiber_clock::time_point when; ///< its end, or when that was noticed
  std::string text;             ///< what happened, for people
};

/// Calls `f` for each rank that fails, once, in a fiber of the calling rank; also for those that
/// have failed before. Functions of one rank are called in the order in which they were given. What
/// leaves `f` by an exception ends the job. Until the job's end. \throws error(invalid_state) on a
/// thread that is no worker of a rank.
void on_rank_failure(std::function<void(const rank_failure&)> f);

/// The ranks that are not known here to have failed, ascending. Known is what `on_rank_failure` and
/// protected work (mobile/protect.hpp) are told; without either, all ranks of the job. Ranks keep
/// their numbers: `tern::size()` is the number that were started. \throws error(invalid_state) on a
/// thread that is no worker of a rank. Any fiber.
std::vector<int> living();

} // namespace tern

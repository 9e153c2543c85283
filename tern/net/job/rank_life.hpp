// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One rank of a job from its start to its end. Internal.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <tern/base/options.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/collective/collective_table.hpp>
#include <tern/net/epoch/epoch_table.hpp>
#include <tern/net/failure/failed_ranks.hpp>
#include <tern/net/failure/survivors.hpp>
#include <tern/net/job/job_stats.hpp>
#include <tern/net/node.hpp>
#include <tern/net/rank/exit_guard.hpp>
#include <tern/net/report/report_entry.hpp>

namespace tern::net {

struct job_settings;

/// A node with all that stands above it. Requires: the handler table is frozen; the thread that
/// makes it is the transport's owner. Threads: the one that makes it, unless a member says
/// otherwise.
class rank_life final : job_end {
public:
  /// \param opts shared by the ranks of a process: thousands of them may be simulated.
  /// \param world the simulation that the rank lives in, if any, how many workers it has there, and
  /// whether the first only polls for messages.
  rank_life(const std::shared_ptr<const options>& opts, std::unique_ptr<transport> wire,
            sim::simulation* world = nullptr, int workers = 0, bool apart = false);
  ~rank_life() = default;
  rank_life(const rank_life&) = delete;
  rank_life& operator=(const rank_life&) = delete;

  node& here() noexcept { return here_; }
  /// Runs `main` on this rank; collective over all ranks. \param last is done when all else is,
  /// before ranks part.
  /// \return the largest of the ranks' codes.
  int run(const std::function<int()>& main, const std::function<void()>& last = {});
  /// The parts of `run`, for a simulation that runs many ranks together: what the main fiber does,
  /// and what comes after all fibers have ended.
  void live(const std::function<int()>& main);
  int end(const std::function<void()>& last = {});
  /// Has `live` come to its end?
  bool has_ended() const noexcept { return lived_; }

private:
  rank_life(const std::shared_ptr<const options>& opts, const job_settings& s, std::unique_ptr<transport>&& wire,
            sim::simulation* world, bool apart);
  void fatal(const std::string& what, int code) noexcept override;
  void end_from_outside(const std::string& what, int code, bool by_parent) noexcept override;
  std::string compare_programs();
  int guarded_main(const std::function<int()>& main);
  void end_together(int returned);
  bool is_dead() const { return here_.generation().is_dead(here_.rank()); }
  [[noreturn]] void fail_at_end();

  const std::shared_ptr<const options> opts_;
  detail::epoch_table epochs_; // before the node, whose fibers may still let go of its accounts when they are given up
  node here_;
  const bool polls_apart_;
  int code_ = 0;
  bool lived_ = false, stages_ended_ = false;
  detail::pending_calls calls_;
  detail::collective_table collectives_;
  detail::failed_ranks failures_;
  detail::survivors survivors_{here_};
  job_stats stats_{here_};
  detail::exit_guard exit_guard_{here_};
  std::optional<report_entry> reported_; // last: reports may look at all of the above
};

} // namespace tern::net

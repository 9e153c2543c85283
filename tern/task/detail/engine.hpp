// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The simulated executor's inside.

#include <cstdint>
#include <string>
#include <vector>

#include <tern/task/sim.hpp>

namespace tern::detail {
struct runnable;
struct fiber;
struct worker;
struct scheduler_core;
} // namespace tern::detail

namespace tern::sim::detail {

class engine {
public:
  explicit engine(const settings& s) : cfg_(s), random_(s.seed) {}

  /// Runs a scheduler until nothing can run any more.
  void run(tern::detail::scheduler_core& core);
  /// Instead of a worker's queue.
  void ready(tern::detail::scheduler_core& core, tern::detail::runnable* x);
  /// Forgets what waits for its turn; bodies that never began are destroyed.
  void drop(const tern::detail::scheduler_core& core) noexcept;
  /// \throws error(invalid_state) while a scheduler runs here.
  void expect_free() const;
  /// Whatever has blocked until now was announced.
  void overlook() noexcept;
  /// The clock of the worker that runs, or the time of the timer that fires, ns.
  std::int64_t now() const noexcept { return now_; }
  bool preempt() noexcept;
  void charge(std::int64_t ns) noexcept;
  std::uint64_t random() noexcept;

  const settings& cfg() const noexcept { return cfg_; }
  std::int64_t latest() const noexcept { return latest_; }
  std::uint64_t hash() const noexcept { return hash_; }
  std::uint64_t events() const noexcept { return events_; }
  const std::vector<std::string>& surprises() const noexcept { return surprises_; }
  int announced = 0; // outside_world objects

private:
  enum class what : std::uint64_t { fiber = 1, tasklet, loot, alarm, poll, spawner };
  struct entry {
    tern::detail::runnable* x;
    tern::detail::scheduler_core* core;
    std::int64_t at; // not before
  };
  bool may_run(const entry& e, const tern::detail::worker& w) const noexcept;
  /// One of the things that a worker can do at a time.
  struct choice {
    what kind;
    std::size_t which; // of the entries, or of the workers
  };

  std::int64_t earliest(const tern::detail::worker& w) const;
  void collect(tern::detail::worker& w);
  void act(tern::detail::worker& w, const choice& c);
  void run_fiber(tern::detail::worker& w, tern::detail::runnable* x);
  bool any_tasklets() const;
  void note(what kind, std::uint64_t worker, std::uint64_t n) noexcept;
  void watch(double began);
  void surprise(std::string text);
  static long blocked_so_far() noexcept;

  const settings cfg_;
  std::uint64_t random_;
  tern::detail::scheduler_core* core_ = nullptr;
  std::vector<entry> entries_;
  std::vector<std::int64_t> clocks_; // of the workers
  std::vector<std::int64_t> starts_; // when each can do something
  std::vector<choice> choices_;
  std::size_t at_work_ = 0; // the worker that runs
  std::int64_t now_ = 0, latest_ = 0;
  std::uint64_t hash_ = 14695981039346656037u, events_ = 0;
  std::string running_; // for surprises
  long blocked_ = 0;
  std::vector<std::string> surprises_;
};

} // namespace tern::sim::detail

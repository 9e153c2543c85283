// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The simulated executor's inside: a simulation of discrete events. Internal, and for the
/// simulated network.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <pthread.h>

#include <tern/task/boundary/virtual_executor.hpp>
#include <tern/task/fiber_options.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/wait/indexed_heap.hpp>
#include <tern/task/worker/worker_trace.hpp>

namespace tern::detail {
struct fiber;
struct worker;
} // namespace tern::detail

namespace tern::sim::detail {

/// Something that is to happen at a moment.
class event {
public:
  virtual void happen() noexcept = 0;

protected:
  ~event() = default;
};

/// One scheduler in a simulation.
struct member_state;

/// Runs any number of schedulers on the calling thread, the first in virtual time first, until
/// nothing can happen any more. What is due at the same time comes in an order that the seed
/// decides. Time in ns. One thread.
class simulated_executor final : public tern::detail::virtual_executor {
public:
  explicit simulated_executor(const settings& s);
  ~simulated_executor(); // NOLINT(modernize-use-override): the interface's is not virtual
  simulated_executor(const simulated_executor&) = delete;
  simulated_executor& operator=(const simulated_executor&) = delete;

  // For schedulers (virtual_executor) ---------------------------------------------------------------------------------
  void attach(tern::detail::scheduler_core& core) override;
  void detach(tern::detail::scheduler_core& core) noexcept override;
  void give_up_all() noexcept override;
  void expect_free() const override;
  void run(std::span<tern::detail::scheduler_core* const> cores) override;
  void ready(tern::detail::scheduler_core& core, tern::detail::runnable* x) override;
  bool preempt() noexcept override;
  void source_offers(tern::detail::scheduler_core& core) noexcept override;
  tern::detail::stack_pool& stacks(std::size_t bytes, stack_guard guard) override;
  bool on_this_thread() const noexcept override;
  std::uint64_t seed() const noexcept override { return cfg_.seed; }

  // For networks ------------------------------------------------------------------------------------------------------
  /// `e` must live until then.
  void schedule(std::int64_t at, event& e);
  /// The scheduler's events have something from then on: its worker 0 will poll them.
  void notify_events(tern::detail::scheduler_core& core, std::int64_t at) noexcept;
  /// It does nothing until then.
  void hold(tern::detail::scheduler_core& core, std::int64_t until) noexcept;
  /// It does nothing ever again.
  void kill(tern::detail::scheduler_core& core) noexcept;
  /// What it does takes so many times longer.
  void slow(tern::detail::scheduler_core& core, double factor) noexcept;
  /// The worker that runs has worked so long.
  void charge(std::int64_t ns) noexcept;
  /// One scheduler may be so far ahead of the others, and of events for it. No more than what one
  /// does takes to reach another.
  void look_ahead(std::int64_t ns) noexcept { ahead_ = ns; }
  /// Makes something part of the trace's hash.
  void note(std::uint64_t kind, std::uint64_t who, std::uint64_t n) noexcept {
    ++events_;
    // FNV-1a, by larger pieces.
    hash_ = (hash_ ^ (kind << 56 ^ who)) * 1099511628211u;
    hash_ = (hash_ ^ n) * 1099511628211u;
    hash_ = (hash_ ^ static_cast<std::uint64_t>(now_)) * 1099511628211u;
    hash_ ^= hash_ >> 29; // what is high counts below, too
  }
  std::uint64_t random() noexcept;
  /// Below `n`.
  std::uint64_t random_below(std::uint64_t n) noexcept;

  // For the simulation ------------------------------------------------------------------------------------------------
  /// Does a scheduler stand in `cores` more than once? In time that grows with their number.
  /// \pre all are attached.
  static bool any_twice(std::span<tern::detail::scheduler_core* const> cores) noexcept;
  /// Whatever has blocked until now was announced.
  void overlook() noexcept;
  const settings& cfg() const noexcept { return cfg_; }
  std::int64_t latest() const noexcept { return latest_; }
  std::uint64_t hash() const noexcept { return hash_; }
  std::uint64_t events() const noexcept { return events_; }
  const std::vector<std::string>& surprises() const noexcept { return surprises_; }
  int announced = 0; // outside_world objects

private:
  enum what : std::uint64_t { fiber = 1, tasklet, stolen, alarm, poll, spawner, source };
  /// One of the things that a worker can do at a time.
  struct choice {
    what kind;
    std::size_t which; // of the entries, or of the workers
  };
  /// A moment, and below it some bits of chance that decide among what is due at the same one:
  /// compared as one number, since millions of them are each second. Moments go up to 18 years; all
  /// that is later is due at the end of them.
  class due {
  public:
    static constexpr int bits = 4;
    static constexpr std::int64_t most = (std::int64_t{1} << (63 - bits)) - 1;
    due(std::int64_t at, std::uint64_t chance) noexcept
        : key_(static_cast<std::uint64_t>(std::min(at, most)) << bits | (chance & ((1u << bits) - 1))) {}
    std::int64_t at() const noexcept { return static_cast<std::int64_t>(key_ >> bits); }
    bool before(const due& o) const noexcept { return key_ < o.key_; }
    bool is(std::int64_t at, std::uint64_t chance) const noexcept { return key_ == due(at, chance).key_; }

  private:
    std::uint64_t key_;
  };
  struct planned : due {
    planned(std::int64_t at, std::uint64_t chance, event& e) noexcept : due(at, chance), what(&e) {}
    event* what;
  };
  struct turn : due {
    turn(std::int64_t at, std::uint64_t chance, member_state& l) noexcept : due(at, chance), whose(&l) {}
    member_state* whose;
  };

  static bool stands(const turn& t) noexcept;
  void plan(member_state& l) noexcept;
  void plan_at(member_state& l, std::int64_t at) noexcept;
  void step(member_state& l);
  void announce_quiescence(member_state& l) noexcept;
  void take_time() noexcept;
  void poll_events(member_state& l, tern::detail::worker& w);
  bool ask_source(member_state& l, tern::detail::worker& w);
  void look_after(member_state& l, std::size_t who, std::int64_t began) noexcept;
  void collect(member_state& l, tern::detail::worker& w);
  void act(member_state& l, tern::detail::worker& w, const choice& c);
  void run_fiber(member_state& l, tern::detail::worker& w, tern::detail::runnable* x);
  void take_outside(member_state& l, tern::detail::worker& w);
  void runs(const tern::detail::fiber* f, const char* otherwise) noexcept;
  void watch();
  void surprise(std::string text);

  const settings cfg_;
  const std::int64_t step_;
  std::int64_t ahead_ = 0;
  const std::uint64_t preempt_below_;
  std::uint64_t random_;
  // Before the lanes: their fibers lie in it.
  struct pool;
  std::vector<std::unique_ptr<pool>> stacks_;
  const pthread_t thread_;
  std::vector<std::unique_ptr<member_state>> members_; // those that are attached, in that order
  tern::detail::indexed_heap<turn> turns_; // of lanes that can do something; some have been planned anew since
  tern::detail::indexed_heap<planned> planned_;
  bool running_ = false, traced_ = false;
  bool has_run_ = false; // since all were given up
  member_state* current_ = nullptr;
  tern::detail::worker* at_work_ = nullptr;
  std::vector<std::int64_t> starts_; // of the current member_state's workers
  std::vector<choice> choices_;
  std::int64_t latest_ = 0;
  std::uint64_t hash_ = 14695981039346656037u, events_ = 0;
  // What runs, for surprises: its name is made only if it is needed.
  char running_name_[48] = {};
  std::uint64_t running_id_ = 0;
  std::int64_t notable_ = 0; // ticks; a fiber that has blocked was away for longer
  std::int64_t watched_ = 0; // ticks at the last look
  long blocked_ = 0;
  std::vector<std::string> surprises_;
};

} // namespace tern::sim::detail

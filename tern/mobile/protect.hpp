// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A rank dies, and the others go on: each rank keeps a copy of its objects in its memory, and
/// another one in that of its *buddy*.
///
///     tern::mobile_array<block, 2> grid;
///     int done = 0;
///     …                                                        // on each rank: makes, or is told of, the grid
///     tern::protect(tern::every(60s), [&] {
///       if (tern::communicator::world().rank() == 0) tern::call<&block::step>(grid).get();
///       tern::barrier();
///       return ++done < steps;
///     }, grid, done);
///
/// A stack cannot be rolled back. So what can be repeated is a *step*: a function that all ranks
/// call. If a rank dies within one, all others put their objects and *roots* back to the last copy,
/// take over the objects of the dead one, and call the step again. The method is double in-memory
/// checkpointing (Zheng, Shi, Kalé: FTC-Charm++: An In-Memory Checkpoint-Based Fault Tolerant
/// Runtime for Charm++ and MPI, Cluster 2004).
///
/// docs/concepts/recovery.md says more.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/language/durations.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/mobile/checkpoint.hpp>

namespace tern {

/// How often a copy is taken: before a step, if that much time has passed since the last one.
class every {
public:
  /// 0: before each step. \throws error(invalid_argument) for less.
  template <class Rep, class Period>
  explicit every(std::chrono::duration<Rep, Period> time)
      : every(std::chrono::duration_cast<std::chrono::nanoseconds>(time)) {}
  explicit every(std::chrono::nanoseconds time);
  std::chrono::nanoseconds time() const noexcept { return time_; }

private:
  std::chrono::nanoseconds time_;
};

/// What `protect` has done on the calling rank.
struct protection {
  std::uint64_t steps = 0;      ///< that were called, those that were repeated included
  std::uint64_t copies = 0;     ///< that were complete on all ranks
  std::uint64_t recoveries = 0; ///< how often the ranks went back to a copy
  std::vector<int> lost;        ///< ranks that died meanwhile, ascending
  std::size_t packed = 0;       ///< bytes of this rank's last copy
  std::size_t kept = 0;         ///< bytes of all copies that it keeps: its own, and those of others
  double copy_seconds = 0;      ///< that the last copy took
  double recovery_seconds = 0;  ///< that the last recovery took, without the copy that follows it
};

namespace mobile::detail {

/// A step and its roots. One fiber at a time.
class protected_steps {
public:
  virtual bool step() = 0;
  virtual std::vector<saved_root> save_roots() const = 0;
  /// What they hold of objects is let go, where that can be.
  virtual void clear_roots() = 0;
  virtual void load_roots(const std::vector<saved_root>& from) = 0;

protected:
  ~protected_steps() = default;
};

protection protect_job(const every& interval, protected_steps& what);

template <class T> saved_root save_root(const T& root) {
  const byte_buffer bytes = pack(root);
  return {tern::detail::type_name(typeid(T)), {bytes.data(), bytes.data() + bytes.size()}};
}

} // namespace mobile::detail

/// Calls `step()` again and again until it returns false, and goes on if ranks die meanwhile.
/// Collective: all ranks call it, in the same order as other collectives, none of them within an
/// invocation. Every rank's `step` returns the same. Between two steps a copy is taken, if
/// `interval` has passed, and one before the first.
///
/// \param step callable without arguments; returns bool: is there more to do? It may do what a main
/// function may do. What it sends has been done before a copy is taken (`quiesce`).
/// \param roots variables of the calling rank that are put back to the copy's values, too. As
/// those of `checkpoint`, but each rank has its own; those of a dead rank are lost.
///
/// A copy has what a checkpoint has (checkpoint.hpp). Each rank keeps its own, and its buddy keeps
/// another: a rank on another host, if there is one. A copy counts when all ranks have theirs;
/// until then the one before is kept. So a rank keeps twice the packed bytes of its objects, and
/// four times while a copy is taken.
///
/// When a rank dies, what the others wait for ends with error(rank_lost). It leaves the step, or is
/// caught there: either way nothing of that step counts. Objects, arrays, names and events are as
/// they were at the last copy; the objects of the dead rank are spread over the others by their
/// bytes. Ranks keep their numbers: `rank()` and `size()` are as before, and the world
/// (`communicator::world()`) has those that live, in ascending order. What is done by one rank is
/// to be done by that whose `communicator::world().rank()` is 0. To send to a dead rank is
/// error(rank_lost). What a program keeps outside of objects and roots is not put back; counted
/// references (`mobile_ref`) that are kept there count no longer.
///
/// Recovery needs a transport that outlives a rank: the simulator (fault `crash`), and ranks of one
/// process, where only tests let one die. **No MPI job can go on without one of its ranks**: there
/// a warning says so and how to restart from a checkpoint, and the steps run without copies.
///
/// \return what was done. \throws, on all ranks: error(rank_lost) naming both, if a rank and its
/// buddy are lost before a new copy is complete, with the command that restarts the job from its
/// last checkpoint, if it has written one; error(invalid_argument) in a job of one rank;
/// error(invalid_state) if ranks' steps return different values, if it is called within itself or
/// an invocation, and for what cannot be copied, as `checkpoint`; what a step throws while no rank
/// has died. Any worker thread; one fiber of each rank.
template <class Step, class... R> protection protect(every interval, Step&& step, R&... roots) {
  static_assert(std::is_invocable_r_v<bool, Step&>, "a step takes no arguments, and returns whether there is more");
  using namespace mobile::detail;
  class steps final : public protected_steps {
  public:
    steps(Step& s, R&... r) : step_(s), roots_(r...) {}
    bool step() override { return step_(); }
    std::vector<saved_root> save_roots() const override {
      std::vector<saved_root> all;
      std::apply([&](const auto&... one) { (all.push_back(save_root(one)), ...); }, roots_);
      return all;
    }
    void clear_roots() override {
      [[maybe_unused]] const auto clear = []<class T>(T& root) {
        if constexpr (std::is_default_constructible_v<T> && std::is_move_assignable_v<T>) root = T();
      };
      std::apply([&](auto&... one) { (clear(one), ...); }, roots_);
    }
    void load_roots(const std::vector<saved_root>& from) override {
      [[maybe_unused]] std::size_t n = 0;
      [[maybe_unused]] const auto load = [&](auto& root) {
        load_root(root, from[n], n + 1);
        ++n;
      };
      std::apply([&](auto&... one) { (load(one), ...); }, roots_);
    }

  private:
    Step& step_;
    std::tuple<R&...> roots_;
  } all(step, roots...);
  return protect_job(interval, all);
}

} // namespace tern

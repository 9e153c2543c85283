// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which tasks wait for nothing but what is in a device's streams. Internal.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <tern/hetero/device/device.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// The successors of the tasks that a device's worker has put into streams, and how many of these
/// each of them still follows.
///
/// A task counts its predecessors that have not ended (`pending`). The worker counts, for each
/// successor it finds, those that it has given to its device itself. Where both numbers are equal
/// the task is *offered*: nothing else is left that could bring `pending` down, and the worker has
/// the task for itself until one of its predecessors ends, which is the worker's own doing. So no
/// lock and no second count in the record is needed, and tasks of the host pay nothing.
///
/// Requires: a task is `given` before it can complete, and `ended` before it does. Successors are
/// found by looking at the lists of the tasks that were given: `look` sees what came since it
/// looked last, at a cost of a load for each of these, and an entry in a table for each new edge.
///
/// Threads: the device worker's alone. Tasks may get new successors at any time.
/// Source: decision 0052.
class followers {
public:
  /// Where a task is: an operation of a stream. Numbers count up, over all streams.
  struct place {
    int stream;
    std::uint64_t number;
    ticket end;
    task_record* task = nullptr; ///< once it has been told to `given`
  };
  enum class state : std::uint8_t {
    watched,  ///< it follows others, too, as far as is known
    offered,  ///< waits for its turn
    prepared, ///< has gone to the device; copies of its data are under way
    decided   ///< has been launched, or goes the way of others when it is ready
  };
  struct successor {
    state is = state::watched;
    bool listed = false; ///< among those that are watched
    /// Of its predecessors those that are in streams here, once for each edge. All of them, not the
    /// last of each stream: one of the others may not have been done after all.
    std::vector<place> after;
    std::size_t given() const noexcept { return after.size(); }
  };

  void given(task_record* t, const place& at);
  /// Nothing happens if it was not given.
  void ended(task_record* t) noexcept;
  /// Looks for new successors. \return whether there are any.
  bool look();
  bool empty() const noexcept { return given_.empty(); }
  /// Is the end of the task, which was given, wanted before that of `next`, which comes behind it
  /// in its stream? So it is if it has a successor, as far as is known by now, that waits for it
  /// alone, or for it and others that were given; or one for which `f(task)` says that it cannot be
  /// given.
  template <class F> bool is_end_wanted(const task_record& t, const task_record* next, F&& f) const {
    for (const link* l = first(t); l; l = l->next) {
      if ((l->target & edge_bits) == hook_edge) return true;
      // address: of what the link was made for
      const auto* const to = reinterpret_cast<task_record*>(l->target & ~edge_bits);
      if (to->marks.load(std::memory_order_relaxed) & task_record::across) continue; // it has an event of its own
      // acquire: what was made of it until it was submitted
      const std::int32_t waits = to == next ? 0 : to->pending.load(std::memory_order_acquire);
      if (waits == 0 || waits >= task_record::not_submitted / 2) continue;
      if (waits == 1 || !f(*to)) return true;
      const auto found = successors_.find(const_cast<task_record*>(to));
      if (found != successors_.end() && static_cast<std::size_t>(waits) == found->second.given()) return true;
    }
    return false;
  }

  /// Calls `f(task, successor&)` for each that is offered, the first to be found first, until one
  /// stays so: `f` sets `is`.
  template <class F> void each_offered(F&& f) {
    find_offered();
    std::size_t n = 0;
    for (; n < offered_.size(); ++n) {
      successor* const s = known(offered_[n], state::offered);
      if (!s) continue;
      f(offered_[n], *s);
      if (s->is == state::offered) break;
      if (s->is == state::prepared) prepared_.push_back(offered_[n]);
    }
    offered_.erase(offered_.begin(), offered_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  /// Is `f(task)` true for one of the first that are offered, or have just been?
  template <class F> bool any_offered(F&& f) const {
    constexpr std::ptrdiff_t some = 32;
    const auto last = offered_.begin() + std::min(some, static_cast<std::ptrdiff_t>(offered_.size()));
    return std::any_of(offered_.begin(), last, [&](task_record* t) {
      const auto found = successors_.find(t);
      return found != successors_.end() && found->second.is != state::watched && f(t);
    });
  }
  /// Calls `f(task, successor&)` for each that was prepared, and has nothing left to wait for but
  /// what is in streams here; `f` sets `is`.
  template <class F> void each_prepared(F&& f) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < prepared_.size(); ++i) {
      task_record* const t = prepared_[i];
      successor* const s = known(t, state::prepared);
      if (!s) continue;
      if (waits_for(*t) == s->given()) f(t, *s);
      if (s->is == state::prepared) prepared_[kept++] = t;
    }
    prepared_.resize(kept);
  }
  /// That copies are brought for.
  std::size_t prepared() const noexcept { return prepared_.size(); }

private:
  struct one {
    task_record* task;
    place at;
    link* seen; ///< what its list began with when it was looked at
  };
  static constexpr std::size_t looked_at = 16; ///< of those that follow others, in each round

  static std::size_t waits_for(const task_record& t) noexcept {
    // acquire: once nothing but what is given is left, the task is the worker's
    return static_cast<std::size_t>(t.pending.load(std::memory_order_acquire));
  }
  static const link* first(const task_record& t) noexcept;
  successor* known(task_record* t, state in) noexcept;
  void tell(task_record* to, const place& at);
  void find_offered();

  std::vector<one> given_;
  std::unordered_map<task_record*, successor> successors_; // address: looked up only
  // In none of them all are known still.
  std::vector<task_record*> fresh_, watched_, offered_, prepared_;
  std::size_t next_watched_ = 0;
};

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A box of cells: an element of the array of all blocks.
///
/// Iteration k needs the field after k iterations and the six layers around it after k iterations,
/// which are messages of the neighbours. One kernel reads all of these as they came, and writes the
/// new field and six fresh layers, which are moved into the messages of iteration k + 1.
///
/// A handler that has all layers of an iteration submits its kernel and sends what that will write.
/// Nothing of it need have been computed, or have arrived: the tasks wait for that, not the
/// handlers. So the whole graph of tasks runs ahead of the data, across ranks, by as many
/// iterations as the plan allows.

#include "apps/jacobi3d/job/plan.hpp"
#include "apps/jacobi3d/kernel/sweep.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include <tern/global/travel.hpp>
#include <tern/mobile/array.hpp>
#include <tern/net/runtime.hpp>

namespace jacobi3d {

/// With a depth D, messages bring boxes that are D cells deep, from all 26 directions, and D
/// iterations follow on them: fewer messages, and cells that stay in caches; but cells around a
/// block are computed by all that have them, and boxes are packed and unpacked.
inline constexpr int direction_count = 27; ///< 13 is no direction
inline cells step_of(int direction) noexcept { return {direction % 3 - 1, direction / 3 % 3 - 1, direction / 9 - 1}; }

/// T is float or double.
template <class T> class block {
public:
  using array = tern::mobile_array<block<T>, 3>; ///< indices z, y, x

  block() = default;
  block(const array& all, const tern::indices<3>& at, const plan& about) : all_(all), at_(at), about_(about) {}

  /// Makes the fields, with what they hold at first. Waits until the device has them.
  void prepare();
  /// Sends the first layers.
  void begin();
  /// The layer beyond side `side` after `iteration` iterations.
  void take(std::int64_t iteration, int side, tern::hetero_object<T> layer);
  /// The same with a depth: what lies in a direction, after `iteration` iterations.
  void take_deep(std::int64_t iteration, int direction, tern::hetero_object<T> cells_there);
  /// What the norm says: so many iterations.
  void go_on(std::int64_t limit);

  /// When all tasks are done: iterations that this has made.
  std::int64_t done() const { return next_; }
  /// Where it is.
  int rank() const { return tern::rank(); }
  std::uint64_t hash() const;
  /// All cells, x fastest.
  std::vector<T> values() const;

  /// Data of devices follow a block that moves. Its tasks go on where they are.
  template <class A> void serialize(A& ar) {
    ar(all_, at_, about_, now_, then_, edge_, arrived_, deep_, first_, nowhere_, most_, next_, limit_, begun_);
  }

private:
  tern::mobile_ptr<block> neighbour(int side) const;
  bool has_neighbour(int side) const noexcept;
  std::int64_t number() const noexcept { return (at_[0] * about_.blocks[1] + at_[1]) * about_.blocks[0] + at_[2]; }
  cells first_cell() const noexcept;
  where on() const;
  layout lies() const noexcept;
  void send_layers(faces<T>& out);
  void advance();
  void iterate();
  void iterate_deep();
  bool has_neighbour(const cells& step) const noexcept;
  bool is_complete(std::int64_t iteration) const;
  void send_deep();
  void wait_for_tasks();
  void submit_norm();

  array all_;
  tern::indices<3> at_{};
  plan about_;
  field<T> now_, then_;             ///< after `next_` iterations; the one before
  faces<T> edge_;                   ///< what lies beyond the grid, by side
  std::array<faces<T>, 2> arrived_; ///< by iteration % 2: a neighbour is one iteration ahead at most
  std::array<std::array<tern::hetero_object<T>, direction_count>, 2> deep_; ///< with a depth, by round % 2
  faces<T> first_;                                                          ///< of `prepare`, for `begin`
  tern::hetero_object<T> nowhere_;                                          ///< where layers go that no block needs
  tern::hetero_object<T> most_;                                             ///< of the norm
  std::int64_t next_ = 0, limit_ = 0;
  bool begun_ = false;
  std::deque<tern::hetero_task> submitted_; ///< the last iterations on this rank, if there is a limit
};

extern template class block<double>;
extern template class block<float>;

} // namespace jacobi3d

// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/job/block.hpp"

#include "apps/jacobi3d/job/course.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <tuple>
#include <utility>

#include <tern/hetero/affinity.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

namespace jacobi3d {
namespace {

// Array indices are z, y, x; sides and cells x, y, z.
std::size_t index_of(int side) { return static_cast<std::size_t>(2 - side / 2); }

} // namespace

template <class T> bool block<T>::has_neighbour(int side) const noexcept {
  const auto d = static_cast<std::size_t>(side / 2);
  const std::int64_t place = at_[index_of(side)];
  return side % 2 == 0 ? place > 0 : place + 1 < about_.blocks[d];
}

template <class T> tern::mobile_ptr<block<T>> block<T>::neighbour(int side) const {
  tern::indices<3> there = at_;
  there[index_of(side)] += side % 2 == 0 ? -1 : 1;
  return all_(there);
}

template <class T> cells block<T>::first_cell() const noexcept {
  const cells size = about_.block_size();
  return {at_[2] * size[0], at_[1] * size[1], at_[0] * size[2]};
}

template <class T> where block<T>::on() const {
  if (about_.kind < 0) return std::nullopt;
  return static_cast<tern::hetero::device_kind>(about_.kind);
}

template <class T> bool block<T>::has_neighbour(const cells& step) const noexcept {
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t place = at_[2 - d] + step[d];
    if (place < 0 || place >= about_.blocks[d]) return false;
  }
  return step != cells{0, 0, 0};
}

template <class T> layout block<T>::lies() const noexcept {
  return layout::of(about_.block_size(), about_.depth > 1 ? about_.depth : 0);
}

template <class T> void block<T>::prepare() {
  const tern::affinity_scope together(static_cast<std::uint64_t>(number()));
  const cells size = about_.block_size(), first = first_cell();
  const layout l = lies();
  const std::string name =
      "block (" + std::to_string(at_[2]) + ", " + std::to_string(at_[1]) + ", " + std::to_string(at_[0]) + ")";
  field<T> initial(l.room, T{0});
  initial.name("the first field of " + name);
  {
    const auto cells_here = initial.host(tern::access_mode::read_write).get();
    const std::int64_t around = about_.depth > 1 ? about_.depth : 0;
    for (std::int64_t z = -around; z < size[2] + around; ++z)
      for (std::int64_t y = -around; y < size[1] + around; ++y)
        for (int s = 0; s < side_count && around > 0; ++s) { // what lies beyond the grid stays
          const auto d = static_cast<std::size_t>(s / 2);
          const std::int64_t place[3] = {0, first[1] + y, first[2] + z};
          if (has_neighbour(s) || beyond(s) == 0) continue;
          for (std::int64_t x = -around; x < size[0] + around; ++x) {
            const std::int64_t there = d == 0 ? first[0] + x : place[d];
            if (s % 2 == 0 ? there < 0 : there >= about_.n[d]) cells_here(l.at(x, y, z)) = static_cast<T>(beyond(s));
          }
        }
    for (std::int64_t z = 0; z < size[2]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y)
        fill_row(about_.n, first[0], first[1] + y, first[2] + z, size[0], &cells_here(l.at(0, y, z)));
  }
  limit_ = about_.first_limit();
  if (about_.norm_every > 0) most_ = tern::hetero_object<T>(size[0] * size[2]);
  if (about_.depth > 1) {
    now_ = field<T>(l.room);
    now_.name("a field of " + name);
    submit_pack<T>({0, 0, 0, l.room}, {{0, 0, 0}, {l.room, 1, 1}}, initial, now_, on());
    then_ = std::move(initial);
    return;
  }
  now_ = field<T>(l.room);
  now_.name("a field of " + name);
  then_ = std::move(initial);
  nowhere_ = tern::hetero_object<T>(1, T{0});
  unsigned sides = 0;
  for (int s = 0; s < side_count; ++s) {
    const auto i = static_cast<std::size_t>(s);
    edge_[i] = tern::hetero_object<T>(face_size(size, s), static_cast<T>(beyond(s)));
    edge_[i].name("what lies beyond " + name);
    first_[i] = has_neighbour(s) ? tern::hetero_object<T>(face_size(size, s)) : nowhere_;
    if (has_neighbour(s)) sides |= 1U << i;
  }
  // An iteration that changes nothing gives the first layers; and kernels are compiled after it.
  submit_sweep<T>({size, 1, sides}, then_, now_, edge_, first_, on()).wait();
}

template <class T> void block<T>::send_layers(faces<T>& out) {
  for (int s = 0; s < side_count; ++s)
    if (has_neighbour(s))
      tern::send<&block<T>::take>(neighbour(s), next_, opposite(s), std::move(out[static_cast<std::size_t>(s)]));
}

template <class T> void block<T>::begin() {
  begun_ = true;
  if (about_.depth > 1)
    send_deep();
  else if (about_.iterations > 0)
    send_layers(first_);
  first_ = {};
  advance(); // layers may have come before this message
}

template <class T> void block<T>::take(std::int64_t iteration, int side, tern::hetero_object<T> layer) {
  arrived_[static_cast<std::size_t>(iteration % 2)][static_cast<std::size_t>(side)] = std::move(layer);
  advance();
}

template <class T> void block<T>::go_on(std::int64_t limit) {
  limit_ = std::max(limit_, limit);
  advance();
}

template <class T> void block<T>::take_deep(std::int64_t iteration, int direction, tern::hetero_object<T> cells_there) {
  deep_[static_cast<std::size_t>(iteration / about_.depth % 2)][static_cast<std::size_t>(direction)] =
      std::move(cells_there);
  advance();
}

template <class T> bool block<T>::is_complete(std::int64_t iteration) const {
  if (about_.depth > 1) {
    const auto& boxes = deep_[static_cast<std::size_t>(iteration / about_.depth % 2)];
    for (int i = 0; i < direction_count; ++i)
      if (has_neighbour(step_of(i)) && !boxes[static_cast<std::size_t>(i)]) return false;
    return true;
  }
  const faces<T>& layers = arrived_[static_cast<std::size_t>(iteration % 2)];
  for (int s = 0; s < side_count; ++s)
    if (has_neighbour(s) && !layers[static_cast<std::size_t>(s)]) return false;
  return true;
}

template <class T> void block<T>::advance() {
  while (begun_ && next_ < limit_ && is_complete(next_)) { // else the missing message calls this again
    if (about_.depth > 1)
      iterate_deep();
    else
      iterate();
  }
}

template <class T> void block<T>::wait_for_tasks() {
  while (static_cast<std::int64_t>(submitted_.size()) > std::max<std::int64_t>(about_.ahead - 1, 0)) {
    submitted_.front().wait();
    submitted_.pop_front();
  }
}

/// Where in a dimension what lies at a step from a block is, or (inner) what the block gives there.
static std::pair<std::int64_t, std::int64_t> range_at(std::int64_t step, std::int64_t size, std::int64_t depth,
                                                      bool inner) {
  if (step == 0) return {0, size};
  if (step < 0) return inner ? std::pair(std::int64_t{0}, depth) : std::pair(-depth, std::int64_t{0});
  return inner ? std::pair(size - depth, size) : std::pair(size, size + depth);
}
static cell_box box_at(const cells& step, const cells& size, std::int64_t depth, bool inner) {
  cell_box b;
  for (std::size_t d = 0; d < 3; ++d) std::tie(b.low[d], b.high[d]) = range_at(step[d], size[d], depth, inner);
  return b;
}

template <class T> void block<T>::send_deep() {
  if (next_ >= about_.iterations) return;
  for (int i = 0; i < direction_count; ++i) {
    const cells step = step_of(i);
    if (!has_neighbour(step)) continue;
    const cell_box from = box_at(step, about_.block_size(), about_.depth, true);
    tern::hetero_object<T> box(count(from.size()));
    submit_pack<T>(lies(), from, now_, box, on());
    tern::send<&block<T>::take_deep>(all_({at_[0] + step[2], at_[1] + step[1], at_[2] + step[0]}), next_,
                                     direction_count - 1 - i, std::move(box));
  }
}

template <class T> void block<T>::iterate_deep() {
  const tern::affinity_scope together(static_cast<std::uint64_t>(number()));
  wait_for_tasks();
  const cells size = about_.block_size(), first = first_cell();
  auto& boxes = deep_[static_cast<std::size_t>(next_ / about_.depth % 2)];
  for (int i = 0; i < direction_count; ++i) {
    tern::hetero_object<T>& box = boxes[static_cast<std::size_t>(i)];
    if (box) submit_unpack<T>(lies(), box_at(step_of(i), size, about_.depth, false), box, now_, on());
    box = tern::hetero_object<T>();
  }
  const std::int64_t rounds = std::min(about_.depth, about_.iterations - next_);
  std::vector<cell_box> swept; // each with one layer less around the block; nothing beyond the grid
  for (std::int64_t around = rounds - 1; around >= 0; --around) {
    cell_box b;
    for (std::size_t d = 0; d < 3; ++d) {
      b.low[d] = std::max(-around, -first[d]);
      b.high[d] = std::min(size[d] + around, about_.n[d] - first[d]);
    }
    swept.push_back(b);
  }
  const float submitted_at = here().seconds();
  tern::hetero_task sweeps = submit_sweeps<T>(lies(), swept, about_.alpha, now_, then_, on());
  if (rounds % 2 == 1) std::swap(now_, then_);
  if (about_.history) {
    rank_course& course = here();
    std::vector<iteration_record> records;
    for (std::int64_t k = 0; k < rounds; ++k) records.push_back({number(), next_ + k, tern::rank(), submitted_at, 0});
    sweeps.then([records, &course](const std::exception_ptr&) mutable {
      for (iteration_record& r : records) {
        r.ended = course.seconds();
        course.history.add(r);
      }
    });
  }
  next_ += rounds;
  if (about_.norm_every > 0 && next_ % about_.norm_every == 0) submit_norm();
  if (about_.ahead == 0)
    sweeps.wait();
  else
    submitted_.push_back(std::move(sweeps));
  send_deep();
}

template <class T> void block<T>::iterate() {
  const tern::affinity_scope together(static_cast<std::uint64_t>(number()));
  wait_for_tasks();
  const cells size = about_.block_size();
  faces<T>& arrived = arrived_[static_cast<std::size_t>(next_ % 2)];
  faces<T> out;
  const bool sends = next_ + 1 < about_.iterations; // if the norm ends the run, nothing needs the last layers
  sweep_numbers how{size, about_.alpha, 0};
  for (int s = 0; s < side_count; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const bool goes = sends && has_neighbour(s);
    out[i] = goes ? tern::hetero_object<T>(face_size(size, s)) : nowhere_;
    if (goes) how.out_sides |= 1U << i;
    if (!has_neighbour(s)) arrived[i] = edge_[i];
  }
  std::swap(now_, then_);
  tern::hetero_task sweep = submit_sweep<T>(how, then_, now_, arrived, out, on());
  for (tern::hetero_object<T>& layer : arrived) layer = tern::hetero_object<T>();
  if (about_.history) {
    rank_course& course = here();
    iteration_record record{number(), next_, tern::rank(), course.seconds(), 0};
    sweep.then([record, &course](const std::exception_ptr&) mutable {
      record.ended = course.seconds();
      course.history.add(record);
    });
  }
  ++next_;
  if (about_.norm_every > 0 && next_ % about_.norm_every == 0) submit_norm();
  if (about_.ahead == 0)
    sweep.wait(); // what is sent has been computed
  else
    submitted_.push_back(std::move(sweep));
  if (sends) send_layers(out);
}

template <class T> void block<T>::submit_norm() {
  submit_change<T>(about_.block_size(), lies(), then_, now_, most_, on());
  tern::submit(
      [iteration = next_](tern::host_view<const T, 1> columns) {
        double change = 0;
        for (std::int64_t i = 0; i < columns.size(); ++i) change = std::max(change, static_cast<double>(columns(i)));
        tern::send<&take_norm>(0, iteration, change);
      },
      tern::read(most_));
}

template <class T> std::uint64_t block<T>::hash() const {
  const auto all = now_.host(tern::access_mode::read).get();
  const cells size = about_.block_size(), first = first_cell(), &n = about_.n;
  const layout l = lies();
  std::uint64_t sum = 0;
  for (std::int64_t z = 0; z < size[2]; ++z)
    for (std::int64_t y = 0; y < size[1]; ++y)
      sum += hash_of(&all(l.at(0, y, z)), size[0], ((first[2] + z) * n[1] + first[1] + y) * n[0] + first[0]);
  return sum;
}

template <class T> std::vector<T> block<T>::values() const {
  const auto all = now_.host(tern::access_mode::read).get();
  const cells size = about_.block_size();
  const layout l = lies();
  std::vector<T> packed;
  packed.reserve(static_cast<std::size_t>(count(size)));
  for (std::int64_t z = 0; z < size[2]; ++z)
    for (std::int64_t y = 0; y < size[1]; ++y)
      packed.insert(packed.end(), &all(l.at(0, y, z)), &all(l.at(0, y, z)) + size[0]);
  return packed;
}

template class block<double>;
template class block<float>;

} // namespace jacobi3d

// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/job/block.hpp"

#include "apps/jacobi3d/job/course.hpp"

#include <algorithm>
#include <exception>
#include <string>
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

template <class T> void block<T>::prepare() {
  const tern::affinity_scope together(static_cast<std::uint64_t>(number()));
  const cells size = about_.block_size(), first = first_cell();
  const std::int64_t room = count(size) + 2 * field_pad;
  const std::string name =
      "block (" + std::to_string(at_[2]) + ", " + std::to_string(at_[1]) + ", " + std::to_string(at_[0]) + ")";
  field<T> initial(room, T{0});
  initial.name("the first field of " + name);
  {
    const auto cells_here = initial.host(tern::access_mode::read_write).get();
    T* const to = &cells_here(field_pad);
    for (std::int64_t z = 0; z < size[2]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y)
        fill_row(about_.n, first[0], first[1] + y, first[2] + z, size[0], to + (z * size[1] + y) * size[0]);
  }
  now_ = field<T>(room);
  now_.name("a field of " + name);
  then_ = std::move(initial);
  nowhere_ = tern::hetero_object<T>(1, T{0});
  if (about_.norm_every > 0) most_ = tern::hetero_object<T>(size[0] * size[2]);
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
  limit_ = about_.first_limit();
}

template <class T> void block<T>::send_layers(faces<T>& out) {
  for (int s = 0; s < side_count; ++s)
    if (has_neighbour(s))
      tern::send<&block<T>::take>(neighbour(s), next_, opposite(s), std::move(out[static_cast<std::size_t>(s)]));
}

template <class T> void block<T>::begin() {
  begun_ = true;
  if (about_.iterations > 0) send_layers(first_);
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

template <class T> void block<T>::advance() {
  while (begun_ && next_ < limit_) {
    const faces<T>& layers = arrived_[static_cast<std::size_t>(next_ % 2)];
    for (int s = 0; s < side_count; ++s)
      if (has_neighbour(s) && !layers[static_cast<std::size_t>(s)]) return; // its message calls this again
    iterate();
  }
}

template <class T> void block<T>::iterate() {
  const tern::affinity_scope together(static_cast<std::uint64_t>(number()));
  while (static_cast<std::int64_t>(submitted_.size()) > std::max<std::int64_t>(about_.ahead - 1, 0)) {
    submitted_.front().wait();
    submitted_.pop_front();
  }
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
  submit_change<T>(about_.block_size(), then_, now_, most_, on());
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
  std::uint64_t sum = 0;
  for (std::int64_t z = 0; z < size[2]; ++z)
    for (std::int64_t y = 0; y < size[1]; ++y)
      sum += hash_of(&all(field_pad + (z * size[1] + y) * size[0]), size[0],
                     ((first[2] + z) * n[1] + first[1] + y) * n[0] + first[0]);
  return sum;
}

template <class T> std::vector<T> block<T>::values() const {
  const auto all = now_.host(tern::access_mode::read).get();
  const T* const begin = &all(field_pad);
  return {begin, begin + count(about_.block_size())};
}

template class block<double>;
template class block<float>;

} // namespace jacobi3d

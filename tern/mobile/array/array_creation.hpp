// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How the elements of arrays are made. Internal; included by array.hpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile::detail {

template <int N> indices<N> place_in(const array_layout& of, std::int64_t linear) noexcept {
  const auto index = of.index_of(linear);
  indices<N> at{};
  for (std::size_t d = 0; d < at.size(); ++d) at[d] = index[d];
  return at;
}

template <class T, int N, class... A> void make_element(const array_ref& array, std::int64_t linear, const A&... args) {
  const array_layout& of = array->layout();
  std::unique_ptr<T> made;
  if constexpr (takes_array<T, N, A...>)
    made.reset(new T(mobile_array<T, N>(array), place_in<N>(of, linear), args...));
  else if constexpr (takes_index<T, N, A...>)
    made.reset(new T(place_in<N>(of, linear), args...));
  else
    made.reset(new T(args...));
  const object_id id = of.id_of(linear);
  directory::here().add(type_of<T>(), made.get(), 0, id);
  static_cast<void>(made.release());
  if (trace::built && trace::on()) [[unlikely]]
    name_in_trace(of, linear);
}

/// On each rank: makes the elements that are born there. What a constructor throws goes to the
/// caller; then the elements from there on do not exist.
template <class T, int N, class... A>
void construct_part(std::uint64_t id, const std::vector<std::uint64_t>& firsts, const rank_tree& tree, A... args) {
  const array_ref array = need_array(id);
  std::vector<future<void>> below;
  tree.for_each_child([&](int child, const rank_tree& part) {
    below.push_back(tern::call<&construct_part<T, N, A...>>(child, id, firsts, part, args...));
  });
  array->place_at(firsts);
  std::exception_ptr first;
  element_pace pace;
  array->for_each(array_box::all_of(array->layout()), [&](std::int64_t linear) {
    try {
      if (!first) return make_element<T, N>(array, linear, args...), pace.step();
    } catch (...) {
      first = std::current_exception();
    }
    array->erase(linear);
  });
  array->queue().open();
  for (auto& one : below) {
    try {
      one.get();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

template <class T, int N, class... A> void insert_element(std::uint64_t id, std::int64_t linear, A... args) {
  const array_ref array = array_for_element(id, linear);
  array->reserve(linear);
  try {
    make_element<T, N>(array, linear, args...);
  } catch (...) {
    array->give_back(linear);
    throw;
  }
  array->insert(linear);
}

/// Makes an array of all ranks, from the calling one.
template <class T, int N, class... A> array_ref make_array(array_plan plan, const A&... args) {
  net::node& here = net::node::here();
  plan.type = type_of<T>().name;
  plan.dimensions = N;
  plan.id = next_array_id();
  check_plan(plan, here.size());
  const rank_tree tree = rank_tree::all();
  const std::vector<std::uint64_t> firsts = reserve_everywhere(plan, tree);
  const array_ref array = need_array(plan.id);
  try {
    tern::call<&construct_part<T, N, typename constructor_argument<std::decay_t<A>>::type...>>(here.rank(), plan.id,
                                                                                               firsts, tree, args...)
        .get();
  } catch (...) {
    end_array(*array).get();
    throw;
  }
  return array;
}

} // namespace tern::mobile::detail

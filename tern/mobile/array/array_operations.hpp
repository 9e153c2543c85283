// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What ranks do together with an array: each operation goes down a binomial tree of all ranks to
/// the homes of the elements. Internal; programs use array.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/mobile/array/array_record.hpp>
#include <tern/mobile/layout/array_route.hpp>
#include <tern/mobile/layout/index_order.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/packing/multicastable.hpp>
#include <tern/task/future.hpp>

namespace tern::mobile::detail {

/// A part of the tree of all ranks that live, below one: those from `first` to before `last`,
/// by their places in the world, counted cyclically from `origin`.
struct rank_tree {
  std::int32_t origin = 0, first = 0, last = 0;

  /// All of them, seen from the calling one.
  static rank_tree all();
  /// Each child, with the part below it.
  std::vector<std::pair<int, rank_tree>> children() const;
  /// Calls `f(rank, part below it)` for each child: the first of the far half of what is left gets
  /// that half.
  template <class F> void for_each_child(F&& f) const {
    for (const auto& [rank, part] : children()) f(rank, part);
  }
};

/// One operation on a section.
struct array_operation {
  std::uint64_t array = 0;
  array_box box;
  array_route route;
  int first() const noexcept { return route.first(); }
  /// The same for other ranks.
  array_operation along(array_route part) const { return {array, box, std::move(part)}; }
  template <class A> void serialize(A& ar) { ar(array, box, route); }
};

/// The calling rank's next one. \throws error(not_found) if the array has been destroyed.
array_operation next_operation(std::uint64_t array, const array_box& box);
/// Of one that has come: the array. \throws error(not_found, invalid_data).
array_ref array_of(const array_operation& op);

/// Runs `what()` in the calling rank's order of operations, and waits until it has run. Throws what
/// it throws.
template <class F> void in_turn(array_record& array, const array_operation& op, F&& what) {
  promise<void> ran;
  future<void> done = ran.get_future();
  array.queue().enter(op.route.origin(), op.route.number(), net::node::here().hold_account(),
                      [&what, ran = std::move(ran)]() mutable { // this fiber waits for it
                        try {
                          what();
                        } catch (...) {
                          ran.set_exception(std::current_exception());
                          return;
                        }
                        ran.set_value();
                      });
  done.get();
}

// Broadcasts ----------------------------------------------------------------------------------------------------------

/// The message that invokes F on an element, with a place for its address: the same bytes for all.
template <auto F, class... A> shared_buffer<std::byte> pack_invocation(priority level, A&&... a) {
  using arguments = typename member_signature<decltype(F)>::arguments;
  const net::detail::multicast_packing told;
  const net::wire_header h{member_handler<F>.id(), net::flag_of(level), 0};
  const byte_buffer message = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return pack_after(sizeof h, address(),
                      net::detail::as_stored<std::tuple_element_t<I, arguments>>(
                          std::forward<A>(a), net::detail::argument_name{h.handler, I + 1})...);
  }
  (std::index_sequence_for<A...>{});
  buffer<std::byte> whole(message.size());
  std::memcpy(whole.data(), message.data(), message.size());
  std::memcpy(whole.data(), &h, sizeof h);
  return shared_buffer<std::byte>(std::move(whole));
}

/// Sends it to an element. \param reply number of the caller that waits; 0: none does.
void post_packed_invocation(net::node& here, object_id to, std::span<const std::byte> message, std::uint64_t reply);
/// Lets other fibers run after so many elements.
class element_pace {
public:
  void step() {
    if (++done_ % 64 == 0) rest();
  }

private:
  static void rest();
  std::uint32_t done_ = 0;
};

/// On each rank: passes it on, and sends it to the elements that were born there.
void broadcast_part(const array_operation& op, const shared_buffer<std::byte>& message);

/// The same, and waits until the invocations have ended. Throws what one of them has thrown.
template <auto F> void call_part(const array_operation& op, const shared_buffer<std::byte>& message) {
  using result = typename member_signature<decltype(F)>::result;
  net::node& here = net::node::here();
  const array_ref array = array_of(op);
  std::vector<future<void>> below;
  op.route.for_each_part([&](array_route part) {
    const int child = part.first();
    below.push_back(tern::call<&call_part<F>>(child, op.along(std::move(part)), message));
  });
  std::vector<future<result>> mine;
  in_turn(*array, op, [&] {
    element_pace pace;
    array->for_each(op.box, [&](std::int64_t linear) {
      const object_id id = array->layout().id_of(linear);
      mine.push_back(net::detail::post_call<result>(here, directory::of(here).home_of(id), [&](std::uint64_t reply) {
        post_packed_invocation(here, id, message, reply);
      }));
      pace.step();
    });
  });
  std::exception_ptr first;
  const auto wait_for = [&](auto& all) {
    for (auto& one : all) {
      try {
        static_cast<void>(one.get());
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
  };
  wait_for(mine);
  wait_for(below);
  if (first) std::rethrow_exception(first);
}

// Reductions ----------------------------------------------------------------------------------------------------------

/// Within a handler: the exception at hand, with function and element, as a call would tell it.
[[noreturn]] void rethrow_of(const std::string& function, object_id id, const std::string& type);
/// What was given by an element that is here and idle: without a message. Nothing if it is busy or
/// elsewhere.
template <auto G, class T, class R> bool ask_at_once(directory& all, object_id id, R& result) {
  const held_access held = all.try_hold(id, type_of<T>(), action::share);
  if (!held.object) return false;
  struct letting_go {
    directory& all;
    const held_access& held;
    ~letting_go() { all.end_hold(held, action::share); }
  } const at_end{all, held};
  const running_invocation frame(all.access(), *held.of, action::share, id.home());
  try {
    result = std::invoke(G, *static_cast<const T*>(held.object));
  } catch (...) {
    rethrow_of(member_handler<G>.name(), id, type_of<T>().name);
  }
  return true;
}

/// On each rank: what the elements that were born there, and those of the ranks below, have given,
/// combined as far as their places are known to be complete.
template <auto G, class T, class Op>
partial_values<typename member_signature<decltype(G)>::result> reduce_part(const array_operation& op) {
  using sig = member_signature<decltype(G)>;
  using result = typename sig::result;
  net::node& here = net::node::here();
  const array_ref array = array_of(op);
  std::vector<future<partial_values<result>>> below;
  op.route.for_each_part([&](array_route part) {
    const int child = part.first();
    below.push_back(tern::call<&reduce_part<G, T, Op>>(child, op.along(std::move(part))));
  });
  partial_values<result> all;
  for (const int home : array->homes()) all.known.cover(array->layout(), home);
  if (array->has_all_homes()) all.known.cover_all(array->layout().total());
  all.values.reserve(std::min(static_cast<std::size_t>(op.box.count()), array->size()));
  std::vector<std::pair<std::size_t, future<result>>> later;
  std::exception_ptr first;
  in_turn(*array, op, [&] {
    [[maybe_unused]] directory& objects = directory::of(here);
    element_pace pace;
    array->for_each(op.box, [&](std::int64_t linear) {
      const object_id id = array->layout().id_of(linear);
      auto& place = all.values.emplace_back();
      place.first = linear;
      try {
        bool answered = false;
        if constexpr (!sig::exclusive) answered = ask_at_once<G, T>(objects, id, place.value);
        if (!answered) later.emplace_back(all.values.size() - 1, tern::call<G>(mobile_ptr<typename sig::object>(id)));
      } catch (...) {
        if (!first) first = std::current_exception();
      }
      pace.step();
    });
  });
  for (auto& [place, one] : later) {
    try {
      all.values[place].value = one.get();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  Op combine{};
  if (!first) all.combine(combine, array->layout().total());
  for (auto& one : below) {
    try {
      all.merge(one.get());
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  all.combine(combine, array->layout().total());
  return all;
}

[[noreturn]] void nothing_to_reduce(const array_layout& of);

/// On the first rank of the route.
template <auto G, class T, class Op>
typename member_signature<decltype(G)>::result reduce_all(const array_operation& op) {
  auto all = reduce_part<G, T, Op>(op);
  const array_ref array = array_of(op);
  Op combine{};
  all.complete(combine, array->layout().total());
  if (all.values.empty()) nothing_to_reduce(array->layout());
  return std::move(all.values.front().value);
}

// Making and ending ---------------------------------------------------------------------------------------------------

/// On each rank: enters the array. \return the first numbers of its elements, of the homes on the
/// calling rank and those below.
std::vector<std::pair<std::int32_t, std::uint64_t>> reserve_part(const array_plan& plan, const rank_tree& tree);
/// The same of all homes, by home.
std::vector<std::uint64_t> reserve_everywhere(const array_plan& plan, const rank_tree& all);
/// All elements that are left end, and the array is forgotten.
void destroy_part(const array_operation& op);
/// The same on all ranks, also those where no element was born.
future<void> end_array(array_record& array);
void erase_element(std::uint64_t array, std::int64_t linear);

/// Where a new element is made. \pre the array's ids are known.
array_ref array_for_element(std::uint64_t array, std::int64_t linear);

} // namespace tern::mobile::detail

template <> inline constexpr bool tern::is_bitwise<tern::mobile::detail::rank_tree> = true;

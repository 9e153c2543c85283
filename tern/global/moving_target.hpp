// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One-sided operations on data of mobile objects, wherever these are.
///
///     class block {
///     public:
///       tern::hetero_view<double> ghost(int side) const { return ghosts_[side]; } // names the view
///       void step(int k);
///       …
///     };
///     tern::put<&block::ghost>(neighbour, side, face, tern::notify<&block::step>(k)); // waits for nothing
///     tern::get<&block::ghost>(neighbour, side, mine);              // into an object of this rank
///     auto copy = tern::get<&block::ghost>(neighbour, side);        // future of an arriving object
///     tern::accumulate<&block::ghost>(neighbour, side, forces, tern::accumulation::plus);
///
/// A function of the object's class names the view, from arguments that are sent. **An operation is
/// an invocation of the object**, which runs that function where the object is, and two tasks, as
/// for a global pointer (pointer.hpp).
///
/// **Order.** The operation takes its place among the view's tasks in its invocation: so it comes
/// in the order of the caller's other invocations of the object, wherever that goes. What writes
/// runs alone on the object, so that there is this order; `get` runs as its function's constness
/// says. A get's writer takes its place among the caller's tasks at the call.
///
/// **The object may move**, go to disk, or end, while an operation's tasks wait: they do not keep
/// it. What moves is read after them, as all that is written before. So data may take their time:
/// nothing waits for them but what needs them.
///
/// **Errors.** Thrown by the call: error(invalid_argument) for a null pointer, and for an argument
/// that does not fit; error(invalid_state) for a source that was moved from, and inside of
/// `recorded::submit`; error(rank_lost) while the job recovers. By `done`, or the future:
/// error(invalid_argument) for another shape than the view's; error(not_found) for an object that
/// is gone; error(rank_lost); what the function throws; and what the task has failed with that was
/// to compute the data. Each names the function, the object, and its rank. O6 of pointer.hpp says
/// what becomes of the target.
///
/// `fence()` covers what returns a `transfer`; `fence(rank)` does not, as these are on any rank. An
/// invocation must not wait for an operation on its own object that runs alone there.
///
/// Threads: fibers of a rank. Source: one-sided operations of MPI-3; targets that move, and that an
/// operation on them is an invocation, are ours (docs/decisions/0105).

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/global/pointer.hpp>
#include <tern/global/target/view_operation.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/message.hpp>
#include <tern/task/future.hpp>

namespace tern {
namespace global::detail {

/// A view as the value of an answer.
template <class U, int M> struct dense_view { hetero_view<U, M> view; };

/// A function that names a view, and the invocation that runs it.
template <auto F> struct view_function : mobile::detail::member_signature<decltype(F)> {
  using signature = mobile::detail::member_signature<decltype(F)>;
  using view = view_of<typename signature::result>;
  static constexpr bool names_view = view::is;
};
template <auto F> using element_at = typename view_function<F>::view::element;
template <auto F> inline constexpr int dimensions_at = view_function<F>::view::dimensions;
template <auto F> using view_at = hetero_view<element_at<F>, dimensions_at<F>>;
template <auto F> using object_at = hetero_object<element_at<F>, dimensions_at<F>>;
/// What travels: the function's arguments, what is to be done, and the data.
template <auto F>
using view_arguments = decltype(std::tuple_cat(std::declval<typename view_function<F>::arguments>(),
                                               std::declval<std::tuple<view_request, object_at<F>>>()));

// Two messages for each function: what changes the view runs alone.
template <auto F, bool Reads>
void take_view(net::node& here, int source, const net::wire_header& h, net::payload& message);
template <auto F, bool Reads>
void take_view_here(net::node& here, int source, const net::wire_header& h, net::payload& message);

template <auto F, bool Reads> struct view_tag {};
template <auto F, bool Reads>
inline const net::handler_record view_handler{
    typeid(view_tag<F, Reads>), net::detail::signature_of<F>(), TERN_THIS_FILE, &take_view<F, Reads>, false,
    &take_view_here<F, Reads>};

template <auto F, bool Reads> std::string describe_view(mobile::object_id id) {
  return mobile::detail::describe_invocation(view_handler<F, Reads>.name(), id,
                                             mobile::detail::type_of<typename view_function<F>::object>().name);
}

template <auto F, bool Reads>
void run_view(net::node& here, void* object, const mobile::address& to, const net::wire_header& h,
              net::payload& message) {
  using of = typename view_function<F>::object;
  constexpr std::size_t n = view_function<F>::arity;
  const view_caller by{here, to.origin(), h.reply, to.object, &describe_view<F, Reads>};
  try {
    auto args = net::detail::unpack_call<view_arguments<F>>(message, sizeof(mobile::address));
    if constexpr (!net::detail::views_message<view_arguments<F>>)
      if (!message.in_place) message = {}; // others can use its memory meanwhile
    const view_request request = std::get<n>(args);
    object_handle data(std::get<n + 1>(args).release_handle());
    view_at<F> view = [&]<std::size_t... I>(std::index_sequence<I...>)->view_at<F> {
      return std::invoke(F, *static_cast<of*>(object), std::get<I>(std::move(args))...);
    }
    (std::make_index_sequence<n>{});
    if (!view) unnamed_view();
    const hetero::detail::box part = view.inside_part();
    const element_type element = element_of<element_at<F>, dimensions_at<F>>();
    if constexpr (Reads) {
      if (request.what == view_action::get) {
        check_get(request, *view.inside(), part, element);
        net::detail::post_answer(here, by.rank, by.reply, dense_view<element_at<F>, dimensions_at<F>>{std::move(view)});
        return;
      }
    } else if (request.what == view_action::fetch) {
      const auto old = object_at<F>::from_handle(
          fetch_from_view(request, local_part(view.release_handle(), part, element, false), std::move(data)));
      net::detail::post_answer(here, by.rank, by.reply, old);
      return;
    }
    change_view(by, request, local_part(view.release_handle(), part, element, false), std::move(data));
  } catch (...) {
    here.reply_error(by.rank, by.reply, std::current_exception(), by.describe(by.object));
  }
}

template <auto F, bool Reads>
inline constexpr mobile::invocable on_view{
    Reads && !view_function<F>::exclusive ? mobile::action::share : mobile::action::exclude,
    &mobile::detail::record_of<typename view_function<F>::object>,
    []() -> const std::string& { return view_handler<F, Reads>.name(); }, &run_view<F, Reads>,
    &net::detail::discard_call<view_arguments<F>, sizeof(mobile::address)>};

template <auto F, bool Reads>
void take_view(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  mobile::directory::of(here).arrive(here, on_view<F, Reads>, source, h, message, false);
}
template <auto F, bool Reads>
void take_view_here(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  mobile::directory::of(here).arrive(here, on_view<F, Reads>, source, h, message, true);
}

/// Says in one line what is wrong. \tparam X what the call was given behind the object, of which
/// the first are the function's arguments and `More` others follow.
template <auto F, class T, std::size_t More, class... X> consteval bool check_view_call() {
  using f = view_function<F>;
  constexpr bool same = std::is_same_v<typename f::object, T>;
  static_assert(same, "the function belongs to another class than the pointer");
  static_assert(f::names_view, "the function names a view: it returns a hetero_view or a hetero_object");
  static_assert(f::travels_well, "an invocation's parameters travel by value: use values or const references, "
                                 "no pointers and no non-const references");
  constexpr bool counts = sizeof...(X) == f::arity + More;
  static_assert(counts, "behind the object come the arguments of the function that names the view, and then those of "
                        "the operation: a source or a target, and what is said of it");
  if constexpr (same && f::names_view && f::travels_well && counts)
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return net::detail::accept_arguments<typename f::arguments, std::tuple_element_t<I, std::tuple<X...>>...>();
    }
  (std::make_index_sequence<f::arity>{});
  else return false;
}

/// Sends the invocation. \param all the function's arguments, and others.
template <auto F, bool Reads, class T, class Data, class... X>
void post_to_view(mobile_ptr<T> on, std::uint64_t reply, const view_request& request, Data&& data,
                  std::tuple<X...>&& all) {
  net::node& here = net::node::here();
  mobile::detail::object_address to{here, mobile::directory::of(here), on.id()};
  to.known.check(to.id);
  try {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      net::detail::post_arguments_to<view_arguments<F>>(here, to, {view_handler<F, Reads>.id(), 0, reply},
                                                        std::tuple(mobile::address()), std::get<I>(std::move(all))...,
                                                        request, std::forward<Data>(data));
    }
    (std::make_index_sequence<view_function<F>::arity>{});
  } catch (...) {
    if (to.chosen) to.known.failed(to.next);
    throw;
  }
  to.throttle();
}

/// \throws error(invalid_state) for one that was moved from.
template <class V> void check_source(const V& source) {
  if constexpr (source_view<V>) static_cast<void>(source.inside());
}

/// `all`: the function's arguments, the source, and others.
template <auto F, class T, class... X>
transfer change_view_of(mobile_ptr<T> on, const view_request& request, std::tuple<X...>&& all) {
  auto&& source = std::get<view_function<F>::arity>(std::move(all));
  check_source(source);
  return transfer(begin_on_view(on.id(), [&](std::uint64_t reply) {
    post_to_view<F, false>(on, reply, request, std::forward<decltype(source)>(source), std::move(all));
  }));
}

/// A call whose answer is an object.
template <auto F, bool Reads, class T, class Data, class... X>
future<object_at<F>> call_view(mobile_ptr<T> on, const view_request& request, Data&& data, std::tuple<X...>&& all) {
  net::node& here = net::node::here();
  mobile::directory::of(here).check(on.id());
  return mobile::detail::post_object_call<object_at<F>>(
      here, on.id(), on_view<F, Reads>.what, view_handler<F, Reads>.name(), [&](std::uint64_t reply) {
        post_to_view<F, Reads>(on, reply, request, std::forward<Data>(data), std::move(all));
      });
}

template <auto F> hetero::detail::object_state* unpack_object(std::span<const std::byte> bytes) {
  return unpack<object_at<F>>(bytes).release_handle();
}

template <class... X> inline constexpr bool ends_with_notification = false;
template <class A> inline constexpr bool is_notification = false;
template <auto F, class... A> inline constexpr bool is_notification<notification<F, A...>> = true;
template <class A, class... X>
inline constexpr bool ends_with_notification<A, X...> =
    is_notification<std::remove_cvref_t<std::tuple_element_t<sizeof...(X), std::tuple<A, X...>>>>;

} // namespace global::detail

namespace detail {

template <class U, int M> struct codec<global::detail::dense_view<U, M>> {
  static constexpr std::size_t min_size = sizeof(global::detail::descriptor);
  template <class A> static void save(A& ar, const global::detail::dense_view<U, M>& x) {
    global::detail::argument<U, M>(x.view, false).save(ar);
  }
};

} // namespace detail

/// `put<&block::ghost>(object, args…, source)`: writes the elements of `source`, a view, an object,
/// or a `compressed` one, to the view that `object->ghost(args…)` names. `std::move(object)` gives
/// it away (travel.hpp). A `notify<&block::f>(more…)` behind it sends that to the object, once the
/// put has its place.
template <auto F, class T, class... X> transfer put(mobile_ptr<T> on, X&&... x) {
  constexpr bool notifies = global::detail::ends_with_notification<X...>;
  if constexpr (global::detail::check_view_call < F, T, notifies ? 2 : 1, X... > ()) {
    auto all = std::forward_as_tuple(std::forward<X>(x)...);
    transfer t = global::detail::change_view_of<F>(on, {global::detail::view_action::put, 0, {}}, std::move(all));
    if constexpr (notifies) global::detail::send_notification(on, std::get<sizeof...(X) - 1>(std::move(all)));
    return t;
  } else {
    return {};
  }
}

/// `get<&block::ghost>(object, args…, target)`: reads the view into a view or object of this rank,
/// of the same extents. Without a target: a future of a new object, which is arriving; the future
/// is ready when the view has been named.
template <auto F, class T, class... X> auto get(mobile_ptr<T> on, X&&... x) {
  using f = global::detail::view_function<F>;
  constexpr bool into = sizeof...(X) != f::arity;
  constexpr bool good = global::detail::check_view_call < F, T, into ? 1 : 0, X... > ();
  if constexpr (good && into) {
    using target = global::detail::view_of<std::remove_cvref_t<std::tuple_element_t<f::arity, std::tuple<X...>>>>;
    using element = global::detail::element_at<F>;
    constexpr bool fits = std::is_same_v<target, global::detail::view_of<global::detail::view_at<F>>> ||
                          std::is_same_v<target, global::detail::view_of<global::detail::object_at<F>>>;
    static_assert(fits, "the target is a view, or an object, of the same elements and dimensions as the view that the "
                        "function names");
    if constexpr (fits) {
      auto all = std::forward_as_tuple(std::forward<X>(x)...);
      global::detail::view_at<F> view(std::get<f::arity>(all));
      static_cast<void>(view.inside()); // moved from
      const hetero::detail::box part = view.inside_part();
      global::detail::view_request request{global::detail::view_action::get, 0, {}};
      for (std::size_t d = 0; d < 3; ++d) request.extent[d] = static_cast<std::int32_t>(part.extent(d));
      return transfer(global::detail::begin_get_of_view(
          on.id(),
          global::detail::local_part(view.release_handle(), part,
                                     global::detail::element_of<element, global::detail::dimensions_at<F>>(), false),
          &global::detail::unpack_object<F>, [&](std::uint64_t reply) {
            global::detail::post_to_view<F, true>(on, reply, request, global::detail::object_at<F>(), std::move(all));
          }));
    } else {
      return transfer();
    }
  } else if constexpr (good) {
    return global::detail::call_view<F, true>(on, {global::detail::view_action::get, 0, {}},
                                              global::detail::object_at<F>(),
                                              std::forward_as_tuple(std::forward<X>(x)...));
  } else {
    return transfer();
  }
}

namespace global::detail {

template <auto F, class T, class... X>
transfer accumulate_on(mobile_ptr<T> on, view_action what, accumulation how, std::tuple<X...>&& all) {
  static_assert(may_accumulate<element_at<F>>, "accumulate: elements are int, unsigned, int64_t, float or double");
  return change_view_of<F>(on, {what, static_cast<std::uint32_t>(how), {}}, std::move(all));
}
/// The element of a tuple that says how; the last but one if `in_order` is the last.
template <std::size_t I, class... X> accumulation how_in(const std::tuple<X...>& all) {
  constexpr bool is = std::is_same_v<std::remove_cvref_t<std::tuple_element_t<I, std::tuple<X...>>>, accumulation>;
  static_assert(is, "behind the source comes how its elements are combined: a tern::accumulation");
  if constexpr (is)
    return std::get<I>(all);
  else
    return accumulation::plus;
}

} // namespace global::detail

/// `accumulate<&block::ghost>(object, args…, source, how)`, and with `in_order` behind it: combines
/// the elements of `source` with those of the view, as for a global pointer.
template <auto F, class T, class... X> transfer accumulate(mobile_ptr<T> on, X&&... x) {
  using f = global::detail::view_function<F>;
  constexpr bool ordered = sizeof...(X) == f::arity + 3;
  if constexpr (global::detail::check_view_call < F, T, ordered ? 3 : 2, X... > ()) {
    auto all = std::forward_as_tuple(std::forward<X>(x)...);
    const accumulation how = global::detail::how_in<f::arity + 1>(all);
    if constexpr (ordered)
      static_assert(
          std::is_same_v<std::remove_cvref_t<std::tuple_element_t<f::arity + 2, std::tuple<X...>>>, in_order_t>,
          "behind how elements are combined comes tern::in_order, or nothing");
    return global::detail::accumulate_on<F>(
        on, ordered ? global::detail::view_action::accumulate_in_order : global::detail::view_action::accumulate, how,
        std::move(all));
  } else {
    return {};
  }
}

/// `fetch_accumulate<&block::ghost>(object, args…, source, how)`: the same, in order, and gives
/// what the elements were before: a future of an arriving object, ready when the view has been
/// named.
template <auto F, class T, class... X> auto fetch_accumulate(mobile_ptr<T> on, X&&... x) {
  using f = global::detail::view_function<F>;
  if constexpr (global::detail::check_view_call<F, T, 2, X...>()) {
    static_assert(global::detail::may_accumulate<global::detail::element_at<F>>,
                  "fetch_accumulate: elements are int, unsigned, int64_t, float or double");
    auto all = std::forward_as_tuple(std::forward<X>(x)...);
    const accumulation how = global::detail::how_in<f::arity + 1>(all);
    auto&& source = std::get<f::arity>(std::move(all));
    global::detail::check_source(source);
    return global::detail::call_view<F, false>(
        on, {global::detail::view_action::fetch, static_cast<std::uint32_t>(how), {}},
        std::forward<decltype(source)>(source), std::move(all));
  } else {
    return future<void>();
  }
}

} // namespace tern

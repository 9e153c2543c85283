// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Arrays of mobile objects: many objects of one class under one name, spread over all ranks.
///
///     struct block {
///       explicit block(const tern::indices<2>& at) : at_(at) {}      // may take its index first
///       void step(double dt);
///       double energy() const;
///       …
///     };
///     tern::mobile_array<block, 2> grid({.name = "grid"}, {64, 64});          // on one rank; it may be sent to others
///     tern::send<&block::step>(grid(3, 7), 0.1);                              // to one element
///     tern::send<&block::step>(grid, 0.1);                                    // to all
///     tern::send<&block::step>(grid.part({0, 0}, {1, 64}), 0.1);              // to a section, here the first row
///     double e = tern::reduce<&block::energy>(grid, std::plus<>()).get();     // the same bits for any placement
///
/// An element is a mobile object like any other: it moves, is balanced, pinned, held and swapped
/// out. `grid(i, j)` is its mobile_ptr, which is computed and costs no message: each rank knows the
/// first number that each rank has reserved for the array's elements (8 bytes for each rank).
///
/// What is sent to an array goes down a tree of all ranks; each rank sends it to those elements
/// that were born there, wherever they are by now. docs/concepts/arrays.md says more.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/extents.hpp>
#include <tern/mobile/array/array_operations.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/layout/array_mapping.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/multicast.hpp>

namespace tern {

template <class T, int N> class mobile_array;
template <class T, int N> class array_section;

/// How an array is made.
struct array_options {
  array_mapping mapping = block_mapping;
  /// It has no elements at first: `insert` makes them.
  bool sparse = false;
  std::string name; ///< for reports, traces and errors; need not differ from others'
};

namespace mobile::detail {

/// \throws as array_layout; error(invalid_argument) if a dense array's own mapping gives no rank.
void check_plan(const array_plan& plan, int ranks);

template <int N>
std::array<std::int64_t, 3> in_three(const std::array<std::int64_t, static_cast<std::size_t>(N)>& of,
                                     std::int64_t rest) noexcept {
  std::array<std::int64_t, 3> all{rest, rest, rest};
  for (std::size_t d = 0; d < of.size(); ++d) all[d] = of[d];
  return all;
}

/// How T's constructor takes an element's place: with its array, alone, or not at all.
template <class T, int N, class... A>
inline constexpr bool takes_array =
    std::is_constructible_v<T, const mobile_array<T, N>&, const indices<N>&, const A&...>;
template <class T, int N, class... A>
inline constexpr bool takes_index = std::is_constructible_v<T, const indices<N>&, const A&...>;
template <class T, int N, class... A>
inline constexpr bool makes_elements =
    takes_array<T, N, A...> || takes_index<T, N, A...> || std::is_constructible_v<T, const A&...>;

template <class T, int N, class... A> array_ref make_array(array_plan plan, const A&... args);
template <class T, int N, class... A> void insert_element(std::uint64_t id, std::int64_t linear, A... args);
template <int N> indices<N> place_in(const array_layout& of, std::int64_t linear) noexcept;

[[noreturn]] void null_array();
void name_in_trace(const array_layout& of, std::int64_t linear) noexcept;
/// The running invocation's object: its array and linear index. \throws error(invalid_state)
/// outside an invocation, or if its object is no element of an array of `dimensions`.
std::pair<array_ref, std::int64_t> running_element(int dimensions);
/// The elements of the box that are on the calling rank, in order.
std::vector<std::int64_t> elements_here(const array_record& array, const array_box& box);

} // namespace mobile::detail

/// A part of an array: a box of indices, of which it may have every n-th only. A value, which may
/// be sent. Copies name the same elements. Thread-safe as a shared_ptr.
template <class T, int N> class array_section {
public:
  using element = T;
  static constexpr int dimensions = N;

  /// Of no array.
  array_section() noexcept = default;
  /// Indices from `low` to before `high`, every `step`th, counted within this section. \throws
  /// error(invalid_argument) for an empty part, and one that goes outside.
  array_section part(const indices<N>& low, const indices<N>& high, const indices<N>& step = ones()) const {
    using mobile::detail::in_three;
    return {array_, box_.part(layout(), in_three<N>(low, 0), in_three<N>(high, 1), in_three<N>(step, 1))};
  }
  /// How many indices it has. A sparse array has fewer elements.
  std::int64_t count() const noexcept { return box_.count(); }

  template <class A> void save(A& ar) const { ar(id_, box_); }
  template <class A> void load(A& ar) {
    ar(id_, box_);
    array_ = id_ ? mobile::detail::find_array(id_) : nullptr;
  }

  /// For the functions below.
  std::uint64_t id() const {
    if (!id_) mobile::detail::null_array();
    return id_;
  }
  const mobile::detail::array_box& box() const noexcept { return box_; }

private:
  friend class mobile_array<T, N>;
  array_section(mobile::detail::array_ref array, const mobile::detail::array_box& box)
      : array_(std::move(array)), id_(array_->layout().plan().id), box_(box) {}
  static constexpr indices<N> ones() noexcept {
    indices<N> all{};
    all.fill(1);
    return all;
  }
  const mobile::detail::array_layout& layout() const {
    if (!array_) [[unlikely]]
      static_cast<void>(mobile::detail::need_array(id()));
    return array_->placed();
  }
  mobile::detail::array_ref array_;
  std::uint64_t id_ = 0;
  mobile::detail::array_box box_;
};

/// An array of mobile objects of class T in N dimensions, 1 to 3. A value, as a mobile_ptr: copies
/// name the same array, and it may be sent to any rank. The array and its elements live until
/// `destroy` or the end of the job, whatever becomes of the values.
///
/// *Dense* arrays have an element at each index from the beginning; *sparse* ones have those that
/// `insert` has made. Each index has at most one element in the array's life. Elements end by
/// `erase`, not by `destroy(mobile_ptr)`: a broadcast to an element that has ended in another way
/// ends the job, as any invocation of a pointer to an object that is gone.
///
/// T's constructor may take the element's place before the other arguments: `T(const
/// indices<N>&, args…)`; or the array and the place: `T(const mobile_array<T, N>&, const
/// indices<N>&, args…)`. It may name other elements, and must not invoke them: they may not be
/// there yet.
///
/// Threads: any worker thread of a rank.
template <class T, int N = 1> class mobile_array {
  static_assert(N >= 1 && N <= 3, "arrays have one to three dimensions");

public:
  using element = T;
  static constexpr int dimensions = N;

  /// Of no array: every use but copying is error(invalid_argument).
  mobile_array() noexcept = default;
  /// Makes an array with elements on all ranks, T(args…) each. One rank calls it, in a fiber, and
  /// waits until all elements are there. The arguments are sent to all ranks. \throws
  /// error(invalid_argument) for extents below 1, more than 2^38 elements, and a mapping that gives
  /// no rank, with array, element and rank; what a constructor throws, and then there is no array.
  template <class... A>
  explicit mobile_array(const extents<N>& size, A&&... args)
      : mobile_array(array_options{}, size, std::forward<A>(args)...) {}
  template <class... A> mobile_array(const array_options& how, const extents<N>& size, A&&... args) {
    static_assert(
        mobile::detail::makes_elements<T, N, typename mobile::detail::constructor_argument<std::decay_t<A>>::type...>,
        "no constructor of the class takes these arguments, alone or behind an element's place");
    mobile::detail::array_plan plan;
    plan.size = mobile::detail::in_three<N>(size, 1);
    plan.sparse = how.sparse;
    plan.mapping = how.mapping;
    plan.name = how.name;
    array_ = mobile::detail::make_array<T, N>(std::move(plan), args...);
    id_ = array_->layout().plan().id;
    look_up();
  }

  /// The element at a place, which need not exist. At no message. \throws error(invalid_argument)
  /// for an index outside, naming array, index and extents; and for the mapping's mistakes.
  template <class... I>
  requires(sizeof...(I) == N && (std::is_integral_v<I> && ...)) mobile_ptr<T>
  operator()(I... i) const {
    const mobile::detail::array_layout& l = layout();
    return mobile_ptr<T>(l.id_of(l.linear(i...)));
  }
  mobile_ptr<T> operator()(const indices<N>& at) const {
    return std::apply([&](auto... i) { return (*this)(i...); }, at);
  }
  extents<N> size() const {
    extents<N> e{};
    for (std::size_t d = 0; d < e.size(); ++d) e[d] = layout().plan().size[d];
    return e;
  }
  /// The name that it was made with.
  const std::string& name() const { return layout().plan().name; }
  /// The rank where the element at a place is born. \throws as `operator()`.
  int home(const indices<N>& at) const { return (*this)(at).home(); }
  explicit operator bool() const noexcept { return id_ != 0; }

  /// All of it.
  array_section<T, N> all() const { return {shared(), mobile::detail::array_box::all_of(layout())}; }
  /// As array_section::part.
  array_section<T, N> part(const indices<N>& low, const indices<N>& high,
                           const indices<N>& step = array_section<T, N>::ones()) const {
    return all().part(low, high, step);
  }

  /// Makes the element at a place of a sparse array, where it is born. The future is set when it is
  /// there: what is sent to the array later reaches it. It throws error(already_exists) if the
  /// index has an element, or has had one, and what the constructor throws. \throws
  /// error(invalid_argument) for an index outside.
  template <class... A> future<mobile_ptr<T>> insert(const indices<N>& at, A&&... args) const {
    using namespace mobile::detail;
    static_assert(makes_elements<T, N, typename constructor_argument<std::decay_t<A>>::type...>,
                  "no constructor of the class takes these arguments, alone or behind an element's place");
    const mobile_ptr<T> one = (*this)(at);
    const std::int64_t linear = *layout().linear_of(one.id());
    return tern::call<&mobile::detail::insert_element<T, N, typename constructor_argument<std::decay_t<A>>::type...>>(
               one.home(), id_, linear, std::forward<A>(args)...)
        .then([one](future<void> made) {
          made.get();
          return one;
        });
  }
  /// Ends the element at a place, after what has been sent to the array before by this rank, if
  /// that has come. The future is set when it is gone; it throws error(not_found), with the
  /// element, if there is none. \throws error(invalid_argument) for an index outside.
  future<void> erase(const indices<N>& at) const {
    const mobile_ptr<T> one = (*this)(at);
    return tern::call<&mobile::detail::erase_element>(one.home(), id_, *layout().linear_of(one.id()));
  }

  /// The same array?
  bool operator==(const mobile_array& other) const noexcept { return id_ == other.id_; }
  template <class A> void save(A& ar) const { ar(id_); }
  template <class A> void load(A& ar) {
    ar(id_);
    array_ = id_ ? mobile::detail::find_array(id_) : nullptr;
    look_up();
  }

  /// For the functions below, and the runtime.
  std::uint64_t id() const {
    if (!id_) mobile::detail::null_array();
    return id_;
  }
  explicit mobile_array(mobile::detail::array_ref array) : array_(std::move(array)), id_(array_->layout().plan().id) {
    look_up();
  }

private:
  const mobile::detail::array_layout& layout() const {
    if (layout_) [[likely]]
      return *layout_;
    if (!array_) static_cast<void>(mobile::detail::need_array(id())); // it has been destroyed: throws
    return array_->placed();
  }
  void look_up() noexcept { layout_ = array_ && array_->is_placed() ? &array_->layout() : nullptr; }
  const mobile::detail::array_ref& shared() const {
    static_cast<void>(layout());
    return array_;
  }
  const mobile::detail::array_layout* layout_ = nullptr; ///< of `array_`; null: its ids were not known when it came
  mobile::detail::array_ref array_; ///< null: none, or one that had been destroyed when the value came here
  std::uint64_t id_ = 0;
};

namespace mobile::detail {

template <class S> inline constexpr bool is_section = false;
template <class T, int N> inline constexpr bool is_section<mobile_array<T, N>> = true;
template <class T, int N> inline constexpr bool is_section<array_section<T, N>> = true;
/// An array or a section of one.
template <class S>
concept section = is_section<S>;

template <class T, int N> array_section<T, N> as_section(const mobile_array<T, N>& of) { return of.all(); }
template <class T, int N> const array_section<T, N>& as_section(const array_section<T, N>& of) { return of; }

template <auto F, class T, class... A> consteval bool check_broadcast() {
  if constexpr (check_invocation<F, T, A...>()) {
    constexpr bool fine = !net::detail::has_remote_promise<typename member_signature<decltype(F)>::arguments>;
    static_assert(fine, "a remote_promise cannot go to many objects at once: send each of them a share() of it");
    return fine;
  } else {
    return false;
  }
}

} // namespace mobile::detail

/// Invokes F on each element of an array or section that exists when its home takes the message in.
/// The arguments are packed once, and go down a binomial tree of all ranks. Each element gets the
/// invocation exactly once, also while it moves.
///
/// Operations on an array (`send`, `call`, `reduce`, `destroy`) that *one rank* has begun one after
/// the other reach each element in that order. Between those of several ranks there is no order;
/// nor between an operation on the array and an invocation of an element by its own mobile_ptr:
/// these may overtake each other.
///
/// An exception ends the job, as for `send` to an object. \throws error(not_found) for an array
/// that has been destroyed; else as `send` to an object.
template <auto F, mobile::detail::section S, class... A> void send(const S& to, A&&... args) {
  if constexpr (mobile::detail::check_broadcast<F, typename S::element, A...>()) {
    using namespace mobile::detail;
    const auto& section = as_section(to);
    const auto message = pack_invocation<F>(priority::normal, std::forward<A>(args)...);
    const array_operation op = next_operation(section.id(), section.box());
    tern::send<&broadcast_part>(op.first(), op, message);
  }
}

/// As `send`, with a future that is set when all those invocations have ended. Results are dropped:
/// `reduce` collects them. The future throws what one of the invocations has thrown, with the
/// function's and the element's name, after all have ended. An exclusive invocation of an element
/// must not wait for a call or reduction that its own element takes part in.
template <auto F, mobile::detail::section S, class... A> future<void> call(const S& to, A&&... args) {
  if constexpr (mobile::detail::check_broadcast<F, typename S::element, A...>()) {
    using namespace mobile::detail;
    const auto& section = as_section(to);
    const auto message = pack_invocation<F>(priority::normal, std::forward<A>(args)...);
    const array_operation op = next_operation(section.id(), section.box());
    return tern::call<&call_part<F>>(op.first(), op, message);
  } else {
    return {};
  }
}

/// Asks each element of an array or section for G(), and combines the answers with `op`, which is
/// associative and has no state, in the order of the indices: the last dimension runs fastest.
/// `op` need not be commutative. The parentheses depend on nothing but which indices have elements:
/// floating-point sums have the same bits for any placement, mapping, and number of ranks.
///
/// With `block_mapping`, the ranks combine what they have, and each message carries a few values;
/// with others all values go to the calling rank. A `const` G runs in place on elements that are
/// idle where they were born, one after the other: it must not wait for other elements' G, nor for
/// another operation on the array.
///
/// The future throws error(not_found) if there is no element, and what G has thrown, with the
/// function's and the element's name. G takes no arguments; its result and `op` are what `reduce`
/// of ranks takes.
template <auto G, mobile::detail::section S, class Op>
auto reduce(const S& of, Op) -> future<typename mobile::detail::member_signature<decltype(G)>::result> {
  using namespace mobile::detail;
  using result = typename member_signature<decltype(G)>::result;
  static_assert(!std::is_void_v<result>, "a function that is reduced gives a value");
  static_assert(std::is_empty_v<Op> && std::is_default_constructible_v<Op>,
                "the operation runs on all ranks, so it has no state: a function object such as std::plus<>, or a "
                "lambda without captures");
  static_assert(std::is_default_constructible_v<result>, "the values need a default constructor, to be unpacked");
  if constexpr (check_invocation<G, typename S::element>()) {
    const auto& section = as_section(of);
    const array_operation op = next_operation(section.id(), section.box());
    return tern::call<&reduce_all<G, typename S::element, Op>>(op.first(), op);
  } else {
    return {};
  }
}

/// Ends all elements of an array, after what this rank has sent to it before, and the array. The
/// future is set when all are gone. Its use by any rank is error(not_found) from then on; what
/// other ranks send meanwhile ends the job.
template <class T, int N> future<void> destroy(const mobile_array<T, N>& array) {
  return mobile::detail::end_array(*mobile::detail::need_array(array.id()));
}

/// Calls `f(indices, element&)` for each element of an array or section that is on the calling rank
/// at the moment, in the order of the indices, with exclusive access to it (`hold`). Those that
/// leave or end meanwhile are left out. \throws error(deadlock) as `hold`, and what `f` throws.
template <mobile::detail::section S, class F> void for_each_here(const S& of, F&& f) {
  using namespace mobile::detail;
  using element = typename S::element;
  const auto& section = as_section(of);
  const array_ref array = need_array(section.id());
  const array_layout& layout = array->placed();
  for (const std::int64_t linear : elements_here(*array, section.box()))
    if (auto mine = hold(mobile_ptr<element>(layout.id_of(linear)))) f(place_in<S::dimensions>(layout, linear), *mine);
}

/// Within an invocation of an array's element: its place. \throws error(invalid_state) outside an
/// invocation, and on an object that is no element of an array of N dimensions.
template <int N> indices<N> array_index() {
  const auto [array, linear] = mobile::detail::running_element(N);
  return mobile::detail::place_in<N>(array->layout(), linear);
}

} // namespace tern

#include <tern/mobile/array/array_creation.hpp> // IWYU pragma: keep

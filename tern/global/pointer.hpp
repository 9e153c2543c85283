// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Global pointers: any rank puts data into an object of another, gets them from there, and adds to
/// them.
///
///     tern::hetero_object<double> ghosts(n);
///     const tern::exported<double> open(ghosts);                    // as long as it lives
///     tern::send<&meet>(neighbour, open.ptr());                     // a pointer is a value like any
///
///     void meet(tern::global_ptr<double> there) {                   // on the neighbour
///       tern::submit(pack, tern::items(n), n, tern::read(field), tern::write(face)); // on any device
///       tern::put(face, there, tern::notify<&arrived>(step));       // waits for nothing
///       const auto copy = tern::get(there);                         // an arriving object
///       tern::accumulate(weights, there, tern::accumulation::plus);
///     }
///
/// **One rule: an operation is two tasks** (travel.hpp). At the source a task reads the data,
/// submitted where the operation is called. At the target a task writes them. All operations
/// return at once; the order of tasks protects both objects, and says how failures spread.
///
/// **Order**
/// - **O1** An operation takes its place among the target's tasks when its announcement is handled
///   on the owner, which is where messages arrive. A get's writer takes its place among the
///   initiator's tasks at the call.
/// - **O2** Announcements of one fiber to one rank are handled in the order of its calls, messages
///   included: after `put`, then `send<&f>`, tasks that `f` submits see the put.
/// - **O3** Operations of different fibers or ranks take their places in some order, which is the
///   same for all readers. No reader finds a mixture, as each is one task. Accumulates commute with
///   each other; those that are `in_order` keep the order of their announcements.
/// - **O4** `transfer::done()`: the data are in the target. `notify<&h>(…)`: `h` runs on the owner
///   once the put has its *place*, not its data.
/// - **O5** `fence(rank)`, `fence()`: ready when all that the calling rank has announced before is
///   done; `fence()` also covers operations on mobile objects (moving_target.hpp). A quiescent job
///   (`quiesce`) is a fence.
/// - **O6** An operation that fails fails its `done`, and as a task those that need its data: what
///   reads these elements of the target later, until they are written anew. One that got no place,
///   as the export had ended, leaves the target as it was. A failure that no `done` was asked about
///   comes out of the next fence that covers it, else is logged at the end of the job.
///
/// A put's data wait for no task of the target: they are kept aside until it may be written. So two
/// puts in opposite directions do not wait for each other. Two *gets* in opposite directions do,
/// if each one's target is what the other reads: by O1 no order of them exists. Get into another
/// object.
///
/// **Errors.** Thrown by the call: error(invalid_argument) for elements of another type, another
/// shape, a pointer that is none, is damaged, or is of a rank that does not exist;
/// error(rank_lost) for an owner that is known to be dead; error(invalid_state) inside of
/// `recorded::submit`. By `done`: error(not_found) where the export has ended, with the object, its
/// owner, and where it was exported; error(rank_lost) where the owner died meanwhile; and what the
/// task has failed with that was to compute the data.
///
/// Threads: fibers of a rank. Source: one-sided operations of MPI-3 and of Thomadakis and
/// Chrisochoides 2024; tasks in place of epochs and completion are ours.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/global/pointer/global_place.hpp>
#include <tern/global/pointer/operation.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/message.hpp>
#include <tern/task/future.hpp>

namespace tern {

template <class T, int N> class exported;

/// Names elements of an object of any rank. A value of 32 bytes: copy, compare, hash, send and
/// store it, on any rank of the job. It does not keep what it names: that ends with the `exported`.
/// No other export of the job has an equal one until about 260,000 others of its rank have ended.
/// Threads: as an int.
template <class T, int N = 1> class global_ptr {
public:
  using element = T;
  static constexpr int dimensions = N;

  global_ptr() = default; ///< names nothing
  int owner() const noexcept { return place_.owner(); }
  extents<N> size() const noexcept {
    extents<N> e;
    for (int d = 0; d < N; ++d) e[static_cast<std::size_t>(d)] = extent(d);
    return e;
  }
  std::int64_t extent(int d) const noexcept { return place_.extent[static_cast<std::size_t>(3 - N + d)]; }
  std::int64_t count() const noexcept { return place_.count(); } ///< elements

  /// Elements from `low` up to `high`, not included, counted within these. \throws
  /// error(invalid_argument) for a part that is empty or outside, or of nothing.
  global_ptr part(const extents<N>& low, const extents<N>& high) const {
    global_ptr p = *this;
    for (int d = 0; d < N; ++d) {
      const auto i = static_cast<std::size_t>(d);
      p.place_.narrow(3 - N + d, low[i], high[i], global::detail::element_of<T, N>());
    }
    return p;
  }
  /// From index `first` up to `last` in the first dimension.
  global_ptr rows(std::int64_t first, std::int64_t last) const {
    extents<N> low{}, high = size();
    low[0] = first;
    high[0] = last;
    return part(low, high);
  }

  explicit operator bool() const noexcept { return static_cast<bool>(place_); }
  friend bool operator==(const global_ptr&, const global_ptr&) = default;
  friend auto operator<=>(const global_ptr&, const global_ptr&) = default;
  /// "global_ptr<double, 2> to 3 x 4 of rank 1"
  std::string text() const { return place_.text(global::detail::element_of<T, N>()); }
  /// For this layer.
  const global::detail::global_place& inside() const noexcept { return place_; }

private:
  friend class exported<T, N>;
  explicit global_ptr(const global::detail::global_place& p) noexcept : place_(p) {}
  global::detail::global_place place_;
};
template <class T, int N> inline constexpr bool is_bitwise<global_ptr<T, N>> = true;

/// Makes a view's elements reachable from all ranks, as long as it lives. Operations that are
/// announced later fail with error(not_found); those that were announced before are served. The
/// object itself lives on until these have ended.
/// Move-only. Threads: a fiber of the object's rank.
template <class T, int N = 1> class exported {
public:
  exported() = default; ///< exports nothing
  /// \throws error(invalid_state) for a view that was moved from; error(out_of_memory) for more
  /// than 262,143 exports of a rank at a time.
  explicit exported(const hetero_view<T, N>& view, std::source_location where = std::source_location::current())
      : entry_(global::detail::enter_export(hetero_view<T, N>(view).release_handle(), view.inside_part(),
                                            global::detail::element_of<T, N>(), where)) {}
  exported(exported&&) noexcept = default;
  exported& operator=(exported&&) noexcept = default;
  global_ptr<T, N> ptr() const noexcept { return global_ptr<T, N>(entry_.place()); }
  explicit operator bool() const noexcept { return static_cast<bool>(entry_.place()); }

private:
  global::detail::export_entry entry_;
};
template <class T, int N> exported(const hetero_view<T, N>&) -> exported<T, N>;
template <class T, int N> exported(const hetero_object<T, N>&) -> exported<T, N>;

/// An operation under way. A handle: it may go, and the operation goes on.
class transfer {
public:
  transfer() = default;
  explicit transfer(std::shared_ptr<global::detail::operation> of) noexcept : of_(std::move(of)) {}
  /// Ready when the data are in the target, with what it failed with. May be asked for more than
  /// once. Who asks has seen the failure: no fence tells of it. \throws error(invalid_state) for a
  /// handle to none.
  shared_future<void> done() const;

private:
  std::shared_ptr<global::detail::operation> of_;
};

/// How numbers are combined.
enum class accumulation : std::uint8_t { plus, min, max };
struct in_order_t {};
/// Accumulates that are not to commute with each other: results of floating-point sums of one fiber
/// are the same in each run.
inline constexpr in_order_t in_order;

namespace global::detail {

template <auto F, class... A> struct notification { std::tuple<A...> arguments; };
template <class V> struct view_of { static constexpr bool is = false; };
template <class T, int N> struct view_of<hetero_view<T, N>> {
  static constexpr bool is = true;
  using element = T;
  static constexpr int dimensions = N;
};
template <class T, int N> struct view_of<hetero_object<T, N>> : view_of<hetero_view<T, N>> {};
template <class V>
concept source_view = view_of<std::remove_cvref_t<V>>::is;

/// A source, or a target, that is on this rank, beside a pointer.
template <class V, class U, int M> local_part part_for(const char* what, V&& v, const global_ptr<U, M>& p) {
  using of = view_of<std::remove_cvref_t<V>>;
  const element_type mine = element_of<typename of::element, of::dimensions>();
  const element_type theirs = element_of<U, M>();
  check_part_for(what, v.inside(), v.inside_part(), mine, p.inside(), theirs);
  constexpr bool gives = !std::is_lvalue_reference_v<V> && !std::is_const_v<V>;
  const hetero::detail::box part = v.inside_part();
  hetero_view<typename of::element, of::dimensions> handle(std::forward<V>(v));
  return {handle.release_handle(), part, mine, gives};
}

template <class T>
inline constexpr bool may_accumulate =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, std::int64_t> ||
    std::is_same_v<T, float> || std::is_same_v<T, double>;

/// \param to a rank, or a mobile object.
template <class To, auto F, class... A> void send_notification(const To& to, notification<F, A...>&& n) {
  std::apply([&](A&... a) { send<F>(to, std::forward<A>(a)...); }, n.arguments);
}

} // namespace global::detail

/// To be run on the owner with a put: `notify<&h>(args…)`. `h` is a handler, as for `send`. It is
/// sent right behind the put: so it also runs where the put cannot take its place.
template <auto F, class... A> global::detail::notification<F, A...> notify(A&&... args) {
  return {std::tuple<A...>(std::forward<A>(args)...)};
}

/// Writes the elements of `source`, a view or object, to what `to` names. Both have the same
/// elements and extents. `std::move(object)` gives it away (travel.hpp).
template <global::detail::source_view V, class U, int M> transfer put(V&& source, const global_ptr<U, M>& to) {
  return transfer(global::detail::begin_put(global::detail::part_for("put", std::forward<V>(source), to), to.inside()));
}
template <global::detail::source_view V, class U, int M, auto F, class... A>
transfer put(V&& source, const global_ptr<U, M>& to, global::detail::notification<F, A...> then) {
  transfer t = put(std::forward<V>(source), to);
  global::detail::send_notification(to.owner(), std::move(then));
  return t;
}

/// Reads the elements that `from` names into `target`, a view or object of this rank.
template <global::detail::source_view V, class U, int M> transfer get(const global_ptr<U, M>& from, V&& target) {
  return transfer(global::detail::begin_get(global::detail::part_for("get", hetero_view(target), from), from.inside()));
}
/// The same into a new object, which is arriving. A failure comes out of the tasks that need it.
template <class T, int N> hetero_object<T, N> get(const global_ptr<T, N>& from) {
  return hetero_object<T, N>::from_handle(global::detail::begin_get_new(
      global::detail::element_of<T, N>(), hetero::detail::name_of_element<T>(), from.inside()));
}

/// Adds the elements of `source` to those that `to` names, or takes the smaller or larger ones.
/// \tparam U int, unsigned, std::int64_t, float or double.
template <global::detail::source_view V, class U, int M>
transfer accumulate(V&& source, const global_ptr<U, M>& to, accumulation how) {
  static_assert(global::detail::may_accumulate<U>, "accumulate: elements are int, unsigned, int64_t, float or double");
  return transfer(global::detail::begin_accumulate(global::detail::part_for("accumulate", std::forward<V>(source), to),
                                                   to.inside(), how, false));
}
template <global::detail::source_view V, class U, int M>
transfer accumulate(V&& source, const global_ptr<U, M>& to, accumulation how, in_order_t) {
  static_assert(global::detail::may_accumulate<U>, "accumulate: elements are int, unsigned, int64_t, float or double");
  return transfer(global::detail::begin_accumulate(global::detail::part_for("accumulate", std::forward<V>(source), to),
                                                   to.inside(), how, true));
}
/// The same, and gives what the elements were before, as an arriving object. In the order of
/// announcements.
template <global::detail::source_view V, class U, int M>
hetero_object<U, M> fetch_accumulate(V&& source, const global_ptr<U, M>& to, accumulation how) {
  static_assert(global::detail::may_accumulate<U>, "accumulate: elements are int, unsigned, int64_t, float or double");
  return hetero_object<U, M>::from_handle(
      global::detail::begin_fetch_accumulate(global::detail::part_for("fetch_accumulate", std::forward<V>(source), to),
                                             hetero::detail::name_of_element<U>(), to.inside(), how));
}

/// Ready when all that this rank has announced to `rank` so far is done. \throws
/// error(invalid_argument) for a number that is no rank. The future throws the first failure that
/// no `done` was asked about.
future<void> fence(int rank);
/// The same for all ranks.
future<void> fence();

namespace global {
/// What the calling rank has announced and served, for tests and statistics.
struct pointer_counts {
  std::uint64_t announced = 0; ///< operations
  std::uint64_t finished = 0;  ///< of those; failed ones too
  std::uint64_t failed = 0;    ///< of those
  std::uint64_t served = 0;    ///< of other ranks, and its own, on objects of this rank
  std::uint64_t serving = 0;   ///< of those: not done
  std::uint64_t aside = 0;     ///< puts whose data came before they could be written
  std::uint64_t adopted = 0;   ///< of whole objects, whose memory became the object's
  std::uint64_t answers = 0;   ///< messages that said so of one or more
  std::uint64_t exports = 0;   ///< that live
};
/// Any thread of a rank. \throws error(invalid_state) elsewhere.
pointer_counts count_pointers();
} // namespace global

} // namespace tern

template <class T, int N> struct std::hash<tern::global_ptr<T, N>> {
  std::size_t operator()(const tern::global_ptr<T, N>& p) const noexcept { return p.inside().hash(); }
};

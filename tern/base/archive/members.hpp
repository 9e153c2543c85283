// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The members of an aggregate, found at compile time: how many there are, and a visit of all of
/// them. Internal.
///
/// The count is the largest n for which `T{{}, {}, …}` with n braces is valid: `{}` initialises
/// exactly one member, an array too. It costs one check more than there are members, and nothing
/// for a class that is never asked about. (After Boost.PFR, which counts with values instead of
/// braces and so takes an array for several members.)

#include <type_traits>
#include <utility>

namespace tern::detail {

inline constexpr int members_most = 16;
// What `member_count` gives besides a number of members.
inline constexpr int members_unknown = -1; ///< a member cannot be initialised by `{}`
inline constexpr int members_in_base = -2; ///< the class has a base class

/// Converts to what a member of T may be.
template <class T> struct any_member {
  template <class U>
  requires(!std::is_same_v<std::remove_cvref_t<U>, T>) operator U() const; // NOLINT(google-explicit-constructor)
};
/// Converts to base classes of T only.
template <class T> struct any_base {
  template <class U>
  requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>) operator U() const; // NOLINT(google-explicit-constructor)
};
/// Converts to nothing: a member that takes it takes anything.
struct no_base {};

/// Is `T{{}, …, {}, last…}` valid, with N braces?
template <class T, int N, class... Last> consteval bool takes_braces() {
#define TERN_BRACES(n, ...)                                                                                            \
  if constexpr (N == (n)) return requires {                                                                            \
      T{__VA_ARGS__ __VA_OPT__(, ) Last{}...};                                                                         \
    };
  TERN_BRACES(0)
  TERN_BRACES(1, {})
  TERN_BRACES(2, {}, {})
  TERN_BRACES(3, {}, {}, {})
  TERN_BRACES(4, {}, {}, {}, {})
  TERN_BRACES(5, {}, {}, {}, {}, {})
  TERN_BRACES(6, {}, {}, {}, {}, {}, {})
  TERN_BRACES(7, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(8, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(9, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(10, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(11, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(12, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(13, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(14, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(15, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(16, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  TERN_BRACES(17, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
#undef TERN_BRACES
  return false;
}

template <class T, int N = 0> consteval int most_braces() {
  if constexpr (takes_braces<T, N>())
    return most_braces<T, N + 1>();
  else
    return N - 1;
}

/// How many members the aggregate T has; more than `members_most` if it has more, however many;
/// negative as above.
template <class T> consteval int member_count() {
  constexpr int n = most_braces<T>();
  if constexpr (n < 0)
    return members_unknown;
  else if constexpr (n > members_most)
    return n;
  else if constexpr (takes_braces<T, 0, any_base<T>>() && !takes_braces<T, 0, no_base>())
    return members_in_base;
  else if constexpr (takes_braces<T, n, any_member<T>>()) // there is one more, which does not take `{}`
    return members_unknown;
  else
    return n;
}

/// `f(members…)`, as references. \pre the aggregate has 0 to `members_most` members.
template <class T, class F> constexpr decltype(auto) visit_members(T& x, F&& f) {
  constexpr int count = member_count<std::remove_const_t<T>>();
  static_assert(count >= 0 && count <= members_most);
  if constexpr (count == 0) {
    return f();
  }
#define TERN_MEMBERS(n, ...)                                                                                           \
  else if constexpr (count == (n)) {                                                                                   \
    auto& [__VA_ARGS__] = x;                                                                                           \
    return f(__VA_ARGS__);                                                                                             \
  }
  TERN_MEMBERS(1, a)
  TERN_MEMBERS(2, a, b)
  TERN_MEMBERS(3, a, b, c)
  TERN_MEMBERS(4, a, b, c, d)
  TERN_MEMBERS(5, a, b, c, d, e)
  TERN_MEMBERS(6, a, b, c, d, e, g)
  TERN_MEMBERS(7, a, b, c, d, e, g, h)
  TERN_MEMBERS(8, a, b, c, d, e, g, h, i)
  TERN_MEMBERS(9, a, b, c, d, e, g, h, i, j)
  TERN_MEMBERS(10, a, b, c, d, e, g, h, i, j, k)
  TERN_MEMBERS(11, a, b, c, d, e, g, h, i, j, k, l)
  TERN_MEMBERS(12, a, b, c, d, e, g, h, i, j, k, l, m)
  TERN_MEMBERS(13, a, b, c, d, e, g, h, i, j, k, l, m, o)
  TERN_MEMBERS(14, a, b, c, d, e, g, h, i, j, k, l, m, o, p)
  TERN_MEMBERS(15, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q)
  TERN_MEMBERS(16, a, b, c, d, e, g, h, i, j, k, l, m, o, p, q, r)
#undef TERN_MEMBERS
}

template <class... M> struct member_types {};
/// The types of its members.
template <class T>
using members_of = decltype(visit_members(std::declval<T&>(), []<class... M>(M&...) { return member_types<M...>{}; }));

} // namespace tern::detail

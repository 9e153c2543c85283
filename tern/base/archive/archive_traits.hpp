// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the archives find out about a type at compile time: whether its bytes may travel as they
/// are, and which of cereal's four ways of describing a class it uses.

#include <tern/base/language/compiler.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tern/base/archive/members.hpp>
#include <tern/base/language/durations.hpp>

namespace tern {

class input_archive;
class output_archive;
class size_archive;

/// Specialise as `true` for a trivially copyable class whose bytes mean the same in every process
/// (no pointers, no handles): it and ranges of it then travel in one copy, even if it has a
/// `serialize` function:
///
///     template <> inline constexpr bool tern::is_bitwise<point> = true;
///
/// An aggregate of such members without gaps needs no such line, unless
/// it has a `serialize` function.
template <class T> inline constexpr bool is_bitwise = false;

/// Befriend this class (`friend class tern::access;`) to keep `serialize`, `save`, `load` or the
/// default constructor private.
class access {
public:
  template <class A, class T> static auto serialize(A& ar, T& x) -> decltype(x.serialize(ar)) {
    return x.serialize(ar);
  }
  template <class A, class T> static auto save(A& ar, const T& x) -> decltype(x.save(ar)) { return x.save(ar); }
  template <class A, class T> static auto load(A& ar, T& x) -> decltype(x.load(ar)) { return x.load(ar); }
  /// `T` read by its own constructor from an archive, or default-constructed.
  template <class T, class... A> static auto make(A&... ar) -> decltype(T(ar...)) { return T(ar...); }
  template <class T, class... A> static auto make_new(A&... ar) -> decltype(new T(ar...)) { return new T(ar...); }
};

namespace detail {

template <class T>
struct bitwise_builtin
    : std::bool_constant<(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_same_v<T, std::byte>> {};
template <class T>
requires std::is_enum_v<T>
struct bitwise_builtin<T> : std::bool_constant<!std::is_same_v<std::underlying_type_t<T>, bool>> {
};
/// By itself, or because the program says so.
template <class T>
inline constexpr bool declared_bitwise = bitwise_builtin<std::remove_cv_t<T>>::value || is_bitwise<std::remove_cv_t<T>>;
template <class T> consteval bool travels_bitwise();
/// Or because it is an aggregate of such members and nothing else: then its bytes are those of its
/// members.
template <class T> inline constexpr bool bitwise = travels_bitwise<std::remove_cv_t<T>>();
template <class T, std::size_t N>
struct bitwise_builtin<std::array<T, N>> : std::bool_constant<(N > 0) && bitwise<T>> {};
template <class T, std::size_t N> struct bitwise_builtin<T[N]> : std::bool_constant<bitwise<T>> {};
template <class Rep, class Period>
struct bitwise_builtin<std::chrono::duration<Rep, Period>> : std::bool_constant<bitwise<Rep>> {};
template <class Clock, class Duration>
struct bitwise_builtin<std::chrono::time_point<Clock, Duration>> : std::bool_constant<bitwise<Duration>> {};

template <class A, class T>
concept member_serialize = requires(A& ar, T& x) {
  access::serialize(ar, x);
};
template <class A, class T>
concept member_save = requires(A& ar, const T& x) {
  access::save(ar, x);
};
template <class A, class T>
concept member_load = requires(A& ar, T& x) {
  access::load(ar, x);
};

// Free functions are looked up by argument alone: in the namespace of the type, or in tern's
// because of the archive. The deleted ones keep names of enclosing scopes from being found.
void serialize() = delete;
void save() = delete;
void load() = delete;
template <class A, class T>
concept free_serialize = requires(A& ar, T& x) {
  serialize(ar, x);
};
template <class A, class T>
concept free_save = requires(A& ar, const T& x) {
  save(ar, x);
};
template <class A, class T>
concept free_load = requires(A& ar, T& x) {
  load(ar, x);
};

/// How many of the four ways a type offers for saving; 1 is right, 0 and 2 are errors.
template <class A, class T>
inline constexpr int save_forms = int(member_serialize<A, T>) + int(free_serialize<A, T>) + int(member_save<A, T>) +
                                  int(free_save<A, T>);
template <class A, class T>
inline constexpr int load_forms = int(member_serialize<A, T>) + int(free_serialize<A, T>) + int(member_load<A, T>) +
                                  int(free_load<A, T>);

template <class T>
concept default_constructible = requires {
  access::make<T>();
};

/// Saves and loads one type, see archive_containers.hpp; the primary template handles users'
/// classes. `min_size`: the fewest bytes that a value takes; 0 where that is not known.
template <class T> struct codec;

struct any_argument {};

/// A class that reads itself: `explicit T(tern::input_archive&)`. One that accepts any argument at
/// all does not count, nor do the standard's wrappers, which accept what their element accepts.
template <class T>
concept archive_constructible = std::is_class_v<T> && requires(input_archive& ar) {
  access::make<T>(ar);
} && !requires {
  access::make<T>(std::declval<any_argument&>());
}
&&requires { typename codec<T>::is_users_class; };

/// An aggregate that says nothing of how it is serialized: its members are, one after the other.
template <class T>
concept silent_aggregate = std::is_class_v<T> && std::is_aggregate_v<T> && !requires {
  sizeof(std::tuple_size<T>);
}
&&requires { typename codec<T>::is_users_class; }
&&save_forms<output_archive, T> == 0 && load_forms<input_archive, T> == 0 && !archive_constructible<T>;

/// std::complex, without <complex>, which brings streams and all of <cmath>: two numbers, and
/// nothing that says how they are serialized.
template <class T>
concept complex_number = requires(const T& x) {
  requires std::is_arithmetic_v<typename T::value_type> && sizeof(T) == 2 * sizeof(typename T::value_type);
  requires std::is_same_v<decltype(x.real()), typename T::value_type> &&
      std::is_same_v<decltype(x.imag()), typename T::value_type>;
}
&&save_forms<output_archive, T> == 0 && load_forms<input_archive, T> == 0;

/// Whether T is an aggregate with members that can be found.
template <class T> consteval bool shows_members() {
  if constexpr (silent_aggregate<T>)
    return member_count<T>() >= 0 && member_count<T>() <= members_most;
  else
    return false;
}

template <class T> consteval bool travels_bitwise() {
  if constexpr (declared_bitwise<T>) {
    return true;
  } else if constexpr (!std::is_class_v<T>) {
    return false;
  } else if constexpr (!std::is_trivially_copyable_v<T> || !std::is_copy_assignable_v<T> ||
                       alignof(T) > alignof(std::max_align_t)) {
    return false;
  } else if constexpr (complex_number<T>) {
    return bitwise<typename T::value_type>;
  } else if constexpr (shows_members<T>()) {
    // Without gaps: else bytes that were never written would travel.
    return []<class... M>(member_types<M...>) {
      return (bitwise<M> && ...) && (sizeof(M) + ... + std::size_t{0}) == sizeof(T);
    }(members_of<T>{});
  } else {
    return false;
  }
}

template <class T> constexpr std::size_t min_size() noexcept;
/// Of a user's class: what its members take at least, if they are known.
template <class T> consteval std::size_t min_size_of_class() {
  if constexpr (shows_members<T>())
    return []<class... M>(member_types<M...>) { return (min_size<M>() + ... + std::size_t{0}); }(members_of<T>{});
  else
    return 0;
}

template <class T> constexpr std::size_t min_size() noexcept {
  if constexpr (bitwise<T>)
    return sizeof(T);
  else
    return codec<std::remove_cv_t<T>>::min_size;
}

} // namespace detail
} // namespace tern

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What an argument loses when it becomes its parameter, for code that takes arguments now and
/// calls a function with them later (messages, tasks): see docs/decisions/0037. Internal.
///
/// A conversion that can lose a number's meaning does not compile: floating-point to integer,
/// numbers and pointers to bool, and whatever needs a cast. A conversion that usually loses nothing
/// is checked when the program runs: an integer must fit into a narrower one, a double's magnitude
/// into a float. Where all values fit, that costs nothing.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tern/base/language/type_name.hpp>

namespace tern::detail {

/// What the compiler finds out about an argument and its parameter.
enum class conversion : std::uint8_t {
  fine,
  cuts_fraction, ///< floating-point to integer
  to_bool,       ///< a number or pointer to bool
  needs_cast     ///< not an implicit conversion
};

/// Converts to parameters of these types only, in the place of an argument.
struct to_integer {
  template <class T>
  requires std::is_integral_v<T>
  operator T() const; // NOLINT(google-explicit-constructor)
};
struct to_floating {
  template <class T>
  requires std::is_floating_point_v<T>
  operator T() const; // NOLINT(google-explicit-constructor)
};

/// Does a T take an integer, and no floating-point number, as the Ith of these arguments of its
/// constructor?
template <class T, std::size_t I, class... A> consteval bool constructor_cuts_fraction() {
  return []<std::size_t... J>(std::index_sequence<J...>) {
    return std::is_constructible_v<T, std::conditional_t<I == J, to_integer, A>...> &&
           !std::is_constructible_v<T, std::conditional_t<I == J, to_floating, A>...>;
  }
  (std::index_sequence_for<A...>{});
}

/// A floating-point number, or an object that converts to one and not, as such, to an integer.
using widest = long double;
template <class From, class To>
concept gives_fraction = std::is_floating_point_v<From> ||(
    std::is_class_v<From>&& requires(const From& x) { widest{x}; } && !requires(const From& x) { To{x}; });

/// Of an argument `A&&` to a parameter that holds a P.
template <class A, class P> consteval conversion conversion_of() {
  using from = std::remove_cvref_t<A>;
  if constexpr (std::is_same_v<from, P>)
    return conversion::fine;
  else if constexpr (!std::is_scalar_v<P>)
    return std::is_floating_point_v<from> && constructor_cuts_fraction<P, 0, A>() ? conversion::cuts_fraction
                                                                                  : conversion::fine;
  else if constexpr (!std::is_convertible_v<A, P>)
    return conversion::needs_cast;
  else if constexpr (std::is_same_v<P, bool>) // an object says itself what it is as a bool
    return std::is_scalar_v<std::decay_t<A>> ? conversion::to_bool : conversion::fine;
  else if constexpr (std::is_integral_v<P>)
    return gives_fraction<from, P> ? conversion::cuts_fraction : conversion::fine;
  else
    return conversion::fine;
}

/// Says in one line what is wrong with argument I, from 1 on; the caller compiles nothing further
/// then.
template <std::size_t I, conversion C> consteval bool accept_argument() {
#define TERN_ARGUMENT(condition, number)                                                                               \
  if constexpr (condition) {                                                                                           \
    static_assert(C != conversion::cuts_fraction,                                                                      \
                  number " is floating-point and its parameter an integer, so its fraction would be lost: write "      \
                         "static_cast<int>(x) if that is meant, or make the parameter floating-point");                \
    static_assert(C != conversion::to_bool, number " is a number or a pointer and its parameter a bool: compare it, "  \
                                                   "as x != 0");                                                       \
    static_assert(C != conversion::needs_cast, number " does not become its parameter's type by itself: cast it if "   \
                                                      "that is meant");                                                \
  }
  TERN_ARGUMENT(I == 1, "argument 1")
  TERN_ARGUMENT(I == 2, "argument 2")
  TERN_ARGUMENT(I == 3, "argument 3")
  TERN_ARGUMENT(I == 4, "argument 4")
  TERN_ARGUMENT(I == 5, "argument 5")
  TERN_ARGUMENT(I == 6, "argument 6")
  TERN_ARGUMENT(I == 7, "argument 7")
  TERN_ARGUMENT(I == 8, "argument 8")
  TERN_ARGUMENT(I == 9, "argument 9")
  TERN_ARGUMENT(I == 10, "argument 10")
  TERN_ARGUMENT(I == 11, "argument 11")
  TERN_ARGUMENT(I == 12, "argument 12")
  TERN_ARGUMENT((I > 12), "an argument after the twelfth (I in the compiler's notes)")
#undef TERN_ARGUMENT
  return C == conversion::fine;
}

/// The same for argument I of those of a T's constructor.
template <class T, std::size_t I, class... A> consteval bool accept_constructor_argument() {
  if constexpr (std::is_floating_point_v<std::remove_cvref_t<std::tuple_element_t<I, std::tuple<A...>>>>) {
    constexpr bool cuts = constructor_cuts_fraction<T, I, A...>();
    return accept_argument < I + 1, cuts ? conversion::cuts_fraction : conversion::fine > ();
  } else {
    return true;
  }
}
template <class T, class... A> consteval bool accept_constructor_arguments() {
  return []<std::size_t... I>(std::index_sequence<I...>) { return (accept_constructor_argument<T, I, A...>() && ...); }
  (std::index_sequence_for<A...>{});
}

// When the program runs -----------------------------------------------------------------------------------------------

template <class T, bool = std::is_enum_v<T>> struct integer_of { using type = T; };
template <class T> struct integer_of<T, true> : std::underlying_type<T> {};

/// Are there values of From that a To does not hold?
template <class From, class To> consteval bool may_not_fit() {
  if constexpr (std::is_same_v<From, To> || !std::is_arithmetic_v<To> || std::is_same_v<To, bool> ||
                !(std::is_arithmetic_v<From> || std::is_enum_v<From>)) {
    return false;
  } else {
    using from = std::numeric_limits<typename integer_of<From>::type>;
    using to = std::numeric_limits<To>;
    if constexpr (from::is_integer && to::is_integer)
      return from::digits > to::digits || (from::is_signed && !to::is_signed);
    else // an integer is rounded to a floating-point number, as in all arithmetic
      return !from::is_integer && !to::is_integer && from::max_exponent > to::max_exponent;
  }
}

/// \pre may_not_fit. Infinities fit, and what is no number.
template <class To, class From> constexpr bool fits(From value) noexcept {
  using from = std::numeric_limits<From>;
  using to = std::numeric_limits<To>;
  if constexpr (!to::is_integer) {
    const bool finite = value >= from::lowest() && value <= from::max();
    return !finite || (value >= static_cast<From>(to::lowest()) && value <= static_cast<From>(to::max()));
  } else {
    if constexpr (from::is_signed) {
      if constexpr (!to::is_signed) {
        if (value < 0) return false;
      } else if (value < 0) {
        return static_cast<long long>(value) >= static_cast<long long>(to::min());
      }
    }
    return static_cast<unsigned long long>(value) <= static_cast<unsigned long long>(to::max());
  }
}

/// \throws error(invalid_argument). \param what "argument 2 of handler 'solve'"
[[noreturn]] void does_not_fit(const std::string& what, const std::string& value, std::string_view type);
std::string text_of_number(long double value);

/// \param where `std::string where()` names the argument. \throws error(invalid_argument) unless a
/// To holds the value.
template <class To, class From, class Where> void check_fit(const From& value, const Where& where) {
  if constexpr (may_not_fit<From, To>()) {
    using number = typename integer_of<From>::type;
    const auto n = static_cast<number>(value);
    if (fits<To>(n)) [[likely]]
      return;
    if constexpr (std::is_floating_point_v<number>)
      does_not_fit(where(), text_of_number(n), type_name<To>());
    else
      does_not_fit(where(), std::to_string(+n), type_name<To>());
  }
}

// Functions of the program --------------------------------------------------------------------------------------------

template <class... P> struct parameter_list { static constexpr std::size_t size = sizeof...(P); };

/// The parameters of a function, or of an object with one call operator; `void` where overloads or
/// templates decide.
template <class F> struct parameters_of_function { using type = void; };
template <class R, class... P> struct parameters_of_function<R (*)(P...)> { using type = parameter_list<P...>; };
template <class R, class... P> struct parameters_of_function<R (*)(P...) noexcept> {
  using type = parameter_list<P...>;
};
template <class C, class R, class... P> struct parameters_of_function<R (C::*)(P...)> {
  using type = parameter_list<P...>;
};
template <class C, class R, class... P> struct parameters_of_function<R (C::*)(P...) const> {
  using type = parameter_list<P...>;
};
template <class C, class R, class... P> struct parameters_of_function<R (C::*)(P...) noexcept> {
  using type = parameter_list<P...>;
};
template <class C, class R, class... P> struct parameters_of_function<R (C::*)(P...) const noexcept> {
  using type = parameter_list<P...>;
};
template <class F>
requires(std::is_class_v<F>&& requires { &F::operator(); }) struct parameters_of_function<F>
    : parameters_of_function<decltype(&F::operator())> {
};

} // namespace tern::detail

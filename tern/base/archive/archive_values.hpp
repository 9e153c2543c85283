// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Codecs for single values: bool, arrays, pairs, tuples, optional, variant, and the wrappers that
/// cereal has too.

#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include <tern/base/archive/archive_containers.hpp>

namespace tern {

/// A value with a name, as in cereal; the name is ignored.
template <class T> struct nvp { T& value; };
template <class T> nvp<std::remove_reference_t<T>> make_nvp(const char*, T&& value) noexcept { return {value}; }

/// The part of `*derived` that is a B, for `ar(tern::base_class<B>(this), …)`.
template <class B, class D> B& base_class(D* derived) noexcept { return *derived; }
template <class B, class D> const B& base_class(const D* derived) noexcept { return *derived; }

/// Raw bytes at a place that the caller owns; no length is written, so both sides must know it.
template <class Byte> struct binary {
  Byte* data;
  std::size_t size;
};
inline binary<std::byte> binary_data(void* data, std::size_t bytes) noexcept {
  return {static_cast<std::byte*>(data), bytes};
}
inline binary<const std::byte> binary_data(const void* data, std::size_t bytes) noexcept {
  return {static_cast<const std::byte*>(data), bytes};
}

namespace detail {

template <class T> struct codec<nvp<T>> {
  static constexpr std::size_t min_size = 0;
  template <class A> static void save(A& ar, const nvp<T>& x) { save_value(ar, static_cast<const T&>(x.value)); }
  static void load(input_archive& ar, nvp<T>& x) { load_value(ar, x.value); }
};
template <class Byte> struct codec<binary<Byte>> {
  static constexpr std::size_t min_size = 0;
  template <class A> static void save(A& ar, const binary<Byte>& x) { ar.write(x.data, x.size); }
  static void load(input_archive& ar, binary<Byte>& x) {
    static_assert(!std::is_const_v<Byte>, "tern: cannot load into a const object");
    ar.read(x.data, x.size);
  }
};

/// bool, and enums of bool: one byte that is checked, since another value than 0 and 1 is undefined
/// behaviour.
template <class T>
requires(std::is_same_v<T, bool> || std::is_enum_v<T>) struct codec<T> {
  static constexpr std::size_t min_size = 1;
  template <class A> static void save(A& ar, const T& x) {
    const std::uint8_t value = static_cast<bool>(x);
    ar.write(&value, 1);
  }
  static void load(input_archive& ar, T& x) { x = static_cast<T>(ar.read_flag("bool")); }
};

template <class T, std::size_t N> struct codec<T[N]> {
  static constexpr std::size_t min_size = N * detail::min_size<T>();
  template <class A> static void save(A& ar, const T (&x)[N]) {
    for (const T& element : x) save_value(ar, element);
  }
  static void load(input_archive& ar, T (&x)[N]) {
    for (T& element : x) load_value(ar, element);
  }
};
template <class T, std::size_t N> struct codec<std::array<T, N>> {
  static constexpr std::size_t min_size = N * detail::min_size<T>();
  template <class A> static void save(A& ar, const std::array<T, N>& x) {
    for (const T& element : x) save_value(ar, element);
  }
  static void load(input_archive& ar, std::array<T, N>& x) {
    for (T& element : x) load_value(ar, element);
  }
  static std::array<T, N> make(input_archive& ar) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return std::array<T, N>{((void)I, load_new<T>(ar))...}; }
    (std::make_index_sequence<N>());
  }
};

template <class T, class U> struct codec<std::pair<T, U>> {
  static constexpr std::size_t min_size = detail::min_size<T>() + detail::min_size<U>();
  template <class A> static void save(A& ar, const std::pair<T, U>& x) {
    save_value(ar, x.first);
    save_value(ar, x.second);
  }
  static void load(input_archive& ar, std::pair<T, U>& x) {
    load_value(ar, x.first);
    load_value(ar, x.second);
  }
  static std::pair<T, U> make(input_archive& ar) { return std::pair<T, U>{load_new<T>(ar), load_new<U>(ar)}; }
};
template <class... T> struct codec<std::tuple<T...>> {
  static constexpr std::size_t min_size = (detail::min_size<std::remove_cvref_t<T>>() + ... + 0);
  template <class A> static void save(A& ar, const std::tuple<T...>& x) {
    std::apply([&ar](const auto&... element) { (save_value(ar, element), ...); }, x);
  }
  static void load(input_archive& ar, std::tuple<T...>& x) {
    std::apply([&ar](auto&... element) { (load_value(ar, element), ...); }, x);
  }
  static std::tuple<T...> make(input_archive& ar) { return std::tuple<T...>{load_new<T>(ar)...}; }
};

template <class T> struct codec<std::optional<T>> {
  static constexpr std::size_t min_size = 1;
  template <class A> static void save(A& ar, const std::optional<T>& x) {
    const std::uint8_t flag = x.has_value();
    ar.write(&flag, 1);
    if (x) save_value(ar, *x);
  }
  static void load(input_archive& ar, std::optional<T>& x) {
    x.reset();
    if (!ar.read_flag("optional's flag")) return;
    if constexpr (loads_in_place<T>)
      load_value(ar, x.emplace());
    else
      x.emplace(load_new<T>(ar));
  }
};

template <> struct codec<std::monostate> {
  static constexpr std::size_t min_size = 0;
  template <class A> static void save(A&, const std::monostate&) noexcept {}
  static void load(input_archive&, std::monostate&) noexcept {}
};
template <class... T> struct codec<std::variant<T...>> {
  static constexpr std::size_t min_size = sizeof(std::uint32_t);
  template <class A> static void save(A& ar, const std::variant<T...>& x) {
    if (x.valueless_by_exception())
      archive_unsavable(type_name<std::variant<T...>>(), "it has lost its value by an exception");
    const auto index = static_cast<std::uint32_t>(x.index());
    ar.write(&index, sizeof index);
    std::visit([&ar](const auto& value) { save_value(ar, value); }, x);
  }
  static void load(input_archive& ar, std::variant<T...>& x) {
    const auto index = ar.read_number<std::uint32_t>();
    if (index >= sizeof...(T)) [[unlikely]]
      archive_bad_value(ar.position() - sizeof index, "variant's index", index,
                        "below " + std::to_string(sizeof...(T)));
    [&]<std::size_t... I>(std::index_sequence<I...>) { (void)((I == index && (emplace<I>(ar, x), true)) || ...); }
    (std::index_sequence_for<T...>());
  }
  static std::variant<T...> make(input_archive& ar) {
    // A variant whose first alternative has no default constructor: any alternative may come first.
    std::optional<std::variant<T...>> x;
    const auto index = ar.read_number<std::uint32_t>();
    if (index >= sizeof...(T)) [[unlikely]]
      archive_bad_value(ar.position() - sizeof index, "variant's index", index,
                        "below " + std::to_string(sizeof...(T)));
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (void)((I == index && (x.emplace(std::in_place_index<I>, load_new<T>(ar)), true)) || ...);
    }
    (std::index_sequence_for<T...>());
    return std::move(*x);
  }

private:
  template <std::size_t I> static void emplace(input_archive& ar, std::variant<T...>& x) {
    using alternative = std::variant_alternative_t<I, std::variant<T...>>;
    if constexpr (loads_in_place<alternative>)
      load_value(ar, x.template emplace<I>());
    else
      x.template emplace<I>(load_new<alternative>(ar));
  }
};

} // namespace detail
} // namespace tern

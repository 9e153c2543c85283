// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How values travel in collective operations. Internal.
///
/// A value is packed behind its part's header. Arrays (std::vector and tern::buffer of bitwise
/// elements) are their elements alone, without an archive, and large ones travel beside the header,
/// from where they are: see `collective_call::lend` and `give`. Several arrays go as one part,
/// which has all their lengths and those that are small, and a part for each large one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/packing/multicastable.hpp>
#include <tern/net/packing/packing.hpp>

namespace tern::net::detail {

template <class T> struct array_value { static constexpr bool is = false; };
template <class X> struct array_value<std::vector<X>> {
  static constexpr bool is = tern::detail::bitwise<X> && std::is_trivially_copyable_v<X> && !std::is_same_v<X, bool> &&
                             alignof(X) <= alignof(std::max_align_t);
  using element = X;
};
template <class X> struct array_value<buffer<X>> {
  static constexpr bool is = true;
  using element = X;
};
template <class T> inline constexpr bool is_array_value = array_value<T>::is;
template <class T> inline constexpr bool is_buffer = false;
template <class X> inline constexpr bool is_buffer<buffer<X>> = true;

/// \throws error(invalid_data) for another number of bytes.
void plain_value(std::span<const std::byte> bytes, std::span<std::byte> into);
[[noreturn]] void bad_array(std::size_t bytes, std::size_t element);
[[noreturn]] void bad_arrays(std::size_t bytes);
[[noreturn]] void bad_values(std::size_t arrived, std::size_t wanted);

template <class T> std::span<const std::byte> bytes_of(const T& array) {
  using X = typename array_value<T>::element;
  return std::as_bytes(std::span<const X>(array.data(), array.size()));
}

/// A second value with the same elements.
template <class T> T copy_of(const T& value) {
  if constexpr (is_buffer<T>)
    return T::copy_of(std::span<const typename T::value_type>(value.data(), value.size()));
  else
    return value;
}

/// Makes `value` of elements, in the memory that it has if there are as many.
template <class T> void array_from(std::span<const std::byte> bytes, T& value) {
  using X = typename array_value<T>::element;
  const std::size_t n = bytes.size() / sizeof(X);
  if (bytes.size() % sizeof(X) != 0) bad_array(bytes.size(), sizeof(X));
  if constexpr (is_buffer<T>) {
    if (value.size() != n) value = T(n);
  } else if (value.size() != n) {
    if (aligned<X>(bytes.data())) { // without filling it before
      const X* const first = reinterpret_cast<const X*>(bytes.data());
      value.assign(first, first + n);
      return;
    }
    value.resize(n);
  }
  if (n > 0) std::memcpy(value.data(), bytes.data(), bytes.size());
}
/// The same; a buffer takes over the memory of what has arrived as such. Else `part` keeps it.
template <class T> void array_from(collective_part& part, T& value) {
  using X = typename array_value<T>::element;
  if constexpr (is_buffer<T>)
    if (part.body.size() > 0 && part.body.size() % sizeof(X) == 0 && part.body.writable() &&
        aligned<X>(part.body.data())) {
      value = buffer_access::adopt<X>(std::move(part.body));
      return;
    }
  array_from(part.elements(), value);
}

/// A value behind space for a part's header.
template <class T> byte_buffer packed_part(collective_call& all, const T& value, std::size_t bytes) {
  byte_buffer part = all.memory(part_prefix + bytes);
  if (pack_into(part.bytes().subspan(part_prefix), value) != bytes) changed_while_packed();
  return part;
}

/// Sends a value, which may be changed at once.
template <class T> void send_value(collective_call& all, int to, const T& value) {
  if constexpr (plain<T>) {
    all.send(to, std::as_bytes(std::span(&value, 1)));
  } else if constexpr (is_array_value<T>) {
    all.send(to, bytes_of(value));
  } else {
    const multicast_packing
        told; // some operations pack a value once for several ranks, so none takes what refuses that
    std::array<std::byte, small_part> space;
    const std::size_t bytes = pack_into(std::span(space), value);
    if (bytes <= space.size()) return all.send(to, std::span<const std::byte>(space).first(bytes));
    all.send(to, packed_part(all, value, bytes));
  }
}
/// The same; a large array must stay as it is until `settle`.
template <class T> void lend_value(collective_call& all, int to, const T& value) {
  if constexpr (is_array_value<T>)
    if (const auto bytes = bytes_of(value); bytes.size() >= least_body) return all.lend(to, bytes);
  send_value(all, to, value);
}
/// The same; a large array goes itself.
template <class T> void give_value(collective_call& all, int to, T value) {
  if constexpr (is_array_value<T>) {
    using X = typename array_value<T>::element;
    if (bytes_of(value).size() >= least_body) {
      buffer<X> whole(std::move(value));
      return all.give(to, buffer_access::release(whole));
    }
  }
  send_value(all, to, value);
}

template <class T> T value_of(collective_part&& part) {
  if constexpr (plain<T>) {
    T value;
    plain_value(part.value(), std::as_writable_bytes(std::span(&value, 1)));
    return value;
  } else if constexpr (is_array_value<T>) {
    T value;
    array_from(part, value);
    return value;
  } else {
    return unpack<T>(part.value());
  }
}
template <class T> T receive_value(collective_call& all, int from) { return value_of<T>(all.receive(from)); }

/// Sends `count` of `values`, from `first` on, in one go.
/// \tparam given they are not needed any more; else large arrays must stay as they are until
/// `settle`.
template <bool given, class T>
void send_values(collective_call& all, int to, std::vector<T>& values, std::size_t first, std::size_t count) {
  if constexpr (is_array_value<T>) {
    const std::span<T> chosen = std::span(values).subspan(first, count);
    const auto send_one = [&](T& value) {
      if constexpr (given)
        give_value(all, to, std::move(value));
      else
        lend_value(all, to, value);
    };
    if (count == 1) return send_one(chosen.front());
    std::size_t bytes = count * sizeof(std::uint64_t);
    for (const T& value : chosen)
      if (const std::size_t n = bytes_of(value).size(); n < least_body) bytes += n;
    byte_buffer part = all.memory(part_prefix + bytes);
    std::byte* length = part.data() + part_prefix;
    std::byte* at = length + count * sizeof(std::uint64_t);
    for (const T& value : chosen) {
      const auto elements = bytes_of(value);
      const std::uint64_t n = elements.size();
      std::memcpy(length, &n, sizeof n);
      length += sizeof n;
      if (n == 0 || n >= least_body) continue;
      std::memcpy(at, elements.data(), elements.size());
      at += n;
    }
    all.send(to, std::move(part));
    for (T& value : chosen)
      if (bytes_of(value).size() >= least_body) send_one(value);
  } else if (count == values.size()) {
    send_value(all, to, values);
  } else {
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = from + static_cast<std::ptrdiff_t>(count);
    if constexpr (given)
      send_value(all, to, std::vector<T>(std::make_move_iterator(from), std::make_move_iterator(end)));
    else
      send_value(all, to, std::vector<T>(from, end));
  }
}
/// Appends what `send_values` has sent.
template <class T> void receive_values(collective_call& all, int from, std::vector<T>& values, std::size_t count) {
  if constexpr (is_array_value<T>) {
    if (count == 1) return values.push_back(receive_value<T>(all, from));
    const collective_part packed = all.receive(from);
    std::span<const std::byte> lengths = packed.value(), small;
    if (lengths.size() < count * sizeof(std::uint64_t)) bad_arrays(lengths.size());
    small = lengths.subspan(count * sizeof(std::uint64_t));
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t n = 0;
      std::memcpy(&n, lengths.data() + i * sizeof n, sizeof n);
      if (n >= least_body) {
        values.push_back(receive_value<T>(all, from));
        continue;
      }
      if (n > small.size()) bad_arrays(lengths.size());
      T value;
      array_from(small.first(n), value);
      values.push_back(std::move(value));
      small = small.subspan(n);
    }
  } else {
    auto got = receive_value<std::vector<T>>(all, from);
    if (got.size() != count) bad_values(got.size(), count);
    for (auto&& x : got) values.push_back(std::move(x));
  }
}

} // namespace tern::net::detail

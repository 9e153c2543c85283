// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Serialization: values to bytes and back. It follows cereal's convention, so that a class that
/// cereal can handle usually works unchanged:
///
///     struct particle {
///       double x, y;
///       std::vector<int> neighbours;
///       template <class A> void serialize(A& ar) { ar(x, y, neighbours); }
///     };
///     tern::byte_buffer message = tern::pack(particle{1, 2, {3, 4}}, std::string("left"));
///     auto [p, side] = tern::unpack<particle, std::string>(message);
///
/// **Works as in cereal**: member or free `serialize(A&)`; split `save(A&) const` and `load(A&)`,
/// member or free; free functions found by argument-dependent lookup in the namespace of the type
/// (or in `tern`); `ar(a, b)`, `ar & a`, `ar << a`, `ar >> a`; `make_nvp` (the name is ignored),
/// `base_class<B>(this)`, `binary_data(pointer, bytes)`; private members through `friend class
/// tern::access`. Handled: arithmetic types, enums, C arrays, std::array, string, string_view
/// (saving only), vector, deque, list, pair, tuple, map, multimap, set, multiset and their
/// unordered kin, optional, variant, monostate, complex, chrono durations and time points,
/// unique_ptr, shared_ptr (an object that is shared inside one archive is shared after loading);
/// and, of ours, `byte_buffer` and `std::span<const T>` (saving only; load a vector).
///
/// **Aggregates** need nothing of that: `struct particle { double x[3]; std::string name; };` is
/// serialized member by member, in the order of declaration, if each member can be serialized and
/// initialised by `{}`. It has at most 16 members and no base class; a member may be an array,
/// another aggregate, or a container of them. A raw pointer, a reference or a bit field stops the
/// compiler. A class's own `serialize`, `save` and `load` come first.
///
/// **Differs from cereal**: `A::is_loading` and `A::is_saving` are `constexpr bool`, not types. A
/// type that reads itself has a constructor `explicit T(tern::input_archive&)`, which must read
/// what saving wrote; there is no `load_and_construct`. Macros such as `CEREAL_NVP` are cereal's;
/// use `ar(x)`. A function in namespace `cereal` is not found: move it to its type's namespace.
/// **Not there**: versions (`serialize(A&, unsigned)`), polymorphic pointers (saving a pointer to
/// an object whose type differs from the pointer's throws error(unsupported)), weak_ptr, raw
/// pointers, `save_minimal`, deferred members, text formats.
///
/// **Format**: native byte order and sizes, no padding, no type names: for messages between ranks
/// of one job and for checkpoints of one build, not for archives that outlive it. Lengths are 8
/// bytes. Elements that may take no bytes take one, so that a length can be checked against what
/// follows. Ranges of bitwise elements (numbers, enums, arrays and complex numbers of them,
/// aggregates of them without gaps, and classes declared by `is_bitwise`) travel in one copy, which
/// gives the same bytes as member by member.
///
/// **Errors**: bytes that cannot be right are refused by error(invalid_data) with the offset: too
/// short or too long, lengths beyond the end, bools, optionals and variants with impossible values,
/// repeated keys, references to shared objects that are unknown, of another type or still being
/// read (cycles), and nesting beyond `archive_max_depth` or `archive_max_stack`. Cycles and nesting
/// are refused on saving too. A type that cannot be serialized stops the compiler with one line
/// that says what to add. Values of `is_bitwise` classes and of enums are not checked: the program
/// must.

#include <array>
#include <tuple>

#include <tern/base/archive/archive_containers.hpp>
#include <tern/base/archive/archive_core.hpp>
#include <tern/base/archive/archive_pointers.hpp>
#include <tern/base/archive/archive_values.hpp>

namespace tern {

/// The number of bytes that `pack` would give. Throws as `pack`.
template <class... T> std::size_t packed_size(const T&... x) {
  size_archive ar;
  ar(x...);
  return ar.size();
}

/// All values, one after the other, in a buffer of exactly their size (allocated once), after
/// `prefix` uninitialised bytes for the caller's own use. Any thread, as long as no other changes
/// the values. \throws error(invalid_data) for a cycle, too deep nesting, or a class that writes
/// another number of bytes than it counted (named, with both numbers); error(unsupported) for a
/// polymorphic pointer; error(out_of_memory); what `save` throws.
template <class... T> byte_buffer pack_after(std::size_t prefix, const T&... x) {
  // Positions after each value, in both passes, cost two stores a value and let the error name the
  // culprit.
  std::array<std::size_t, sizeof...(T) + 1> counted{}, written{};
  {
    size_archive ar;
    std::size_t i = 0;
    ((ar(x), counted[i++] = ar.position()), ...);
    counted[i] = ar.position();
  }
  byte_buffer buffer(prefix + counted.back());
  output_archive ar(buffer.bytes().subspan(prefix));
  std::size_t i = 0;
  ((ar(x), written[i++] = ar.position()), ...);
  written[i] = ar.position();
  if (counted != written) [[unlikely]] {
    const std::array<std::string_view, sizeof...(T) + 1> names{detail::type_name<T>()..., {}};
    std::size_t k = 0;
    while (counted[k] == written[k]) ++k;
    const std::size_t before = k ? counted[k - 1] : 0;
    detail::archive_size_mismatch(names[k], counted[k] - before, written[k] - before);
  }
  return buffer;
}

/// Writes all values into `room` if they fit. \return how many bytes they take; if that is more
/// than `room` has, nothing was written. Throws as `pack_after`.
template <class... T> std::size_t pack_into(std::span<std::byte> room, const T&... x) {
  const std::size_t bytes = packed_size(x...);
  if (bytes > room.size()) return bytes;
  output_archive ar(room.first(bytes));
  ar(x...);
  if (ar.position() != bytes) [[unlikely]]
    static_cast<void>(pack_after(0, x...)); // finds the culprit
  ar.finish();
  return bytes;
}

/// The same for a message, which `undo` knows as abandoned unless the caller says that it has been
/// delivered.
template <class... T> std::size_t pack_message_into(std::span<std::byte> room, packing_undo& undo, const T&... x) {
  size_archive counted(archive_purpose::message);
  counted(x...);
  if (counted.size() > room.size()) return counted.size();
  output_archive ar(room.first(counted.size()), undo);
  ar(x...);
  if (ar.position() != counted.size()) [[unlikely]]
    static_cast<void>(pack_after(0, x...)); // finds the culprit
  ar.finish();
  return counted.size();
}

/// `pack_after` with no prefix.
template <class... T> byte_buffer pack(const T&... x) { return pack_after(0, x...); }

/// Reads values that `pack` wrote into existing objects; every byte must be used.
/// \throws error(invalid_data) as described above.
template <class... T> void unpack_into(std::span<const std::byte> bytes, T&... x) {
  input_archive ar(bytes);
  ar(x...);
  ar.finish();
}

/// Reads the archive's next value, made by T's constructor from an archive if it has one, else by
/// its default constructor.
template <class T> T unpack_next(input_archive& ar) { return detail::load_new<T>(ar); }

/// Reads values that `pack` wrote: the value itself for one type, else a tuple. Every byte must be
/// used.
/// \throws error(invalid_data) as described above.
template <class... T> auto unpack(std::span<const std::byte> bytes) {
  input_archive ar(bytes);
  if constexpr (sizeof...(T) == 1) {
    auto value = detail::load_new<T...>(ar);
    ar.finish();
    return value;
  } else {
    std::tuple<T...> values{detail::load_new<T>(ar)...}; // braces: from left to right
    ar.finish();
    return values;
  }
}

} // namespace tern

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the directory must know of an object's class. Internal.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/net/handler.hpp>

namespace tern::mobile {

/// One for each class of objects, the same on all ranks but for its addresses.
struct type_record {
  const type_record* (*self)(); ///< what gives it
  std::string name;
  void (*destroy)(void* object);
  /// Null for a class that cannot be serialized: its objects stay where they were made.
  byte_buffer (*pack)(const void* object);
  void* (*unpack)(std::span<const std::byte> bytes);
  /// The handler that takes such an object in on another rank.
  const net::handler_record* (*arrival)();
  std::size_t (*bytes)(const void* object); ///< that `pack` would give; null as `pack`
  /// What the class says of an object with so many invocations that wait or run; null: nothing.
  double (*workload)(const void* object, std::size_t pending);
  double (*migration_cost)(const void* object); ///< likewise
  std::string (*called)(const void* object);    ///< the object's `name()`, for traces; null: its class has none

  struct base {
    const type_record* type;
    void* (*cast)(void* object);
  };
  std::vector<base> bases;             ///< those that a mobile_ptr is converted to anywhere; entered before `main`
  std::size_t size = 0, alignment = 0; ///< of an object in C++'s sense
  /// Of an object that moves (archive_purpose::move): as `bytes`, `pack` into as many bytes, and
  /// `unpack`; null as those.
  std::size_t (*bytes_moved)(const void* object) = nullptr;
  void (*pack_moved)(const void* object, std::span<std::byte> room, packing_undo& undo) = nullptr;
  void* (*unpack_moved)(std::span<const std::byte> bytes, unpacking_steps& later) = nullptr;
};

/// A class whose objects can be packed, by the handler that takes them in. Static objects only:
/// constructing one enters it.
class movable_class {
public:
  movable_class(const net::handler_record& arrival, const type_record* (*type)());
  movable_class(const movable_class&) = delete;
  movable_class& operator=(const movable_class&) = delete;
  void used() const noexcept {}
  /// Null if there is none.
  static const type_record* find(std::uint32_t arrival);

private:
  const net::handler_record& arrival_;
  const type_record* (*const type_)();
  const movable_class* const next_;
};

/// The object as a `wanted`, directly or through several bases; null: it is none.
void* cast_object(const type_record& type, void* object, const type_record& wanted) noexcept;
/// Is it `wanted`, or has it that as a base, directly or through others?
bool derives_from(const type_record& type, const type_record& wanted) noexcept;

namespace detail {

/// The hint of errors that name a class whose objects cannot be packed.
inline constexpr const char* how_to_serialize =
    "give the class a serialize function, and a default constructor or one from an archive";

template <class T>
concept saves =
    tern::detail::declared_bitwise<T> || tern::detail::complex_number<T> || tern::detail::save_forms<output_archive, T>
== 1;
template <class T>
concept loads = tern::detail::archive_constructible<T> ||
    ((tern::detail::declared_bitwise<T> || tern::detail::complex_number<T> ||
      tern::detail::load_forms<input_archive, T> == 1) &&
     tern::detail::default_constructible<T>);

/// Can its objects move? An aggregate without `serialize` cannot, although it can travel as an
/// argument: that a class means to move is for its author to say.
template <class T> inline constexpr bool can_move = saves<T>&& loads<T>;

/// In place: a class need not be movable in C++'s sense.
template <class T> T* unpack_new(input_archive&& ar) {
  std::unique_ptr<T> object;
  if constexpr (tern::detail::archive_constructible<T>) {
    object.reset(new T(access::make<T>(ar)));
  } else {
    object.reset(new T(access::make<T>()));
    ar(*object);
  }
  ar.finish();
  return object.release();
}

template <class T> std::size_t bytes_moved(const T& x) {
  size_archive ar(archive_purpose::move);
  ar(x);
  return ar.size();
}

/// \throws as `pack`; error(invalid_data) also if the object has changed since its bytes were
/// counted.
template <class T> void pack_exactly(std::span<std::byte> room, packing_undo& undo, const T& x) {
  output_archive ar(room, undo, archive_purpose::move);
  ar(x);
  if (ar.position() != room.size()) [[unlikely]]
    static_cast<void>(pack(x)); // finds the culprit
  ar.finish();
}

template <class T> const net::handler_record* arrival_of();

/// See load.hpp.
template <class T> constexpr auto workload_of() -> double (*)(const void*, std::size_t) {
  if constexpr (requires(const T& x, std::size_t n) { static_cast<double>(x.workload(n)); })
    return [](const void* p, std::size_t n) { return static_cast<double>(static_cast<const T*>(p)->workload(n)); };
  else if constexpr (requires { static_cast<double>(T::workload); })
    return [](const void*, std::size_t n) { return static_cast<double>(T::workload) * static_cast<double>(n); };
  else
    return nullptr;
}

template <class T> constexpr auto migration_cost_of() -> double (*)(const void*) {
  if constexpr (requires(const T& x) { static_cast<double>(x.migration_cost()); })
    return [](const void* p) { return static_cast<double>(static_cast<const T*>(p)->migration_cost()); };
  else
    return nullptr;
}

template <class T> constexpr auto called_of() -> std::string (*)(const void*) {
  if constexpr (requires(const T& x) { std::string(std::string_view(x.name())); })
    return [](const void* p) { return std::string(std::string_view(static_cast<const T*>(p)->name())); };
  else
    return nullptr;
}

template <class T> const type_record* record_of();
template <class T> type_record& type_of() {
  static type_record record = [] {
    type_record r{&record_of<T>,
                  tern::detail::type_name(typeid(T)),
                  [](void* p) { delete static_cast<T*>(p); },
                  nullptr,
                  nullptr,
                  nullptr,
                  nullptr,
                  workload_of<T>(),
                  migration_cost_of<T>(),
                  called_of<T>(),
                  {},
                  sizeof(T),
                  alignof(T),
                  nullptr,
                  nullptr,
                  nullptr};
    if constexpr (can_move<T>) {
      r.pack = [](const void* p) { return pack(*static_cast<const T*>(p)); };
      r.unpack = [](std::span<const std::byte> bytes) -> void* { return unpack_new<T>(input_archive(bytes)); };
      r.arrival = &arrival_of<T>;
      r.bytes = [](const void* p) { return packed_size(*static_cast<const T*>(p)); };
      r.bytes_moved = [](const void* p) { return bytes_moved(*static_cast<const T*>(p)); };
      r.pack_moved = [](const void* p, std::span<std::byte> room, packing_undo& undo) {
        pack_exactly(room, undo, *static_cast<const T*>(p));
      };
      r.unpack_moved = [](std::span<const std::byte> bytes, unpacking_steps& later) -> void* {
        return unpack_new<T>(input_archive(bytes, later));
      };
    }
    return r;
  }();
  return record;
}

template <class T> const type_record* record_of() { return &type_of<T>(); }

/// That objects of class D are used as B's: entered before `main` wherever a program converts such
/// a pointer.
template <class D, class B> struct upcast {
  upcast() {
    type_of<D>().bases.push_back({&type_of<B>(), [](void* p) -> void* { return static_cast<B*>(static_cast<D*>(p)); }});
  }
  void used() const noexcept {}
};
template <class D, class B> inline const upcast<D, B> the_upcast{};

} // namespace detail
} // namespace tern::mobile

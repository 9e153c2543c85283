// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How each type is saved and loaded: users' classes and the standard library's values and
/// containers. Each `codec<T>` has `save(archive, const T&)` for both saving archives,
/// `load(input_archive&, T&)`, `min_size`, and where T may lack a default constructor
/// `make(input_archive&)`.

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <tern/base/archive/archive_core.hpp>

namespace tern {
namespace detail {

template <class A, class T> inline void save_value(A& ar, const T& x) {
  if constexpr (bitwise<T>) {
    static_assert(std::is_trivially_copyable_v<T>, "tern::is_bitwise<T> is true, but T is not trivially copyable");
    ar.write(&x, sizeof x);
  } else {
    codec<std::remove_cv_t<T>>::save(ar, x);
  }
}

template <class T> inline void load_value(input_archive& ar, T& x) {
  if constexpr (std::is_const_v<T>) {
    static_assert(!std::is_const_v<T>, "tern: cannot load into a const object");
  } else if constexpr (bitwise<T>) {
    static_assert(std::is_trivially_copyable_v<T>, "tern::is_bitwise<T> is true, but T is not trivially copyable");
    ar.read(static_cast<void*>(&x), sizeof x);
  } else {
    codec<T>::load(ar, x);
  }
}

template <class T>
inline constexpr bool loads_in_place = std::is_default_constructible_v<T> && !archive_constructible<T>;

/// A new value, see `tern::unpack_next`.
template <class T> T load_new(input_archive& ar) {
  if constexpr (archive_constructible<T> && !bitwise<T>) {
    return access::make<T>(ar);
  } else if constexpr (default_constructible<T>) {
    T x = access::make<T>();
    load_value(ar, x);
    return x;
  } else if constexpr (bitwise<T>) {
    std::array<std::byte, sizeof(T)> bytes;
    ar.read(bytes.data(), bytes.size());
    return __builtin_bit_cast(T, bytes);
  } else if constexpr (requires { codec<T>::make(ar); }) {
    return codec<T>::make(ar);
  } else {
    static_assert(default_constructible<T>,
                  "tern: this type cannot be created when loading: give it a default constructor "
                  "or `explicit T(tern::input_archive&)` (private ones: `friend class tern::access`)");
  }
}

/// Says in one line why the members of an aggregate cannot be found. The compiler's notes name its
/// type.
template <class T> consteval bool check_aggregate() {
  constexpr int members = member_count<T>();
  static_assert(members != members_in_base,
                "tern: this aggregate has a base class, so its members are not found by themselves: add a member "
                "`template<class A> void serialize(A& ar) { ar(tern::base_class<B>(this), members...); }`");
  static_assert(members != members_unknown,
                "tern: a member of this aggregate is a reference, or cannot be initialised by `{}`, so its members are "
                "not found by themselves: add a member `template<class A> void serialize(A& ar) { ar(members...); }`");
  static_assert(members <= members_most,
                "tern: this aggregate has more than 16 members, which are not found by themselves: add a member "
                "`template<class A> void serialize(A& ar) { ar(members...); }`");
  return members >= 0 && members <= members_most;
}
template <class Aggregate, class Member> consteval bool check_member() {
  constexpr bool pointer = std::is_pointer_v<Member> || std::is_member_pointer_v<Member>;
  static_assert(!pointer,
                "tern: this aggregate has a raw pointer among its members, which means nothing on another rank: use "
                "unique_ptr, shared_ptr or mobile_ptr, or add a member `template<class A> void serialize(A& ar)` that "
                "leaves it out");
  return !pointer;
}

/// Users' classes.
template <class T> struct codec {
  using is_users_class = void;
  static constexpr std::size_t min_size = min_size_of_class<T>();

  template <class A> static void save(A& ar, const T& x) {
    constexpr int ways = save_forms<A, T>;
    if constexpr (ways > 1) {
      static_assert(ways <= 1,
                    "tern: this type offers more than one of member serialize, free serialize, member save, free "
                    "save (perhaps by inheritance): keep one");
    } else if constexpr (member_serialize<A, T>) {
      access::serialize(ar, const_cast<T&>(x)); // cereal's convention: one function for both directions
    } else if constexpr (free_serialize<A, T>) {
      serialize(ar, const_cast<T&>(x));
    } else if constexpr (member_save<A, T>) {
      access::save(ar, x);
    } else if constexpr (free_save<A, T>) {
      save_free(ar, x);
    } else if constexpr (std::is_pointer_v<T>) {
      static_assert(!std::is_pointer_v<T>,
                    "tern: a raw pointer cannot be serialized: use unique_ptr, shared_ptr, mobile_ptr, "
                    "or tern::binary_data(pointer, bytes)");
    } else if constexpr (silent_aggregate<T>) {
      if constexpr (check_aggregate<T>())
        visit_members(x, [&]<class... M>(const M&... member) {
          if constexpr ((check_member<T, M>() && ...)) (save_value(ar, member), ...);
        });
    } else {
      static_assert(ways == 1,
                    "tern: this type cannot be serialized: add a member `template<class A> void serialize(A& ar) { "
                    "ar(members...); }` (if private: `friend class tern::access;`), or for a trivially copyable "
                    "class without pointers `template<> inline constexpr bool tern::is_bitwise<T> = true;`");
    }
  }

  static void load(input_archive& ar, T& x) {
    constexpr int ways = load_forms<input_archive, T>;
    if constexpr (ways > 1) {
      static_assert(ways <= 1,
                    "tern: this type offers more than one of member serialize, free serialize, member load, free "
                    "load (perhaps by inheritance): keep one");
    } else if constexpr (member_serialize<input_archive, T>) {
      access::serialize(ar, x);
    } else if constexpr (free_serialize<input_archive, T>) {
      serialize(ar, x);
    } else if constexpr (member_load<input_archive, T>) {
      access::load(ar, x);
    } else if constexpr (free_load<input_archive, T>) {
      load_free(ar, x);
    } else if constexpr (archive_constructible<T>) {
      x = access::make<T>(ar);
    } else if constexpr (std::is_pointer_v<T>) {
      static_assert(!std::is_pointer_v<T>,
                    "tern: a raw pointer cannot be serialized: use unique_ptr, shared_ptr, mobile_ptr, "
                    "or tern::binary_data(pointer, bytes)");
    } else if constexpr (silent_aggregate<T>) {
      if constexpr (check_aggregate<T>())
        visit_members(x, [&]<class... M>(M&... member) {
          if constexpr ((check_member<T, M>() && ...)) (load_value(ar, member), ...);
        });
    } else {
      static_assert(ways == 1,
                    "tern: this type cannot be loaded: add a member `template<class A> void serialize(A& ar) { "
                    "ar(members...); }` (if private: `friend class tern::access;`), or for a trivially copyable "
                    "class without pointers `template<> inline constexpr bool tern::is_bitwise<T> = true;`");
    }
  }

private:
  // Outside of `save` and `load`, whose names would hide the free functions.
  template <class A> static void save_free(A& ar, const T& x);
  static void load_free(input_archive& ar, T& x);
};

template <class A, class T> inline void call_free_save(A& ar, const T& x) { save(ar, x); }
template <class T> inline void call_free_load(input_archive& ar, T& x) { load(ar, x); }
template <class T> template <class A> inline void codec<T>::save_free(A& ar, const T& x) { call_free_save(ar, x); }
template <class T> inline void codec<T>::load_free(input_archive& ar, T& x) { call_free_load(ar, x); }

// --- elements of containers: at least one byte each, or a forged length could not be told from a true one

template <class... T> inline constexpr std::size_t element_size = std::max<std::size_t>(1, (min_size<T>() + ... + 0));

template <class A, class... T> inline void save_element(A& ar, const T&... x) {
  [[maybe_unused]] const std::size_t before = ar.position();
  (save_value(ar, x), ...);
  if constexpr ((min_size<T>() + ... + 0) == 0) {
    const std::byte filler{};
    if (ar.position() == before) ar.write(&filler, 1);
  }
}

/// To be called after an element that began at `before`.
template <class... T> inline void skip_filler(input_archive& ar, [[maybe_unused]] std::size_t before) {
  if constexpr ((min_size<T>() + ... + 0) == 0)
    if (ar.position() == before) ar.take(1);
}

template <class A> inline void save_length(A& ar, std::size_t n) {
  const std::uint64_t length = n;
  ar.write(&length, sizeof length);
}

/// How many elements of `size` bytes to make room for at once: no more memory than there are bytes
/// left to read.
inline std::size_t justified(const input_archive& ar, std::size_t length, std::size_t size) {
  return std::min(length, ar.remaining() / size);
}

// --- sequences

template <class A, class T> inline void save_contiguous(A& ar, const T* data, std::size_t n) {
  save_length(ar, n);
  if constexpr (bitwise<T>) {
    ar.write(data, n * sizeof(T));
  } else {
    nesting<A> guard(ar);
    for (std::size_t i = 0; i < n; ++i) save_element(ar, data[i]);
  }
}

template <class C> struct sequence_codec {
  using T = typename C::value_type;
  static constexpr std::size_t min_size = sizeof(std::uint64_t);

  template <class A> static void save(A& ar, const C& x) {
    if constexpr (requires { x.data(); }) {
      save_contiguous(ar, x.data(), x.size());
    } else {
      nesting<A> guard(ar);
      save_length(ar, x.size());
      for (const T& element : x) save_element(ar, element);
    }
  }
  static void load(input_archive& ar, C& x) {
    if constexpr (bitwise<T> && requires { x.data(); } && std::is_copy_assignable_v<T> &&
                  std::is_default_constructible_v<T>) {
      const std::size_t n = ar.read_length(sizeof(T));
      const std::byte* source = ar.take(n * sizeof(T));
      // address: whether it fits; both ways give the same elements
      if (reinterpret_cast<std::uintptr_t>(source) % alignof(T) == 0) {
        const T* first = reinterpret_cast<const T*>(source);
        x.assign(first, first + n); // one copy; `resize` would first fill with zeros
      } else {
        x.resize(n);
        if (n > 0) std::memcpy(static_cast<void*>(x.data()), source, n * sizeof(T));
      }
    } else {
      nesting<input_archive> guard(ar);
      x.clear();
      const std::size_t n = ar.read_length(element_size<T>);
      if constexpr (requires { x.reserve(n); }) x.reserve(justified(ar, n, sizeof(T)));
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t before = ar.position();
        if constexpr (loads_in_place<T>)
          load_value(ar, x.emplace_back());
        else
          x.push_back(load_new<T>(ar));
        skip_filler<T>(ar, before);
      }
    }
  }
};
template <class T, class Allocator>
struct codec<std::vector<T, Allocator>> : sequence_codec<std::vector<T, Allocator>> {};
template <class T, class Allocator>
struct codec<std::deque<T, Allocator>> : sequence_codec<std::deque<T, Allocator>> {};
template <class T, class Allocator> struct codec<std::list<T, Allocator>> : sequence_codec<std::list<T, Allocator>> {};
template <class C, class Traits, class Allocator>
struct codec<std::basic_string<C, Traits, Allocator>> : sequence_codec<std::basic_string<C, Traits, Allocator>> {};

template <class Allocator> struct codec<std::vector<bool, Allocator>> { // eight to a byte
  static constexpr std::size_t min_size = sizeof(std::uint64_t);
  template <class A> static void save(A& ar, const std::vector<bool, Allocator>& x) {
    save_length(ar, x.size());
    for (std::size_t i = 0; i < x.size(); i += 8) {
      unsigned char bits = 0;
      for (std::size_t k = i; k < std::min(i + 8, x.size()); ++k)
        if (x[k]) bits |= static_cast<unsigned char>(1u << (k - i));
      ar.write(&bits, 1);
    }
  }
  static void load(input_archive& ar, std::vector<bool, Allocator>& x) {
    const auto n = ar.read_number<std::uint64_t>();
    const std::uint64_t bytes = n / 8 + (n % 8 != 0);
    if (bytes > ar.remaining()) archive_bad_length(ar.position() - sizeof n, bytes, 1, ar.remaining());
    const std::byte* source = ar.take(static_cast<std::size_t>(bytes));
    x.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (source[i / 8] & std::byte(1u << (i % 8))) != std::byte{};
  }
};

template <class T, std::size_t Extent> struct codec<std::span<T, Extent>> {
  static constexpr std::size_t min_size = sizeof(std::uint64_t);
  template <class A> static void save(A& ar, const std::span<T, Extent>& x) { save_contiguous(ar, x.data(), x.size()); }
  template <class U> static void load(input_archive&, U&) {
    static_assert(sizeof(U) == 0, "tern: a span can be saved but not loaded: load a std::vector");
  }
};
template <class C, class Traits> struct codec<std::basic_string_view<C, Traits>> {
  static constexpr std::size_t min_size = sizeof(std::uint64_t);
  template <class A> static void save(A& ar, const std::basic_string_view<C, Traits>& x) {
    save_contiguous(ar, x.data(), x.size());
  }
  template <class U> static void load(input_archive&, U&) {
    static_assert(sizeof(U) == 0, "tern: a string_view can be saved but not loaded: load a std::string");
  }
};
template <> struct codec<byte_buffer> {
  static constexpr std::size_t min_size = sizeof(std::uint64_t);
  template <class A> static void save(A& ar, const byte_buffer& x) { save_contiguous(ar, x.data(), x.size()); }
  static void load(input_archive& ar, byte_buffer& x) {
    const std::size_t n = ar.read_length(1);
    x = byte_buffer::copy_of({ar.take(n), n});
  }
};

// --- sets and maps

template <class C> struct set_codec {
  using K = typename C::key_type;
  static constexpr std::size_t min_size = sizeof(std::uint64_t);
  template <class A> static void save(A& ar, const C& x) {
    nesting<A> guard(ar);
    save_length(ar, x.size());
    for (const K& key : x) save_element(ar, key);
  }
  static void load(input_archive& ar, C& x) {
    nesting<input_archive> guard(ar);
    x.clear();
    const std::size_t n = ar.read_length(element_size<K>);
    if constexpr (requires { x.reserve(n); }) x.reserve(justified(ar, n, sizeof(K)));
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t before = ar.position();
      x.emplace_hint(x.end(), load_new<K>(ar));
      if (x.size() != i + 1) archive_bad_value(before, "key of a set: it repeats element", i, "each key once");
      skip_filler<K>(ar, before);
    }
  }
};
template <class K, class Less, class Allocator>
struct codec<std::set<K, Less, Allocator>> : set_codec<std::set<K, Less, Allocator>> {};
template <class K, class Less, class Allocator>
struct codec<std::multiset<K, Less, Allocator>> : set_codec<std::multiset<K, Less, Allocator>> {};
template <class K, class H, class E, class Allocator>
struct codec<std::unordered_set<K, H, E, Allocator>> : set_codec<std::unordered_set<K, H, E, Allocator>> {};
template <class K, class H, class E, class Allocator>
struct codec<std::unordered_multiset<K, H, E, Allocator>> : set_codec<std::unordered_multiset<K, H, E, Allocator>> {};

template <class C> struct map_codec {
  using K = typename C::key_type;
  using V = typename C::mapped_type;
  static constexpr std::size_t min_size = sizeof(std::uint64_t);
  template <class A> static void save(A& ar, const C& x) {
    nesting<A> guard(ar);
    save_length(ar, x.size());
    for (const auto& [key, value] : x) save_element(ar, key, value);
  }
  static void load(input_archive& ar, C& x) {
    nesting<input_archive> guard(ar);
    x.clear();
    const std::size_t n = ar.read_length(element_size<K, V>);
    if constexpr (requires { x.reserve(n); }) x.reserve(justified(ar, n, sizeof(std::pair<const K, V>)));
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t before = ar.position();
      K key = load_new<K>(ar);
      x.emplace_hint(x.end(), std::move(key), load_new<V>(ar));
      if (x.size() != i + 1) archive_bad_value(before, "key of a map: it repeats element", i, "each key once");
      skip_filler<K, V>(ar, before);
    }
  }
};
template <class K, class V, class Less, class Allocator>
struct codec<std::map<K, V, Less, Allocator>> : map_codec<std::map<K, V, Less, Allocator>> {};
template <class K, class V, class Less, class Allocator>
struct codec<std::multimap<K, V, Less, Allocator>> : map_codec<std::multimap<K, V, Less, Allocator>> {};
template <class K, class V, class H, class E, class Allocator>
struct codec<std::unordered_map<K, V, H, E, Allocator>> : map_codec<std::unordered_map<K, V, H, E, Allocator>> {};
template <class K, class V, class H, class E, class Allocator>
struct codec<std::unordered_multimap<K, V, H, E, Allocator>>
    : map_codec<std::unordered_multimap<K, V, H, E, Allocator>> {};

} // namespace detail
} // namespace tern

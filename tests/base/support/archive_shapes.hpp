// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For the tests of archives: classes that describe themselves in each way that a user may choose,
/// and round trips.

#include <tern/base/archive.hpp>

#include <gtest/gtest.h>

namespace shapes {

struct member {
  int a = 0;
  std::string b;
  bool operator==(const member&) const = default;
  template <class A> void serialize(A& ar) { ar(a, b); }
};

struct free_one {
  double x = 0;
  bool operator==(const free_one&) const = default;
};
template <class A> void serialize(A& ar, free_one& v) { ar& v.x; }

struct split_member {
  std::vector<int> kept;
  int sum = 0; // derived on loading
  template <class A> void save(A& ar) const {
    static_assert(A::is_saving && !A::is_loading);
    ar << kept;
  }
  template <class A> void load(A& ar) {
    static_assert(A::is_loading && !A::is_saving);
    ar >> kept;
    for (int k : kept) sum += k;
  }
};

struct split_free {
  int x = 0;
};
template <class A> void save(A& ar, const split_free& v) { ar(v.x + 1); }
template <class A> void load(A& ar, split_free& v) { ar(v.x); }

class hidden {
public:
  static hidden make(int x) {
    hidden h;
    h.x_ = x;
    return h;
  }
  int x() const { return x_; }

private:
  friend class tern::access;
  hidden() = default;
  template <class A> void serialize(A& ar) { ar(x_); }
  int x_ = 0;
};

class self_reading {
public:
  explicit self_reading(int x) : x_(x) {}
  explicit self_reading(tern::input_archive& ar) { ar(x_); }
  template <class A> void save(A& ar) const { ar(x_); }
  int x() const { return x_; }

private:
  int x_;
};

struct point {
  double x, y;
  bool operator==(const point&) const = default;
};

struct no_default {
  explicit no_default(float v) : value(v) {}
  float value;
};

struct both { // would throw if its function were called
  int x = 0;
  template <class A> void serialize(A&) { throw std::logic_error("not to be called"); }
};

struct empty {
  template <class A> void serialize(A&) {}
  bool operator==(const empty&) const = default;
};

struct tree {
  int value = 0;
  std::vector<tree> children;
  std::map<int, tree> named;
  std::unique_ptr<tree> left;
  template <class A> void serialize(A& ar) { ar(value, children, named, left); }
};

struct base {
  int b = 1;
  template <class A> void serialize(A& ar) { ar(b); }
};
struct derived : base {
  int d = 2;
  template <class A> void serialize(A& ar) { ar(tern::base_class<base>(this), tern::make_nvp("d", d)); }
};

struct raw {
  std::array<unsigned char, 4> bytes{};
  template <class A> void serialize(A& ar) { ar(tern::binary_data(bytes.data(), bytes.size())); }
};

enum class colour : std::uint8_t { red, green };
enum plain { one, two };
enum class truth : bool { no, yes };

} // namespace shapes

template <> inline constexpr bool tern::is_bitwise<shapes::point> = true;
template <> inline constexpr bool tern::is_bitwise<shapes::no_default> = true;
template <> inline constexpr bool tern::is_bitwise<shapes::both> = true;

namespace shapes {

/// Packed and unpacked, also over an existing value.
template <class T> T through(const T& x) {
  const tern::byte_buffer bytes = tern::pack(x);
  EXPECT_EQ(bytes.size(), tern::packed_size(x));
  T assigned = tern::unpack<T>(bytes);
  tern::unpack_into(bytes, assigned); // over an existing value too
  return assigned;
}

} // namespace shapes

/// A round trip gives the same value. (Without gtest's printers, of which each type would need its
/// own.)
#define EXPECT_ROUND_TRIP(...)                                                                                         \
  do {                                                                                                                 \
    const auto original = __VA_ARGS__;                                                                                 \
    EXPECT_TRUE(shapes::through(original) == original) << #__VA_ARGS__;                                                \
  } while (false)

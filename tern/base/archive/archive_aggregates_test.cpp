// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/archive.hpp>
#include <tern/base/error.hpp>

namespace aggregates {

struct point {
  double x, y;
  bool operator==(const point&) const = default;
};
struct with_gap {
  std::int32_t a;
  double b;
  bool operator==(const with_gap&) const = default;
};
struct particle {
  double position[3];
  point velocity;
  std::vector<point> track;
  std::string name;
  char tag[4];
  std::optional<with_gap> mark;
  bool alive = true;
  std::array<std::string, 2> parents;
};
struct tree {
  int value;
  std::vector<tree> children;
  std::unique_ptr<tree> left;
};
struct nothing {};
struct flags {
  bool a, b;
  bool operator==(const flags&) const = default;
};
struct sixteen {
  std::int8_t a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
  bool operator==(const sixteen&) const = default;
};
struct sixteen_others {
  std::string a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
  bool operator==(const sixteen_others&) const = default;
};
struct defaults {
  int a = 7;
  double b = 0.5;
  std::string c = "c";
};

// Their own way comes first.
struct with_member {
  double x, y;
  template <class A> void serialize(A& ar) { ar(x); }
};
struct with_free {
  double x, y;
};
template <class A> void serialize(A& ar, with_free& v) { ar(v.y); }
struct with_split {
  double x, y;
  template <class A> void save(A& ar) const { ar(x, y, x); }
  template <class A> void load(A& ar) { ar(x, y, x); }
};
struct declared {
  std::int32_t a;
  double b;
};

class closed {
public:
  closed() = default;

private:
  [[maybe_unused]] double x_ = 0, y_ = 0;
};

} // namespace aggregates

template <> inline constexpr bool tern::is_bitwise<aggregates::declared> = true;

namespace aggregates {
namespace {

using tern::detail::bitwise;
using tern::detail::min_size;

static_assert(bitwise<point> && bitwise<std::array<point, 3>> && bitwise<point[2]> && bitwise<sixteen>);
static_assert(!bitwise<with_gap>, "what lies in the gap would travel");
static_assert(!bitwise<flags>, "a bool is checked when it comes");
static_assert(!bitwise<nothing> && !bitwise<with_member> && !bitwise<with_free> && !bitwise<with_split>);
static_assert(!bitwise<closed> && bitwise<declared>);
static_assert(min_size<with_gap>() == 12 && min_size<nothing>() == 0 && min_size<tree>() == 4 + 8 + 1);

template <class T> T there_and_back(const T& x) { return tern::unpack<T>(tern::pack(x)); }
template <class T> std::vector<std::byte> bytes_of(const T& x) {
  const auto b = tern::pack(x);
  return {b.bytes().begin(), b.bytes().end()};
}

TEST(aggregate, travels_member_by_member) {
  EXPECT_EQ(there_and_back(point{1, 2}), (point{1, 2}));
  EXPECT_EQ(there_and_back(with_gap{1, 2}), (with_gap{1, 2}));
  EXPECT_EQ(tern::packed_size(with_gap{1, 2}), 12U); // without the gap
  EXPECT_EQ(there_and_back(sixteen{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
            (sixteen{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  const sixteen_others many{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
  EXPECT_EQ(there_and_back(many), many);
  const auto d = there_and_back(defaults{8, 0.25, "d"});
  EXPECT_TRUE(d.a == 8 && d.b == 0.25 && d.c == "d");
  EXPECT_EQ(tern::packed_size(nothing()), 0U);
}

TEST(aggregate, may_contain_arrays_containers_and_others) {
  particle p;
  for (int i = 0; i < 3; ++i) p.position[i] = i + 0.5;
  p.velocity = {4, 5};
  p.track = {{6, 7}, {8, 9}};
  p.name = "muon";
  p.tag[0] = 'a', p.tag[1] = 'b', p.tag[2] = 'c', p.tag[3] = 'd';
  p.mark = with_gap{1, 2};
  p.alive = false;
  p.parents = {"left", "right"};
  const particle q = there_and_back(p);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(q.position[i], i + 0.5);
  EXPECT_TRUE(q.velocity == p.velocity && q.track == p.track && q.name == "muon" && q.tag[3] == 'd');
  EXPECT_TRUE(q.mark == p.mark && !q.alive && q.parents == p.parents);

  tree t{1, {}, std::make_unique<tree>(tree{3, {}, nullptr})};
  t.children.push_back({2, {}, nullptr});
  const tree u = there_and_back(t);
  ASSERT_TRUE(u.left && u.children.size() == 1);
  EXPECT_TRUE(u.value == 1 && u.left->value == 3 && u.children[0].value == 2);

  const std::map<std::string, with_gap> by_name{{"a", {1, 2}}, {"b", {3, 4}}};
  EXPECT_EQ(there_and_back(by_name), by_name);
  const std::variant<int, point> either = point{1, 2};
  EXPECT_EQ(there_and_back(either), either);
  EXPECT_EQ(there_and_back(std::vector<nothing>(5)).size(), 5U);
}

TEST(aggregate, its_bytes_are_those_of_its_members) {
  EXPECT_EQ(bytes_of(point{1, 2}), bytes_of(std::pair(1.0, 2.0))); // whether copied or member by member
  EXPECT_EQ(bytes_of(std::vector<point>{{1, 2}, {3, 4}}),
            bytes_of(std::vector<std::pair<double, double>>{{1, 2}, {3, 4}}));
  EXPECT_EQ(bytes_of(with_gap{1, 2}), bytes_of(std::pair(1, 2.0)));
}

TEST(aggregate, a_class_that_says_how_does_it_so) {
  EXPECT_EQ(there_and_back(with_member{1, 2}).x, 1);
  EXPECT_EQ(tern::packed_size(with_member{1, 2}), 8U);
  EXPECT_EQ(there_and_back(with_free{1, 2}).y, 2);
  EXPECT_EQ(tern::packed_size(with_free{1, 2}), 8U);
  EXPECT_EQ(tern::packed_size(with_split{1, 2}), 24U);
  EXPECT_EQ(tern::packed_size(declared{1, 2}), 16U); // with its gap
}

TEST(aggregate, hostile_bytes_are_refused) {
  const auto refused = [](auto example, std::size_t size) {
    using type = decltype(example);
    const auto good = tern::pack(example);
    for (std::size_t n = 0; n < size; ++n)
      EXPECT_THROW(static_cast<void>(tern::unpack<type>(good.bytes().first(n))), tern::error) << n;
  };
  refused(point{1, 2}, 16);
  refused(with_gap{1, 2}, 12);
  refused(std::vector<with_gap>(3), 8 + 36);
  // A bool inside is checked.
  auto bad = tern::pack(flags{true, false});
  bad.bytes()[1] = std::byte{2};
  EXPECT_THROW(static_cast<void>(tern::unpack<flags>(bad)), tern::error);
  // A length is, by the least that an element takes: 4 GiB of them do not make room for 48 GiB.
  const auto forged = tern::pack(std::uint64_t{1} << 32, with_gap{});
  EXPECT_THROW(static_cast<void>(tern::unpack<std::vector<with_gap>>(forged)), tern::error);
  const auto empty = tern::pack(std::uint64_t{1} << 62);
  EXPECT_THROW(static_cast<void>(tern::unpack<std::vector<nothing>>(empty)), tern::error);
}

TEST(aggregate, nesting_has_an_end) {
  tree t{0, {}, nullptr};
  tree* last = &t;
  for (int i = 0; i < 2 * tern::archive_max_depth; ++i) {
    last->left = std::make_unique<tree>(tree{i, {}, nullptr});
    last = last->left.get();
  }
  EXPECT_THROW(static_cast<void>(tern::pack(t)), tern::error);
}

} // namespace
} // namespace aggregates

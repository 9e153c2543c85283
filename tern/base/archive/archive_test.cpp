// SPDX-License-Identifier: Apache-2.0
// Round trips: everything that archives handle, in each way that a user may write it.
#include <tern/base/archive.hpp>

#include <cmath>

#include <gmock/gmock.h>
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

namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class T> T through(const T& x) {
  const tern::byte_buffer bytes = tern::pack(x);
  EXPECT_EQ(bytes.size(), tern::packed_size(x));
  T assigned = tern::unpack<T>(bytes);
  tern::unpack_into(bytes, assigned); // over an existing value too
  return assigned;
}
#define EXPECT_ROUND_TRIP(...)                                                                                         \
  do {                                                                                                                 \
    const auto original = __VA_ARGS__;                                                                                 \
    EXPECT_EQ(through(original), original);                                                                            \
  } while (false)

TEST(archive, numbers) {
  EXPECT_ROUND_TRIP(42);
  EXPECT_ROUND_TRIP(static_cast<signed char>(-1));
  EXPECT_ROUND_TRIP('x');
  EXPECT_ROUND_TRIP(L'x');
  EXPECT_ROUND_TRIP(std::uint64_t{1} << 63);
  EXPECT_ROUND_TRIP(-0.5f);
  EXPECT_ROUND_TRIP(3.25L);
  EXPECT_ROUND_TRIP(true);
  EXPECT_ROUND_TRIP(std::byte{7});
  EXPECT_ROUND_TRIP(shapes::colour::green);
  EXPECT_ROUND_TRIP(shapes::two);
  EXPECT_ROUND_TRIP(shapes::truth::yes);
  EXPECT_TRUE(std::isnan(through(std::nan(""))));
  EXPECT_EQ(tern::packed_size(std::int32_t{}, std::int8_t{}, 1.0), 13u);
}

TEST(archive, arrays) {
  EXPECT_ROUND_TRIP(std::array<int, 3>{1, 2, 3});
  EXPECT_ROUND_TRIP(std::array<std::string, 2>{"a", "bc"});
  EXPECT_ROUND_TRIP(std::array<bool, 2>{true, false});
  EXPECT_ROUND_TRIP(std::array<int, 0>{});
  EXPECT_EQ(tern::packed_size(std::array<int, 0>{}), 0u);
  int from[2][2] = {{1, 2}, {3, 4}}, to[2][2] = {};
  tern::unpack_into(tern::pack(from), to);
  EXPECT_EQ(to[1][0], 3);
  EXPECT_EQ(tern::packed_size(from), sizeof from);
  std::string words[2] = {"x", "yz"}, loaded[2];
  tern::unpack_into(tern::pack(words), loaded);
  EXPECT_EQ(loaded[1], "yz");
  char text[4] = {};
  tern::unpack_into(tern::pack("abc"), text);
  EXPECT_STREQ(text, "abc");
}

TEST(archive, sequences) {
  EXPECT_ROUND_TRIP(std::string("text\0with zero", 14));
  EXPECT_ROUND_TRIP(std::string());
  EXPECT_ROUND_TRIP(std::u16string(u"xyz"));
  EXPECT_ROUND_TRIP(std::vector<int>{1, 2, 3});
  EXPECT_ROUND_TRIP(std::vector<int>{});
  EXPECT_ROUND_TRIP(std::vector<std::string>{"a", "", "ccc"});
  EXPECT_ROUND_TRIP(std::vector<std::vector<double>>{{1, 2}, {}, {3}});
  EXPECT_ROUND_TRIP(std::deque<int>{1, 2});
  EXPECT_ROUND_TRIP(std::deque<std::string>{"q"});
  EXPECT_ROUND_TRIP(std::list<short>{1, 2});
  EXPECT_ROUND_TRIP(std::list<std::list<int>>{{1}, {2, 3}});
  for (std::size_t n = 0; n < 40; ++n) {
    std::vector<bool> bits(n);
    for (std::size_t i = 0; i < n; ++i) bits[i] = i % 3 == 0;
    EXPECT_ROUND_TRIP(bits);
    EXPECT_EQ(tern::packed_size(bits), 8 + (n + 7) / 8);
  }
}

TEST(archive, maps_and_sets) {
  EXPECT_ROUND_TRIP(std::map<int, std::string>{{1, "a"}, {2, "b"}});
  EXPECT_ROUND_TRIP(std::multimap<int, int>{{1, 2}, {1, 3}});
  EXPECT_ROUND_TRIP(std::unordered_map<std::string, std::vector<int>>{{"a", {1}}, {"b", {}}});
  EXPECT_ROUND_TRIP(std::unordered_multimap<int, int>{{1, 2}, {1, 3}});
  EXPECT_ROUND_TRIP(std::set<std::string>{"x", "y"});
  EXPECT_ROUND_TRIP(std::multiset<int>{1, 1, 2});
  EXPECT_ROUND_TRIP(std::unordered_set<int>{5, 6});
  EXPECT_ROUND_TRIP(std::unordered_multiset<int>{5, 5, 6});
}

TEST(archive, values) {
  EXPECT_ROUND_TRIP(std::pair<int, std::string>{1, "x"});
  EXPECT_ROUND_TRIP(std::tuple<int, std::string, double>{1, "x", 2.5});
  EXPECT_ROUND_TRIP(std::tuple<>{});
  EXPECT_ROUND_TRIP(std::optional<int>{});
  EXPECT_ROUND_TRIP(std::optional<std::string>{"x"});
  EXPECT_ROUND_TRIP(std::optional<std::optional<int>>{std::optional<int>{}});
  using choice = std::variant<std::monostate, int, std::string, std::vector<int>>;
  for (const choice& c : {choice{}, choice{7}, choice{"x"}, choice{std::vector<int>{1}}}) EXPECT_ROUND_TRIP(c);
  EXPECT_ROUND_TRIP(std::complex<double>(1, -2));
  EXPECT_ROUND_TRIP(std::vector<std::complex<float>>{{1, 2}, {3, 4}});
  EXPECT_ROUND_TRIP(std::chrono::milliseconds(1500));
  EXPECT_ROUND_TRIP(std::chrono::duration<double>(1.5));
  EXPECT_ROUND_TRIP(std::chrono::steady_clock::time_point(std::chrono::seconds(3)));
}

TEST(archive, buffers_spans_and_views) {
  const std::string text = "hello";
  const auto bytes = tern::pack(text);
  EXPECT_EQ(tern::pack(std::string_view(text)), bytes);
  EXPECT_EQ(tern::pack(std::span<const char>(text.data(), text.size())), bytes);
  const std::vector<std::string> words{"a", "b"};
  EXPECT_EQ(tern::unpack<std::vector<std::string>>(tern::pack(std::span(words))), words);
  const auto nested = tern::unpack<tern::byte_buffer>(tern::pack(bytes));
  EXPECT_EQ(nested, bytes);
  EXPECT_TRUE(tern::unpack<tern::byte_buffer>(tern::pack(tern::byte_buffer())).empty());
}

TEST(archive, each_way_to_describe_a_class) {
  EXPECT_ROUND_TRIP(shapes::member{1, "x"});
  EXPECT_ROUND_TRIP(shapes::free_one{2.5});
  EXPECT_EQ(tern::unpack<shapes::split_member>(tern::pack(shapes::split_member{{1, 2, 3}, 0})).sum, 6);
  EXPECT_EQ(tern::unpack<shapes::split_free>(tern::pack(shapes::split_free{4})).x, 5);
  EXPECT_EQ(tern::unpack<shapes::hidden>(tern::pack(shapes::hidden::make(7))).x(), 7);
  EXPECT_EQ(tern::unpack<shapes::self_reading>(tern::pack(shapes::self_reading(8))).x(), 8);
  EXPECT_ROUND_TRIP(std::vector<shapes::member>{{1, "a"}, {2, "b"}});
  shapes::derived d;
  d.b = 10, d.d = 20;
  const auto loaded = through(d);
  EXPECT_EQ(loaded.b, 10);
  EXPECT_EQ(loaded.d, 20);
  const shapes::raw r{{1, 2, 3, 4}};
  EXPECT_EQ(through(r).bytes, r.bytes);
  EXPECT_EQ(tern::packed_size(r), 4u);
}

TEST(archive, types_without_public_default_constructor) {
  std::vector<shapes::hidden> h;
  h.push_back(shapes::hidden::make(1));
  EXPECT_EQ(tern::unpack<std::vector<shapes::hidden>>(tern::pack(h)).at(0).x(), 1);
  EXPECT_EQ(tern::unpack<std::unique_ptr<shapes::hidden>>(tern::pack(std::make_unique<shapes::hidden>(h[0])))->x(), 1);
  EXPECT_EQ(tern::unpack<std::shared_ptr<shapes::hidden>>(tern::pack(std::make_shared<shapes::hidden>(h[0])))->x(), 1);

  using s = shapes::self_reading;
  EXPECT_EQ(tern::unpack<std::vector<s>>(tern::pack(std::vector<s>{s(1), s(2)})).at(1).x(), 2);
  EXPECT_EQ(tern::unpack<std::list<s>>(tern::pack(std::list<s>{s(1)})).front().x(), 1);
  EXPECT_EQ((tern::unpack<std::map<int, s>>(tern::pack(std::map<int, s>{{1, s(2)}})).at(1).x()), 2);
  EXPECT_EQ((tern::unpack<std::pair<s, int>>(tern::pack(std::pair<s, int>{s(3), 1})).first.x()), 3);
  EXPECT_EQ((std::get<1>(tern::unpack<std::tuple<int, s>>(tern::pack(std::tuple<int, s>{1, s(3)}))).x()), 3);
  EXPECT_EQ((tern::unpack<std::array<s, 2>>(tern::pack(std::array<s, 2>{s(1), s(4)}))[1].x()), 4);
  EXPECT_EQ(tern::unpack<std::optional<s>>(tern::pack(std::optional<s>(5)))->x(), 5);
  EXPECT_EQ((std::get<s>(tern::unpack<std::variant<s, int>>(tern::pack(std::variant<s, int>(s(6))))).x()), 6);
  EXPECT_EQ(tern::unpack<std::unique_ptr<s>>(tern::pack(std::make_unique<s>(7)))->x(), 7);
  EXPECT_EQ(tern::unpack<std::shared_ptr<const s>>(tern::pack(std::shared_ptr<const s>(new s(8))))->x(), 8);
  s assigned(0);
  tern::unpack_into(tern::pack(s(9)), assigned);
  EXPECT_EQ(assigned.x(), 9);

  const auto floats = tern::unpack<std::vector<shapes::no_default>>(
      tern::pack(std::vector<shapes::no_default>(3, shapes::no_default(2.5f))));
  ASSERT_EQ(floats.size(), 3u);
  EXPECT_EQ(floats[2].value, 2.5f);
  EXPECT_EQ(
      tern::unpack<std::unique_ptr<shapes::no_default>>(tern::pack(std::make_unique<shapes::no_default>(1.5f)))->value,
      1.5f);
}

TEST(archive, bitwise_classes_travel_as_bytes) {
  const std::vector<shapes::point> points{{1, 2}, {3, 4}};
  EXPECT_ROUND_TRIP(points);
  const auto bytes = tern::pack(points);
  ASSERT_EQ(bytes.size(), 8 + 2 * sizeof(shapes::point));
  EXPECT_EQ(std::memcmp(bytes.data() + 8, points.data(), 2 * sizeof(shapes::point)), 0);
  EXPECT_EQ(tern::unpack<shapes::both>(tern::pack(shapes::both{5})).x, 5); // serialize is not called
  EXPECT_EQ(tern::packed_size(std::deque<shapes::point>(3)), 8 + 3 * sizeof(shapes::point));
  // At an odd offset, where the elements are not aligned:
  const auto [c, loaded] = tern::unpack<char, std::vector<shapes::point>>(tern::pack('c', points));
  EXPECT_EQ(c, 'c');
  EXPECT_EQ(loaded, points);
}

TEST(archive, elements_without_bytes_are_counted_right) {
  for (std::size_t n : {0u, 1u, 100u}) {
    EXPECT_ROUND_TRIP(std::vector<shapes::empty>(n));
    EXPECT_ROUND_TRIP(std::vector<std::pair<shapes::empty, std::monostate>>(n));
    EXPECT_EQ(tern::packed_size(std::vector<shapes::empty>(n)), 8 + n);
  }
  EXPECT_ROUND_TRIP(std::vector<std::tuple<>>(3));
  EXPECT_ROUND_TRIP(std::list<std::array<int, 0>>(3));
  EXPECT_EQ(tern::packed_size(shapes::empty{}), 0u);
}

TEST(archive, trees) {
  shapes::tree root;
  root.value = 1;
  root.children.resize(2);
  root.children[1].value = 2;
  root.named[7].value = 3;
  root.left = std::make_unique<shapes::tree>();
  root.left->left = std::make_unique<shapes::tree>();
  root.left->left->value = 4;
  const auto copy = tern::unpack<shapes::tree>(tern::pack(root));
  EXPECT_EQ(copy.children.at(1).value, 2);
  EXPECT_EQ(copy.named.at(7).value, 3);
  EXPECT_EQ(copy.left->left->value, 4);
  EXPECT_EQ(copy.left->left->left, nullptr);
}

TEST(archive, shared_objects_stay_shared) {
  const auto a = std::make_shared<std::string>("a");
  const auto [x, y, z, n] = tern::unpack<std::shared_ptr<std::string>, std::shared_ptr<std::string>,
                                         std::shared_ptr<const std::string>, std::shared_ptr<std::string>>(tern::pack(
      a, std::make_shared<std::string>("b"), std::shared_ptr<const std::string>(a), std::shared_ptr<std::string>()));
  EXPECT_EQ(*x, "a");
  EXPECT_EQ(*y, "b");
  EXPECT_EQ(x, z);
  EXPECT_EQ(n, nullptr);
  EXPECT_EQ(x.use_count(), 2);
  std::vector<std::shared_ptr<int>> many(1000, std::make_shared<int>(5));
  const auto loaded = tern::unpack<std::vector<std::shared_ptr<int>>>(tern::pack(many));
  EXPECT_EQ(loaded.front(), loaded.back());
  EXPECT_EQ(tern::packed_size(many), 8 + 1000 * 4 + 4);
}

TEST(archive, same_address_of_two_types_is_two_objects) {
  struct holder {
    int first;
  };
  const auto whole = std::make_shared<holder>(holder{5});
  const std::shared_ptr<int> part(whole, &whole->first);
  const std::shared_ptr<unsigned> other(whole, reinterpret_cast<unsigned*>(&whole->first));
  const auto [x, y] = tern::unpack<std::shared_ptr<int>, std::shared_ptr<unsigned>>(tern::pack(part, other));
  EXPECT_EQ(*x, 5);
  EXPECT_EQ(*y, 5u);
}

struct makes_temporaries {
  template <class A> void save(A& ar) const {
    for (int i = 0; i < 10; ++i) ar(std::make_shared<int>(i)); // often at one address
  }
  template <class A> void load(A& ar) {
    for (int i = 0; i < 10; ++i) {
      std::shared_ptr<int> p;
      ar(p);
      EXPECT_EQ(*p, i);
    }
  }
};
TEST(archive, temporaries_are_not_mistaken_for_shared) {
  (void)tern::unpack<makes_temporaries>(tern::pack(makes_temporaries{}));
}

TEST(archive, prefix_is_left_to_the_caller) {
  const auto bytes = tern::pack_after(5, 1, 2);
  ASSERT_EQ(bytes.size(), 13u);
  EXPECT_EQ((tern::unpack<int, int>(bytes.bytes().subspan(5))), std::make_tuple(1, 2));
  EXPECT_TRUE(tern::pack().empty());
  EXPECT_EQ(tern::unpack<>({}), std::tuple<>());
}

TEST(archive, reads_piecewise) {
  const auto bytes = tern::pack(1, std::string("x"), 2.5);
  tern::input_archive in(bytes);
  EXPECT_EQ(tern::unpack_next<int>(in), 1);
  EXPECT_EQ(in.position(), 4u);
  EXPECT_EQ(in.remaining(), bytes.size() - 4);
  EXPECT_EQ((tern::unpack<std::string, double>(in.rest())), std::make_tuple(std::string("x"), 2.5));
  std::string s;
  double d = 0;
  in >> s >> d;
  in.finish();
  EXPECT_EQ(s, "x");
}

TEST(archive, writes_into_given_memory) {
  std::array<std::byte, 8> memory;
  tern::output_archive out(memory);
  out << 1 << 2;
  out.finish();
  tern::output_archive small(std::span<std::byte>(memory).first(3));
  small(1, char{2});
  EXPECT_EQ(small.position(), 5u);
  EXPECT_THROW(small.finish(), tern::error);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
// Round trips of classes, in each way that a user may describe one.
#include "archive_shapes.hpp"

namespace {

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
  const auto loaded = shapes::through(d);
  EXPECT_EQ(loaded.b, 10);
  EXPECT_EQ(loaded.d, 20);
  const shapes::raw r{{1, 2, 3, 4}};
  EXPECT_EQ(shapes::through(r).bytes, r.bytes);
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

} // namespace

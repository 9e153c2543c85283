// SPDX-License-Identifier: Apache-2.0
// Shared objects, and the interface of archives.
#include "archive_shapes.hpp"

namespace {

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

// SPDX-License-Identifier: Apache-2.0
// Round trips of containers.
#include "archive_shapes.hpp"

namespace {

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

} // namespace

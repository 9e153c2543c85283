// SPDX-License-Identifier: Apache-2.0
#include <tern/task/wait/indexed_heap.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tern::detail {
namespace {

struct number {
  int value;
  bool before(const number& o) const noexcept { return value < o.value; }
};

TEST(heap, gives_them_in_order) {
  std::mt19937 random(1);
  for (const int n : {0, 1, 2, 4, 5, 6, 21, 22, 1000}) {
    indexed_heap<number> h;
    std::vector<int> all;
    for (int i = 0; i < n; ++i) {
      all.push_back(static_cast<int>(random() % 100));
      h.push({all.back()});
    }
    std::sort(all.begin(), all.end());
    for (const int x : all) {
      ASSERT_EQ(h.top().value, x);
      EXPECT_EQ(h.pop().value, x);
    }
    EXPECT_TRUE(h.empty());
  }
}

struct tracked {
  int value;
  std::size_t* place;
  bool before(const tracked& o) const noexcept { return value < o.value; }
  void moved(std::size_t i) const noexcept { *place = i; }
};

// Against a plain list: push, take from anywhere, change anywhere; each knows where it stands.
TEST(heap, elements_know_their_place) {
  std::mt19937 random(7);
  indexed_heap<tracked> h;
  std::vector<std::size_t> places(64);
  std::map<std::size_t, int> inside; // which, its value
  for (int round = 0; round < 20'000; ++round) {
    const std::size_t which = random() % places.size();
    const int value = static_cast<int>(random() % 50);
    if (!inside.count(which)) {
      h.push({value, &places[which]});
      inside[which] = value;
    } else if (random() % 2) {
      ASSERT_EQ(h[places[which]].place, &places[which]);
      EXPECT_EQ(h.take(places[which]).value, inside[which]);
      inside.erase(which);
    } else {
      h.put(places[which], {value, &places[which]});
      inside[which] = value;
    }
    ASSERT_EQ(h.size(), inside.size());
    int least = 1000;
    for (const auto& [one, v] : inside) {
      ASSERT_EQ(h[places[one]].value, v);
      least = std::min(least, v);
    }
    if (!inside.empty()) {
      ASSERT_EQ(h.top().value, least);
    }
  }
}

TEST(heap, erase_if_keeps_the_rest) {
  indexed_heap<number> h;
  for (int i = 0; i < 100; ++i) h.push({i * 37 % 100});
  h.erase_if([](const number& x) { return x.value % 3 == 0; });
  EXPECT_EQ(h.size(), 66u);
  for (int i = 0; i < 100; ++i)
    if (i % 3 != 0) {
      EXPECT_EQ(h.pop().value, i);
    }
}

} // namespace
} // namespace tern::detail

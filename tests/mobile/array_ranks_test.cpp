// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/report.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/semaphore.hpp>

#include "rank_test.hpp"

namespace array_test {

using tern::errc;
using tern::mobile_array;
using tern::rank;
using tern::size;

class cell {
public:
  cell() = default;
  cell(const tern::indices<2>& at, double scale) : at_(at), value_(scale * static_cast<double>(10 * at[0] + at[1])) {}
  void add(double x) { value_ += x; }
  void append(const std::string& s) { text_ += s; }
  double value() const { return value_; }
  std::string text() const { return text_; }
  int born() const { return tern::rank(); }
  tern::indices<2> place() const { return tern::array_index<2>(); }
  bool right_place() const { return tern::array_index<2>() == at_; }
  double refuse() const { throw tern::error(errc::unsupported, "never"); }
  void fail(std::int64_t row) {
    if (at_[0] == row) throw tern::error(errc::io, "no paper", "load the tray");
  }
  template <class A> void serialize(A& ar) { ar(at_, value_, text_); }

private:
  tern::indices<2> at_{};
  double value_ = 0;
  std::string text_;
};
using grid = mobile_array<cell, 2>;

// On one rank, and told to the others.
grid make_grid(const tern::array_options& how, const tern::extents<2>& size, double scale = 1, int by = 0) {
  return tern::broadcast(rank() == by ? grid(how, size, scale) : grid(), by);
}

TERN_RANK_TEST(elements_are_named_at_no_message) {
  const grid a = make_grid({.name = "grid"}, {4, 6}, 1, size() - 1);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j) {
      TERN_EXPECT_EQ(tern::call<&cell::value>(a(i, j)).get(), 10.0 * i + j);
      TERN_EXPECT_EQ(tern::call<&cell::born>(a(i, j)).get(), a(i, j).home());
      TERN_EXPECT(tern::call<&cell::right_place>(a(i, j)).get());
    }
  TERN_EXPECT_EQ(a.name(), "grid");
  TERN_EXPECT_EQ(a.size()[1], 6);
  TERN_EXPECT_EQ(a(0, 0).home(), 0);
  TERN_EXPECT_EQ(a(3, 5).home(), std::min(size(), 24) - 1);
  tern::barrier();
  if (rank() == 0) tern::destroy(a).get();
  tern::barrier();
  TERN_EXPECT_ERROR(tern::send<&cell::add>(a, 1.0), errc::not_found, "has been destroyed");
  TERN_EXPECT_EQ(tern::mobile::directory::here().size(), 0u);
  tern::barrier();
}

TERN_RANK_TEST(broadcasts_reach_all_in_order) {
  const grid a = make_grid({}, {5, 7}, 0);
  tern::barrier();
  if (rank() == size() - 1)
    for (int i = 0; i < 20; ++i) tern::send<&cell::append>(a, std::string(1, static_cast<char>('a' + i)));
  tern::quiesce();
  if (rank() == 0)
    for (int i = 0; i < 5; ++i)
      for (int j = 0; j < 7; ++j)
        TERN_EXPECT_EQ(tern::call<&cell::text>(a(i, j)).get(), std::string("abcdefghijklmnopqrst"));
  tern::send<&cell::add>(a, 1.0);
  tern::quiesce();
  TERN_EXPECT_EQ(tern::reduce<&cell::value>(a, std::plus<>()).get(), 35.0 * size());
  tern::barrier();
  if (rank() == 0) {
    tern::send<&cell::add>(a.part({1, 2}, {3, 4}), 100.0);
    TERN_EXPECT_EQ(tern::reduce<&cell::value>(a, std::plus<>()).get(), 35.0 * size() + 400);
    TERN_EXPECT_EQ(tern::reduce<&cell::value>(a.part({1, 2}, {3, 4}), std::plus<>()).get(), 4.0 * size() + 400);
    tern::call<&cell::add>(a.part({0, 0}, {5, 7}, {2, 3}), 1000.0).get();
    TERN_EXPECT_EQ(tern::call<&cell::value>(a(4, 6)).get(), size() + 1000.0);
    TERN_EXPECT_EQ(tern::call<&cell::value>(a(4, 5)).get(), size() + 0.0);
    TERN_EXPECT_EQ(a.part({0, 0}, {5, 7}, {2, 3}).count(), 9);
    TERN_EXPECT_EQ(a.part({1, 1}, {5, 7}, {1, 2}).part({1, 1}, {3, 3}).count(), 4);
  }
  tern::barrier();
  if (rank() == 0) tern::destroy(a).get();
  tern::barrier();
}

// Rounds differently in any other order.
struct rough {
  explicit rough(const tern::indices<1>& at) : value(1.0 / static_cast<double>(3 + at[0] * at[0] % 1009)) {}
  rough() = default;
  double value = 0;
  double get() const { return value; }
  double take() { return value; } // exclusive: by messages
  template <class A> void serialize(A& ar) { ar(value); }
};
int scattered(const tern::indices<1>& at, const tern::extents<1>&, int ranks) {
  return static_cast<int>(at[0] * 7 % 5 % ranks);
}

// What a tree of aligned blocks gives, written anew.
double by_blocks(std::int64_t first, std::int64_t last, std::int64_t width) {
  if (first >= last) return 0;
  if (width == 1) return rough({first}).value;
  const std::int64_t middle = first + width / 2;
  const double left = by_blocks(first, std::min(middle, last), width / 2);
  return middle < last ? left + by_blocks(middle, last, width / 2) : left;
}

TERN_RANK_TEST(reductions_have_the_same_bits_for_any_placement) {
  if (rank() == 0) {
    for (const std::int64_t n : {1, 2, 5, 64, 333}) {
      std::int64_t width = 1;
      while (width < n) width *= 2;
      const double expected = by_blocks(0, n, width);
      for (const auto& mapping : {tern::block_mapping, tern::cyclic_mapping, tern::map_by<&scattered>}) {
        const mobile_array<rough> a({.mapping = mapping}, {n});
        TERN_EXPECT(tern::reduce<&rough::get>(a, std::plus<>()).get() == expected);
        for (std::int64_t i = 0; i < n; i += 3) tern::migrate(a(i), static_cast<int>(i + 1) % size()).get();
        TERN_EXPECT(tern::reduce<&rough::get>(a, std::plus<>()).get() == expected);
        TERN_EXPECT(tern::reduce<&rough::take>(a, std::plus<>()).get() == expected);
        tern::destroy(a).get();
      }
    }
    // In order, though it is not commutative.
    const grid g({.mapping = tern::cyclic_mapping}, {3, 4}, 1.0);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        tern::call<&cell::append>(g(i, j), std::string(1, static_cast<char>('a' + 4 * i + j))).get();
    TERN_EXPECT_EQ(tern::reduce<&cell::text>(g, std::plus<>()).get(), std::string("abcdefghijkl"));
    TERN_EXPECT_EQ(tern::reduce<&cell::text>(g.part({0, 1}, {3, 4}, {2, 2}), std::plus<>()).get(), std::string("bdjl"));
    tern::destroy(g).get();
  }
  tern::barrier();
}

TERN_RANK_TEST(misuse_is_told) {
  if (rank() == 0) {
    const grid a({.name = "grid"}, {3, 4}, 1.0);
    TERN_EXPECT_ERROR(a(3, 0), errc::invalid_argument,
                      "index (3, 0) is outside of 'grid' (array_test::cell), whose extents are 3 x 4");
    TERN_EXPECT_ERROR(a(0, -1), errc::invalid_argument, "index (0, -1) is outside of 'grid'");
    TERN_EXPECT_ERROR(a.part({0, 0}, {4, 4}), errc::invalid_argument,
                      "a section of 'grid' (array_test::cell) goes from 0 to before 4 by 1 in dimension 0, where there "
                      "are 3 elements");
    TERN_EXPECT_ERROR(a.part({0, 2}, {3, 2}), errc::invalid_argument, "from 2 to before 2");
    TERN_EXPECT_ERROR(a.insert({1, 1}, 1.0).get(), errc::already_exists,
                      "array_test::cell(1, 1) of 'grid' exists already");
    TERN_EXPECT_ERROR(grid({.name = "none"}, {3, 0}, 1.0), errc::invalid_argument,
                      "the extents of 'none' (array_test::cell) are 3 x 0");
    TERN_EXPECT_ERROR(grid({.name = "huge"}, {1 << 20, 1 << 20}, 1.0), errc::invalid_argument,
                      "more than 2^38 elements");
    const auto beyond = tern::map_by<[](const tern::indices<2>& at, const tern::extents<2>&, int ranks) {
      return at == tern::indices<2>{1, 2} ? ranks : 0;
    }>;
    TERN_EXPECT_ERROR(grid({.mapping = beyond, .name = "odd"}, {2, 3}, 1.0), errc::invalid_argument,
                      "of 'odd' puts element (1, 2) on rank " + std::to_string(size()) + ", but the job has " +
                          std::to_string(size()));
    TERN_EXPECT_ERROR(grid({.mapping = tern::map_by<&scattered>, .name = "odd"}, {2, 3}, 1.0), errc::invalid_argument,
                      "is for 1 dimensions, and the array has 2");
    TERN_EXPECT_ERROR(tern::send<&cell::add>(grid(), 1.0), errc::invalid_argument, "names no array");
    TERN_EXPECT_ERROR(tern::array_index<2>(), errc::invalid_state, "array_index");
    TERN_EXPECT_ERROR(tern::call<&cell::fail>(a, 1).get(), errc::io,
                      "no paper (in 'array_test::cell::fail' of array_test::cell(1, ");
    TERN_EXPECT_ERROR(tern::call<&cell::fail>(a(2, 3), 2).get(), errc::io,
                      "'array_test::cell::fail' of array_test::cell(2, 3) of 'grid' (object ");
    TERN_EXPECT_ERROR(tern::reduce<&cell::refuse>(a, std::plus<>()).get(), errc::unsupported, "of 'grid'");
    tern::destroy(a).get();
    // Its name is told where it is not known how.
    const auto alone = tern::create<cell>();
    TERN_EXPECT_ERROR(tern::call<&cell::place>(alone).get(), errc::invalid_state, "is no element of an array");
    tern::destroy(alone).get();
  }
  tern::barrier();
}

// Waits until it is let go.
struct door {
  explicit door(const tern::indices<2>&) {}
  void wait() {
    inside.release();
    open.acquire();
  }
  static inline tern::semaphore inside{0}, open{0}; // of the ranks of one process
};
TERN_RANK_TEST(reports_name_elements) {
  if (rank() == 0) {
    const mobile_array<door, 2> doors({.name = "doors"}, {1, 3});
    auto held = tern::call<&door::wait>(doors(0, 0)); // it was born here
    door::inside.acquire();
    auto waits = tern::call<&door::wait>(doors(0, 0));
    tern::call<[](door&) {}>(doors(0, 1)).get();
    const std::string report = tern::net::describe(tern::net::node::here(), false);
    TERN_EXPECT(report.find(", array_test::door(0, 0) of 'doors' (array_test::door), an exclusive invocation runs") !=
                std::string::npos);
    door::open.release(2);
    held.get();
    waits.get();
    door::inside.acquire();
    tern::destroy(doors).get();
  }
  tern::barrier();
}

// The constructor takes the array; and may fail.
struct linked {
  linked() = default;
  linked(const mobile_array<linked, 3>& all, const tern::indices<3>& at, int bad)
      : next(all(at[0], at[1], (at[2] + 1) % all.size()[2])) {
    if (at[2] == bad) throw std::runtime_error("no more");
  }
  tern::mobile_ptr<linked> next;
  long visits = 0;
  void visit(int hops) {
    ++visits;
    if (hops > 0) tern::send<&linked::visit>(next, hops - 1);
  }
  long seen() const { return visits; }
  template <class A> void serialize(A& ar) { ar(next, visits); }
};
TERN_RANK_TEST(constructors_take_array_and_place) {
  if (rank() == 0) {
    const mobile_array<linked, 3> a({2, 3, 4}, -1);
    tern::call<&linked::visit>(a, 3).get();
    while (tern::reduce<&linked::seen>(a, std::plus<>()).get() < 24 * 4) tern::this_fiber::yield();
    tern::destroy(a).get();
    TERN_EXPECT_ERROR((mobile_array<linked, 3>({2, 3, 4}, 2)), errc::remote, "no more");
  }
  tern::quiesce();
  TERN_EXPECT_EQ(tern::mobile::directory::here().size(), 0u);
  tern::barrier();
}

TERN_RANK_TEST(sparse_arrays_grow_and_shrink) {
  const grid a = make_grid({.sparse = true, .name = "sparse"}, {1000, 1000});
  tern::barrier();
  if (rank() == 0)
    TERN_EXPECT_ERROR(
        tern::reduce<&cell::value>(a, std::plus<>()).get(), errc::not_found,
        "a reduction over a section of 'sparse' (array_test::cell) found no element (in tern::reduce over "
        "array 'sparse' on rank");
  tern::barrier();
  for (int i = 0; i < 5; ++i) {
    const auto made = a.insert({100 * i + rank(), 10 * i}, 0.0).get();
    TERN_EXPECT(made == a(100 * i + rank(), 10 * i));
    TERN_EXPECT(tern::call<&cell::right_place>(made).get());
  }
  tern::barrier();
  tern::call<&cell::add>(a, 1.0).get();
  tern::barrier();
  TERN_EXPECT_EQ(tern::reduce<&cell::value>(a, std::plus<>()).get(), 5.0 * size() * size());
  TERN_EXPECT_ERROR(tern::call<&cell::value>(a(7, 999)).get(), errc::not_found,
                    "array_test::cell(7, 999) of 'sparse' (object ");
  TERN_EXPECT_ERROR(a.insert({100 + rank(), 10}, 0.0).get(), errc::already_exists, "of 'sparse' exists already");
  TERN_EXPECT_ERROR(a.erase({3, 3}).get(), errc::not_found, "array_test::cell(3, 3) of 'sparse' does not exist");
  tern::barrier();
  tern::migrate(a(100 + rank(), 10), (rank() + 1) % size()).get();
  tern::send<&cell::add>(a, 1.0);
  a.erase({100 + rank(), 10}).get();
  a.erase({rank(), 0}).get();
  TERN_EXPECT_ERROR(a.insert({rank(), 0}, 0.0).get(), errc::already_exists, "existed, or is being made");
  TERN_EXPECT_ERROR(tern::call<&cell::value>(a(rank(), 0)).get(), errc::not_found,
                    "does not exist: it was never inserted, or has been erased");
  tern::quiesce();
  TERN_EXPECT_EQ(tern::reduce<&cell::value>(a, std::plus<>()).get(), 3.0 * size() * 2 * size());
  tern::barrier();
  if (rank() == 0) tern::destroy(a).get();
  tern::barrier();
  TERN_EXPECT_EQ(tern::mobile::directory::here().size(), 0u);
}

TERN_RANK_TEST(each_rank_visits_its_own) {
  const grid a = make_grid({.mapping = tern::cyclic_mapping}, {4, 5});
  tern::barrier();
  if (rank() == 0)
    for (int j = 0; j < 5; ++j) tern::migrate(a(1, j), size() - 1).get();
  tern::barrier();
  long mine = 0;
  tern::indices<2> last{-1, -1};
  tern::for_each_here(a, [&](const tern::indices<2>& at, cell& c) {
    TERN_EXPECT(last < at);
    last = at;
    TERN_EXPECT_EQ(c.value(), 10.0 * at[0] + at[1]);
    c.add(1000);
    ++mine;
  });
  TERN_EXPECT_EQ(tern::allreduce(mine, std::plus<>()), 20);
  long first_row = 0;
  tern::for_each_here(a.part({0, 0}, {1, 5}), [&](const tern::indices<2>&, cell&) { ++first_row; });
  TERN_EXPECT_EQ(tern::allreduce(first_row, std::plus<>()), 5);
  TERN_EXPECT_EQ(tern::reduce<&cell::value>(a, std::plus<>()).get(), 20000.0 + 4 * 10 + 300);
  tern::barrier();
  if (rank() == 0) tern::destroy(a).get();
  tern::barrier();
}

} // namespace array_test

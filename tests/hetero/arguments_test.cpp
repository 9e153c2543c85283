// SPDX-License-Identifier: Apache-2.0
// Numbers become the types of parameters when a task is made: what does not fit is told then, and
// nothing is submitted.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/variants.hpp>

TERN_KERNELS_BEGIN(number_kernels)
TERN_KERNEL(fill, int with, float factor, TERN_GLOBAL double* v) {
  TERN_REGION { v[item.x] = with * factor; };
}
TERN_KERNELS_END(number_kernels)

// Of a program that has functions of the same name. Each is called without a namespace, with an
// object of Tern's among the arguments.
namespace own_program {
struct queue {
  int calls = 0;
};
int submit(std::size_t n, const std::string&, const tern::hetero_object<double>& x) {
  return static_cast<int>(n) + static_cast<int>(x.count());
}
int submit(const queue& q, long, const tern::hetero_view<double>&) { return q.calls; }
int call_both(const tern::hetero_object<double>& x) {
  queue q{100};
  int n = 3;
  return submit(n, "text", x) + submit(q, 1, x.part({0}, {1}));
}
} // namespace own_program

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class F> std::string refusal(F&& f) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument);
    return e.what();
  }
  return "nothing was thrown";
}
double first(const hetero_object<double>& v) { return v.host(access_mode::read).get()[0]; }

const auto too_large = AllOf(HasSubstr("argument 1 of 'fill' is 3000000000, which its parameter, int, cannot hold"),
                             HasSubstr("make the parameter wider"));

TEST(arguments, of_other_types_are_converted) {
  on({}, [] {
    hetero_object<double> v(4, 1.0);
    submit(number_kernels::fill, items(4), std::size_t{3}, 0.5, write(v));
    EXPECT_EQ(first(v), 1.5);
    submit(number_kernels::fill, items(4), 'a', 1, write(v));
    EXPECT_EQ(first(v), 97);
    submit([](host_view<double, 1> x, short n, float f) { x[0] = n * f; }, write(v), 7L, 0.5);
    EXPECT_EQ(first(v), 3.5);
  });
}

TEST(arguments, leave_a_function_of_the_program_alone_that_is_called_submit) {
  on({}, [] {
    const hetero_object<double> v(4, 1.0);
    EXPECT_EQ(own_program::call_both(v), 107);
  });
}

int twice(int* v) { return *v *= 2; }
struct overloaded {
  void operator()(int* v) const { *v += 1; }
  void operator()(int* v, int a) const { *v += a; }
};
struct last_of_its_kind final {
  template <class V> void operator()(V v) const { v[0] += 100; }
};
struct counter {
  int n;
  void add(int* v) const { *v += n; }
};

TEST(arguments, go_to_all_that_can_be_called) {
  on({}, [] {
    hetero_object<int> v(1, 1);
    submit(twice, read_write(v));
    submit(&twice, read_write(v));
    submit(overloaded(), read_write(v));
    submit(overloaded(), read_write(v), 10);
    submit(last_of_its_kind(), read_write(v));
    submit(&counter::add, counter{1000}, read_write(v));
    submit([](auto view) { view[0] += 10'000; }, read_write(v));
    std::function<void(int*)> f = [](int* x) { *x += 100'000; };
    submit(f, read_write(v));
    hetero_task(f, read_write(v)).submit().wait();
    EXPECT_EQ(v.host(access_mode::read).get()[0], 211'115);
  });
}

// Lists ---------------------------------------------------------------------------------------------------------------

TEST(arguments, lists_are_as_long_as_they_are) {
  on({.workers = 4}, [] {
    for (const std::size_t n : {0u, 1u, 3u, 40u, 200u}) {
      std::vector<hetero_object<int>> each;
      for (std::size_t i = 0; i < n; ++i) each.emplace_back(2, static_cast<int>(i));
      hetero_object<int> sum(1, 0), other(1, 5);
      submit(
          [](std::span<const host_view<int, 1>> all, int factor) {
            for (const auto& v : all) v[1] = factor * v[0];
          },
          read_writes(each), 3);
      submit( // with other objects before and behind
          [n](const int* a, std::span<const host_view<const int, 1>> all, host_view<int, 1> to) {
            EXPECT_EQ(all.size(), n);
            to[0] = *a;
            for (std::size_t i = 0; i < all.size(); ++i)
              to[0] += (all[i][0] == static_cast<int>(i) ? 1 : 1000) * all[i][1];
          },
          read(other), reads(each), write(sum));
      const int expected = 5 + 3 * static_cast<int>(n) * (static_cast<int>(n) - 1) / 2;
      EXPECT_EQ(sum.host(access_mode::read).get()[0], n == 0 ? 5 : expected);
    }
  });
}

TEST(arguments, lists_order_tasks_as_their_objects_do) {
  on({.workers = 4}, [] {
    constexpr int width = 16, steps = 200;
    std::vector<hetero_object<unsigned>> now, next;
    std::vector<unsigned> a, b(width);
    for (unsigned i = 0; i < width; ++i) {
      now.emplace_back(1, i * i);
      next.emplace_back(1, 0u);
      a.push_back(i * i);
    }
    for (int step = 0; step < steps; ++step) {
      for (int i = 0; i < width; ++i) {
        std::vector<hetero_view<unsigned>> from; // of some neighbours, more or fewer
        b[static_cast<std::size_t>(i)] = 0;
        for (int k = 0; k <= (step + i) % 5; ++k) {
          const auto j = static_cast<std::size_t>((i + k * step) % width);
          from.push_back(now[j]);
          b[static_cast<std::size_t>(i)] = b[static_cast<std::size_t>(i)] * 31 + a[j];
        }
        hetero_task(
            [](std::span<const host_view<const unsigned, 1>> all, unsigned* to) {
              *to = 0;
              for (const auto& v : all) *to = *to * 31 + v[0];
            },
            reads(from), write(next[static_cast<std::size_t>(i)]))
            .submit();
      }
      std::swap(now, next);
      std::swap(a, b);
    }
    for (std::size_t i = 0; i < width; ++i) EXPECT_EQ(now[i].host(access_mode::read).get()[0], a[i]) << i;
  });
}

TEST(arguments, a_list_of_parts_has_pitches) {
  on({}, [] {
    hetero_object<int, 2> x({4, 10}, 0);
    std::vector<hetero_view<int, 2>> parts{x.part({0, 0}, {2, 5}), x.part({2, 5}, {4, 10})};
    submit(
        [](std::span<const host_view<int, 2>> all, int p) {
          EXPECT_EQ(p, 10);
          for (int i = 0; i < 2; ++i) all[static_cast<std::size_t>(i)](1, 4) = i + 1;
        },
        writes(parts), pitch(parts[1]));
    const auto seen = x.host(access_mode::read).get();
    EXPECT_EQ(seen(1, 4), 1);
    EXPECT_EQ(seen(3, 9), 2);
  });
}

TEST(arguments, a_list_that_is_too_long_is_told) {
  on({}, [] {
    hetero_object<int> x(300, 0);
    std::vector<hetero_view<int>> parts;
    for (int i = 0; i < 256; ++i) parts.push_back(x.part({i}, {i + 1}));
    EXPECT_THAT(refusal([&] { submit([](std::span<const host_view<const int, 1>>) {}, reads(parts)); }),
                HasSubstr("uses more than 255 objects; use views of fewer, larger ones"));
    parts.pop_back();
    submit([](std::span<const host_view<const int, 1>> all) { EXPECT_EQ(all.size(), 255u); }, reads(parts));
    wait_all();
  });
}

TEST(arguments, that_do_not_fit_a_kernel_are_told) {
  on({}, [] {
    hetero_object<double> v(4, 1.0);
    EXPECT_THAT(refusal([&] { submit(number_kernels::fill, items(4), 3'000'000'000L, 1, write(v)); }), too_large);
    EXPECT_THAT(refusal([&] { submit(number_kernels::fill, items(4), 1, 1e300, write(v)); }),
                HasSubstr("argument 2 of 'fill' is 1e+300, which its parameter, float, cannot hold"));
    EXPECT_THAT(refusal([&] { hetero_task(number_kernels::fill, items(4), 3'000'000'000L, 1, write(v)); }), too_large);
    EXPECT_THAT(refusal([&] { submit(variants(number_kernels::fill), items(4), 3'000'000'000L, 1, write(v)); }),
                too_large);
    recorded steps;
    EXPECT_THAT(
        refusal([&] { steps.submit([&] { submit(number_kernels::fill, items(4), 3'000'000'000L, 1, write(v)); }); }),
        too_large);
    EXPECT_EQ(first(v), 1.0); // none of them has run, or is in the way
    submit(number_kernels::fill, items(4), 2, 1, write(v));
    EXPECT_EQ(first(v), 2);
  });
}

TEST(arguments, that_do_not_fit_a_function_are_told) {
  on({}, [] {
    hetero_object<double> v(4, 1.0);
    const auto set = [](host_view<double, 1> x, int n) { x[0] = n; };
    const auto told = HasSubstr("argument 2 of a task's function is 3000000000, which its parameter, int, cannot hold");
    EXPECT_THAT(refusal([&] { submit(set, write(v), 3'000'000'000L); }), told);
    EXPECT_THAT(refusal([&] { hetero_task(set, write(v), 3'000'000'000L); }), told);
    EXPECT_EQ(first(v), 1.0);
    submit([](auto x, auto n) { x[0] = static_cast<double>(n); }, write(v), 3'000'000'000L); // of no type of its own
    EXPECT_EQ(first(v), 3e9);
  });
}

} // namespace
} // namespace tern::hetero

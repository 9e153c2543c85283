// SPDX-License-Identifier: Apache-2.0
// Kernels on the host with every access checked: hetero-checked.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/checked/checked.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/recorded.hpp>

static const char* const this_file = __FILE__;

TERN_KERNELS_BEGIN(beyond)
typedef struct {
  float place, weight;
} test_point;
TERN_KERNEL(shift, int n, int by, TERN_GLOBAL const double* x, TERN_GLOBAL double* y) {
  TERN_REGION_IN(n, 1, 1) {
    y[item.x] = // it reads in the next line
        x[item.x + by];
  };
}
TERN_KERNEL(set, int at, TERN_GLOBAL int* x) {
  TERN_REGION_IN(1, 1, 1) { x[at + item.x] = 7; };
}
TERN_KERNEL(fill, int rows, int columns, int pitch, TERN_GLOBAL int* tile) {
  TERN_REGION_IN(columns, rows, 1) { tile[item.y * pitch + item.x] += 1; };
}
TERN_KERNEL(fill3, int nx, int ny, int nz, int pitch, int slice, TERN_GLOBAL float* box) {
  TERN_REGION_IN(nx, ny, nz) { box[item.z * slice + item.y * pitch + item.x] = 1; };
}
TERN_KERNEL(rotate, int by, TERN_GLOBAL int* out) {
  TERN_SHARED(int, tile, [4][16]);
  TERN_REGION { tile[item.local_y][item.local_x] = item.local_x; };
  TERN_REGION { out[item.local_linear] = tile[item.local_y][item.local_x + by]; };
}
TERN_KERNEL(through, int by, TERN_GLOBAL int* out) {
  TERN_DYNAMIC(int, room);
  TERN_REGION { room[item.local_linear + by] = 3; };
  TERN_REGION { out[item.x] = room[item.local_linear + by]; };
}
TERN_KERNEL(count_up, int at, TERN_GLOBAL int* x) {
  TERN_REGION { fetch_add(x + at + item.x, 1); };
}
TERN_KERNEL(weigh, int n, int by, TERN_GLOBAL const test_point* p, TERN_GLOBAL float* out) {
  TERN_REGION_IN(n, 1, 1) { out[item.x] = p[item.x + by].weight; };
}
TERN_FN double pair(TERN_GLOBAL const double* p) { return p[0] + p[1]; }
TERN_KERNEL(pairs, int n, TERN_GLOBAL const double* x, TERN_GLOBAL double* y) {
  TERN_REGION_IN(n, 1, 1) {
    TERN_GLOBAL double* const to = y + item.x;
    *to = pair(&x[item.x]);
  };
}
TERN_FN double plus(double a, double b) { return a + b; }
TERN_KERNEL(sum, int n, TERN_GLOBAL const double* x, TERN_GLOBAL double* y) {
  TERN_GROUP_REDUCE(double, all, 0.0, plus, i, n, x[i]);
  TERN_REGION { y[group.x + item.local_linear] = all; };
}
TERN_KERNEL(own_index, TERN_GLOBAL int* x) {
  TERN_REGION_IN(1, 1, 1) {
    x[x[item.x]] = 2;
    x[item.x] = 1;
  };
}
TERN_KERNELS_END(beyond)

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Pointers declared together: devices accept them, checks do not. The block is made by hand, so
// that only the test compiles it.
constexpr const char two_at_once[] = "\n"
                                     "TERN_KERNEL(both, TERN_GLOBAL const int* x, TERN_GLOBAL int* y) {\n"
                                     "  TERN_REGION {\n"
                                     "    TERN_GLOBAL const int *a = x, *b = x + 1;\n"
                                     "    y[item.x] = a[0] + b[0];\n"
                                     "  };\n"
                                     "}\n"
                                     "\n";
const source_block& source_of_both() {
  static const source_block block{
      "two_at_once", "somewhere.cpp", two_at_once, two_at_once + sizeof two_at_once - 1, 1, 8};
  return block;
}
void body_of_both(dialect::group_context, const int* x, int* y) { y[0] = x[0] + x[1]; }
constexpr kernel both{"both", &body_of_both, &source_of_both, {0, 0, 0}};

template <class F> void with(const std::string& compiler, F&& f) {
  options opts;
  opts.set(hetero_checked, true);
  opts.set(hetero_checked_compiler, compiler);
  opts.set(hetero_cache, TERN_CHECKED_CACHE); // of all tests: each kernel is compiled once
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    f();
    expect_nothing_left();
  }),
            0u);
}

/// What a task fails with: the message alone.
std::string failure_of(const std::function<void()>& submit) {
  submit();
  try {
    wait_all();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::invalid_argument) << e.what();
    EXPECT_EQ(e.hint(), "keep items beyond the end out by TERN_REGION_IN, and give the task a view that has all it "
                        "uses, as halo() does");
    return e.message();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// "FILE:LINE" of the first line below the block's marker that has this text.
std::string at(const std::string& text) {
  const source_block& block = beyond::tern_source();
  const std::string all(block.begin, block.end);
  const std::size_t found = all.find(text, all.find("TERN_KERNELS_BEGIN(" + std::string(block.name)));
  return std::string(this_file) + ":" +
         std::to_string(1 + std::count(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(found), '\n'));
}

class checked : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (std::system((GetParam() + std::string(" --version > /dev/null 2>&1")).c_str()) != 0)
      GTEST_SKIP() << GetParam() << " is not here";
  }
  template <class F> static void run(F&& f) { with(GetParam(), std::forward<F>(f)); }
};
INSTANTIATE_TEST_SUITE_P(by, checked, testing::Values("g++", "clang++-19"), [](const auto& one) {
  return one.param == std::string("g++") ? std::string("gcc") : std::string("clang");
});

TEST_P(checked, reads_beyond_an_object_are_told) {
  run([] {
    const hetero_object<double> x(100, 1.0), y(100, 0.0);
    x.name("x of the test");
    const auto shift = [&](int by) {
      return failure_of([&] { submit(beyond::shift, items(100).group(16), 100, by, read(x), write(y)); });
    };
    EXPECT_EQ(shift(0), "nothing was thrown");
    EXPECT_EQ(shift(1), "kernel 'shift' (" + at("x[item.x + by]") +
                            "): item (99, 0, 0) in group (6, 0, 0) reads x[100] beyond hetero_object<double> 'x of the "
                            "test' of 100");
    EXPECT_EQ(shift(-3), "kernel 'shift' (" + at("x[item.x + by]") +
                             "): item (0, 0, 0) in group (0, 0, 0) reads x[-3] beyond hetero_object<double> 'x of the "
                             "test' of 100");
    const auto host = y.host(access_mode::write).get(); // the failed tasks have left `y` usable
    host[0] = 1;
  });
}

TEST_P(checked, writes_beyond_an_object_are_told_and_not_done) {
  run([] {
    std::vector<int> memory(30, -1);
    const auto x = hetero_object<int>::adopt(memory.data() + 10, {10});
    for (const int where : {10, 19, -1, -10}) {
      EXPECT_EQ(failure_of([&] { submit(beyond::set, items(1), where, write(x)); }),
                "kernel 'set' (" + at("] = 7") + "): item (0, 0, 0) in group (0, 0, 0) writes x[" +
                    std::to_string(where) + "] beyond hetero_object<int> of 10");
    }
    EXPECT_EQ(failure_of([&] { submit(beyond::set, items(1), 9, write(x)); }), "nothing was thrown");
    x.host(access_mode::read).get();
    for (int i = 0; i < 30; ++i) EXPECT_EQ(memory[static_cast<std::size_t>(i)], i == 19 ? 7 : -1) << i;
  });
}

TEST_P(checked, a_tile_ends_where_its_columns_do) {
  run([] {
    using view = hetero_view<int, 2>;
    // What fails spoils the object: each has its own.
    const auto fill = [](const std::function<view(const hetero_object<int, 2>&)>& part, int rows, int columns) {
      const hetero_object<int, 2> a({40, 50}, 0);
      a.name("a");
      const view v = part(a);
      return failure_of([&] { submit(beyond::fill, items(64, 64), rows, columns, pitch(v), read_write(v)); });
    };
    const auto all = [](const hetero_object<int, 2>& a) -> view { return a; };
    const auto tile = [](const hetero_object<int, 2>& a) { return a.tiles({10, 20})(1, 1); };
    const auto halo = [](const hetero_object<int, 2>& a) { return a.tiles({10, 20})(1, 1).halo(1); };
    EXPECT_EQ(fill(all, 40, 50), "nothing was thrown");
    EXPECT_THAT(fill(all, 41, 50),
                HasSubstr("reads tile[2000], which is (40, 0), beyond hetero_object<int> 'a' of 40 x 50"));
    EXPECT_EQ(fill(tile, 10, 20), "nothing was thrown");
    EXPECT_EQ(fill(tile, 10, 21),
              "kernel 'fill' (" + at("tile[item.y * pitch") +
                  "): item (20, 0, 0) in group (0, 0, 0) reads tile[20], which is (0, 20), beyond [10, 20) x [20, 40) "
                  "of hetero_object<int> 'a' of 40 x 50");
    EXPECT_THAT(fill(tile, 11, 20), HasSubstr("reads tile[500], which is (10, 0), beyond [10, 20) x [20, 40) of"));
    EXPECT_EQ(fill(halo, 12, 22), "nothing was thrown");
    EXPECT_THAT(fill(halo, 12, 23), HasSubstr("reads tile[22], which is (0, 22), beyond [9, 21) x [19, 41) of"));
  });
}

TEST_P(checked, three_dimensions) {
  run([] {
    const hetero_object<float, 3> a({6, 8, 10}, 0.0F);
    const auto part = a.part({1, 2, 3}, {4, 5, 7}); // 3 x 3 x 4
    const auto fill = [&](int nx, int ny, int nz) {
      return failure_of(
          [&] { submit(beyond::fill3, items(16, 8, 8), nx, ny, nz, pitch(part), slice(part), write(part)); });
    };
    EXPECT_EQ(fill(4, 3, 3), "nothing was thrown");
    EXPECT_THAT(fill(5, 3, 3), HasSubstr("writes box[4], which is (0, 0, 4), beyond [1, 4) x [2, 5) x [3, 7) of "
                                         "hetero_object<float> of 6 x 8 x 10"));
    EXPECT_THAT(fill(4, 4, 3), HasSubstr("writes box[30], which is (0, 3, 0), beyond"));
    EXPECT_THAT(fill(4, 3, 4), HasSubstr("writes box[240], which is (3, 0, 0), beyond"));
  });
}

TEST_P(checked, memory_of_the_group) {
  run([] {
    const hetero_object<int> out(64, 0);
    const auto rotate = [&](int by) {
      return failure_of([&] { submit(beyond::rotate, items(16, 4).group(16, 4), by, write(out)); });
    };
    EXPECT_EQ(rotate(0), "nothing was thrown");
    EXPECT_EQ(rotate(1), "kernel 'rotate' (" + at("out[item.local_linear] = tile") +
                             "): item (15, 0, 0) in group (0, 0, 0) reads tile[16] beyond "
                             "the group's memory 'tile' of 16");
    const auto through = [&](int by, std::size_t bytes) {
      return failure_of([&] { submit(beyond::through, items(64).group(64).dynamic(bytes), by, write(out)); });
    };
    EXPECT_EQ(through(0, 256), "nothing was thrown");
    EXPECT_EQ(through(2, 256), "kernel 'through' (" + at("room[item.local_linear + by] = 3") +
                                   "): item (62, 0, 0) in group (0, 0, 0) writes room[64] "
                                   "beyond the group's memory 'room' of 64");
    EXPECT_THAT(through(0, 0), HasSubstr("writes room[0] beyond the group's memory 'room' of 0"));
  });
}

TEST_P(checked, atomics_structs_helpers_and_reductions) {
  run([] {
    const hetero_object<int> x(4, 0);
    EXPECT_THAT(failure_of([&] { submit(beyond::count_up, items(1), 4, read_write(x)); }),
                HasSubstr("changes x[4] beyond hetero_object<int> of 4"));
    const hetero_object<beyond::test_point> p(8, {1, 2});
    const hetero_object<float> w(8, 0.0F);
    const auto weigh = [&](int by) {
      return failure_of([&] { submit(beyond::weigh, items(8), 8, by, read(p), write(w)); });
    };
    EXPECT_EQ(weigh(0), "nothing was thrown");
    EXPECT_THAT(weigh(5), AllOf(HasSubstr("item (3, 0, 0) in"), HasSubstr(" uses p[8] beyond hetero_object<"),
                                HasSubstr("(" + at("p[item.x + by].weight") + ")")));
    const hetero_object<double> a(8, 1.0), b(8, 0.0);
    EXPECT_EQ(failure_of([&] { submit(beyond::pairs, items(8), 7, read(a), write(b)); }), "nothing was thrown");
    EXPECT_EQ(failure_of([&] { submit(beyond::pairs, items(8), 8, read(a), write(b)); }),
              "kernel 'pairs' (" + at("return p[0]") +
                  "): item (7, 0, 0) in group (0, 0, 0) reads x[8] beyond "
                  "hetero_object<double> of 8");
    EXPECT_EQ(failure_of([&] { submit(beyond::sum, items(1).group(1), 8, read(a), write(b)); }), "nothing was thrown");
    EXPECT_EQ(failure_of([&] { submit(beyond::sum, items(1).group(1), 9, read(a), write(b)); }),
              "kernel 'sum' (" + at("TERN_GROUP_REDUCE") +
                  "): group (0, 0, 0) reads x[8] beyond hetero_object<double> of 8");
  });
}

TEST_P(checked, an_access_that_does_not_come_again) {
  run([] {
    const hetero_object<int> x(4, 4);
    EXPECT_THAT(text_of_error([&] {
                  submit(beyond::own_index, items(1), read_write(x));
                  wait_all();
                }),
                HasSubstr("kernel 'own_index' (" + std::string(this_file) +
                          "): an access of group (0, 0, 0) was beyond what it may use; when the group ran again to see "
                          "which, none was; its indices depend on what it writes: look at those"));
  });
}

TEST_P(checked, those_that_needed_it_fail_and_others_go_on) {
  run([] {
    const hetero_object<double> x(10, 1.0), y(10, 0.0), z(10, 0.0);
    hetero_task bad(beyond::shift, items(10), 10, 1, read(x), write(y)),
        next(beyond::shift, items(10), 10, 0, read(y), write(z));
    bad.submit();
    next.submit();
    EXPECT_THAT(text_of_error([&] { bad.wait(); }), HasSubstr("reads x[10] beyond"));
    EXPECT_THAT(text_of_error([&] { next.wait(); }), HasSubstr("reads x[10] beyond"));
    EXPECT_EQ(x.host(access_mode::read).get()[9], 1);
  });
}

TEST_P(checked, tasks_that_are_one) {
  run([] {
    const hetero_object<double> x(10, 1.0), y(10, 0.0);
    recorded step("step");
    step.submit([&] {
      submit(beyond::shift, items(10), 10, 0, read(x), write(y));
      submit(beyond::shift, items(10), 10, 0, read(y), read_write(x));
    });
    wait_all();
    EXPECT_THAT(text_of_error([&] {
                  step.submit([&] {
                    submit(beyond::shift, items(10), 10, 0, read(x), write(y));
                    submit(beyond::shift, items(10), 10, 2, read(y), read_write(x));
                  });
                  wait_all();
                }),
                HasSubstr("item (8, 0, 0) in group (0, 0, 0) reads x[10] beyond"));
  });
}

// Every word of the dialect: the same as without checks.
TEST_P(checked, right_kernels_compute_the_same) {
  const auto all = [](std::vector<double>& doubles, std::vector<long>& numbers) {
    constexpr int n = 64;
    const auto keep = [&]<class T>(const hetero_object<T>& x) {
      for (const T v : x.host(access_mode::read).get())
        if constexpr (std::is_floating_point_v<T>)
          doubles.push_back(static_cast<double>(v));
        else
          numbers.push_back(static_cast<long>(v));
    };
    hetero_object<double> a(n * n, 0.0), b(n * n, 0.0), c(n * n, 0.0);
    hetero_object<int> in(n * n, 0), out(n * n, 0), who(20 * 15 * 6 * 8, -7);
    {
      auto pa = a.host(access_mode::write).get(), pb = b.host(access_mode::write).get();
      auto pi = in.host(access_mode::write).get();
      for (int i = 0; i < n * n; ++i) pa[i] = 0.01 * (i % 89) + 0.1, pb[i] = 0.02 * (i % 53), pi[i] = i * 7 % 101;
    }
    submit(test_kernels::nothing, items(3));
    submit(test_kernels::axpy, items(n * n), n * n - 5, 1.5, read(a), read_write(b));
    submit(test_kernels::copy_some, items(n * n), n * n, read(in), write(out));
    keep(out);
    submit(test_kernels::who, items(15, 6, 8).group(5, 3, 2), read_write(who));
    keep(who);
    submit(test_kernels::dgemm_tiled, items(n, n), n, read(a), read(b), write(c));
    keep(c);
    submit(test_kernels::reverse_groups, items(n * n).group(32).dynamic(32 * sizeof(int)), read(in), write(out));
    keep(out);
    hetero_object<double> sums(4, 0.0);
    hetero_object<int> whole(4, 0);
    hetero_object<float> most(4, 0.0F);
    submit(test_kernels::sums, items(4).group(1), n * n, read(a), read(in), write(sums), write(whole), write(most));
    keep(sums);
    keep(whole);
    keep(most);
    hetero_object<int> ints(8, 5);
    hetero_object<unsigned> uints(8, 5);
    hetero_object<float> floats(8, 5.0F);
    submit(test_kernels::atomics, items(64).group(16), 60, read_write(ints), read_write(uints), read_write(floats));
    {
      const auto host = ints.host(access_mode::read).get();
      for (const int i : {0, 1, 2, 4}) numbers.push_back(host[i]); // the others depend on the order of the items
    }
    hetero_object<float> f(n, 0.0F);
    submit(test_kernels::functions, items(n), n, read(a), write(c.rows(0, n)), write(f));
    keep(f);
    keep(c);
    hetero_object<test_kernels::body> bodies(n, {1, 2, 3, 4});
    submit(test_kernels::nbody, items(n).group(n), n, read(bodies), write(f));
    keep(f);
    wait_all();
  };
  std::vector<double> doubles, expected;
  std::vector<long> numbers, expected_numbers;
  on({}, [&] { all(expected, expected_numbers); });
  run([&] { all(doubles, numbers); });
  EXPECT_EQ(numbers, expected_numbers);
  ASSERT_EQ(doubles.size(), expected.size());
  for (std::size_t i = 0; i < doubles.size(); ++i)
    EXPECT_NEAR(doubles[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << i; // contraction differs
}

TEST_P(checked, what_does_not_compile_is_told) {
  run([] {
    const hetero_object<int> x(4, 4), y(4, 0);
    const std::string text = text_of_error([&] {
      submit(both, items(1), read(x), write(y));
      wait_all();
    });
    EXPECT_THAT(text,
                AllOf(HasSubstr("the kernels 'two_at_once' (somewhere.cpp) do not compile with checks for the host ("),
                      HasSubstr("somewhere.cpp:4:"), HasSubstr("error: "),
                      HasSubstr("; the lines named are that file's; docs/concepts/kernels.md says")));
  });
}

TEST(checked_option, a_compiler_that_is_not_here) {
  with("no-such-compiler", [] {
    const hetero_object<int> x(4, 4);
    EXPECT_THAT(text_of_error([&] {
                  submit(beyond::set, items(1), 0, write(x));
                  wait_all();
                }),
                HasSubstr("hetero-checked compiles kernels when the program runs, but no C++ compiler runs here: "
                          "no-such-compiler; install g++, or name a compiler in --tern-hetero-checked-compiler"));
  });
}

TEST(checked_option, kernels_run_on_the_host_alone) {
  with("", [] {
    const auto all = count().devices;
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].id, "host");
  });
}

TEST(checked_text, pointers_become_classes) {
  using detail::with_checked_pointers;
  EXPECT_EQ(with_checked_pointers("TERN_KERNEL(k, int n, TERN_GLOBAL const double* TERN_RESTRICT x) {}"),
            "TERN_KERNEL(k, int n, TERN_POINTER( const double) TERN_RESTRICT x) {}");
  EXPECT_EQ(with_checked_pointers("TERN_LOCAL struct body *const p = (TERN_LOCAL struct body*)q;"),
            "TERN_POINTER( struct body )const p = (TERN_POINTER( struct body))q;");
  EXPECT_EQ(with_checked_pointers("TERN_GLOBAL\nint\n* x;"), "TERN_POINTER(\nint\n) x;"); // lines stay
  for (const char* text :
       {"// TERN_GLOBAL int* x\n", "/* TERN_GLOBAL int* */", "\"TERN_GLOBAL int*\"", "MY_TERN_GLOBAL int* x",
        "TERN_GLOBAL_ int* x", "f(TERN_GLOBAL, a * b)", "'\\'' + TERN_GLOBAL", "a /* b", "\"a"})
    EXPECT_EQ(with_checked_pointers(text), text);
}

TEST(checked_text, names_of_parameters) {
  using detail::parameter_name;
  const char* const text = "int n, ::tern_checked::pointer< const double> x, TERN_POINTER(int) const y , body b[2]";
  EXPECT_EQ(parameter_name(text, 0), "n");
  EXPECT_EQ(parameter_name(text, 1), "x");
  EXPECT_EQ(parameter_name(text, 2), "y");
  EXPECT_EQ(parameter_name(text, 4), "");
  EXPECT_EQ(parameter_name("", 0), "");
}

} // namespace
} // namespace tern::hetero

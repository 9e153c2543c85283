// SPDX-License-Identifier: Apache-2.0
// Tasks that are submitted together as one give what they give one by one, on all devices; on CUDA
// they are graphs.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/variants.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using object = hetero_object<unsigned, 2>;

template <class O> items over(const O& o) { return items(o.extent(1), o.extent(0)); }
template <class O> int columns(const O& o) { return static_cast<int>(o.extent(1)); }
template <class O> int rows(const O& o) { return static_cast<int>(o.extent(0)); }

template <class O> void add(const O& o, unsigned a) {
  submit(graph_kernels::add, over(o), columns(o), rows(o), a, pitch(o), read_write(o));
}
template <class O, class P> void mix(const O& x, const P& y, unsigned a) {
  submit(graph_kernels::mix, over(x), columns(x), rows(x), a, pitch(x), read(x), pitch(y), read_write(y));
}
template <class O> void fill(const O& o, unsigned a) {
  submit(graph_kernels::fill, over(o), columns(o), rows(o), a, pitch(o), write(o));
}

std::vector<unsigned> values(const object& o) {
  const auto host = o.host(access_mode::read).get();
  return {host.data(), host.data() + o.extent(0) * o.extent(1)};
}

/// Random tasks on a few objects, each round the same but for their numbers, and parts of objects
/// that overlap.
class program {
public:
  /// \param whole only whole rows: not all devices take addresses of any element
  explicit program(std::uint64_t seed, bool whole = false) : generator_(seed) {
    const std::ptrdiff_t columns = whole ? 32 : 15;
    for (int i = 0; i < 3; ++i) objects_.emplace_back(extents<2>{12, columns}, static_cast<unsigned>(i + 1));
    for (int n = 1 + pick(9); n > 0; --n) {
      step s{pick(3), pick(3), pick(3), pick(4), pick(4)};
      s.y1 = s.y0 + 1 + pick(8);
      s.x1 = s.x0 + 1 + pick(10);
      if (whole) s.x0 = 0, s.x1 = 32;
      s.aside = whole ? 0 : 1;
      if (s.from == s.to) s.from = (s.to + 1) % 3;
      steps_.push_back(s);
    }
  }
  /// What one round submits.
  void round(unsigned a) const {
    for (const step& s : steps_) {
      const object &x = objects_[static_cast<std::size_t>(s.from)], &y = objects_[static_cast<std::size_t>(s.to)];
      const auto part = y.part({s.y0, s.x0}, {s.y1, s.x1});
      if (s.what == 0)
        add(part, a);
      else if (s.what == 1)
        fill(part, a);
      else
        mix(x.part({s.y0 + 1, s.x0 + s.aside}, {s.y1 + 1, s.x1 + s.aside}), part, a);
      ++a;
    }
  }
  std::vector<unsigned> result() const {
    std::vector<unsigned> all;
    for (const object& o : objects_)
      for (const unsigned v : values(o)) all.push_back(v);
    return all;
  }

private:
  struct step {
    int what, from, to, y0, x0, y1 = 0, x1 = 0, aside = 0;
  };
  int pick(int n) { return static_cast<int>(generator_() % static_cast<unsigned>(n)); }
  std::mt19937_64 generator_;
  std::vector<object> objects_;
  std::vector<step> steps_;
};

class recorded_tasks : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    const std::string kind = GetParam();
    where_.simulated = "2:launch=1us,latency=1us,bandwidth=0";
    where_.cuda = true;
    where_.devices = kind.substr(0, kind.find(' '));
    if (kind == "opencl buffers") where_.opencl_memory = "buffers";
    if (kind == "cuda plain") where_.without = "no-graphs";
    if (kind == "cuda threads") where_.threads = true;
    if (where_.devices == "opencl" && !there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  }
  machine where_;
};
INSTANTIATE_TEST_SUITE_P(on, recorded_tasks,
                         testing::Values("host", "simulated", "opencl", "opencl buffers", "cuda", "cuda plain",
                                         "cuda threads", "host,simulated,cuda"));

TEST_P(recorded_tasks, are_as_one_by_one) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const bool whole = where_.opencl_memory == "buffers" && seed % 2 == 0; // others are not one task there
    const mock_cuda driver("devices=2,seed=" + std::to_string(seed));
    std::vector<unsigned> expected, found;
    on({.devices = "host"}, [&] {
      program p(seed, whole);
      for (unsigned i = 0; i < 5; ++i) p.round(i);
      expected = p.result();
    });
    on(where_, [&] {
      program p(seed, whole);
      recorded all("rounds");
      for (unsigned i = 0; i < 5; ++i) all.submit([&] { p.round(i); });
      found = p.result();
    });
    EXPECT_EQ(found, expected);
  }
}

TEST_P(recorded_tasks, may_change_and_have_others_between_them) {
  const mock_cuda driver("devices=2");
  const auto run = [&](const machine& m, bool together) {
    std::vector<unsigned> result;
    on(m, [&] {
      object a({10, 10}, 1u), b({10, 10}, 2u);
      recorded some("changing");
      for (unsigned i = 0; i < 30; ++i) {
        const auto round = [&] {
          add(a, i);
          mix(a, b, i);
          if (i % 3 == 1) add(b, 7);
        };
        if (together)
          some.submit(round);
        else
          round();
        if (i % 4 == 3) add(b, 100);
        if (i % 7 == 6) b.host(access_mode::read_write).get()(3, 4) += i;
      }
      result = values(b);
    });
    return result;
  };
  EXPECT_EQ(run(where_, true), run({.devices = "host"}, false));
}

TEST_P(recorded_tasks, may_use_parts_that_begin_anywhere) {
  const mock_cuda driver("devices=2");
  const bool buffers = where_.opencl_memory == "buffers";
  std::vector<unsigned> expected, found;
  const auto run = [&](bool together, std::ptrdiff_t columns) {
    object o({8, columns}, 1u);
    add(o, 1); // a device may have all of it, with its rows
    recorded step("parts");
    const auto some = o.part({0, 0}, {4, 32}), row = o.part({1, 0}, {2, 32}), few = o.part({2, 5}, {3, 9});
    for (unsigned i = 1; i < 4; ++i) {
      const auto round = [&] {
        add(some, i);
        add(row, 2 * i);
        if (i == 3) add(few, i);
      };
      const std::uint64_t before = count().submitted;
      if (!together)
        round();
      else
        step.submit(round);
      const bool fit = !buffers || (columns == 32 && i < 3);
      EXPECT_EQ(count().submitted - before, together && fit ? 1u : i < 3 ? 2u : 3u) << columns << ", " << i;
    }
    return values(o);
  };
  for (const std::ptrdiff_t columns : {32, 40}) {
    on({.devices = "host"}, [&] { expected = run(false, columns); });
    on(where_, [&] { found = run(true, columns); });
    EXPECT_EQ(found, expected);
  }
}

// The same shape, and objects that may lie where others have lain.
TEST_P(recorded_tasks, know_nothing_of_an_earlier_scheduler) {
  const mock_cuda driver("devices=2");
  recorded step("step");
  for (unsigned round = 1; round <= 3; ++round) {
    std::vector<unsigned> result;
    on(where_, [&] {
      object a({4, 32}, round), b({4, 32}, 0u);
      for (int i = 0; i < 2; ++i)
        step.submit([&] {
          add(a, 1);
          mix(a, b, 1);
        });
      result = values(a);
    });
    std::vector<unsigned> expected;
    on({.devices = "host"}, [&] {
      object a({4, 32}, round);
      for (int i = 0; i < 2; ++i) add(a, 1);
      expected = values(a);
    });
    EXPECT_EQ(result, expected);
  }
}

// On CUDA -------------------------------------------------------------------------------------------------------------

TEST(recorded_on_cuda, are_one_graph_from_the_second_round_on) {
  const mock_cuda driver;
  on({.devices = "host,cuda", .cuda = true}, [] {
    object a({8, 8}, 1u), b({8, 8}, 2u);
    recorded step("step");
    step.on("cuda0");
    for (int i = 0; i < 20; ++i)
      step.submit([&] {
        add(a, 5);
        mix(a, b, 6);
        add(b, 7);
      });
    wait_all();
    auto counted = mock_cuda::counters();
    EXPECT_EQ(counted.launches, 3u);
    EXPECT_EQ(counted.graph_launches, 19u);
    EXPECT_EQ(counted.graph_updates, 0u);
    for (unsigned i = 0; i < 10; ++i)
      step.submit([&] { // one number changes: one node of the graph
        add(a, 50 + i);
        mix(a, b, 6);
        add(b, 7);
      });
    wait_all();
    counted = mock_cuda::counters();
    EXPECT_EQ(counted.launches, 3u);
    EXPECT_EQ(counted.graph_launches, 29u);
    EXPECT_EQ(counted.graph_updates, 10u);
  });
}

TEST(recorded_on_cuda, that_change_all_the_time_are_no_graphs) {
  const mock_cuda driver;
  on({.devices = "host,cuda", .cuda = true}, [] {
    object a({8, 8}, 1u);
    recorded step("step");
    step.on(device_kind::cuda);
    for (unsigned i = 0; i < 60; ++i)
      step.submit([&] {
        for (unsigned n = 0; n < 1 + i % 3; ++n) add(a, i);
      });
    wait_all();
    EXPECT_LT(mock_cuda::counters().graph_launches, 20u);
  });
}

TEST(recorded_on_cuda, many_of_them_are_forgotten) {
  const mock_cuda driver;
  on({.devices = "host,cuda", .cuda = true}, [] {
    object a({8, 8}, 1u);
    std::vector<std::unique_ptr<recorded>> all;
    for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<recorded>("one of many"));
    for (int round = 0; round < 3; ++round)
      for (const auto& one : all) one->on("cuda0").submit([&] { add(a, 1); });
    wait_all();
    EXPECT_LE(mock_cuda::counters().live_graphs, 128u);
  });
}

// One of them waits for what the other one gives: one after the other, they would wait for ever.
TEST(recorded_functions, run_at_once_that_have_nothing_to_do_with_each_other) {
  for (const int workers : {1, 2, 4})
    on({.workers = workers}, [] {
      hetero_object<int> x(1, 0), y(1, 0), sum(1, 0);
      recorded step("step");
      for (int round = 1; round <= 50; ++round) {
        promise<int> p;
        step.submit([&, f = std::make_shared<future<int>>(p.get_future()),
                     given = std::make_shared<promise<int>>(std::move(p))] {
          submit([f](int* v) { *v += f->get(); }, read_write(x));
          submit([given, round](int* v) { given->set_value(*v = round); }, write(y));
          submit([](const int* a, const int* b, int* to) { *to = 1000 * *a + *b; }, read(x), read(y), write(sum));
        });
        EXPECT_EQ(sum.host(access_mode::read).get()[0], 1000 * (round * (round + 1) / 2) + round);
      }
    });
}

TEST(recorded_functions, are_in_the_task_that_they_are_part_of) {
  on({.workers = 2}, [] {
    hetero_object<int> x(1, 0), y(1, 0);
    recorded step("step");
    std::string text;
    step.submit([&] {
      submit([&text](int*) { text = text_of_error([] { wait_all(); }); }, write(x));
      submit([](int* v) { *v = 1; }, write(y));
    });
    wait_all();
    EXPECT_THAT(text, HasSubstr("wait_all in task 'step' would wait for that task, for ever"));
  });
}

TEST(recorded_functions, fail_as_one_and_are_whole_in_the_next_round) {
  on({.workers = 2}, [] {
    hetero_object<int> x(1, 0), y(1, 0);
    recorded step("step");
    for (int round = 0; round < 4; ++round) {
      step.submit([&] {
        submit(
            [round](int* v) {
              if (round == 1) throw std::runtime_error("on purpose");
              *v = round;
            },
            write(x));
        submit([round](int* v) { *v = 10 * round; }, write(y));
      });
      if (round == 1) {
        EXPECT_THAT(text_of_error([&] { y.host(access_mode::read).get(); }), HasSubstr("'step'"));
        continue;
      }
      EXPECT_EQ(x.host(access_mode::read).get()[0], round);
      EXPECT_EQ(y.host(access_mode::read).get()[0], 10 * round);
    }
  });
}

TEST(recorded_on_cuda, with_functions_are_no_graphs) {
  const mock_cuda driver;
  on({.devices = "host,cuda", .cuda = true}, [] {
    hetero_object<unsigned> a(16, 1u);
    recorded step("step");
    int called = 0;
    for (int i = 0; i < 5; ++i)
      step.submit([&] {
        submit(variants(on_queue(device_kind::cuda, [&](const native_queue&, device_view<unsigned, 1>) { ++called; })),
               read_write(a));
      });
    wait_all();
    EXPECT_EQ(called, 5);
    EXPECT_EQ(mock_cuda::counters().graph_launches, 0u);
  });
}

TEST(recorded_on_cuda, a_kernel_that_goes_astray_fails_all_of_them) {
  const mock_cuda driver("fault-kernel=5");
  on({.devices = "host,cuda", .cuda = true}, [] {
    object a({8, 8}, 1u);
    recorded step("step");
    step.on("cuda0");
    for (int i = 0; i < 3; ++i)
      step.submit([&] {
        add(a, 5);
        add(a, 6);
      });
    EXPECT_THAT(text_of_error([] { wait_all(); }), AllOf(HasSubstr("ILLEGAL_ADDRESS"), HasSubstr("'add'")));
  });
}

// What must not be ----------------------------------------------------------------------------------------------------

TEST(recorded_errors, are_clear) {
  on({.devices = "host,simulated", .simulated = "1:launch=0us"}, [] {
    object a({8, 8}, 1u);
    recorded step("step");
    EXPECT_THAT(text_of_error([&] { step.submit([&] { recorded("inner").submit([] {}); }); }),
                HasSubstr("recorded::submit of 'inner' was called within that of 'step'"));
    EXPECT_THAT(
        text_of_error([&] {
          step.submit([&] {
            add(a, 1);
            hetero_task(graph_kernels::add, items(8, 8), 8, 8, 1u, pitch(a), read_write(a)).submit();
          });
        }),
        AllOf(HasSubstr("within recorded::submit of 'step' task 'add' has a handle"), HasSubstr("tern::submit")));
    EXPECT_THAT(text_of_error([&] { step.submit([&] { a.host(access_mode::read).get(); }); }),
                HasSubstr("an object was to be accessed"));
    EXPECT_THAT(text_of_error([&] { step.submit([&] { a.prefetch("simulated0"); }); }),
                HasSubstr("'step' an object was to"));
    unsigned to[64];
    EXPECT_THAT(text_of_error([&] { step.submit([&] { a.copy_to(to).get(); }); }),
                HasSubstr("'step' an object was to"));
    EXPECT_THAT(text_of_error([&] { step.submit([] { this_fiber::yield(); }); }),
                AllOf(HasSubstr("'step' has waited"), HasSubstr("only submit tasks")));
    EXPECT_THAT(text_of_error([&] {
                  step.submit([&] {
                    add(a, 1);
                    submit([](host_view<unsigned, 2>) {}, read_write(a)); // a function: the host
                  });
                  recorded other("other");
                  other.on("simulated0").submit([&] { submit([](host_view<unsigned, 2>) {}, read_write(a)); });
                }),
                AllOf(HasSubstr("'other' have no kind of device in common"), HasSubstr("functions run on the host")));
    EXPECT_THAT(text_of_error([&] { step.on("nowhere").submit([&] { add(a, 1); }); }),
                HasSubstr("no device 'nowhere'"));
    recorded many("many");
    std::vector<object> objects;
    for (int i = 0; i < 256; ++i) objects.emplace_back(extents<2>{1, 1}, 0u);
    EXPECT_THAT(text_of_error([&] {
                  many.submit([&] {
                    for (const object& o : objects) add(o, 1);
                  });
                }),
                AllOf(HasSubstr("the tasks of 'many' use 256 objects"), HasSubstr("more than 255")));
    hetero_object<unsigned> sum(1, 0u);
    EXPECT_THAT(text_of_error([&] {
                  many.submit([&] { submit([](host_view<unsigned, 1>) {}, reduce(sum, std::plus<>(), 0u)); });
                }),
                HasSubstr("takes part in a reduction"));
    // Nothing of that has been submitted, but for the function of 'step'.
    const auto before = count().submitted;
    EXPECT_THROW(many.submit([&] {
      add(a, 1);
      throw std::runtime_error("on purpose");
    }),
                 std::runtime_error);
    many.submit([] {});
    EXPECT_EQ(count().submitted, before);
    many.submit([&] { add(a, 1); });
    wait_all();
  });
}

TEST(recorded_errors, one_that_throws_fails_all) {
  on({.devices = "host"}, [] {
    hetero_object<unsigned> a(4, 1u), b(4, 1u);
    recorded step("step");
    step.submit([&] {
      submit([](host_view<unsigned, 1>) { throw std::runtime_error("on purpose"); }, read_write(a));
      submit([](host_view<unsigned, 1>) {}, read_write(b));
    });
    EXPECT_THROW(wait_all(), std::runtime_error);
    EXPECT_THAT(text_of_error([&] { b.host(access_mode::read).get(); }), HasSubstr("'step'"));
  });
}

TEST(recorded_errors, objects_may_go_before_their_tasks_have_run) {
  on({.devices = "host,simulated", .simulated = "1:launch=100us"}, [] {
    recorded step("step");
    for (int i = 0; i < 10; ++i)
      step.submit([&] {
        const object gone({8, 8}, 1u), unused({8, 8}, 1u);
        add(gone, 1);
      });
    wait_all();
  });
}

} // namespace
} // namespace tern::hetero

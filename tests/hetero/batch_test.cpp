// SPDX-License-Identifier: Apache-2.0
// Tasks that are submitted in one call are what they would be one by one: in their order, their
// results and their failures.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/batch.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

namespace tern::hetero {
namespace {

using testing::HasSubstr;
using object = hetero_object<unsigned, 2>;

std::vector<object> rows(std::size_t count, std::ptrdiff_t width) {
  std::vector<object> all;
  for (std::size_t i = 0; i < count; ++i) all.emplace_back(extents<2>{1, width}, static_cast<unsigned>(i));
  return all;
}

unsigned first_of(const object& o) { return o.host(access_mode::read).get()(0, 0); }

auto adding(const object& o, unsigned a, int width) { return std::tuple(width, 1, a, pitch(o), read_write(o)); }

class batches : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    const std::string kind = GetParam();
    where_.simulated = "2:launch=1us,latency=1us,bandwidth=0,fuse=16";
    where_.cuda = true;
    where_.devices = kind.substr(0, kind.find(' '));
    if (kind == "host eager") where_.policy = "eager";
    if (where_.devices == "opencl" && !there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  }
  machine where_;
};
INSTANTIATE_TEST_SUITE_P(on, batches,
                         testing::Values("host", "host eager", "simulated", "opencl", "cuda", "host,simulated,cuda"));

// Fewer than one chain of records, whole chains, and one more; kernels of one group and of several.
TEST_P(batches, give_what_the_tasks_give_one_by_one) {
  const mock_cuda driver("devices=2");
  for (const int width : {7, 300})
    for (const std::size_t count : {0u, 1u, 2u, 59u, 60u, 61u, 500u}) {
      SCOPED_TRACE(std::to_string(count) + " tasks, width " + std::to_string(width));
      const auto run = [&](bool together) {
        std::vector<unsigned> result;
        on(where_, [&] {
          const auto objects = rows(17, width);
          const auto object_of = [&](std::size_t i) -> const object& { return objects[i * i % objects.size()]; };
          const std::uint64_t before = hetero::count().submitted;
          const auto stir = [&](std::size_t i) { // the order of tasks of one object matters
            const object &x = object_of(i + 1), &y = objects[i % objects.size()];
            return std::tuple(width, 1, static_cast<unsigned>(i), pitch(x), read(x), pitch(y), read_write(y));
          };
          const auto apart = [&](std::size_t i) { return &object_of(i + 1) != &objects[i % objects.size()]; };
          const auto numbered = [&](std::size_t i) { return apart(i) ? i : 2; }; // 2: an i that is
          ASSERT_TRUE(apart(2));
          if (together)
            submit_batch(graph_kernels::mix, items(width), count, [&](std::size_t i) { return stir(numbered(i)); });
          else
            for (std::size_t i = 0; i < count; ++i)
              std::apply([&](const auto&... a) { submit(graph_kernels::mix, items(width), a...); }, stir(numbered(i)));
          EXPECT_EQ(hetero::count().submitted - before, count);
          wait_all();
          for (const object& o : objects) {
            const auto host = o.host(access_mode::read).get();
            result.insert(result.end(), host.data(), host.data() + width);
          }
        });
        return result;
      };
      EXPECT_EQ(run(true), run(false));
    }
}

TEST_P(batches, stand_in_order_with_what_comes_before_and_after) {
  const mock_cuda driver("devices=2");
  on(where_, [&] {
    const auto objects = rows(200, 4);
    for (unsigned round = 1; round <= 5; ++round) {
      for (const object& o : objects)
        submit([](const host_view<unsigned, 2>& v) { v(0, 0) = 3 * v(0, 0); }, read_write(o));
      submit_batch(graph_kernels::add, items(4), objects.size(),
                   [&](std::size_t i) { return adding(objects[i], round, 4); });
    }
    for (std::size_t i = 0; i < objects.size(); ++i) {
      auto expected = static_cast<unsigned>(i);
      for (unsigned round = 1; round <= 5; ++round) expected = 3 * expected + round;
      EXPECT_EQ(first_of(objects[i]), expected) << i;
    }
  });
}

TEST_P(batches, may_be_part_of_recorded_tasks) {
  const mock_cuda driver("devices=2");
  on(where_, [&] {
    const auto objects = rows(20, 4);
    recorded step("step");
    for (int round = 0; round < 3; ++round) {
      const std::uint64_t before = count().submitted;
      step.submit([&] {
        submit_batch(graph_kernels::add, items(4), 100, [&](std::size_t i) { return adding(objects[i % 20], 1, 4); });
      });
      EXPECT_LE(count().submitted - before, 100u);
    }
    for (std::size_t i = 0; i < objects.size(); ++i) EXPECT_EQ(first_of(objects[i]), i + 15);
  });
}

// Task 3 makes a function ready that waits for what task 50 makes ready: were it run in the place
// of its predecessor, it would keep task 50 from running.
TEST(batch, does_not_hold_up_its_own_tasks) {
  for (const int workers : {1, 2})
    on({.workers = workers}, [&] {
      const auto objects = rows(60, 4);
      promise<void> reached;
      future<void> other = reached.get_future();
      submit_batch(graph_kernels::add, items(4), objects.size(),
                   [&](std::size_t i) { return adding(objects[i], 1, 4); });
      submit([&](const host_view<const unsigned, 2>&) { other.wait(); }, read(objects[3]));
      submit([&](const host_view<const unsigned, 2>&) { reached.set_value(); }, read(objects[50]));
      wait_all();
    });
}

TEST(batch, is_shared_with_workers_that_have_nothing_to_do) {
  on({.workers = 4}, [] {
    const auto objects = rows(1000, 64);
    for (unsigned round = 0; round < 50; ++round)
      submit_batch(graph_kernels::add, items(64), objects.size(),
                   [&](std::size_t i) { return adding(objects[i], 1, 64); });
    for (std::size_t i = 0; i < objects.size(); ++i) EXPECT_EQ(first_of(objects[i]), i + 50);
  });
}

TEST(batch, says_at_which_task_its_function_threw) {
  on({}, [] {
    const auto objects = rows(100, 4);
    const auto failing = [&](std::size_t at) {
      return text_of_error([&] {
        submit_batch(graph_kernels::add, items(4), objects.size(), [&](std::size_t i) {
          if (i == at) throw std::runtime_error("no such cell");
          return adding(objects[i], 1, 4);
        });
      });
    };
    EXPECT_THAT(failing(70),
                HasSubstr("submit_batch: task 70 of 100 of kernel 'add': no such cell; tasks 0 to 69 were submitted"));
    EXPECT_THAT(failing(1), HasSubstr("task 1 of 100 of kernel 'add': no such cell; task 0 was submitted"));
    EXPECT_THAT(failing(0), HasSubstr("task 0 of 100 of kernel 'add': no such cell; no task was submitted"));
    for (std::size_t i = 0; i < objects.size(); ++i)
      EXPECT_EQ(first_of(objects[i]), i + (i < 70 ? 1 : 0) + (i < 1 ? 1 : 0)) << i;
    try {
      submit_batch(graph_kernels::add, items(4), 1,
                   [&](std::size_t) -> decltype(adding(objects[0], 1, 4)) { throw std::out_of_range("far"); });
      FAIL() << "nothing was thrown";
    } catch (const error& e) {
      EXPECT_THROW(std::rethrow_if_nested(e), std::out_of_range); // the cause is kept
    }
  });
}

TEST(batch, refuses_what_a_task_alone_would_refuse) {
  on({}, [] {
    const auto objects = rows(3, 4);
    const auto text = text_of_error([&] {
      submit_batch(graph_kernels::add, items(4), 3, [&](std::size_t i) {
        return std::tuple(4, 1, 1u, pitch(objects[i == 2 ? 0 : i]), read_write(objects[i]));
      });
    });
    EXPECT_THAT(text, HasSubstr("task 2 of 3 of kernel 'add': pitch(): "));
    EXPECT_THAT(text, HasSubstr("tasks 0 to 1 were submitted"));
    EXPECT_EQ(first_of(objects[1]), 2u);
    EXPECT_EQ(first_of(objects[2]), 2u);
  });
}

TEST(batch, passes_failures_on_for_each_task_alone) {
  on({}, [] {
    const auto objects = rows(100, 4);
    submit([](const host_view<unsigned, 2>&) { throw error(errc::invalid_data, "bad row"); }, write(objects[42]));
    submit_batch(graph_kernels::add, items(4), objects.size(), [&](std::size_t i) { return adding(objects[i], 1, 4); });
    EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("bad row"));
    for (std::size_t i = 0; i < objects.size(); ++i)
      if (i != 42) {
        EXPECT_EQ(first_of(objects[i]), i + 1);
      }
  });
}

// What has run is forgotten by its object. What comes later is ordered all the same, whichever
// fiber submits it, and an object may go as soon as its last task has been submitted.
TEST(batch, of_many_fibers_on_the_same_objects) {
  constexpr unsigned fibers = 4, rounds = 60;
  on({.workers = 4}, [] {
    const auto objects = rows(150, 4);
    std::vector<future<void>> all;
    for (unsigned n = 0; n < fibers; ++n)
      all.push_back(async([&objects, n] {
        for (unsigned round = 0; round < rounds; ++round) {
          submit_batch(graph_kernels::add, items(4), objects.size(),
                       [&](std::size_t i) { return adding(objects[(i + 31 * n) % objects.size()], 1, 4); });
          submit([](const host_view<unsigned, 2>& v) { ++v(0, 0); }, read_write(objects[round]));
          const auto brief = rows(70, 4);
          submit_batch(graph_kernels::add, items(4), brief.size(),
                       [&](std::size_t i) { return adding(brief[i], 1, 4); });
        }
      }));
    for (auto& one : all) one.get();
    for (std::size_t i = 0; i < objects.size(); ++i)
      EXPECT_EQ(first_of(objects[i]), i + fibers * (rounds + (i < rounds ? 1 : 0))) << i;
  });
}

// One that failed is not forgotten.
TEST(batch, leaves_failures_for_what_comes_later) {
  on({.workers = 1}, [] {
    const auto objects = rows(100, 4);
    const auto add_one = [&](std::size_t i) { return adding(objects[i], 1, 4); };
    submit_batch(graph_kernels::add, items(4), objects.size(), add_one);
    wait_all();
    submit([](const host_view<unsigned, 2>&) { throw error(errc::invalid_data, "bad row"); }, read_write(objects[7]));
    submit_batch(graph_kernels::add, items(4), objects.size(), add_one);
    submit_batch(graph_kernels::add, items(4), objects.size(), add_one);
    hetero_task later([](const host_view<unsigned, 2>&) {}, read_write(objects[7]));
    later.submit();
    EXPECT_THAT(text_of_error([&] { later.wait(); }), HasSubstr("bad row"));
    EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("bad row"));
    EXPECT_EQ(first_of(objects[8]), 11u);
  });
}

// The arguments of a few tasks are made before the first of them is submitted, but not where they
// refer to something that the function changes.
TEST(batch, takes_arguments_that_refer_to_what_changes) {
  on({}, [] {
    const auto objects = rows(30, 4);
    unsigned a = 0;
    int width = 4;
    submit_batch(graph_kernels::add, items(4), objects.size(), [&](std::size_t i) {
      a = static_cast<unsigned>(100 * i);
      return std::tuple<int&, int, unsigned&, decltype(pitch(objects[i])), decltype(read_write(objects[i]))>(
          width, 1, a, pitch(objects[i]), read_write(objects[i]));
    });
    for (std::size_t i = 0; i < objects.size(); ++i) EXPECT_EQ(first_of(objects[i]), i + 100 * i);
  });
}

// A failure at task k comes when k has been asked for, and what was asked for before is submitted.
TEST(batch, asks_for_arguments_in_order) {
  on({}, [] {
    const auto objects = rows(40, 4);
    std::vector<std::size_t> asked;
    submit_batch(graph_kernels::add, items(4), objects.size(), [&](std::size_t i) {
      asked.push_back(i);
      return adding(objects[i], 1, 4);
    });
    ASSERT_EQ(asked.size(), objects.size());
    for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i], i);
    const std::uint64_t before = hetero::count().submitted;
    EXPECT_THAT(text_of_error([&] {
                  submit_batch(graph_kernels::add, items(4), objects.size(), [&](std::size_t i) {
                    if (i == 3) throw std::runtime_error("no such cell");
                    return adding(objects[i], 1, 4);
                  });
                }),
                HasSubstr("tasks 0 to 2 were submitted"));
    EXPECT_EQ(hetero::count().submitted - before, 3u);
    for (std::size_t i = 0; i < objects.size(); ++i) EXPECT_EQ(first_of(objects[i]), i + (i < 3 ? 2 : 1));
  });
}

TEST(batch, goes_round_with_a_few_records) {
  on({.workers = 1}, [] {
    const auto objects = rows(40'000, 1); // more than may be left at any time (submission_window::widest)
    const auto add_one = [&](std::size_t i) { return adding(objects[i], 1, 1); };
    for (int round = 0; round < 4; ++round) submit_batch(graph_kernels::add, items(1), objects.size(), add_one);
    wait_all();
    // Not one for each object, which is what objects take that know their last writer.
    EXPECT_LT(detail::runtime::here("test").records().records_made(), objects.size());
    for (const object& o : objects) submit([](const host_view<unsigned, 2>& v) { ++v(0, 0); }, read_write(o));
    wait_all(); // these take what the batches have left, and then more
    EXPECT_EQ(first_of(objects[5]), 5u + 5);
  });
}

} // namespace
} // namespace tern::hetero

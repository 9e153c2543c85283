// SPDX-License-Identifier: Apache-2.0
// The host's memory is limited, and the heap has nothing left even for a note that a task waits for
// it: that task fails, the others do not.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/hetero/support/test_heap.hpp"
#include <tern/hetero/paging/host_pager.hpp>

namespace tern::hetero {
namespace detail {
struct host_pager_peer {
  /// Of a node of its lists, whose two pointers stand before it.
  static constexpr std::size_t note_bytes = sizeof(host_pager::request) + alignof(host_pager::request);
};
} // namespace detail

namespace {

using object = hetero_object<unsigned>;
using testing::HasSubstr;

constexpr std::int64_t numbers = 16 * 1024, bytes = numbers * std::int64_t{sizeof(unsigned)};
constexpr int fit = 4, many = 4 * fit;

/// In turn on all of more objects than memory has room for.
void change_all(const std::vector<object>& all, std::vector<hetero_task>& tasks, int rounds) {
  for (int r = 0; r < rounds; ++r)
    for (const object& o : all) {
      tasks.emplace_back(graph_kernels::add, items(static_cast<int>(numbers), 1), static_cast<int>(numbers), 1, 1u,
                         pitch(o), read_write(o));
      tasks.back().name("a change").submit();
    }
}

void check_with_refusals(unsigned one_of, const std::string& devices) {
  const test::temporary_on_disk here;
  on({.workers = 2,
      .devices = devices,
      .simulated = "1:memory=" + std::to_string(3 * bytes),
      .host_memory = std::to_string(fit * bytes),
      .disk = here.path},
     [&] {
       std::vector<object> all;
       for (int i = 0; i < many; ++i) all.emplace_back(numbers, static_cast<unsigned>(i));
       int failed = 0;
       {
         const test_heap::refusal some(detail::host_pager_peer::note_bytes, one_of);
         std::vector<hetero_task> tasks;
         change_all(all, tasks, 4);
         for (hetero_task& t : tasks) {
           const std::string text = text_of_error([&] { t.wait(); });
           if (text == "nothing was thrown") continue;
           ++failed;
           EXPECT_THAT(text, HasSubstr("cannot wait for the host's memory: the heap has none"));
         }
         EXPECT_GT(test_heap::refusal::refused(), 0u);
       }
       EXPECT_GT(failed, 0) << "one of " << one_of;
       EXPECT_LT(failed, 4 * many);
       text_of_error([] { wait_all(); });
       // All goes on when there is memory.
       for (const object& o : all)
         submit(graph_kernels::fill, items(static_cast<int>(numbers), 1), static_cast<int>(numbers), 1, 5u, pitch(o),
                write(o));
       std::vector<hetero_task> tasks;
       change_all(all, tasks, 2);
       wait_all();
       for (const object& o : all) {
         const auto v = o.host(access_mode::read).get();
         for (const int x : {0, 1, static_cast<int>(numbers) - 1})
           EXPECT_EQ(v(x), graph_kernels::stir(5u, static_cast<unsigned>(x)) + 2u * static_cast<unsigned>(x + 1));
       }
     });
}

TEST(heap_exhausted, fails_the_task_that_cannot_wait) {
  if (!test_heap::replaced) GTEST_SKIP() << "sanitizers have their own operator new";
  for (const unsigned one_of : {2u, 3u, 7u}) check_with_refusals(one_of, "host");
}

TEST(heap_exhausted, fails_the_copy_that_cannot_wait) {
  if (!test_heap::replaced) GTEST_SKIP() << "sanitizers have their own operator new";
  for (const unsigned one_of : {3u, 11u}) check_with_refusals(one_of, "simulated");
}

TEST(heap_exhausted, fails_the_access_that_cannot_wait) {
  if (!test_heap::replaced) GTEST_SKIP() << "sanitizers have their own operator new";
  const test::temporary_on_disk here;
  on({.workers = 1, .host_memory = std::to_string(fit * bytes), .disk = here.path}, [&] {
    std::vector<object> all;
    for (int i = 0; i < many; ++i) all.emplace_back(numbers, static_cast<unsigned>(i));
    for (const object& o : all) o.host(access_mode::read_write).get()(0) += 1;
    int failed = 0;
    {
      const test_heap::refusal all_of_them(detail::host_pager_peer::note_bytes, 1);
      for (const object& o : all) {
        const std::string text = text_of_error([&] { o.host(access_mode::read).get(); });
        if (text == "nothing was thrown") continue; // it was in memory
        ++failed;
        EXPECT_THAT(text, HasSubstr("cannot wait for the host's memory"));
      }
    }
    EXPECT_GE(failed, many - fit);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].host(access_mode::read).get()(0), i + 1);
  });
}

} // namespace
} // namespace tern::hetero

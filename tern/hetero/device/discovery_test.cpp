// SPDX-License-Identifier: Apache-2.0
// Several runtimes of one process, as ranks have them, find and use devices at the same time.
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/kernel/signal_guard.hpp>

namespace tern::hetero {
namespace {

using object = hetero_object<unsigned, 2>;

/// So many threads at once, each with schedulers of its own, one after the other; some have more
/// than others.
void use_devices(int threads, const machine& m) {
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&m, rounds = 1 + i % 3] {
      for (int r = 0; r < rounds; ++r)
        on(m, [] {
          object o({4, 4}, 0u);
          for (int k = 0; k < 12; ++k) submit(graph_kernels::add, items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
          const auto seen = o.host(access_mode::read).get();
          EXPECT_EQ(seen(1, 2), 12u * 6);
        });
    });
  for (std::thread& t : all) t.join();
}

TEST(discovery, of_several_runtimes_at_once) {
  const mock_cuda driver("devices=2");
  use_devices(
      8, {.workers = 1, .devices = "host,simulated,cuda", .simulated = "1", .policy = "round-robin", .cuda = true});
}

TEST(discovery, of_opencl_by_several_runtimes_at_once) {
#ifdef TERN_TSAN
  GTEST_SKIP() << "PoCL is not compiled with the thread sanitizer";
#endif
  if (!there_is_opencl()) GTEST_SKIP() << "there is no OpenCL device";
  use_devices(8, {.workers = 1, .devices = "opencl"});
}

TEST(discovery, opens_a_library_once) {
  detail::opened_libraries<int> all;
  int opened = 0;
  const auto open = [&]() -> std::optional<int> { return ++opened > 1 ? std::optional(opened) : std::nullopt; };
  EXPECT_FALSE(all.get("a", open)); // is not remembered
  EXPECT_EQ(all.get("a", open), 2);
  EXPECT_EQ(all.get("a", open), 2);
  EXPECT_EQ(all.get("b", open), 3);
}

void ours(int) {}
void a_compilers(int) {}
void (*handler_now())(int) {
  struct sigaction now {};
  ::sigaction(SIGUSR2, nullptr, &now);
  return now.sa_handler;
}

TEST(discovery, signals_have_their_handlers_back_after_several_compilers) {
  const auto before = std::signal(SIGUSR2, ours);
  std::optional<detail::signal_guard> first(std::in_place), second;
  std::signal(SIGUSR2, a_compilers);
  second.emplace();
  first.reset();
  EXPECT_EQ(handler_now(), a_compilers); // the second may still be at work
  second.reset();
  EXPECT_EQ(handler_now(), ours);
  std::signal(SIGUSR2, before);
}

} // namespace
} // namespace tern::hetero

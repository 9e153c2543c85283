// SPDX-License-Identifier: Apache-2.0
// Tasks and objects on CUDA devices, with the mock driver: variants that are CUDA's own, what is
// locked, what a task costs, devices that cannot be opened or are lost.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/variants.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace k = test_kernels;

machine with_cuda(const std::string& devices = "host,cuda") { return {.devices = devices, .cuda = true}; }

void add_to(const hetero_object<unsigned, 2>& o, const char* device) {
  hetero_task t(graph_kernels::add, tern::items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
                static_cast<int>(o.extent(0)), 1u, pitch(o), read_write(o));
  if (device) t.on(device);
  t.submit();
}

TEST(cuda_tasks, that_use_no_device_make_no_context) {
  const mock_cuda driver;
  on(with_cuda(), [] {
    hetero_object<unsigned, 2> o({10, 10}, 1u);
    add_to(o, "host");
    wait_all();
  });
  EXPECT_EQ(mock_cuda::counters().contexts_created, 0u);
  EXPECT_EQ(mock_cuda::counters().registers, 0u);
}

TEST(cuda_tasks, copies_are_to_and_from_locked_memory) {
  const mock_cuda driver("devices=2,no-peers");
  on(with_cuda(), [] {
    hetero_object<unsigned, 2> o({300, 300}, 1u);
    for (int i = 0; i < 6; ++i) add_to(o, i % 2 ? "cuda1" : "cuda0");
    EXPECT_EQ(o.host(access_mode::read).get()(299, 299), o.host(access_mode::read).get()(299, 299));
    std::vector<unsigned> mine(100, 1u); // lent memory is what it is
    const auto lent = hetero_object<unsigned, 2>::adopt(mine.data(), {10, 10});
    add_to(lent, "cuda0");
    wait_all();
    lent.host(access_mode::read).get();
  });
  const auto counted = mock_cuda::counters();
  EXPECT_EQ(counted.contexts_created, 2u);
  EXPECT_GE(counted.copies, 12u);
  EXPECT_EQ(counted.pageable_copies, 2u);
}

TEST(cuda_tasks, cost_few_calls_of_the_driver) {
  // One by one; several at a time they cost less (cuda_fused_test.cpp).
  const mock_cuda driver("by-itself");
  on({.devices = "host,cuda", .cuda = true, .without = "no-fuse"}, [] {
    hetero_object<unsigned, 2> o({4, 4}, 0u);
    struct cost { // of a task
      double calls, events, questions;
    };
    constexpr int n = 2000;
    const auto run = [&](bool chain) {
      for (int i = 0; i < n; ++i)
        if (chain)
          add_to(o, "cuda0");
        else
          hetero_task(k::nothing, tern::items(1)).on("cuda0").submit();
      wait_all();
    };
    run(true), run(false); // what there is to allocate is allocated
    const auto of = [&](bool chain) {
      const auto before = mock_cuda::counters();
      run(chain);
      const auto after = mock_cuda::counters();
      EXPECT_EQ(after.allocs, before.allocs);
      EXPECT_EQ(after.registers, before.registers);
      EXPECT_EQ(after.launches - before.launches, std::uint64_t{n});
      const auto asked = after.event_queries + after.stream_queries - before.event_queries - before.stream_queries;
      return cost{static_cast<double>(after.calls - before.calls - asked) / n,
                  static_cast<double>(after.event_records - before.event_records) / n, static_cast<double>(asked) / n};
    };
    // A launch, and one event for eight: on a machine that is busy with other things a few more.
    // Under sanitizers the device has often ended before the host comes with the next; each has its
    // event then. Questions depend on how much time there is to ask.
    constexpr bool slow = ::tern::detail::sanitized;
    const cost chain = of(true);
    EXPECT_LE(chain.calls, slow ? 4.0 : 2.0);
    EXPECT_LE(chain.events, slow ? 1.25 : 0.5);
    EXPECT_LE(chain.questions, 4.0);
    // Where nothing follows, the worker makes the context the thread's in each round, and asks
    // streams.
    const cost apart = of(false);
    EXPECT_LE(apart.calls, slow ? 5.0 : 3.0);
    EXPECT_LE(apart.events, slow ? 1.25 : 0.5);
  });
}

TEST(cuda_tasks, teach_models_what_kernels_and_copies_take) {
  const mock_cuda driver("call=100ns,start=1us,kernel=10us,bandwidth=1G");
  on({.devices = "host,cuda", .cuda = true, .without = "no-fuse"}, [] {
    hetero_object<unsigned, 2> o({50, 100}, 0u);
    for (int i = 0; i < 200; ++i) {
      add_to(o, "cuda0");
      if (i % 20 == 0) o.host(access_mode::read_write).get()(0, 0) += 1;
    }
    wait_all();
    const detail::model_set found = detail::runtime::here("the test").sampler().models().all();
    ASSERT_EQ(found.kernels.size(), 1u);
    const auto& [key, model] = *found.kernels.begin();
    EXPECT_EQ(key.kernel.name, "add");
    EXPECT_EQ(key.device.substr(0, 10), "Mock GPU 0");
    EXPECT_NEAR(model.times.median(), 10'000, 500);
    EXPECT_GE(model.times.size(), 8u);
    EXPECT_LE(model.times.size(), 64u) << "each of the first, as many as are launched at a time, then few";
    EXPECT_EQ(found.links.size(), 2u);
    for (const auto& [ends, link] : found.links)
      EXPECT_NEAR(link.link.at(20'000).value_or(0), 20'000 * 1e9 / (1 << 30), 400);
  });
}

TEST(cuda_tasks, find_that_the_links_of_a_new_device_have_been_measured) {
  const mock_cuda driver("call=100ns,bandwidth=1G");
  const test::temporary folder;
  options opts = cuda_options();
  opts.set(hetero_devices, "host,cuda");
  opts.set(hetero_models, folder.path.string());
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    hetero_task(k::nothing, tern::items(1)).on("cuda0").submit();
    wait_all();
    const detail::model_set found = detail::runtime::here("the test").sampler().models().all();
    EXPECT_EQ(found.links.size(), 2u);
    for (const auto& [ends, link] : found.links)
      EXPECT_NEAR(link.link.at(100'000).value_or(0), 100'000 * 1e9 / (1 << 30), 2'000);
  }),
            0u);
}

TEST(cuda_tasks, are_launched_behind_others) {
  const mock_cuda driver("delay=3us");
  for (const char* without : {"", "no-ahead", "one-stream"})
    on({.devices = "cuda", .cuda = true, .without = without}, [without] {
      hetero_object<unsigned, 2> o({4, 4}, 0u), other({4, 4}, 0u);
      for (int i = 0; i < 300; ++i) {
        add_to(o, "cuda0");
        if (i % 3 == 0) add_to(other, "cuda0");
      }
      wait_all();
      EXPECT_EQ(count().launched_behind > 0, std::string(without) != "no-ahead");
      EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 300u);
      EXPECT_EQ(other.host(access_mode::read).get()(0, 0), 100u);
    });
}

TEST(cuda_tasks, in_cudas_own_languages) {
  static const cuda_source mark_cuda("mark", R"(
extern "C" __global__ void mark(int n, int with, int* to) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = with + 3000;
}
)");
  static const opencl_source mark_cl(
      "mark", "kernel void mark(int n, int with, global int* to) { to[get_global_id(0)] = with + 1000; }");
  const mock_cuda driver;
  on(with_cuda("all"), [] {
    hetero_object<int> x(100);
    const auto choice =
        variants(mark_cuda, mark_cl, [](int n, int with, int* to) { std::fill(to, to + n, with + 2000); });
    const auto value_on = [&](const auto& way, const char* device) {
      hetero_task t(way, items(100), 100, 7, write(x));
      t.on(device).submit();
      t.wait();
      const auto host = x.host(access_mode::read).get();
      EXPECT_TRUE(std::all_of(host.begin(), host.end(), [&](int v) { return v == host[0]; }));
      return host[0];
    };
    EXPECT_EQ(value_on(choice, "cuda0"), 3007);
    EXPECT_EQ(value_on(choice, "host"), 2007);
    const auto there = count().devices;
    if (std::any_of(there.begin(), there.end(), [](const auto& d) { return d.id == "opencl0"; })) {
      EXPECT_EQ(value_on(choice, "opencl0"), 1007);
    }
    EXPECT_EQ(value_on(variants(mark_cuda), "cuda0"), 3007);
    submit(mark_cuda, items(100), 100, 8, write(x)); // by itself, where it can
    EXPECT_EQ(x.host(access_mode::read).get()[0], 3008);
    hetero_task wrong(mark_cuda, items(100), 100, 7.0, write(x));
    wrong.submit();
    EXPECT_THAT(text_of_error([&] { wrong.wait(); }),
                AllOf(HasSubstr("'mark'"), HasSubstr("parameter 2 has 4 bytes"), HasSubstr("8 bytes")));
  });
}

TEST(cuda_tasks, whose_groups_wait_for_each_other_are_on_the_device_together) {
  static const cuda_source together("both", "extern \"C\" __global__ void both(int* to) { to[blockIdx.x] = 1; }", "",
                                    true);
  const mock_cuda driver;
  on(with_cuda(), [] {
    hetero_object<int> x(1000, 0);
    hetero_task(together, items(64).group(1), read_write(x)).submit().wait();
    EXPECT_EQ(x.host(access_mode::read).get()[63], 1);
    hetero_task many(together, items(1000).group(1), read_write(x));
    many.submit();
    EXPECT_THAT(text_of_error([&] { many.wait(); }),
                AllOf(HasSubstr("task 'both'"), HasSubstr("cannot launch the kernel 'both'"), HasSubstr("use fewer")));
  });
}

// What functions call: the same driver.
const detail::cuda_api& api() {
  static const detail::cuda_api found = [] {
    std::vector<std::string> notes;
    return detail::cuda_api::open(std::vector<std::string>{TERN_MOCK_CUDA}, notes).value();
  }();
  return found;
}

TEST(cuda_tasks, a_function_gets_the_stream) {
  const mock_cuda driver("devices=2");
  on(with_cuda(), [] {
    hetero_object<double, 2> from({20, 30}), to({20, 30}, 0.0);
    {
      auto host = from.host(access_mode::write).get();
      std::iota(host.data(), host.data() + 600, 0.0);
    }
    const auto way = variants(on_queue(device_kind::cuda, [](const native_queue& q, device_view<const double, 2> a,
                                                             device_view<double, 2> b, int rows) {
      EXPECT_EQ(q.kind, device_kind::cuda);
      EXPECT_STREQ(q.device, "cuda1");
      detail::cu::context now = nullptr;
      EXPECT_EQ(api().CtxGetCurrent(&now), 0);
      EXPECT_EQ(now, q.context);
      EXPECT_EQ(static_cast<int>(reinterpret_cast<std::intptr_t>(q.native_device)), 1);
      for (int y = 0; y < rows; ++y)
        EXPECT_EQ(api().MemcpyDtoDAsync(reinterpret_cast<detail::cu::pointer>(b.address() + y * b.pitch),
                                        reinterpret_cast<detail::cu::pointer>(a.address() + y * a.pitch),
                                        static_cast<std::size_t>(a.size[1]) * sizeof(double),
                                        static_cast<detail::cu::stream>(q.queue)),
                  0);
      api().CtxSetCurrent(nullptr); // is put right again
    }));
    hetero_task t(way, read(from.part({2, 3}, {12, 18})), write(to.part({5, 6}, {15, 21})), 10);
    t.on("cuda1").submit();
    auto host = to.host(access_mode::read).get();
    for (int y = 0; y < 20; ++y)
      for (int x = 0; x < 30; ++x)
        ASSERT_EQ(host(y, x), y >= 5 && y < 15 && x >= 6 && x < 21 ? (y - 3) * 30 + x - 3 : 0) << y << ", " << x;
  });
}

TEST(cuda_tasks, what_such_a_function_throws_is_what_the_task_fails_with) {
  const mock_cuda driver;
  on(with_cuda(), [] {
    hetero_object<int> x(10, 3);
    hetero_task t(
        variants(on_queue(device_kind::cuda,
                          [](const native_queue&, device_view<int, 1>) { throw std::runtime_error("no plan"); })),
        read_write(x));
    t.submit();
    EXPECT_THROW(t.wait(), std::runtime_error);
    hetero_task sleeper(
        variants(on_queue(device_kind::cuda, [](const native_queue&, device_view<int, 1>) { this_fiber::yield(); })),
        write(x));
    sleeper.name("sleeper").submit();
    EXPECT_THAT(text_of_error([&] { sleeper.wait(); }),
                HasSubstr("the function of task 'sleeper' waited while it had the queue of cuda0"));
  });
}

TEST(cuda_tasks, there_is_one_function_for_the_queues_of_each_kind) {
  const auto none = [](const native_queue&) {};
  EXPECT_THAT(text_of_error([&] { variants(on_queue(device_kind::cuda, none), on_queue(device_kind::cuda, none)); }),
              HasSubstr("two functions for the queues of the kind cuda"));
  variants(on_queue(device_kind::cuda, none), on_queue(device_kind::opencl, none));
}

TEST(cuda_tasks, go_elsewhere_where_a_device_cannot_be_opened) {
  const mock_cuda driver("fail-context");
  on({.devices = "host,cuda", .policy = "round-robin", .cuda = true}, [] {
    hetero_object<unsigned, 2> o({4, 4}, 1u);
    for (int i = 0; i < 20; ++i) add_to(o, nullptr);
    wait_all();
    o.host(access_mode::read).get();
    hetero_task only(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
    only.on("cuda0").submit();
    EXPECT_THAT(text_of_error([&] { only.wait(); }), AllOf(HasSubstr("cuda"), HasSubstr("lost")));
  });
}

TEST(cuda_tasks, of_a_device_that_a_kernel_has_broken_fail_and_the_rest_goes_on) {
  const mock_cuda driver("devices=2,fault-kernel=5");
  on(with_cuda(), [] {
    hetero_object<unsigned, 2> other({4, 4}, 1u);
    std::vector<hetero_object<unsigned, 2>> objects;
    for (int i = 0; i < 5; ++i) objects.emplace_back(extents<2>{4, 4}, 1u);
    std::vector<hetero_task> tasks;
    for (const auto& o : objects) {
      hetero_task t(graph_kernels::add, tern::items(4, 4), 4, 4, 1u, pitch(o), read_write(o));
      t.on("cuda0").name("astray").submit();
      tasks.push_back(std::move(t));
    }
    int failed = 0, named = 0;
    for (auto& t : tasks) {
      const std::string text = text_of_error([&] { t.wait(); });
      if (text == "nothing was thrown") continue;
      ++failed;
      EXPECT_THAT(text, AllOf(HasSubstr("task 'astray'"), HasSubstr("cuda0"),
                              testing::AnyOf(HasSubstr("ILLEGAL_ADDRESS"), HasSubstr("lost"))));
      named += text.find("'add' of task 'astray'") != text.npos ? 1 : 0;
    }
    EXPECT_GE(failed, 1);
    EXPECT_GE(named, 1); // and the kernel
    add_to(other, "cuda1");
    other.host(access_mode::read).get();
    add_to(other, nullptr);
    other.host(access_mode::read).get();
  });
}

// Where graphs cannot be had ------------------------------------------------------------------------------------------

// Twenty times three kernels as one task. \return what comes of it
std::vector<unsigned> steps_on(const options& opts) {
  std::vector<unsigned> result;
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([&] {
    hetero_object<unsigned, 2> a({8, 8}, 1u), b({8, 8}, 2u);
    recorded step("step");
    if (opts[hetero_devices] != "host") step.on("cuda0");
    for (unsigned i = 0; i < 20; ++i)
      step.submit([&] {
        submit(graph_kernels::add, items(8, 8), 8, 8, i, pitch(a), read_write(a));
        submit(graph_kernels::mix, items(8, 8), 8, 8, 6u, pitch(a), read(a), pitch(b), read_write(b));
        submit(graph_kernels::add, items(8, 8), 8, 8, 7u, pitch(b), read_write(b));
      });
    const auto host = b.host(access_mode::read).get();
    result.assign(host.data(), host.data() + 64);
  }),
            0u);
  return result;
}
std::vector<unsigned> steps_on_host() {
  options opts;
  opts.set(hetero_devices, "host");
  return steps_on(opts);
}

TEST(cuda_without_graphs, steps_are_launched_one_by_one_where_one_cannot_be_made) {
  for (const int which : {1, 2}) {
    const mock_cuda driver("fail-graph=" + std::to_string(which));
    options opts = cuda_options();
    opts.set(hetero_devices, "host,cuda");
    EXPECT_EQ(steps_on(opts), steps_on_host());
    const auto counted = mock_cuda::counters();
    EXPECT_EQ(counted.graph_launches, which == 1 ? 0u : 19u); // the second is never asked for
    EXPECT_EQ(counted.launches, which == 1 ? 60u : 3u);
  }
}

TEST(cuda_without_graphs, steps_are_launched_one_by_one_where_the_driver_has_none) {
  void* const library = dlopen(TERN_MOCK_CUDA_WITHOUT_GRAPHS, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  EXPECT_FALSE(dlsym(library, "cuGraphLaunch"));
  const auto find = [&]<class F>(F*& to, const char* name) { to = reinterpret_cast<F*>(dlsym(library, name)); };
  void (*count_all)(tern_mock_counters*) = nullptr;
  const char* (*misuse)() = nullptr;
  find(count_all, "tern_mock_cuda_counters");
  find(misuse, "tern_mock_cuda_misuse");
  options opts = cuda_options();
  opts.set(detail::cuda_libraries, TERN_MOCK_CUDA_WITHOUT_GRAPHS ":" TERN_MOCK_NVRTC);
  opts.set(hetero_devices, "host,cuda");
  EXPECT_EQ(steps_on(opts), steps_on_host());
  tern_mock_counters counted{};
  count_all(&counted);
  EXPECT_EQ(counted.graph_launches, 0u);
  EXPECT_EQ(counted.launches, 60u);
  EXPECT_EQ(counted.live_contexts, 0u);
  EXPECT_STREQ(misuse(), "");
}

TEST(cuda_tasks, memory_that_runs_out_makes_room) {
  const mock_cuda driver;
  options opts = cuda_options("64K");
  opts.set(hetero_devices, "host,cuda");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    std::vector<hetero_object<unsigned, 2>> objects;
    for (int i = 0; i < 20; ++i) objects.emplace_back(extents<2>{50, 50}, 1u); // of 10 kB
    for (int round = 0; round < 3; ++round)
      for (const auto& o : objects) add_to(o, "cuda0");
    const unsigned expected = objects[0].host(access_mode::read).get()(0, 0);
    for (const auto& o : objects) EXPECT_EQ(o.host(access_mode::read).get()(0, 0), expected);
    EXPECT_GT(count().copies_from_devices, 20u);
  }),
            0u);
}

TEST(cuda_tasks, go_elsewhere_when_an_allocation_is_what_finds_the_loss) {
  const mock_cuda driver("lose=3,quiet,lenient,seed=1"); // after a copy and a kernel
  options opts = cuda_options("64M");
  opts.set(hetero_devices, "host,cuda");
  opts.set(hetero_policy, "round-robin");
  scheduler s({.workers = 1, .opts = &opts});
  EXPECT_EQ(s.run([] {
    hetero_object<unsigned, 2> a({1, 256}, 0u);
    add_to(a, "cuda0");
    wait_all();
    // Another library in this program breaks the context while nothing of ours is under way.
    namespace cu = detail::cu;
    cu::context context{};
    cu::stream stream{};
    cu::pointer memory{};
    const char byte = 0;
    ASSERT_EQ(api().DevicePrimaryCtxRetain(&context, 0), cu::success);
    ASSERT_EQ(api().CtxSetCurrent(context), cu::success);
    ASSERT_EQ(api().MemAlloc(&memory, 16), cu::success);
    ASSERT_EQ(api().StreamCreateWithPriority(&stream, cu::stream_non_blocking, 0), cu::success);
    static_cast<void>(api().MemcpyHtoDAsync(memory, &byte, 1, stream));
    EXPECT_NE(api().StreamSynchronize(stream), cu::success);
    std::vector<hetero_object<unsigned, 2>> all;
    for (int i = 0; i < 6; ++i) all.emplace_back(extents<2>{12288, 256}, 1u); // 12 MiB: the pool asks the driver
    for (const auto& o : all) add_to(o, nullptr);
    wait_all();
    for (const auto& o : all) EXPECT_EQ(o.host(access_mode::read).get()(12287, 255), 1u + 255 + 3 * 12287 + 1);
    add_to(all[0], "cuda0");
    EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("cuda0"));
    static_cast<void>(api().DevicePrimaryCtxRelease(0));
  }),
            0u);
  mock_cuda::forget_misuse();
}

} // namespace
} // namespace tern::hetero

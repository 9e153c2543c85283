// SPDX-License-Identifier: Apache-2.0
// What dumps say of tasks and accesses that wait, and what is counted.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/report/fiber_report.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>

#ifdef TERN_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using object = hetero_object<unsigned, 2>;

/// The dump, as soon as it has `part`; in vain for as long as a test may take.
std::string dump_with(const std::string& part) {
  for (;;) {
    std::string text = dump_fibers();
    if (text.find(part) != std::string::npos) return text;
    this_fiber::yield();
  }
}

int devices_at_work() { return tern::detail::devices_at_work(*tern::detail::this_worker_base()->home); }

void add_one(object& o, const char* name = "add") {
  hetero_task(graph_kernels::add, items(4, 4), 4, 4, 1u, pitch(o), read_write(o)).name(name).submit();
}

TEST(report, says_who_holds_access_and_what_waits_for_it) {
  on({}, [] {
    object o({4, 4}, 1u);
    o.name("grid");
    const int line = __LINE__ + 1;
    auto held = o.host(access_mode::write).get();
    auto wanted = o.host(access_mode::read);
    add_one(o, "later");
    add_one(o, "still later");
    const std::string text = dump_fibers();
    EXPECT_THAT(text, HasSubstr("\n  tasks on objects: 4 that have not ended"));
    EXPECT_THAT(text, ContainsRegex("    host access \\(write\\) at [^ ]*report_test.cpp:" + std::to_string(line) +
                                    " by fiber [0-9]+ to hetero_object<unsigned int> 'grid' of 4 x 4, held since "
                                    "[0-9.]+ s\n"));
    EXPECT_THAT(text, ContainsRegex("      for it waits? host access \\(read\\) at [^ ]*report_test.cpp:" +
                                    std::to_string(line + 1) + " by fiber"));
    EXPECT_THAT(text, ContainsRegex("for it wait.*task 'later'"));
    EXPECT_THAT(text, HasSubstr(", and 1 more after"));
    held.release();
    wanted.get().release();
    wait_all();
    EXPECT_THAT(dump_fibers(), Not(HasSubstr("tasks on objects")));
  });
}

TEST(report, says_which_task_a_reader_waits_for) {
  on({}, [] {
    object o({4, 4}, 1u);
    semaphore go(0);
    hetero_task([&go](host_view<unsigned, 2>) { go.acquire(); }, write(o)).name("slow").submit();
    auto wanted = o.host(access_mode::read);
    EXPECT_THAT(dump_fibers(), ContainsRegex("host access \\(read\\) at .*report_test.cpp:[0-9]+ by fiber [0-9]+ to "
                                             "hetero_object<unsigned int> of 4 x 4, since [0-9.]+ s, waits for task "
                                             "'slow'\n"));
    go.release();
    wanted.get();
  });
}

TEST(report, says_what_a_device_is_at) {
  // One worker: the device's fiber notes what waits for a task only after all has been submitted.
  on({.workers = 1, .devices = "simulated", .simulated = "1:launch=200ms,memory=64"}, [] {
    object o({4, 4}, 1u), p({4, 4}, 1u);
    add_one(o, "long");
    add_one(p, "next"); // 64 bytes are all that there is
    auto wanted = o.host(access_mode::read);
    const std::string text = dump_with("waits for memory");
    EXPECT_GT(devices_at_work(), 0);
    EXPECT_THAT(
        text, ContainsRegex("    device simulated0: 1 kernel under way, 1 copy under way, 1 task waits for its memory, "
                            "nothing has ended there since [0-9.]+ s\n      kernel of task 'long'\n"
                            "      for it waits host access \\(read\\) at"));
    EXPECT_THAT(text, HasSubstr("      copy from it, of hetero_object<unsigned int> of 4 x 4, behind task 'long'\n"));
    EXPECT_THAT(text, HasSubstr("      task 'next' waits for memory: it uses 64 bytes there, of 64, where there is "
                                "hetero_object<unsigned int> of 4 x 4 (used by task 'long')"));
    wanted.get();
    wait_all();
    EXPECT_EQ(devices_at_work(), 0);
  });
}

TEST(report, says_how_many_tasks_wait_for_a_device) {
  on({.devices = "simulated", .simulated = "1:launch=20ms", .policy = "eager"}, [] {
    std::vector<object> many;
    for (int i = 0; i < 30; ++i) add_one(many.emplace_back(extents<2>{4, 4}, 1u));
    EXPECT_THAT(dump_with("under the policy"),
                ContainsRegex("    [0-9]+ tasks? waits? for a device that has room, under the policy 'eager'"));
    wait_all();
  });
}

TEST(report, is_part_of_what_a_simulation_says_of_a_deadlock) {
  sim::simulation world;
  options opts;
  opts.set(hetero_devices, "host");
  scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
#ifdef TERN_ASAN
  const __lsan::ScopedDisabler stuck; // fibers that are given up are not unwound: what their stacks own is lost
#endif
  const std::string text = text_of_error([&] {
    s.run([] {
      object o({4, 4}, 1u);
      auto held = o.host(access_mode::read_write).get();
      o.host(access_mode::read).get(); // for ever
    });
  });
  EXPECT_THAT(text, ContainsRegex("main waits and nothing can run:.*fiber"));
  EXPECT_THAT(text, ContainsRegex("host access \\(read and write\\) at [^ ]*report_test.cpp:[0-9]+ by fiber [0-9]+ to "
                                  "hetero_object<unsigned int> of 4 x 4, held since"));
}

TEST(report, may_be_asked_for_while_tasks_come_and_go) {
  std::atomic<tern::detail::scheduler_core*> core{nullptr};
  std::atomic<bool> over{false};
  std::atomic<int> told{0};
  std::thread asks([&] {
    while (!core.load()) std::this_thread::yield();
    while (!over.load()) {
      const std::string text = tern::detail::describe_extension(*core, std::chrono::milliseconds(200));
      told += text.find("tasks on objects") != std::string::npos ? 1 : 0;
    }
  });
  on({.devices = "host,simulated", .simulated = "2:launch=1us,memory=256"}, [&] {
    std::vector<object> some;
    for (int i = 0; i < 4; ++i) some.emplace_back(extents<2>{4, 4}, 0u).name("object " + std::to_string(i));
    core = tern::detail::this_worker_base()->home;
    unsigned rounds = 0;
    for (; rounds < 300 || told.load() < 3; ++rounds) {
      for (object& o : some) add_one(o);
      auto wanted = some[rounds % 4].host(access_mode::read);
      auto next = some[rounds % 4].host(access_mode::read_write);
      wanted.get().release();
      next.get().release();
    }
    for (object& o : some) {
      const auto seen = o.host(access_mode::read).get();
      EXPECT_EQ(seen(0, 0), rounds);
    }
    over = true; // before the scheduler ends
    asks.join();
  });
}

TEST(count, tells_of_tasks_that_only_the_host_can_run) {
  on({}, [] {
    object o({4, 4}, 1u);
    for (int i = 0; i < 10; ++i) submit([](host_view<unsigned, 2> v) { ++v(0, 0); }, read_write(o));
    add_one(o);
    o.host(access_mode::read).get();
    wait_all();
    ASSERT_EQ(count().devices.size(), 1u);
    EXPECT_EQ(count().devices[0].id, "host");
    EXPECT_EQ(count().devices[0].tasks, 11u); // not the access
  });
}

TEST(count, tells_of_the_hosts_beside_others) {
  on({.devices = "host,simulated", .simulated = "1", .policy = "round-robin"}, [] {
    object o({4, 4}, 1u);
    for (int i = 0; i < 10; ++i) {
      submit([](host_view<unsigned, 2> v) { ++v(0, 0); }, read_write(o));
      add_one(o);
    }
    wait_all();
    EXPECT_EQ(count().devices[0].tasks, 15u);
    EXPECT_EQ(count().devices[1].tasks, 5u);
  });
}

} // namespace
} // namespace tern::hetero

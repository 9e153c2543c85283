// SPDX-License-Identifier: Apache-2.0
/// \file
/// Suspends fibers in several ways, then stops in the debugger; see gdb_fibers_test.py.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

using namespace std::chrono_literals;

namespace {

tern::mutex door;

[[gnu::noinline]] void wait_at_the_door() {
  const std::lock_guard hold(door);
  asm volatile("");
}
[[gnu::noinline]] int wait_for_the_answer(tern::future<int>& answer) {
  const int seen = answer.get();
  asm volatile("");
  return seen;
}
[[gnu::noinline]] void sleep_long() {
  tern::this_fiber::sleep_for(1h);
  asm volatile("");
}

} // namespace

extern "C" [[gnu::noinline]] void all_wait() {
  std::raise(SIGTRAP);
  asm volatile("");
}

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  tern::sim::simulation world({.seed = 7, .watch_blocking = false});
  // gcore leaves out what lies beside guard regions.
  tern::scheduler s({.workers = 2,
                     .name = "gdb",
                     .guard = how == "pages" ? tern::stack_guard::pages : tern::stack_guard::automatic,
                     .simulation = how == "simulated" ? &world : nullptr});
  s.run([] {
    tern::promise<int> promise;
    auto answer = promise.get_future();
    door.lock();
    const tern::fiber asker([&] { wait_for_the_answer(answer); }, {.name = "asker"});
    const tern::fiber knocker(wait_at_the_door, {.name = "knocker"});
    const tern::fiber sleeper(sleep_long, {.name = "sleeper"});
    const tern::fiber joiner([] { tern::fiber([] { sleep_long(); }, {.name = "joined"}).join(); }, {.name = "joiner"});
    tern::this_fiber::sleep_for(1s); // all of them wait by now, on any machine
    const tern::fiber unborn([] {}, {.name = "unborn", .worker = tern::scheduler::current_worker()});
    all_wait();
    std::_Exit(0); // without the debugger
  });
}

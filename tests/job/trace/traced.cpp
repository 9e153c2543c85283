// SPDX-License-Identifier: Apache-2.0
/// \file
/// Jobs for job_trace_test: `traced [WHAT]`.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>
#include <tern/task/task_group.hpp>
#include <tern/trace/trace.hpp>

using namespace std::chrono_literals;

int square(int x) {
  tern::trace::region r("squaring");
  tern::this_fiber::yield();
  return x * x;
}

int fail(int) { throw std::runtime_error("no such square"); }

void ask_back(int source, int left) {
  if (left > 0) tern::send<&ask_back>(source, tern::rank(), left - 1);
}

namespace {

int next() { return (tern::rank() + 1) % tern::size(); }

// Waits for a mutex, a fiber's end and a future, each for sure. All fibers belong to one worker, so
// no other fiber goes on before this one waits. A call's answer, in contrast, may come on another
// worker before a fiber waits for it.
void wait_for_all_kinds() {
  tern::mutex m;
  bool begun = false;
  m.lock();
  tern::fiber waits(
      [&] {
        tern::trace::region r("under the lock");
        begun = true;
        m.lock();
        tern::this_fiber::sleep_for(100us);
        m.unlock();
      },
      {.name = "patient", .worker = 0});
  while (!begun) tern::this_fiber::yield();
  m.unlock();
  waits.join();
  tern::promise<int> p;
  auto answer = p.get_future();
  tern::fiber answers([&] { p.set_value(42); }, {.name = "answers", .worker = 0});
  if (answer.get() != 42) throw std::logic_error("a wrong answer");
}

// Something of everything.
void usual() {
  tern::trace::region whole("the whole");
  tern::fiber(wait_for_all_kinds, {.name = "asks", .worker = 0}).join();
  tern::fiber unnamed([] { tern::this_fiber::yield(); });
  tern::this_fiber::sleep_for(50us);
  unnamed.join();
  for (int i = 0; i < 10; ++i)
    if (tern::call<&square>(next(), i).get() != i * i) throw std::logic_error("a wrong square");
  tern::send<&ask_back>(next(), tern::rank(), 7);
  tern::trace::counter("temperature \"K\"", 273.15 + tern::rank());
  tern::trace::instant("half way");
  tern::barrier();
}

// Of batches one in sixteen is recorded; and of two tasklets that wait for each other one must be
// stolen.
void tasklets() {
  tern::task_group g;
  for (int i = 0; i < 64; ++i) {
    g.run([] {});
    tern::this_fiber::sleep_for(20us);
  }
  g.wait();
  if (!tern::sim::active()) {
    std::atomic<int> begun{0};
    const auto meet = [&] {
      begun.fetch_add(1);
      while (begun.load() < 2) std::this_thread::yield();
    };
    g.run(meet);
    g.run(meet);
    g.wait();
  }
  tern::barrier();
}

// Until it is killed.
void long_life() {
  tern::trace::region whole("the whole");
  for (int i = 0;; ++i) {
    tern::call<&square>(next(), 3).get();
    if (i == 1000 && tern::rank() == 0) {
      std::puts("ready");
      std::fflush(stdout);
    }
    if (i > 1000) tern::this_fiber::sleep_for(100us);
  }
}

void much() {
  for (int i = 0; i < 20'000; ++i) {
    tern::trace::region r("one of many");
    tern::this_fiber::yield();
  }
  tern::barrier();
}

// One rank calls the next one much more than others do.
void uneven() {
  usual();
  if (tern::rank() == 7)
    for (int i = 0; i < 500; ++i) tern::call<&square>(next(), 3).get();
  tern::barrier();
}

void wait_for_ever() {
  tern::mutex a, b;
  a.lock();
  tern::fiber other([&] {
    b.lock();
    a.lock();
  });
  tern::this_fiber::sleep_for(1ms);
  b.lock();
}

} // namespace

int main(int argc, char** argv) {
  return tern::run(argc, argv, [](int n, char** words) {
    const std::string what = n > 1 ? words[1] : "usual";
    if (what == "usual")
      usual();
    else if (what == "uneven")
      uneven();
    else if (what == "tasklets")
      tasklets();
    else if (what == "long")
      long_life();
    else if (what == "much")
      much();
    else if (what == "moves") {
      if (::chdir("/") != 0) return 4;
      usual();
    } else if (what == "stuck")
      wait_for_ever();
    else if (what == "throws")
      tern::send<&fail>(next(), 1);
    else
      return 3;
    return 0;
  });
}

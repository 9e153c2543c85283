// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job that its first argument brings to a standstill for ever, or for longer than one is waited
/// with. Each rank prints a line when it has met the others.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <tern/hetero/hetero_object.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sync.hpp>

namespace {

using namespace std::chrono_literals;

constexpr auto longer = 4500ms; // than it takes to notice a standstill

tern::semaphore never(0);

int answer_never() {
  never.acquire();
  return 0;
}

struct vault {
  template <class A> void serialize(A&) {}
  int open() { return answer_never(); }
  int look() const { return 1; }
};

/// For ever. \return false if there is no such form.
bool stands_still(std::string_view how) {
  const int last = tern::size() - 1;
  if (how == "future") { // its promise stays alive and is never set
    tern::promise<int> kept;
    static_cast<void>(kept.get_future().get());
  } else if (how == "semaphore") {
    never.acquire();
  } else if (how == "condition") {
    tern::mutex m;
    tern::condition_variable c;
    std::unique_lock hold(m);
    c.wait(hold);
  } else if (how == "collective") { // the last rank does not come
    if (tern::rank() == last) never.acquire();
    tern::barrier();
  } else if (how == "call") {
    static_cast<void>(tern::call<&answer_never>(last).get());
  } else if (how == "epoch") {
    tern::finish([&] { tern::send<&answer_never>(last); });
  } else if (how == "object") { // an invocation never ends, and another one waits for it
    const auto v = tern::broadcast(tern::rank() == last ? tern::create<vault>() : tern::mobile_ptr<vault>(), last);
    auto opened = tern::call<&vault::open>(v);
    static_cast<void>(tern::call<&vault::look>(v).get());
  } else if (how == "access") { // the first access to the data is never given back
    tern::hetero_object<int> data(8, 0);
    const auto first = data.host(tern::access_mode::read_write).get();
    const auto second = data.host(tern::access_mode::read_write).get();
  } else {
    return false;
  }
  return true;
}

void read_from_child() { // the worker is inside a system call
  int ends[2];
  if (pipe(ends) != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    std::this_thread::sleep_for(longer);
    _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
  }
  char c = 0;
  while (read(ends[0], &c, 1) < 0) {
  }
  int status = 0;
  waitpid(child, &status, 0);
}

/// Waits on rank 0 for longer than a standstill, for what comes.
void goes_on_late(std::string_view how) {
  if (how == "thread") {
    tern::promise<int> p;
    auto f = p.get_future();
    std::thread other([&] {
      std::this_thread::sleep_for(longer);
      p.set_value(1);
    });
    static_cast<void>(f.get());
    other.join();
  } else if (how == "timer") {
    tern::this_fiber::sleep_for(longer);
  } else if (how == "limit") {
    static_cast<void>(never.try_acquire_for(longer));
  } else if (how == "read") {
    read_from_child();
  } else if (how == "compute") {
    for (const auto end = std::chrono::steady_clock::now() + longer; std::chrono::steady_clock::now() < end;) {
    }
  } else {
    std::printf("there is no form '%s'\n", std::string(how).c_str());
  }
}

int get_into(std::string_view how) {
  tern::barrier();
  std::printf("ready %d of process %d\n", tern::rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
  if (how == "thread-for-ever" || how == "handler") {
    if (how == "thread-for-ever") std::thread([] { pause(); }).detach();
    never.acquire();
  }
  if (stands_still(how)) return 0;
  if (tern::rank() == 0) goes_on_late(how);
  tern::barrier();
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "handler") std::signal(SIGALRM, [](int) {});
  return tern::run(argc, argv, [&] { return get_into(how); });
}

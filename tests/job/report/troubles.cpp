// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job that gets into the trouble that its first argument names.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/report.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/semaphore.hpp>

namespace {

tern::semaphore never(0);

// Not inlined: the tests look for these names.
[[gnu::noinline]] void wait_for_what_never_comes() {
  never.acquire();
  std::printf("it came\n");
}
int answer_never(int) {
  wait_for_what_never_comes();
  return 0;
}

struct vault {
  template <class A> void serialize(A&) {}
  int open() { return answer_never(1); }
  int look() const { return 1; }
};

[[gnu::noinline]] void write_to(volatile int* where) {
  *where = 1; // NOLINT(clang-analyzer-core.NullDereference): that is the trouble
  std::printf("written\n");
}
int crash_here(int) {
  write_to(nullptr);
  return 0;
}
int abort_here(int) {
  std::abort();
  return 0;
}
int call_nothing(int) {
  void (*volatile nothing)() = nullptr;
  nothing(); // NOLINT(clang-analyzer-core.CallAndMessage): that is the trouble
  return 1;
}
[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  return depth > 0 ? recurse(depth + 1) + frame[0] : 0;
}
int overflow_here(int) { return recurse(1); }
int fail_in_call(int cell) { throw std::out_of_range("no cell " + std::to_string(cell)); }
int succeed(int x) { return x; }
void fail_alone(int) { throw std::runtime_error("no such cell"); }

void compute_for(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

void rest_for(int milliseconds) { // in naps: time when the process is stopped is not slept
  for (; milliseconds > 0; milliseconds -= 50) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

/// How it ends.
int abort_in_forked_child() {
  const int pid = fork();
  if (pid == 0) std::abort();
  int status = 0;
  for (int i = 0; i < 500 && waitpid(pid, &status, WNOHANG) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  kill(pid, SIGKILL);
  return 0;
}

void say(const std::string& what) {
  std::printf("%s %d of process %d\n", what.c_str(), tern::rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
}

int get_into(std::string_view trouble) {
  const int last = tern::size() - 1;
  tern::barrier();
  say("ready");
  if (trouble == "none") return 0;
  if (trouble == "hang") { // the first rank waits for the last one, the others for a collective operation
    if (tern::rank() == 0) tern::finish([&] { tern::call<&answer_never>(last, 7).get(); }, "patience");
    tern::barrier();
  }
  if (trouble == "object") { // an invocation never ends; another one, and a migration, wait for it
    const auto v = tern::broadcast(tern::rank() == last ? tern::create<vault>() : tern::mobile_ptr<vault>(), last);
    if (tern::rank() == 0) {
      auto opened = tern::call<&vault::open>(v), seen = tern::call<&vault::look>(v);
      auto moved = tern::migrate(v, 0);
      opened.get();
    }
    tern::barrier();
  }
  if (trouble == "drop" && tern::rank() == 0) { // what one call has thrown is looked at, what four have is not
    for (int i = 0; i < 4; ++i) {
      const auto dropped = tern::call<&fail_in_call>(last, i);
      while (!dropped.ready()) tern::this_fiber::yield();
    }
    try {
      static_cast<void>(tern::call<&fail_in_call>(last, 7).get());
    } catch (const tern::error&) {
    }
    auto shared = tern::call<&fail_in_call>(last, 8).share();
    try {
      static_cast<void>(shared.get());
    } catch (const tern::error&) {
    }
    const auto good = tern::call<&succeed>(last, 1);
    while (!good.ready()) tern::this_fiber::yield();
    static_cast<void>(tern::promise<int>().get_future()); // a broken promise: no handler has failed
  }
  if (trouble == "many") {
    std::vector<tern::fiber> all;
    for (int i = 0; i < 2000; ++i)
      all.emplace_back([] { wait_for_what_never_comes(); }, tern::fiber_options{.name = "solver " + std::to_string(i)});
    for (auto& f : all) f.join();
  }
  if (trouble == "compute") {
    compute_for(1.5);
    tern::barrier();
  }
  if (trouble == "rest") rest_for(800);
  if (trouble == "throw-all") throw std::runtime_error("all at once");
  if (trouble == "survive" && tern::rank() == 0) {
    raise(SIGFPE);
    say("survived");
  }
  if (trouble == "fork-abort" && tern::rank() == 0) say("signal " + std::to_string(abort_in_forked_child()) + " ended");
  if (trouble == "write" && tern::rank() == 0) say(tern::write_report("curiosity"));
  if (trouble == "segv" && tern::rank() == 0) tern::call<&crash_here>(last, 1).get();
  if (trouble == "abort" && tern::rank() == 0) tern::call<&abort_here>(last, 1).get();
  if (trouble == "null-call" && tern::rank() == 0) tern::call<&call_nothing>(last, 1).get();
  if (trouble == "overflow" && tern::rank() == 0) tern::call<&overflow_here>(last, 1).get();
  if (trouble == "kill" && tern::rank() == 0) kill(getpid(), SIGSEGV);
  if (trouble == "throw" && tern::rank() == 0) tern::send<&fail_alone>(last, 1);
  tern::barrier();
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::string trouble = argc > 1 ? argv[1] : "none";
  if (trouble == "survive") std::signal(SIGFPE, [](int) {});
  return tern::run(argc, argv, [&] { return get_into(trouble); });
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job that ends in the way its first argument says.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace {

void fail_in_handler(const std::string& what) { throw std::domain_error(what); }

void fail_otherwise(int how) {
  if (how == 0) throw tern::error(tern::errc::io, "the disk is full", "empty it");
  throw how;
}
int fail_in_call(int cell) { throw std::out_of_range("no cell " + std::to_string(cell)); }

// Handlers that fail, some with no caller that waits; the job goes on.
int outlive_failures(int number) {
  if (tern::rank() == 0) {
    tern::send<&fail_in_handler>(number, "bad cell");
    tern::send<&fail_otherwise>(number, 0);
    tern::send<&fail_otherwise>(number, 5);
    try {
      static_cast<void>(tern::call<&fail_in_call>(number, 3).get());
    } catch (const tern::error& e) {
      std::printf("caught: %s\n", e.what());
    }
  }
  tern::quiesce();
  const int ranks = tern::allreduce(1, std::plus<>());
  if (tern::rank() == 0) std::printf("went on with %d\n", ranks);
  return 0;
}

void leave(bool thread) {
  if (!thread) std::exit(7);
  std::thread([] { std::exit(7); }).join();
}

void set_value(tern::remote_promise<int> p) { p.set_value(1); }

// Ranks that do not fail: one waits in the runtime, the others compute and never look at the
// network.
[[noreturn]] void go_on_for_ever() {
  if (tern::rank() == 0) tern::barrier();
  for (;;) { // a simulation has one thread for all ranks
    if (tern::sim::active())
      tern::this_fiber::sleep_for(std::chrono::milliseconds(20));
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int ends(std::string_view how, int number) {
  if (how == "hello") {
    const int ranks = tern::allreduce(1, std::plus<>());
    if (tern::rank() == 0) std::printf("hello from %d\n", ranks);
    return 0;
  }
  if (how == "throw") {
    if (tern::rank() == number) throw std::out_of_range("no such cell");
    go_on_for_ever();
  }
  if (how == "throw-tern") {
    if (tern::rank() == number) throw tern::error(tern::errc::io, "the disk is full", "empty it");
    go_on_for_ever();
  }
  if (how == "throw-int") {
    if (tern::rank() == number) throw 7;
    go_on_for_ever();
  }
  if (how == "throw-handler") {
    if (tern::rank() == 0) tern::send<&fail_in_handler>(number, "bad cell");
    if (tern::rank() == number) tern::barrier(); // a main fiber that computes would keep its only worker from handlers
    go_on_for_ever();
  }
  if (how == "for-ever") {
    std::printf("ready %d of process %d\n", tern::rank(), static_cast<int>(getpid()));
    std::fflush(stdout);
    go_on_for_ever();
  }
  if (how == "outlive") return outlive_failures(number);
  if (how == "outlive-with-code") {
    outlive_failures(number);
    return tern::rank() == 1 ? 7 : 0;
  }
  if (how == "set-twice") { // from two ranks, or from the promise's own and another
    if (tern::rank() == 0) {
      tern::remote_promise<int> p;
      tern::call<&set_value>(number, p).get();
      tern::call<&set_value>(2, std::move(p)).get();
    }
    tern::barrier(); // which rank 0 does not reach
    return 98;
  }
  // Neither rank receives anything, so only what is left over shows that they disagree.
  if (how == "disagree-on-root") return tern::broadcast(0, tern::rank());
  if (how == "disagree-on-quiescence") {
    tern::quiesce(tern::rank() == 0 ? tern::quiescence::messages : tern::quiescence::timers);
    return 0;
  }
  if (how == "disagree-on-operation") return tern::rank() == 0 ? tern::broadcast(0) : tern::reduce(0, std::plus<>());
  if (how == "exit" || how == "exit-well") { // from the main function
    if (tern::rank() == number) std::exit(how == "exit" ? 7 : 0);
    go_on_for_ever();
  }
  if (how == "exit-handler" || how == "exit-thread") {
    if (tern::rank() == 0) tern::send<&leave>(number, how == "exit-thread");
    if (tern::rank() == number) tern::barrier();
    go_on_for_ever();
  }
  if (how == "exit-child") { // of a process that is forked off
    if (const pid_t child = fork(); child == 0) std::exit(3);
    int status = 0;
    wait(&status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 3 ? 0 : 98;
  }
  if (how == "rank-as-code") return 3 + tern::rank();
  if (how == "one-fails") return tern::rank() == number ? 5 : 0;
  if (how == "code-of-all") return number;
  if (how == "code") return tern::rank() == tern::size() - 1 ? number : 0;
  std::fprintf(stderr, "there is no ending '%s'\n", std::string(how).c_str());
  return 99;
}

int run_twice(int argc, char** argv) {
  int sum = 0; // the ranks share it, so one of them writes it
  const auto add = [&sum](int each) {
    const int all = tern::allreduce(each, std::plus<>());
    if (tern::rank() == 0) sum += all;
  };
  const int first = tern::run(argc, argv, [&] { add(1); });
  const int second = tern::run(argc, argv, [&] { add(10); });
  std::printf("codes %d %d, sum %d\n", first, second, sum);
  return first ? first : second;
}

int ask_too_early(int argc, char** argv) {
  const auto ask = [](const char* when) {
    try {
      static_cast<void>(tern::rank());
      std::printf("%s: no error\n", when);
    } catch (const tern::error& e) {
      std::printf("%s: %s\n", when, e.what());
    }
  };
  ask("before");
  const int code = tern::run(argc, argv, [] {});
  ask("after");
  return code;
}

} // namespace

int main(int argc, char** argv) {
  if (argc > 2 && argv[2] == std::string_view("handles")) std::signal(SIGTERM, [](int) { _exit(44); });
  const std::string how = argc > 1 ? argv[1] : "hello";
  const int number = argc > 2 ? std::atoi(argv[2]) : 0;
  if (how == "twice") return run_twice(argc, argv);
  if (how == "ask-early") return ask_too_early(argc, argv);
  if (how == "void") return tern::run(argc, argv, [] { tern::barrier(); });
  return tern::run(argc, argv, [&] { return ends(how, number); });
}

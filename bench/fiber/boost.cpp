// SPDX-License-Identifier: Apache-2.0
/// \file
/// The benchmarks with Boost.Fiber.

#include "bench/fiber/shapes.hpp"

#include <memory>
#include <thread>

#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/algo/shared_work.hpp>
#include <boost/fiber/algo/work_stealing.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/future.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/pooled_fixedsize_stack.hpp>

namespace {

using namespace tern::bench::fiber;
namespace fibers = boost::fibers;
using fibers::launch;
using stacks = fibers::pooled_fixedsize_stack;

double create(launch how, stacks& pool, std::size_t count) {
  std::size_t done = 0;
  const double taken = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) fibers::fiber(how, std::allocator_arg, pool, [&done] { ++done; }).join();
  });
  require(done == count, "not each fiber ran");
  return taken / static_cast<double>(count);
}

template <bool Flags> double yield(stacks& pool, std::size_t count) {
  yielders y(count);
  const auto body = [&y](int me) { y.body<Flags>(me, [] { boost::this_fiber::yield(); }); };
  const double taken = seconds([&] {
    fibers::fiber a(launch::post, std::allocator_arg, pool, body, 0);
    fibers::fiber b(launch::post, std::allocator_arg, pool, body, 1);
    a.join();
    b.join();
  });
  y.check();
  return taken / static_cast<double>(y.yields());
}

std::uint64_t fib(launch how, stacks& pool, int n) {
  if (n < 2) return static_cast<std::uint64_t>(n);
  auto a = fibers::async(how, std::allocator_arg, pool, [how, &pool, n] { return fib(how, pool, n - 1); });
  const std::uint64_t b = fib(how, pool, n - 2);
  return a.get() + b;
}

double fib_time(launch how, stacks& pool, int n) {
  std::uint64_t value = 0;
  const double taken = seconds([&] { value = fib(how, pool, n); });
  check_fib(n, value);
  return taken;
}

/// Never sleeps: the dispatcher looks for what others have woken again and again. Not from Boost,
/// but as its documentation says how.
struct busy_round_robin : fibers::algo::round_robin {
  void suspend_until(const std::chrono::steady_clock::time_point&) noexcept override {}
  void notify() noexcept override {}
};

/// Between a fiber on each of two threads. `use()` chooses the algorithm of the calling thread.
template <class Use> double wake(std::size_t count, place where, Use use) {
  hops<fibers::promise<std::uint64_t>> h(count);
  double taken = 0;
  const auto on_fiber = [&](int half, auto body) {
    return [&use, where, half, body] {
      bind(where, half);
      use();
      fibers::fiber(launch::dispatch, std::allocator_arg, stacks(), body).join();
    };
  };
  std::thread first(on_fiber(0, [&] { taken = h.first(); })), second(on_fiber(1, [&] { h.second(); }));
  first.join();
  second.join();
  return taken;
}

/// The same between the main fibers of the threads, which are not moved by algorithms that move
/// others.
template <class Use> double wake_main(std::size_t count, place where, Use use) {
  hops<fibers::promise<std::uint64_t>> h(count);
  double taken = 0;
  std::thread first([&] {
    bind(where, 0);
    use();
    taken = h.first();
  });
  std::thread second([&] {
    bind(where, 1);
    use();
    h.second();
  });
  first.join();
  second.join();
  return taken;
}

template <class Algorithm, class... A> auto with(A... a) {
  return [a...] { fibers::use_scheduling_algorithm<Algorithm>(a...); };
}

measurement make(const job& j) {
  using namespace fibers::algo;
  const std::size_t n = j.size;
  const auto pool = std::make_shared<stacks>();
  std::string what = j.benchmark;
  const place where = take_place(what);
  if (what == "create") return [=] { return create(launch::dispatch, *pool, n); };
  if (what == "create_post") return [=] { return create(launch::post, *pool, n); };
  if (what == "yield") return [=] { return yield<false>(*pool, n); };
  if (what == "yield_flags") return [=] { return yield<true>(*pool, n); };
  if (what == "fib") return [=] { return fib_time(launch::dispatch, *pool, static_cast<int>(n)); };
  if (what == "fib_post") return [=] { return fib_time(launch::post, *pool, static_cast<int>(n)); };
  if (what == "wake") return [=] { return wake(n, where, with<round_robin>()); };
  if (what == "wake_busy") return [=] { return wake(n, where, with<busy_round_robin>()); };
  if (what == "wake_shared") return [=] { return wake_main(n, where, with<shared_work>(false)); };
  if (what == "wake_shared_sleep") return [=] { return wake_main(n, where, with<shared_work>(true)); };
  if (what == "wake_stealing") return [=] { return wake_main(n, where, with<work_stealing>(2u, false)); };
  if (what == "wake_stealing_sleep") return [=] { return wake_main(n, where, with<work_stealing>(2u, true)); };
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) { tern::bench::task::answer_requests(j, make); });
}

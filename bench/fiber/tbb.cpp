// SPDX-License-Identifier: Apache-2.0
/// \file
/// The channels' benchmarks with oneTBB's bounded queue, between threads: TBB has nothing that
/// suspends.

#include "bench/fiber/shapes.hpp"

#include <memory>
#include <thread>

#include <tbb/concurrent_queue.h>

namespace {

using namespace tern::bench::fiber;

class queue {
public:
  explicit queue(std::ptrdiff_t capacity) { q_.set_capacity(capacity); }
  void push(std::uint64_t value) { q_.push(value); }
  std::uint64_t pop() {
    std::uint64_t value = 0;
    q_.pop(value);
    return value;
  }

private:
  tbb::concurrent_bounded_queue<std::uint64_t> q_;
};

double channel(std::size_t count, place where) {
  volley<queue> v(count);
  double taken = 0;
  std::thread first([&] {
    bind(where, 0);
    taken = v.first();
  });
  std::thread second([&] {
    bind(where, 1);
    v.second();
  });
  first.join();
  second.join();
  return taken;
}

double mpmc(std::size_t count, std::size_t pairs, place where) {
  traffic<queue> t(count, pairs);
  const double taken = seconds([&] {
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < pairs; ++i) {
      all.emplace_back([&, i] {
        bind(where, 0);
        t.produce(i);
      });
      all.emplace_back([&] {
        bind(where, 1);
        t.consume();
      });
    }
    for (auto& one : all) one.join();
  });
  t.check();
  return taken / static_cast<double>(t.messages());
}

measurement make(const job& j) {
  const std::size_t n = j.size;
  std::string what = j.benchmark;
  const place where = take_place(what);
  if (what == "channel") return [=] { return channel(n, where); };
  if (what == "channel_mpmc") return [=] { return mpmc(n, 2, where); };
  if (what == "channel_one_pair") return [=] { return mpmc(n, 1, where); };
  unknown(j);
}

} // namespace

int main(int argc, char** argv) {
  return contestant_main(argc, argv, [](const job& j) { tern::bench::task::answer_requests(j, make); });
}

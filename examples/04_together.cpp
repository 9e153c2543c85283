// SPDX-License-Identifier: Apache-2.0
// Fibers, futures and locks inside one rank: a fiber that waits does not hold its worker.
#include <cstdio>
#include <mutex>
#include <vector>

#include <tern/tern.hpp>

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::mutex m;
    tern::latch ready(100);
    long sum = 0;
    std::vector<tern::future<void>> done;
    for (int i = 1; i <= 100; ++i)
      done.push_back(tern::async([&, i] {
        ready.arrive_and_wait(); // 100 fibers wait here, on any number of workers
        std::lock_guard hold(m);
        sum += i;
        tern::this_fiber::yield(); // allowed while holding the lock, which belongs to the fiber
      }));
    for (auto& d : done) d.get();
    if (tern::rank() == 0) std::printf("sum %ld\n", sum);
    return sum == 5050 ? 0 : 1;
  });
}

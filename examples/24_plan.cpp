// SPDX-License-Identifier: Apache-2.0
// A plan: tasks that come again and again are placed ahead, over all devices. Here a chain of tasks
// decides how long a round takes, so the fastest device should be kept for it.
// Two unlike devices: --tern-hetero-devices simulated
// --tern-hetero-simulated 2:item=20ns,speed=1,speed=4@1 --tern-hetero-policy dmda
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(step)
TERN_KERNEL(add, int n, int by, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] += by; };
}
TERN_KERNELS_END(step)

constexpr int size = 16384, length = 10, others = 20, rounds = 30;

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::hetero_object<int> chain(size, 0);
    std::vector<tern::hetero_object<int>> beside;
    for (int i = 0; i < others; ++i) beside.emplace_back(size, 0);

    const auto submit = [](const tern::hetero_object<int>& x) {
      tern::submit(step::add, tern::items(size), size, 1, tern::read_write(x));
    };
    tern::planned round("round");
    for (int i = 0; i < rounds; ++i) {
      round.submit([&] { // only submits
        for (const auto& x : beside) submit(x);
        for (int k = 0; k < length; ++k) submit(chain); // each waits for the one before it
      });
      tern::wait_all();
    }

    bool right = chain.host(tern::access_mode::read).get()[0] == rounds * length;
    for (const auto& x : beside) right = right && x.host(tern::access_mode::read).get()[size - 1] == rounds;
    if (tern::rank() == 0)
      std::printf("%d rounds of %d tasks: %s\n", rounds, length + others, right ? "right" : "wrong");
    return right ? 0 : 1;
  });
}

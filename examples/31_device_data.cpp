// SPDX-License-Identifier: Apache-2.0
// Device data in messages: numbers go around all ranks, and each adds to them on its device.
#include <cstdio>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(relay)
TERN_KERNEL(fill, int n, TERN_GLOBAL float* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] = 0; };
}
TERN_KERNEL(add, int n, float what, TERN_GLOBAL float* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] += what; };
}
TERN_KERNELS_END(relay)

constexpr int n = 100000;
const tern::rank_local<tern::promise<tern::hetero_object<float>>> home; // the numbers, when they are back

// Runs when the message arrives, which may be before the data have come, or have been computed.
void pass_on(int rounds, tern::hetero_object<float> x) {
  const float mine = 1.0f + static_cast<float>(tern::rank());
  tern::submit(relay::add, tern::items(n), n, mine, tern::read_write(x)); // waits for the data
  const int next = (tern::rank() + 1) % tern::size();
  if (next != 0)
    tern::send<&pass_on>(next, rounds, std::move(x));
  else if (rounds > 1)
    tern::send<&pass_on>(next, rounds - 1, std::move(x));
  else
    tern::send<[](tern::hetero_object<float> back) { home->set_value(back); }>(next, std::move(x));
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() != 0) return 0; // its handlers run until all is done
    constexpr int rounds = 10;
    tern::hetero_object<float> x(n);
    tern::submit(relay::fill, tern::items(n), n, tern::write(x));
    tern::send<&pass_on>(0, rounds, x);                                      // does not wait for that task
    tern::submit(relay::add, tern::items(n), n, -1.0f, tern::read_write(x)); // waits until the data have left
    const tern::hetero_object<float> back = home->get_future().get();        // its data may follow
    const auto numbers = back.host(tern::access_mode::read).get();           // waits for them
    const auto old = x.host(tern::access_mode::read).get();
    const float expected = static_cast<float>(rounds * tern::size() * (tern::size() + 1) / 2);
    std::printf("each of %d ranks has added: %g, and at home %g\n", tern::size(), numbers(n - 1), old(0));
    return numbers(0) == expected && numbers(n - 1) == expected && old(0) == -1 ? 0 : 1;
  });
}

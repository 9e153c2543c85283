// SPDX-License-Identifier: Apache-2.0
// Performance models: Tern learns how long a kernel takes on each device, and the policy dmda sends
// a task to where it is expected to end first.
// Two unlike devices: --tern-hetero-devices simulated
// --tern-hetero-simulated 2:item=20ns,speed=1,speed=4@1 --tern-hetero-policy dmda
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(waves)
// Some work for each element.
TERN_KERNEL(swing, int n, int steps, TERN_GLOBAL double* x) {
  TERN_REGION_IN(n, 1, 1) {
    double value = x[item.x], speed = 0;
    for (int i = 0; i < steps; ++i) {
      speed -= 0.01 * value;
      value += 0.01 * speed;
    }
    x[item.x] = value;
  };
}
TERN_KERNELS_END(waves)

constexpr int size = 16384, steps = 20, parts = 32, rounds = 12;

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    std::vector<tern::hetero_object<double>> all;
    for (int p = 0; p < parts; ++p) all.emplace_back(size, 1.0);
    for (int round = 0; round < rounds; ++round) {
      for (const auto& part : all) tern::submit(waves::swing, tern::items(size), size, steps, tern::read_write(part));
      tern::wait_all(); // what has been learned so far is known for the next round
    }
    double value = 1, speed = 0; // the same for one element
    for (int i = 0; i < rounds * steps; ++i) {
      if (i % steps == 0) speed = 0;
      speed -= 0.01 * value;
      value += 0.01 * speed;
    }
    bool right = true;
    for (const auto& part : all) {
      const double difference = part.host(tern::access_mode::read).get()[size - 1] - value;
      right = right && difference < 1e-9 && difference > -1e-9;
    }
    if (tern::rank() == 0) {
      std::printf("%s\n", right ? "right" : "wrong");
      for (const auto& d : tern::hetero::count().devices)
        std::printf("%s: %llu tasks\n", d.id.c_str(), static_cast<unsigned long long>(d.tasks));
    }
    return right ? 0 : 1;
  });
}

// SPDX-License-Identifier: Apache-2.0
// A ring of masses and springs. Each mass is a coroutine that computes its path and awaits its
// neighbours' positions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

#include <tern/tern.hpp>

struct position { // of one mass at one time: the mass sets it, both neighbours read it
  tern::promise<double> set;
  tern::shared_future<double> get{set.get_future()};
};
using moment = std::vector<position>; // all masses, in a ring

tern::coro<double> force(const moment& now, std::size_t n) {
  const std::size_t size = now.size();
  const double left = co_await now[(n + size - 1) % size].get; // suspends until it is set
  const double right = co_await now[(n + 1) % size].get;
  co_return left - 2 * now[n].get.get() + right;
}

tern::coro<double> mass(std::vector<moment>& history, std::size_t n, double x, double dt) {
  double v = 0;
  for (moment& now : history) {
    now[n].set.set_value(x);
    const double a = co_await force(now, n);
    v += a * dt * (&now == &history.front() ? 0.5 : 1.0); // leapfrog: the velocity is half a step behind
    x += v * dt;
  }
  co_return x;
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    // A wave as long as the ring has the angular frequency 2 sin(pi / size).
    const std::size_t size = 64;
    const double wave = 2 * std::numbers::pi / static_cast<double>(size), frequency = 2 * std::sin(wave / 2), dt = 0.1;
    std::vector<moment> history;
    for (int step = 0; step < 400; ++step) history.emplace_back(size);
    std::vector<tern::future<double>> ends;
    for (std::size_t n = 0; n < size; ++n)
      ends.push_back(tern::spawn(mass(history, n, std::sin(wave * static_cast<double>(n)), dt)));
    double worst = 0;
    for (std::size_t n = 0; n < size; ++n) {
      const double exact = std::sin(wave * static_cast<double>(n)) * std::cos(frequency * dt * 400);
      worst = std::max(worst, std::abs(ends[n].get() - exact));
    }
    if (tern::rank() == 0) std::printf("64 masses, 400 steps, largest error %.6f\n", worst);
    return worst < 1e-4 ? 0 : 1;
  });
}

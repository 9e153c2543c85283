// SPDX-License-Identifier: Apache-2.0
// A pipeline inside one rank. A channel carries a telescope's nights to several fibers, and each
// night has a future.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <vector>

#include <tern/tern.hpp>

// The brightness of a star that a planet dims every 3.5 nights, with the noise of the camera.
std::vector<double> observe(int night) {
  unsigned noise = 12345u + static_cast<unsigned>(night);
  std::vector<double> light(1000, night % 7 == 2 || night % 7 == 5 ? 0.985 : 1.0);
  for (double& x : light) x += ((noise = noise * 1664525u + 1013904223u) >> 16) % 1000 * 1e-5 - 0.005;
  return light;
}

struct recording {
  std::vector<double> light;
  tern::promise<double> mean; // its future stays with the main function
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::channel<recording> nights(4); // bounded: the camera is at most four nights ahead
    tern::mutex m;
    std::array<long, 5> histogram{};                  // from 0.98 in steps of 0.005
    auto analyse = [&](const std::stop_token& stop) { // requested by ~fiber
      while (auto r = nights.pop(stop)) {             // empty when the channel is closed and drained
        double sum = 0;
        for (double x : r->light) sum += x;
        r->mean.set_value(sum / static_cast<double>(r->light.size()));
        std::lock_guard hold(m);
        for (double x : r->light) ++histogram[static_cast<std::size_t>((x - 0.98) / 0.005)];
      }
    };
    std::vector<tern::fiber> analysts;
    for (int i = 0; i < 3; ++i) analysts.emplace_back(analyse, tern::fiber_options{.name = "analyst"});

    std::vector<tern::future<double>> means;
    for (int n = 0; n < 28; ++n) {
      tern::promise<double> p;
      means.push_back(p.get_future());
      nights.push(recording{observe(n), std::move(p)}); // waits while the channel is full
    }
    nights.close();
    auto dips = tern::when_all(std::move(means)).then([](std::vector<tern::future<double>> all) {
      return std::count_if(all.begin(), all.end(), [](auto& mean) { return mean.get() < 0.99; });
    });
    if (dips.wait_for(std::chrono::seconds(20)) == tern::future_status::timeout)
      std::fputs(tern::dump_fibers().c_str(), stderr); // which fiber waits for what
    for (auto& a : analysts) a.join();
    const auto transits = dips.get();
    const long samples = std::accumulate(histogram.begin(), histogram.end(), 0L);
    if (tern::rank() == 0) std::printf("%td transits in %ld samples\n", transits, samples);
    return transits == 8 && samples == 28'000 ? 0 : 1;
  });
}

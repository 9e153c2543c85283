// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/metg.hpp"

#include <algorithm>
#include <cmath>

namespace tern::bench::grain {
namespace {

constexpr double first_work = 16e-6, most_work = 4e-3; // seconds of a task
constexpr double near = 1.125;                         // two amounts of work of that ratio are close enough

struct measured {
  long iterations;
  point at;
};

/// The granularity at which the line through both has that efficiency. \pre it lies between theirs.
double between(const point& below, const point& above, double efficiency) {
  const double part = (efficiency - below.efficiency) / (above.efficiency - below.efficiency);
  return below.granularity + part * (above.granularity - below.granularity);
}

} // namespace

metg_result find_metg(double per_iteration, const std::function<double(long)>& granularity, double efficiency) {
  std::vector<measured> all;
  const auto measure = [&](long n) {
    const double seconds = granularity(n);
    all.push_back({n, {seconds, static_cast<double>(n) * per_iteration / seconds}});
    return all.back();
  };
  const auto quarter = [](long n) { return std::max(1L, n / 4); };

  const auto efficient = [&](const measured& one) { return one.at.efficiency >= efficiency; };

  measured above = measure(std::max(1L, std::lround(first_work / per_iteration)));
  while (!efficient(above) && static_cast<double>(above.iterations) * per_iteration < most_work)
    above = measure(above.iterations * 4);
  metg_result found;
  found.reached = efficient(above);
  measured below = above;
  while (efficient(below) && below.iterations > 1) {
    above = below;
    below = measure(quarter(above.iterations));
  }
  if (!found.reached || efficient(below)) {
    found.seconds = below.at.granularity;
  } else {
    while (above.iterations - below.iterations > 1 &&
           static_cast<double>(above.iterations) > near * static_cast<double>(below.iterations)) {
      const double middle = std::sqrt(static_cast<double>(above.iterations) * static_cast<double>(below.iterations));
      const measured one = measure(std::clamp(std::lround(middle), below.iterations + 1, above.iterations - 1));
      (efficient(one) ? above : below) = one;
    }
    found.seconds = between(below.at, above.at, efficiency);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.iterations > b.iterations; });
  for (const measured& one : all) found.points.push_back(one.at);
  return found;
}

} // namespace tern::bench::grain

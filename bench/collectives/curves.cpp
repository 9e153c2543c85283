// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives/curves.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "bench/harness/jobs.hpp"

#ifndef BENCH_COLLECTIVES_TERN
#error "define BENCH_COLLECTIVES_TERN as the path of the program"
#endif

namespace tern::bench::collectives {

double quiescence_of(int ranks) {
  const auto found = run_tern_simulated(ranks, {BENCH_COLLECTIVES_TERN, "simulated"});
  return found.at("quiesce").get<double>() / found.at("half_trip").get<double>();
}

double least_messages(int ranks) { return 2 * std::ceil(std::log2(ranks)); }

nlohmann::ordered_json measure_curves() {
  nlohmann::ordered_json points;
  for (int ranks = 2; ranks <= 8192; ranks *= 2) {
    points[std::to_string(ranks)] = quiescence_of(ranks);
    if (const int between = ranks * 3 / 2; between < 8192) points[std::to_string(between)] = quiescence_of(between);
  }
  points["10000"] = quiescence_of(10000);
  return points;
}

picture picture_of(const nlohmann::ordered_json& points) {
  curve powers{"powers of two", {{0.07, 0.34, 0.66}, false, true}, {}}, others = powers, least = powers;
  others.name = "other numbers";
  others.as = {{0.80, 0.36, 0.05}, false, true};
  least.name = "two sums over all ranks, messages one after the other";
  least.as = {{0.42, 0.65, 0.88}, true, false};
  double high = 0;
  for (const auto& [text, value] : points.items()) {
    const int ranks = std::stoi(text);
    const bool power = std::has_single_bit(static_cast<unsigned>(ranks));
    (power ? powers : others).points.push_back({static_cast<double>(ranks), value});
    if (power) least.points.push_back({static_cast<double>(ranks), least_messages(ranks)});
    high = std::max(high, value.get<double>());
  }
  if (powers.points.empty()) throw std::runtime_error("there are no points");
  axis x{"simulated ranks", 2, 16384, false, {}}, y{{}, 0, 10 * std::ceil(high / 10), true, {}};
  for (int ranks = 2; ranks <= 16384; ranks *= 2)
    x.ticks.push_back({static_cast<double>(ranks), std::to_string(ranks)});
  for (double value = 0; value <= y.high; value += 5) y.ticks.push_back({value, axis_text(value)});
  return {
      "Until it is known that nothing is under way",
      1400,
      950,
      {{"Half round trips of a message", 130, 190, 1200, 640, std::move(x), std::move(y), {powers, others, least}}}};
}

} // namespace tern::bench::collectives

// SPDX-License-Identifier: Apache-2.0
#include "bench/net/curves.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tern::bench::net {
namespace {

/// A rival and what runs over it have the same hue, ours stronger and with filled marks.
look look_of(const std::string& name) {
  const bool ours = name.find("Tern") != std::string::npos, other = name.find("MPICH") != std::string::npos;
  const bool less = name.find(", no") != std::string::npos;
  if (other) return ours ? look{{0.80, 0.36, 0.05}, false, true} : look{{0.93, 0.64, 0.32}, true, false};
  if (less) return {{0.20, 0.58, 0.42}, false, true};
  return ours ? look{{0.07, 0.34, 0.66}, false, true} : look{{0.42, 0.65, 0.88}, true, false};
}

/// A value of the y axis: 0.1 µs is 100 ns, 1000 µs is 1 ms.
std::string value_text(double value, const std::string& unit) {
  const bool time = unit == "µs";
  if (value >= 1e6 && time) return axis_text(value / 1e6) + " s";
  if (value >= 1e3 && time) return axis_text(value / 1e3) + " ms";
  if (value < 0.999) return axis_text(value * 1e3) + (time ? " ns" : " MB/s");
  return axis_text(value) + " " + unit;
}

std::string size_text(double size) {
  if (size < 1024) return axis_text(size) + " B";
  if (size < 1048576) return axis_text(size / 1024) + " KiB";
  return axis_text(size / 1048576) + " MiB";
}

axis sizes(double low, double high) {
  axis x{"size of a message", low, high, false, {}};
  double size = low;
  for (; size <= high * 1.01; size *= 16) x.ticks.push_back({size, size_text(size)});
  if (high >= size / 2 * 0.99) x.ticks.push_back({high, size_text(high)}); // far enough from the last
  return x;
}

/// From and to whole steps of 1, 2, 5.
axis values(double low, double high, const std::string& unit) {
  const auto step_below = [](double value) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    return value >= 5 * power ? 5 * power : value >= 2 * power ? 2 * power : power;
  };
  axis y{{}, step_below(low), step_below(high), false, {}};
  while (y.high < high) y.high = step_below(y.high * 2.6); // 1 2 5 10
  for (int power = -4; power <= 6; ++power)
    for (const int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, power);
      if (value < y.low * 0.999 || value > y.high * 1.001) continue;
      y.ticks.push_back({value, digit == 1 ? value_text(value, unit) : ""});
    }
  return y;
}

void fill(panel& p, const std::string& what, const std::string& unit, const nlohmann::ordered_json& curves) {
  double low = std::numeric_limits<double>::max(), high = 0, x_low = low, x_high = 0;
  for (const auto& one : curves.at("lines")) {
    if (!one.contains(what)) continue;
    curve next{one.at("name"), look_of(one.at("name")), {}};
    for (const auto& [size, value] : one.at(what).items()) next.points.push_back({std::stod(size), value});
    std::sort(next.points.begin(), next.points.end(), [](const point& a, const point& b) { return a.x < b.x; });
    for (const auto& at : next.points) {
      low = std::min(low, at.y);
      high = std::max(high, at.y);
      x_low = std::min(x_low, at.x);
      x_high = std::max(x_high, at.x);
    }
    p.curves.push_back(std::move(next));
  }
  if (p.curves.empty()) throw std::runtime_error("there are no points of " + what);
  p.x = sizes(x_low, x_high);
  p.y = values(low, high, unit);
}

} // namespace

picture picture_of(const nlohmann::ordered_json& curves) {
  constexpr double top = 190, tall = 640;
  panel latency{"Half a round trip", 130, top, 800, tall, {}, {}, {}};
  panel bandwidth{"Bandwidth", 1150, top, 800, tall, {}, {}, {}};
  fill(latency, "latency", "µs", curves);
  fill(bandwidth, "bandwidth", "GB/s", curves);
  return {"Active messages between two processes of one host", 2000, 950, {latency, bandwidth}};
}

} // namespace tern::bench::net

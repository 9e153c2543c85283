// SPDX-License-Identifier: Apache-2.0
#include "tools/tern/models/models_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include <fnmatch.h>

#include "tools/pictures/size_picture.hpp"

namespace tern::tool {
namespace {

using hetero::detail::model_set;

/// With four digits and a unit: "1.234 ms".
std::string time_of(double nanoseconds) {
  constexpr std::array<const char*, 4> units{"ns", "us", "ms", "s"};
  std::size_t u = 0;
  for (; u + 1 < units.size() && nanoseconds >= 1000; ++u) nanoseconds /= 1000;
  const int decimals = nanoseconds >= 1000 || nanoseconds < 1e-3
                           ? 0
                           : std::clamp(3 - static_cast<int>(std::floor(std::log10(nanoseconds))), 0, 3);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f %s", u == 0 ? std::min(decimals, 1) : decimals, nanoseconds, units[u]);
  return text;
}

std::string decimal(double value, int decimals, const char* unit = "") {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f%s", decimals, value, unit);
  return text;
}

std::string age_of(std::int64_t seconds) {
  constexpr std::array<std::pair<const char*, std::int64_t>, 3> units{{{" d", 86'400}, {" h", 3600}, {" min", 60}}};
  for (const auto& [name, length] : units)
    if (seconds >= length) return std::to_string(seconds / length) + name;
  return std::to_string(seconds) + " s";
}

std::size_t columns_of(const std::string& text) { // characters, in UTF-8
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

class model_table {
public:
  /// \param numbers how many columns at the end are right-aligned.
  model_table(std::vector<std::string> head, std::size_t numbers) : numbers_(numbers), rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const {
    if (rows_.size() == 1) return {};
    std::vector<std::size_t> widths(rows_[0].size());
    for (const auto& row : rows_)
      for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
    std::string all;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t c = 0; c < row.size(); ++c) {
        const std::string fill(widths[c] - columns_of(row[c]), ' ');
        line += (c ? "  " : "") + (c + numbers_ < row.size() ? row[c] + fill : fill + row[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      all += line + "\n";
    }
    return all;
  }

private:
  std::size_t numbers_;
  std::vector<std::vector<std::string>> rows_;
};

std::string kernels_of(const model_set& models, std::int64_t now) {
  model_table t({"kernel", "size", "device", "samples", "median", "spread", "p95", "GB/s", "age"}, 6);
  // As people look for them: a kernel's devices, on each from small to large.
  std::vector<decltype(models.kernels)::const_iterator> all;
  for (auto i = models.kernels.begin(); i != models.kernels.end(); ++i) all.push_back(i);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    const auto order = [](const auto& x) {
      return std::tie(x->first.kernel, x->first.device, x->second.size.bytes, x->first.size);
    };
    return order(a) < order(b);
  });
  for (const auto& i : all) {
    const auto& [key, m] = *i;
    const double median = m.times.median();
    t.add({key.kernel.name, m.size.text, key.device, std::to_string(m.times.size()), time_of(median),
           median > 0 ? decimal(100 * m.times.spread() / median, 1, " %") : "-", time_of(m.times.quantile(0.95)),
           median > 0 ? decimal(static_cast<double>(m.size.bytes) / median, 2) : "-", age_of(now - m.last)});
  }
  return t.text();
}

std::string links_of(const model_set& models, std::int64_t now) {
  model_table t({"from", "to", "latency", "GB/s", "both ways", "age"}, 4);
  for (const auto& [ends, m] : models.links) {
    const auto line = m.link.line();
    t.add({ends.first, ends.second, line ? time_of(line->latency) : "-",
           line && line->per_byte > 0 ? decimal(1 / line->per_byte, 2) : "-",
           m.link.both_ways().usable() ? decimal(m.link.both_ways_factor(), 2, " x") : "-", age_of(now - m.last)});
  }
  return t.text();
}

std::string power_of(const model_set& models, std::int64_t now) {
  model_table t({"device", "busy", "idle", "age"}, 3);
  for (const auto& [device, m] : models.power)
    t.add({device, decimal(m.busy, 1, " W"), decimal(m.idle, 1, " W"), age_of(now - m.last)});
  return t.text();
}

} // namespace

bool matches(const std::string& pattern, const std::string& text) {
  return pattern.empty() || ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

model_set matching(const model_set& all, const std::string& pattern) {
  model_set some = all;
  std::erase_if(some.kernels, [&](const auto& e) {
    return !matches(pattern, e.first.kernel.name) && !matches(pattern, e.first.device);
  });
  std::erase_if(some.links,
                [&](const auto& e) { return !matches(pattern, e.first.first) && !matches(pattern, e.first.second); });
  std::erase_if(some.power, [&](const auto& e) { return !matches(pattern, e.first); });
  return some;
}

std::string table_of(const model_set& models, std::int64_t now) {
  std::string all;
  for (const std::string& one : {kernels_of(models, now), links_of(models, now), power_of(models, now)})
    if (!one.empty()) all += (all.empty() ? "" : "\n") + one;
  return all;
}

std::string plot(const model_set& models, const std::string& title, const std::string& path) {
  std::map<std::pair<std::string, std::string>, pictures::size_series> series;
  std::size_t times = 0;
  for (const auto& [key, m] : models.kernels) {
    if (!m.times.usable() || m.size.bytes == 0) continue;
    pictures::size_series& s = series[{key.kernel.name, key.device}];
    s.name = key.kernel.name + " on " + key.device;
    s.points.push_back({static_cast<double>(m.size.bytes), m.times.median() * 1e-9, m.times.spread() * 1e-9});
    ++times;
  }
  pictures::size_picture p{"How long kernels take", title, {}};
  for (auto& [name, s] : series) p.series.push_back(std::move(s));
  draw(p, path);
  return std::to_string(times) + (times == 1 ? " time" : " times") + " in " + std::to_string(p.series.size()) +
         (p.series.size() == 1 ? " line" : " lines");
}

} // namespace tern::tool

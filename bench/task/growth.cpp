// SPDX-License-Identifier: Apache-2.0
#include "bench/task/growth.hpp"

#include "bench/harness/harness.hpp"
#include "bench/task/driver.hpp"

#include <cstdio>
#include <fstream>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <sched.h>

namespace tern::bench::task {

namespace {

constexpr std::size_t least = 3, most = 31; // measurements, as many as half a second allows
constexpr std::chrono::seconds patience{60};

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// The median of some measurements; infinite if they take too long.
double median_seconds(const request& q) {
  try {
    runner one(contestant_named(q.contestant), q.benchmark, q.workers, q.size, patience);
    one.run();
    std::vector<double> values;
    for (double all = 0; values.size() < least || (values.size() < most && all < 0.5); all += values.back())
      values.push_back(one.run());
    return quantile(values, 0.5);
  } catch (const too_slow&) {
    return std::numeric_limits<double>::infinity();
  }
}

} // namespace

int growth(const std::string& file, std::size_t most_tasks) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::string> contestants;
  for (const std::string contestant : {"tern", "TBB", "libomp", "libgomp"}) {
    if (contestant_named(contestant).path.empty())
      std::printf("%s: absent\n", contestant.c_str());
    else
      contestants.push_back(contestant);
  }
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  const auto save = [&] {
    std::ofstream out(file);
    out << nlohmann::ordered_json{{"cores", cores()}, {"points", points}}.dump(1) << '\n';
    if (!out.flush()) throw std::runtime_error("cannot write " + file);
  };
  save(); // now rather than in half an hour, if it cannot be
  for (const std::string body : {"empty", "small"})
    for (int workers = 1; workers <= 4 * cores(); workers *= 2) {
      std::set<std::string> slow; // with which more tasks need not be tried
      for (std::size_t tasks = 1000; tasks <= most_tasks; tasks *= 10)
        for (const std::string& contestant : contestants) {
          const double seconds =
              slow.contains(contestant) ? infinity : median_seconds({contestant, body, workers, tasks});
          const bool done = seconds < infinity;
          if (!done) slow.insert(contestant);
          nlohmann::ordered_json point{{"side", contestant}, {"body", body}, {"workers", workers}, {"tasks", tasks}};
          point["seconds"] = done ? nlohmann::ordered_json(seconds) : nlohmann::ordered_json(nullptr);
          points.push_back(point);
          std::printf("%-8s %-6s %3d workers %9zu tasks %10.1f ns each%s\n", contestant.c_str(), body.c_str(), workers,
                      tasks, seconds / static_cast<double>(tasks) * 1e9, done ? "" : " (too slow)");
          std::fflush(stdout);
        }
      save();
    }
  return 0;
}

} // namespace tern::bench::task

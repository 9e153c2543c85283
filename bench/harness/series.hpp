// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Measurements that share a process or are made once.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tern::bench {

/// What one process found serves several metrics: each reads the first run, the second, ….
class series {
public:
  explicit series(std::function<nlohmann::json()> run) : state_(std::make_shared<state>(state{std::move(run), {}})) {}

  /// Each call reads the value of that name from the next run.
  std::function<double()> operator[](const std::string& name) const {
    return [shared = state_, name, next = std::size_t{0}]() mutable {
      while (shared->found.size() <= next) shared->found.push_back(shared->run());
      return shared->found[next++].at(name).get<double>();
    };
  }

private:
  struct state {
    std::function<nlohmann::json()> run;
    std::vector<nlohmann::json> found;
  };
  std::shared_ptr<state> state_;
};

/// For what takes long and is no matter of chance.
inline std::function<double()> once(std::function<double()> measurement) {
  return [measurement = std::move(measurement), known = 0.0]() mutable {
    if (known == 0) known = measurement();
    return known;
  };
}

} // namespace tern::bench

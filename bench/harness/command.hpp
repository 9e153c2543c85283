// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runs whole programs and reads what they report.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tern::bench {

/// Thrown by a measurement that needs what this machine lacks, saying what: the metric is then
/// `absent`, which is no failure.
struct absent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a child process did.
struct child_result {
  double seconds = 0; ///< from start to end, by the wall clock
  /// Peak memory of its largest process. For a job of several, use what the program itself reports
  /// in its JSON.
  double peak_mib = 0;
  std::string output; ///< stdout
};

/// Runs a whole program. `environment` is set on top of ours.
/// \throws absent if it is not there, std::runtime_error with the end of what it wrote if it fails.
child_result run_command(const std::vector<std::string>& argv,
                         const std::vector<std::pair<std::string, std::string>>& environment = {});
/// Runs a program and reads what it reports: the file `json_file` that it writes (removed before),
/// or if that is empty the last line of its output that is a JSON object. \throws as run_command;
/// std::runtime_error if there is no such JSON.
nlohmann::json run_for_json(const std::vector<std::string>& argv, const std::string& json_file = {},
                            const std::vector<std::pair<std::string, std::string>>& environment = {});

} // namespace tern::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Results kept in a file, one JSON object a line: "date", "machine", "commit", then what `to_json`
/// gives.

#include "bench/harness/result.hpp"

#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace tern::bench {

/// Where and of what figures are: in each line of the file.
struct circumstances {
  std::string date;    ///< of today, UTC: 2026-11-24
  std::string machine; ///< its processor, how many CPUs this process may use, its NVIDIA GPUs
  std::string commit;  ///< of the sources, "+" behind it if they have been changed since; "unknown"
};
circumstances here_and_now();

/// A result beside an earlier one.
struct change {
  std::string date, commit;      ///< of the earlier one
  double ours = 0;               ///< its median
  std::optional<double> medians; ///< its ratio of the medians; none: there was no rival
  double worse = 0;    ///< by what part the ratio of the medians (ours, without a rival) is worse; < 0: better
  bool marked = false; ///< worse by more than `tolerance`
};

/// By how much a line may be worse and is not marked.
constexpr double tolerance = 0.03;

class history {
public:
  /// The last record of each line that was measured on `machine`.
  /// \throws std::runtime_error with the file and the line's number for what is no such object, or
  /// if it cannot be read.
  history(const std::string& file, const std::string& machine);
  /// `now` beside the last record of the same name and unit, if there is one and `now` is not
  /// absent.
  std::optional<change> compare(const result& now) const;

private:
  std::map<std::string, nlohmann::json> last_;
};

/// Appends a line for one result. Absent ones are left out. \throws std::runtime_error if the file
/// cannot be written.
void record(const std::string& file, const circumstances& of, const result& one);

/// "before: 1.23 us, medians 0.9 (2026-11-24, 74efdbe): worse by 1.2 %", for the end of a line;
/// "WORSE" if marked.
std::string describe(const change& c, const result& now);
nlohmann::ordered_json to_json(const change& c);

} // namespace tern::bench

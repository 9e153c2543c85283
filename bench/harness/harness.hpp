// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What every benchmark program has in common. A program describes its metrics and calls `tern::bench::run`:
/// \code
/// int main(int argc, char** argv) {
///   using namespace tern::bench;
///   return run(argc, argv, {{.name = "fiber.yield", .unit = "ns", .better = direction::lower, .target = 0.35,
///                            .rival_name = "Boost.Fiber", .ours = our_yield, .rival = their_yield}});
/// }
/// \endcode
/// Machines are shared and noisy, so nothing but ratios is judged: both sides are measured in turn, in at least nine
/// pairs whose order alternates, each pair gives one ratio, and the better quartile of the ratios is compared with the
/// target. The ratio of the medians and the number of pairs stand beside it, and a metric that only the quartile saves
/// is marked.

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tern::bench {

/// Thrown by a measurement that needs what this machine lacks, saying what: the metric is then `absent`, which is no
/// failure.
struct absent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class direction { lower, higher }; ///< which values are better

/// One thing that is measured on both sides.
struct metric {
  std::string name; ///< `benchmark.metric`
  std::string unit;
  direction better = direction::lower;
  /// Greatest (lower is better) or least (higher is better) ratio ours / rival. None: informational, never judged.
  std::optional<double> target = std::nullopt;
  std::string rival_name;
  /// One measurement in `unit`; may throw `absent`, any other exception fails the program.
  std::function<double()> ours, rival;
  /// Several sizes of one thing: each is measured in pairs, and this is the one whose median of ratios is best. Then
  /// `ours` and `rival` are not asked.
  std::vector<metric> best_of = {};
};

/// For a figure that is absolute ("at most 10 s"): as the rival, with target 1.
std::function<double()> budget(double value);

enum class verdict {
  ok,
  ok_by_quartile, ///< the quartile meets the target, the ratio of the medians does not
  short_of_target,
  absent,
  informational
};
/// "ok", "ok*", "short", "absent", "info".
std::string_view name_of(verdict v) noexcept;

struct result {
  std::string name, rival_name, unit;
  direction better = direction::lower;
  std::optional<double> target;
  double ours = 0, rival = 0; ///< medians
  double ratio = 0;           ///< the better quartile of the pairs' ratios, which is what is judged
  verdict status = verdict::absent;
  std::string why;    ///< if absent: what is missing
  double medians = 0; ///< ours / rival, of the medians
  int pairs = 0;      ///< that were measured
};

/// The value below which the fraction `q` of `values` lies, interpolated between neighbours (as numpy's default).
/// \throws std::invalid_argument for no values or `q` outside 0…1.
double quantile(std::vector<double> values, double q);
/// The quartile of `ratios` on the side that `better` prefers.
double better_quartile(const std::vector<double>& ratios, direction better);
/// Whether a judged ratio meets its target. \param medians the ratio of the medians, which tells `ok` from `ok*`.
verdict judge(double ratio, double medians, direction better, std::optional<double> target);

/// Measures one metric: a warm-up of each side, then `pairs` pairs, the order alternating.
/// \throws std::runtime_error if a measurement gives no positive, finite number; what a measurement throws except
/// `absent`.
result measure(const metric& what, int pairs);

/// The table's lines, header included, columns aligned. / One JSON object for one line.
std::vector<std::string> table(const std::vector<result>& results);
nlohmann::ordered_json to_json(const result& one);
/// A line of the table in docs/results.
std::string to_markdown(const result& one);

/// What a benchmark can do instead of measuring its metrics.
struct other_use {
  std::string option; ///< "--ablation": alone on the command line; `tern bench` knows of it by the program's `--help`
  std::string help;
  std::function<int()> run; ///< \return the exit code
};

/// Parses `--json`, `--markdown`, `--list`, `--strict`, `--pairs N` (at least 9 unless given), `--filter TEXT`,
/// measures and prints. \return 0; 1 if a measurement failed; 3 if `strict` and a target was missed; 2 for a wrong
/// command line.
int run(int argc, char** argv, const std::vector<metric>& metrics, const std::vector<other_use>& others = {});

/// What a child process did.
struct child_result {
  double seconds = 0; ///< from start to end, by the wall clock
  /// Peak memory of its largest process. For a job of several, use what the program itself reports in its JSON.
  double peak_mib = 0;
  std::string output; ///< stdout
};

/// Runs a whole program. `environment` is set on top of ours.
/// \throws absent if it is not there, std::runtime_error with the end of what it wrote if it fails.
child_result run_command(const std::vector<std::string>& argv,
                         const std::vector<std::pair<std::string, std::string>>& environment = {});
/// Runs a program and reads what it reports: the file `json_file` that it writes (removed before), or if that is empty
/// the last line of its output that is a JSON object. \throws as run_command; std::runtime_error if there is no such
/// JSON.
nlohmann::json run_for_json(const std::vector<std::string>& argv, const std::string& json_file = {},
                            const std::vector<std::pair<std::string, std::string>>& environment = {});

} // namespace tern::bench

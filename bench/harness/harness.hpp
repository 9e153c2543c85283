// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What every benchmark program has in common. A program describes its metrics and calls
/// `tern::bench::run`:
/// \code
/// int main(int argc, char** argv) {
///   using namespace tern::bench;
///   return run(argc, argv, [](const scale&) {
///     return std::vector<metric>{{.name = "fiber.yield", .unit = "ns", .better = direction::lower, .target = 0.35,
///                                 .rival_name = "Boost.Fiber", .ours = our_yield, .rival = their_yield}};
///   });
/// }
/// \endcode
/// Machines are shared and noisy, so only ratios are judged. Both sides are measured in turn, in at
/// least nine pairs of alternating order. Each pair gives one ratio; the better quartile of the
/// ratios is compared with the target. The report has the ratio of the medians and the number of
/// pairs beside it. It marks a metric that meets its target only by the quartile. A value that must
/// be zero has no ratio: it is judged itself.

#include "bench/harness/command.hpp"
#include "bench/harness/result.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tern::bench {

/// One thing that is measured on both sides.
struct metric {
  std::string name; ///< `benchmark.metric`
  std::string unit;
  direction better = direction::lower;
  /// Greatest (lower is better) or least (higher is better) ratio ours / rival, or value of ours
  /// where there is no rival. None: informational, never judged.
  std::optional<double> target = std::nullopt;
  std::string rival_name = {};
  /// One measurement in `unit`; may throw `absent`, any other exception fails the program. Without
  /// `rival` what is judged is ours, which may be 0.
  std::function<double()> ours = {}, rival = {};
  /// Several sizes of one thing: each is measured in pairs, and the one with the best median of
  /// ratios is taken. Then `ours` and `rival` are not called.
  std::vector<metric> best_of = {};
  /// For what takes long and is no matter of chance: one pair, without a warm-up, and the line says
  /// so.
  bool once = false;
  /// Of several rivals, of which the best counts: the names of those that are not there.
  std::vector<std::string> missing = {};
};

/// For a figure that is absolute ("at most 10 s"): as the rival, with target 1.
std::function<double()> budget(double value);

/// How large measurements are: as they are judged, or tiny (`--tiny`), where only the results are
/// looked at.
class scale {
public:
  explicit scale(bool is_tiny = false) noexcept : tiny_(is_tiny) {}
  bool tiny() const noexcept { return tiny_; }
  template <class T> T operator()(T usual, T tiny) const { return tiny_ ? tiny : usual; }

private:
  bool tiny_;
};

/// Measures one metric: a warm-up of each side, then `pairs` pairs, the order alternating.
/// \throws std::runtime_error if a measurement gives no positive, finite number; what a measurement
/// throws except `absent`.
result measure(const metric& what, int pairs);
/// Measures each side once, without a judgement. \throws as `measure`.
result measure_tiny(const metric& what);

/// What a benchmark can do instead of measuring its metrics.
struct other_use {
  std::string option; ///< "--ablation": alone on the command line; `tern bench` knows of it by the program's `--help`
  std::string help;
  std::function<int()> run; ///< \return the exit code
};

/// Parses the command line (`--help` tells its options), measures and prints. \param metrics makes
/// the list, in the scale that is wanted.
/// \return 0; 1 if a measurement failed; 3 if with `--strict` a target was missed, or something is
/// absent that `--allow-absent` does not name; 2 for a wrong command line, or a file that cannot be
/// read.
int run(int argc, char** argv, const std::function<std::vector<metric>(const scale&)>& metrics,
        const std::vector<other_use>& others = {});

} // namespace tern::bench

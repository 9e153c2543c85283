// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a metric came to: judged, and written as text, JSON or Markdown.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tern::bench {

enum class direction { lower, higher }; ///< which values are better

enum class verdict {
  ok,
  ok_by_quartile, ///< the quartile meets the target, the median does not
  short_of_target,
  absent,
  informational,
  tiny ///< measured once and tiny, to see whether the results are right
};
/// "ok", "ok*", "short", "absent", "info", "tiny".
std::string_view name_of(verdict v) noexcept;

struct result {
  std::string name, rival_name, unit;
  direction better = direction::lower;
  std::optional<double> target;
  double ours = 0;
  std::optional<double> rival; ///< ours and rival: medians; no rival: what is judged is ours
  double ratio = 0;            ///< what is judged: the better quartile of the pairs' ratios, or of ours without a rival
  verdict status = verdict::absent;
  std::string why;                  ///< if absent: what is missing
  double medians = 0;               ///< ours / rival, of the medians; 0 without a rival
  int pairs = 0;                    ///< that were measured
  bool once = false;                ///< it is the same each time, or takes long: one measurement is all
  std::vector<std::string> missing; ///< of several rivals: those that are not there
};

/// The value below which the fraction `q` of `values` lies, interpolated between neighbours (as
/// numpy's default).
/// \throws std::invalid_argument for no values or `q` outside 0…1.
double quantile(std::vector<double> values, double q);
/// The quartile of `values` on the side that `better` prefers.
double better_quartile(const std::vector<double>& values, direction better);
/// Whether what is judged meets its target. \param median what tells `ok` from `ok*`.
verdict judge(double judged, double median, direction better, std::optional<double> target);

/// Columns as wide as the names need, known before the first result so that each line can be
/// printed when it is there.
class columns {
public:
  void widen(const std::string& name, const std::string& unit, const std::string& rival);
  std::string header() const;
  std::string line(const result& r) const;

private:
  std::string line(const std::vector<std::string>& cells, const std::string& remark) const;

  std::size_t name_ = 4, unit_ = 0, rival_ = 0;
};

/// The table's lines, header included, columns aligned. / One JSON object for one line.
std::vector<std::string> table(const std::vector<result>& results);
nlohmann::ordered_json to_json(const result& one);
/// A line of the table in docs/results.
std::string to_markdown(const result& one);

} // namespace tern::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/result.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

namespace tern::bench {

std::string_view name_of(verdict v) noexcept {
  switch (v) {
  case verdict::ok:
    return "ok";
  case verdict::ok_by_quartile:
    return "ok*";
  case verdict::short_of_target:
    return "short";
  case verdict::absent:
    return "absent";
  case verdict::informational:
    return "info";
  case verdict::tiny:
    return "tiny";
  }
  return "unknown";
}

double quantile(std::vector<double> values, double q) {
  if (values.empty() || !(q >= 0 && q <= 1)) throw std::invalid_argument("quantile of nothing, or outside 0…1");
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double better_quartile(const std::vector<double>& values, direction better) {
  return quantile(values, better == direction::lower ? 0.25 : 0.75);
}

verdict judge(double judged, double median, direction better, std::optional<double> target) {
  if (!target) return verdict::informational;
  const auto meets = [&](double r) { return better == direction::lower ? r <= *target : r >= *target; };
  return !meets(judged) ? verdict::short_of_target : meets(median) ? verdict::ok : verdict::ok_by_quartile;
}

namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string remark_of(const result& r) {
  if (r.status == verdict::absent) return "  (" + r.why + ")";
  return r.missing.empty() ? "" : "  (without " + list_of(r.missing) + ")";
}

} // namespace

void columns::widen(const std::string& name, const std::string& unit, const std::string& rival) {
  name_ = std::max(name_, name.size());
  unit_ = std::max(unit_, unit.size());
  rival_ = std::max(rival_, rival.size());
}

std::string columns::header() const {
  return line({"name", "ours", "rival", "", "ratio", "medians", "pairs", "target", "status"}, "");
}

std::string columns::line(const result& r) const {
  const bool there = r.status != verdict::absent, ratios = there && r.rival;
  const std::string target = r.target ? (r.better == direction::lower ? "<=" : ">=") + number(*r.target) : "-";
  const auto value = [&](double v) { return number(v) + (r.unit.empty() ? "" : " " + r.unit); };
  return line({r.name, there ? value(r.ours) : "-", ratios ? value(*r.rival) : "-", r.rival_name,
               ratios ? number(r.ratio) : "-", ratios ? number(r.medians) : "-",
               !there   ? "-"
               : r.once ? "once"
                        : std::to_string(r.pairs),
               target, std::string(name_of(r.status))},
              remark_of(r));
}

std::string columns::line(const std::vector<std::string>& cells, const std::string& remark) const {
  std::string text;
  const std::size_t value = 10 + unit_ + 1;
  const std::array<std::size_t, 9> widths{name_, value, value, rival_, 8, 8, 5, 8, 0};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool right = i == 1 || i == 2 || (i >= 4 && i <= 7);
    const std::string pad(widths[i] > cells[i].size() ? widths[i] - cells[i].size() : 0, ' ');
    text += (i ? "  " : "") + (right ? pad + cells[i] : cells[i] + pad);
  }
  return text + remark;
}

std::vector<std::string> table(const std::vector<result>& results) {
  columns shape;
  for (const auto& r : results) shape.widen(r.name, r.unit, r.rival_name);
  std::vector<std::string> lines{shape.header()};
  for (const auto& r : results) lines.push_back(shape.line(r));
  return lines;
}

nlohmann::ordered_json to_json(const result& r) {
  using json = nlohmann::ordered_json;
  const bool there = r.status != verdict::absent;
  const auto value = [&](double v, bool known) { return known ? json(v) : json(nullptr); };
  json line;
  line["name"] = r.name;
  line["ours"] = value(r.ours, there);
  line["rival"] = value(r.rival.value_or(0), there && r.rival);
  line["rival_name"] = r.rival_name;
  line["unit"] = r.unit;
  line["better"] = r.better == direction::lower ? "lower" : "higher";
  line["ratio"] = value(r.ratio, there && r.rival);
  line["target"] = r.target ? json(*r.target) : json(nullptr);
  line["status"] = name_of(r.status);
  line["medians"] = value(r.medians, there && r.rival);
  line["pairs"] = there ? json(r.pairs) : json(nullptr);
  line["once"] = r.once;
  if (!r.missing.empty()) line["missing"] = r.missing;
  if (!there) line["why"] = r.why;
  return line;
}

std::string to_markdown(const result& r) {
  const bool there = r.status != verdict::absent, ratios = there && r.rival;
  const auto digits = [](double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", v);
    return std::string(text);
  };
  const auto value = [&](double v) { return digits(v) + " " + r.unit; };
  return "| " + r.name + " | " + (there ? value(r.ours) : "-") + (there && r.once ? ", once" : "") + " | " +
         (ratios ? value(*r.rival) : "-") + (r.rival_name.empty() ? "" : ", " + r.rival_name) + " | " +
         (ratios ? digits(r.ratio) : "-") +
         (ratios && r.status == verdict::ok_by_quartile ? ", medians " + digits(r.medians) : "") + " | " +
         (r.target ? (r.better == direction::lower ? "<= " : ">= ") + digits(*r.target) : "-") + " | " +
         std::string(name_of(r.status)) + " |";
}

} // namespace tern::bench

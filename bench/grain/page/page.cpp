// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/page/page.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "bench/grain/page/curves.hpp"
#include "bench/grain/page/survey.hpp"
#include "bench/harness/page/page.hpp"

namespace tern::bench::grain {
namespace {

using markdown::head, markdown::number, markdown::row;

struct drawing {
  std::string problem, file, title;
};
/// METG of problems that have something in common, and efficiencies over the length of tasks.
struct block {
  std::string name;
  words problems;
  std::vector<drawing> drawings;
};
const std::vector<block> blocks{
    {"patterns",
     {"trivial.16", "stencil.16", "fft.16", "tree.16", "blocks4.16", "nearest5.16", "spread5.16", "random5.16",
      "stencil.2", "fft.2"},
     {{"stencil.16", "grain-stencil.png", "A stencil of 16 columns on 2 cores: efficiency over the length of tasks"},
      {"spread5.16", "grain-spread.png",
       "Five inputs from all over 16 columns on 2 cores: efficiency over the length of tasks"}}},
    {"large outputs",
     {"stencil.16.64KiB", "stencil.2.64KiB", "fft.16.64KiB", "nearest5.16.64KiB", "spread5.16.64KiB"},
     {{"stencil.16.64KiB", "grain-64KiB.png",
       "A stencil with outputs of 64 KiB on 2 cores: efficiency over the length of tasks"}}},
    {"other tasks", {"stencil.16.memory", "stencil.16.stays", "stencil.16.fresh"}, {}}};

/// What contestants do not try: longer tasks.
constexpr double longest = 4000;

std::string metg_text(double microseconds) {
  if (microseconds > longest) return "> " + markdown::count(longest);
  return number(microseconds, microseconds < 10 ? "%.2f" : microseconds < 100 ? "%.1f" : "%.0f");
}

/// A line for each contestant, a column for each problem; the least of each is bold.
std::string table_of(const words& problems, const std::vector<finding>& found) {
  std::vector<std::pair<std::string, place>> contestants;
  std::map<std::pair<std::string, std::string>, double> metg;
  std::map<std::string, double> least;
  for (const finding& one : found) {
    if (std::find(problems.begin(), problems.end(), one.problem) == problems.end()) continue;
    const std::pair line(one.contestant, one.where);
    if (contestants.empty() || contestants.back() != line) contestants.push_back(line);
    metg[{one.contestant, one.problem}] = one.metg;
    const auto first = least.emplace(one.problem, std::numeric_limits<double>::max()).first;
    first->second = std::min(first->second, one.metg);
  }
  words names{"carrier or rival"};
  names.insert(names.end(), problems.begin(), problems.end());
  std::string text = head(names);
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    words cells{contestants[i].first};
    for (const std::string& problem : problems) {
      const auto at = metg.find({contestants[i].first, problem});
      if (at == metg.end())
        cells.emplace_back("");
      else
        cells.push_back(at->second == least[problem] ? "**" + metg_text(at->second) + "**" : metg_text(at->second));
    }
    text += row(cells);
  }
  return text;
}

std::string lines_text(const std::vector<metric>& lines, int pairs, const scale& of) {
  std::string text = head({"metric", "ours", "rival", "ratio", "target", ""});
  for (const metric& one : lines) text += to_markdown(of.tiny() ? measure_tiny(one) : measure(one, pairs)) + "\n";
  return text;
}

} // namespace

void write_page(const std::string& path, const std::vector<metric>& lines, int turns, const scale& of) {
  words names{"taken where", "lines"}, problems;
  for (const block& one : blocks) {
    names.push_back(one.name);
    problems.insert(problems.end(), one.problems.begin(), one.problems.end());
  }
  result_page page(path, names);
  page.take("taken where", std::to_string(turns) + (turns == 1 ? " turn\n" : " turns\n") + taken_where());
  const std::vector<finding> found = survey(problems, of("0.004", "0"), turns, shown::table);
  for (const block& one : blocks) {
    std::string text = table_of(one.problems, found);
    for (const drawing& d : one.drawings) {
      draw(picture_of(found, d.problem, d.title), page.folder() + "/" + d.file);
      text += "\n![" + d.title + "](" + d.file + ")\n";
    }
    page.take(one.name, text);
  }
  page.take("lines", lines_text(lines, turns, of));
  page.write();
}

} // namespace tern::bench::grain

// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/harness.hpp"

#include "bench/harness/history.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>
#include <stdexcept>

#include <CLI/CLI.hpp>

namespace tern::bench {

std::function<double()> budget(double value) {
  return [value] { return value; };
}

namespace {

/// A value that can be: what is judged by itself may be 0, what a ratio is made of may not.
double sound(double value, const std::string& side, const metric& what) {
  if (!std::isfinite(value) || value < 0 || (value == 0 && what.rival))
    throw std::runtime_error(what.name + ": " + side + " measured " + std::to_string(value) + " " + what.unit +
                             ", which cannot be");
  return value;
}

result empty_result(const metric& what) {
  result r;
  r.name = what.name;
  r.rival_name = what.rival_name;
  r.unit = what.unit;
  r.better = what.better;
  r.target = what.target;
  r.once = what.once;
  r.missing = what.missing;
  return r;
}

/// \param median of what is judged.
result measure_one(const metric& what, int pairs, double& median) {
  result found = empty_result(what);
  const auto ours = [&] { return sound(what.ours(), "ours", what); };
  const auto rival = [&] { return what.rival ? sound(what.rival(), what.rival_name, what) : 0.0; };
  if (what.once) pairs = 1;
  std::vector<double> our_values, rival_values, judged;
  try {
    if (!what.once) {
      ours(); // warm-up: caches, page tables, clock frequency, and whether both sides are there at all
      rival();
    }
    for (int i = 0; i < pairs; ++i) {
      // The second side finds a warmer or more throttled machine, so each is second equally often.
      double a = 0, b = 0;
      if (i % 2 == 0) {
        a = ours();
        b = rival();
      } else {
        b = rival();
        a = ours();
      }
      our_values.push_back(a);
      rival_values.push_back(b);
      judged.push_back(what.rival ? a / b : a);
    }
  } catch (const absent& e) {
    found.why = e.what();
    return found;
  }
  found.ours = quantile(our_values, 0.5);
  found.ratio = better_quartile(judged, what.better);
  if (what.rival) {
    found.rival = quantile(rival_values, 0.5);
    found.medians = found.ours / *found.rival;
  }
  found.pairs = pairs;
  found.status = judge(found.ratio, what.rival ? found.medians : found.ours, what.better, what.target);
  median = quantile(judged, 0.5);
  return found;
}

} // namespace

result measure(const metric& what, int pairs) {
  double median = 0, best_median = 0;
  if (what.best_of.empty()) return measure_one(what, pairs, median);
  std::optional<result> best;
  for (const metric& one : what.best_of) {
    result next = measure_one(one, pairs, median);
    next.name = what.name;
    next.target = what.target;
    if (next.status == verdict::absent) {
      next.rival_name = what.rival_name;
      return next;
    }
    next.status = judge(next.ratio, next.medians, what.better, what.target);
    // Not by the quartile that is judged: the best of several quartiles would be better by chance.
    if (best && (what.better == direction::lower ? median >= best_median : median <= best_median)) continue;
    best = std::move(next);
    best_median = median;
  }
  return *best;
}

result measure_tiny(const metric& what) {
  metric tiny = what;
  tiny.once = true;
  for (metric& one : tiny.best_of) one.once = true;
  result found = measure(tiny, 1);
  if (found.status != verdict::absent) found.status = verdict::tiny;
  found.once = what.once;
  return found;
}

namespace {

struct settings {
  bool json = false, markdown = false, list = false, strict = false, tiny = false;
  int pairs = 9;
  std::string filter, lines, record, compare;
  std::vector<std::string> allowed;
};

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Whether `--allow-absent` names this line, the beginning of its name up to a dot, or what is
/// missing.
bool allowed(const settings& how, const std::string& line, const std::string& missing) {
  return std::any_of(how.allowed.begin(), how.allowed.end(), [&](const std::string& name) {
    return name == line || line.starts_with(name + ".") || name == missing;
  });
}

/// What stands in the way of `--strict`.
std::vector<std::string> not_allowed(const settings& how, const result& r) {
  std::vector<std::string> all;
  if (r.status == verdict::absent && !allowed(how, r.name, r.rival_name)) all.push_back(r.name + " (" + r.why + ")");
  for (const std::string& one : r.missing)
    if (!allowed(how, r.name, one)) all.push_back(r.name + " without " + one);
  return all;
}

std::set<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::set<std::string> names;
  for (std::string name; std::getline(in, name);) names.insert(name);
  return names;
}

/// Measures the chosen ones, prints, and remembers what the exit code depends on.
class session {
public:
  session(const settings& how, columns shape) : how_(how), shape_(std::move(shape)) {
    if (!how.compare.empty() || !how.record.empty()) now_ = here_and_now();
    if (!how.compare.empty()) before_.emplace(how.compare, now_.machine);
  }

  void begin(bool any) const {
    if (how_.markdown)
      std::printf("| metric | ours | rival | ratio | target | |\n|---|---|---|---|---|---|\n");
    else if (!how_.json && any)
      std::printf("%s\n", shape_.header().c_str());
  }

  void take(const metric& m) {
    std::fflush(stdout);
    try {
      const result r = how_.tiny ? measure_tiny(m) : measure(m, how_.pairs);
      if (r.status == verdict::short_of_target) missed_.push_back(r.name);
      for (auto& one : not_allowed(how_, r)) absent_.push_back(std::move(one));
      print(r);
      if (!how_.record.empty()) record(how_.record, now_, r);
    } catch (const std::exception& e) {
      failed_ = true;
      std::fprintf(stderr, "%s failed: %s\n", m.name.c_str(), e.what());
    }
  }

  int end(const char* program) const {
    std::fflush(stdout);
    const auto tell = [&](const std::string& text) { std::fprintf(stderr, "%s: %s\n", program, text.c_str()); };
    if (before_)
      tell("lines compared with " + how_.compare + ": " + std::to_string(compared_) +
           ", of which worse by more than 3 %: " + std::to_string(worse_.size()) +
           (worse_.empty() ? "" : " (" + list_of(worse_) + ")") +
           (fresh_.empty() ? "" : "; without a record of this machine, " + now_.machine + ": " + list_of(fresh_)));
    if (failed_) return 1;
    if (!how_.strict) return 0;
    if (!missed_.empty()) tell("short of the target: " + list_of(missed_));
    if (!absent_.empty())
      tell("absent: " + list_of(absent_) +
           "; install what is missing and configure again, or --allow-absent NAME: a line, the beginning of "
           "lines' names up to a dot, or a rival");
    return missed_.empty() && absent_.empty() ? 0 : 3;
  }

private:
  void print(const result& r) {
    std::optional<change> c;
    if (before_) {
      c = before_->compare(r);
      if (c) ++compared_;
      if (!c && r.status != verdict::absent) fresh_.push_back(r.name);
      if (c && c->marked) worse_.push_back(r.name);
    }
    if (how_.json) {
      auto line = to_json(r);
      if (c) line["before"] = to_json(*c);
      std::printf("%s\n", line.dump().c_str());
    } else {
      const std::string line = how_.markdown ? to_markdown(r) : shape_.line(r);
      std::printf("%s%s\n", line.c_str(), c ? ("  " + describe(*c, r)).c_str() : "");
    }
  }

  const settings& how_;
  columns shape_;
  circumstances now_;
  std::optional<history> before_;
  bool failed_ = false;
  int compared_ = 0;
  std::vector<std::string> missed_, absent_, worse_, fresh_;
};

} // namespace

int run(int argc, char** argv, const std::function<std::vector<metric>(const scale&)>& metrics,
        const std::vector<other_use>& others) {
  CLI::App app{"A benchmark of Tern; `tern bench` runs them all"};
  settings how;
  auto* const json = app.add_flag("--json", how.json, "One JSON object a line");
  auto* const markdown = app.add_flag("--markdown", how.markdown, "The table of docs/results")->excludes(json);
  app.add_flag("--list", how.list, "Only name the metrics");
  app.add_flag("--strict", how.strict, "Exit code 3 if a target is not met, or something is absent");
  app.add_option("--allow-absent", how.allowed,
                 "With --strict: what may be absent: a line, the beginning of lines' names up to a dot, or a rival")
      ->allow_extra_args(false);
  auto* const pairs = app.add_option("--pairs", how.pairs, "Pairs of measurements (9)")->check(CLI::Range(1, 10000));
  auto* const tiny =
      app.add_flag("--tiny", how.tiny, "Each line once, with tiny sizes, to see that the results are right")
          ->excludes(pairs);
  auto* const filter = app.add_option("--filter", how.filter, "Only metrics whose name contains this");
  app.add_option("--lines", how.lines, "Fail unless the metrics are those whose names this file has")->excludes(filter);
  app.add_option("--record", how.record, "Append the results to this file, a JSON object a line")->excludes(tiny);
  app.add_option("--compare", how.compare, "Show beside each line its last record in this file")
      ->excludes(tiny)
      ->excludes(markdown);
  const std::vector<CLI::Option*> usual =
      app.get_options([](const CLI::Option* o) { return o->get_name() != "--help"; });
  const other_use* instead = nullptr;
  for (const other_use& other : others) {
    CLI::Option* const o = app.add_flag_callback(
        other.option, [&instead, &other] { instead = &other; }, other.help);
    for (CLI::Option* const one : usual) o->excludes(one);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
  if (instead) return instead->run();
  const std::vector<metric> all = metrics(scale(how.tiny));
  columns shape;
  std::vector<const metric*> chosen;
  for (const auto& m : all)
    if (m.name.find(how.filter) != std::string::npos) {
      chosen.push_back(&m);
      shape.widen(m.name, m.unit, m.rival_name);
    }
  if (how.list) {
    for (const auto* m : chosen) std::printf("%s\n", m->name.c_str());
    return 0;
  }
  try {
    bool right_lines = true;
    if (!how.lines.empty()) {
      std::set<std::string> wanted = lines_of(how.lines);
      for (const auto& m : all)
        if (!wanted.erase(m.name)) {
          right_lines = false;
          std::fprintf(stderr, "%s: the line %s is not in %s; add it there\n", argv[0], m.name.c_str(),
                       how.lines.c_str());
        }
      for (const auto& name : wanted) {
        right_lines = false;
        std::fprintf(stderr, "%s: there is no line %s, which is in %s\n", argv[0], name.c_str(), how.lines.c_str());
      }
    }
    session now(how, shape);
    now.begin(!chosen.empty());
    for (const auto* m : chosen) now.take(*m);
    const int code = now.end(argv[0]);
    return right_lines ? code : 1;
  } catch (const std::runtime_error& e) { // a file that is named
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 2;
  }
}

} // namespace tern::bench

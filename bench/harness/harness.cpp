// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/harness.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

namespace tern::bench {

std::function<double()> budget(double value) {
  return [value] { return value; };
}

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

double better_quartile(const std::vector<double>& ratios, direction better) {
  return quantile(ratios, better == direction::lower ? 0.25 : 0.75);
}

verdict judge(double ratio, double medians, direction better, std::optional<double> target) {
  if (!target) return verdict::informational;
  const auto meets = [&](double r) { return better == direction::lower ? r <= *target : r >= *target; };
  return !meets(ratio) ? verdict::short_of_target : meets(medians) ? verdict::ok : verdict::ok_by_quartile;
}

namespace {

double sound(double value, const char* side, const metric& what) {
  if (!std::isfinite(value) || value <= 0)
    throw std::runtime_error(what.name + ": " + side + " measured " + std::to_string(value) + " " + what.unit +
                             ", which cannot be");
  return value;
}

/// \param median of the ratios.
result measure_one(const metric& what, int pairs, double& median) {
  result found{what.name, what.rival_name, what.unit, what.better, what.target, 0, 0, 0, verdict::absent, {}, 0, 0};
  const auto ours = [&] { return sound(what.ours(), "ours", what); };
  const auto rival = [&] { return sound(what.rival(), what.rival_name.c_str(), what); };
  std::vector<double> our_values, rival_values, ratios;
  try {
    ours(); // warm-up: caches, page tables, clock frequency, and whether both sides are there at all
    rival();
    for (int i = 0; i < pairs; ++i) {
      // Who goes second finds a warmer or a more throttled machine: both get the same share of it.
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
      ratios.push_back(a / b);
    }
  } catch (const absent& e) {
    found.why = e.what();
    return found;
  }
  found.ours = quantile(our_values, 0.5);
  found.rival = quantile(rival_values, 0.5);
  found.ratio = better_quartile(ratios, what.better);
  found.medians = found.ours / found.rival;
  found.pairs = pairs;
  found.status = judge(found.ratio, found.medians, what.better, what.target);
  median = quantile(ratios, 0.5);
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

namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// Columns as wide as the names need, known before the first result so that each line can be printed when it is there.
class columns {
public:
  void widen(const std::string& name, const std::string& unit, const std::string& rival) {
    name_ = std::max(name_, name.size());
    unit_ = std::max(unit_, unit.size());
    rival_ = std::max(rival_, rival.size());
  }
  std::string header() const {
    return line({"name", "ours", "rival", "", "ratio", "medians", "pairs", "target", "status"}, "");
  }
  std::string line(const result& r) const {
    const std::string target = r.target ? (r.better == direction::lower ? "<=" : ">=") + number(*r.target) : "-";
    const bool there = r.status != verdict::absent;
    const auto value = [&](double v) { return there ? number(v) + (r.unit.empty() ? "" : " " + r.unit) : "-"; };
    return line({r.name, value(r.ours), value(r.rival), r.rival_name, there ? number(r.ratio) : "-",
                 there ? number(r.medians) : "-", there ? std::to_string(r.pairs) : "-", target,
                 std::string(name_of(r.status))},
                there ? "" : "  (" + r.why + ")");
  }

private:
  std::string line(const std::array<std::string, 9>& cells, const std::string& remark) const {
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

  std::size_t name_ = 4, unit_ = 0, rival_ = 0;
};

} // namespace

std::vector<std::string> table(const std::vector<result>& results) {
  columns shape;
  for (const auto& r : results) shape.widen(r.name, r.unit, r.rival_name);
  std::vector<std::string> lines{shape.header()};
  for (const auto& r : results) lines.push_back(shape.line(r));
  return lines;
}

nlohmann::ordered_json to_json(const result& r) {
  const bool there = r.status != verdict::absent;
  const auto value = [&](double v) { return there ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr); };
  nlohmann::ordered_json line;
  line["name"] = r.name;
  line["ours"] = value(r.ours);
  line["rival"] = value(r.rival);
  line["rival_name"] = r.rival_name;
  line["unit"] = r.unit;
  line["better"] = r.better == direction::lower ? "lower" : "higher";
  line["ratio"] = value(r.ratio);
  line["target"] = r.target ? nlohmann::ordered_json(*r.target) : nlohmann::ordered_json(nullptr);
  line["status"] = name_of(r.status);
  line["medians"] = value(r.medians);
  line["pairs"] = there ? nlohmann::ordered_json(r.pairs) : nlohmann::ordered_json(nullptr);
  if (!there) line["why"] = r.why;
  return line;
}

std::string to_markdown(const result& r) {
  const bool there = r.status != verdict::absent;
  const auto digits = [](double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", v);
    return std::string(text);
  };
  const auto value = [&](double v) { return there ? digits(v) + " " + r.unit : "-"; };
  return "| " + r.name + " | " + value(r.ours) + " | " + value(r.rival) + ", " + r.rival_name + " | " +
         (there ? digits(r.ratio) : "-") +
         (r.status == verdict::ok_by_quartile ? ", medians " + digits(r.medians) : "") + " | " +
         (r.target ? (r.better == direction::lower ? "<= " : ">= ") + digits(*r.target) : "-") + " | " +
         std::string(name_of(r.status)) + " |";
}

int run(int argc, char** argv, const std::vector<metric>& metrics, const std::vector<other_use>& others) {
  CLI::App app{"A benchmark of Tern; `tern bench` runs them all"};
  bool json = false, markdown = false, list = false, strict = false;
  int pairs = 9;
  std::string filter;
  app.add_flag("--json", json, "One JSON object a line");
  app.add_flag("--markdown", markdown, "The table of docs/results");
  app.add_flag("--list", list, "Only name the metrics");
  app.add_flag("--strict", strict, "Exit code 3 if a target is not met");
  app.add_option("--pairs", pairs, "Pairs of measurements (9)")->check(CLI::Range(1, 10000));
  app.add_option("--filter", filter, "Only metrics whose name contains this");
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
  columns shape;
  std::vector<const metric*> chosen;
  for (const auto& m : metrics)
    if (m.name.find(filter) != std::string::npos) {
      chosen.push_back(&m);
      shape.widen(m.name, m.unit, m.rival_name);
    }
  if (list) {
    for (const auto* m : chosen) std::printf("%s\n", m->name.c_str());
    return 0;
  }
  if (markdown)
    std::printf("| metric | ours | rival | ratio | target | |\n|---|---|---|---|---|---|\n");
  else if (!json && !chosen.empty())
    std::printf("%s\n", shape.header().c_str());
  bool failed = false, missed = false;
  for (const auto* m : chosen) {
    std::fflush(stdout);
    try {
      const result r = measure(*m, pairs);
      missed = missed || r.status == verdict::short_of_target;
      std::printf("%s\n", (json ? to_json(r).dump() : markdown ? to_markdown(r) : shape.line(r)).c_str());
    } catch (const std::exception& e) {
      failed = true;
      std::fprintf(stderr, "%s failed: %s\n", m->name.c_str(), e.what());
    }
  }
  std::fflush(stdout);
  return failed ? 1 : strict && missed ? 3 : 0;
}

namespace {

std::string tail(const std::string& text) { return text.size() > 2000 ? "…" + text.substr(text.size() - 2000) : text; }

/// Reads both pipes until both have ended.
void read_both(int out, std::string& out_text, int err, std::string& err_text) {
  std::array<pollfd, 2> waiting{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<char, 65536> buffer;
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) break;
    for (auto& one : waiting) {
      if (one.fd < 0 || one.revents == 0) continue;
      const ssize_t n = read(one.fd, buffer.data(), buffer.size());
      if (n > 0)
        (one.fd == out ? out_text : err_text).append(buffer.data(), static_cast<std::size_t>(n));
      else if (n == 0 || errno != EINTR)
        one.fd = -1;
    }
  }
}

} // namespace

child_result run_command(const std::vector<std::string>& argv,
                         const std::vector<std::pair<std::string, std::string>>& environment) {
  if (argv.empty()) throw std::invalid_argument("run_command: no program given");
  int out[2], err[2], report[2];
  if (pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  if (pipe2(err, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  std::vector<char*> raw;
  for (const auto& one : argv) raw.push_back(const_cast<char*>(one.c_str()));
  raw.push_back(nullptr);
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); // not KILL: an MPI launcher has ranks to end
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(raw[0], raw.data());
    const int problem = errno;
    const bool told = write(report[1], &problem, sizeof problem) == sizeof problem;
    _exit(told ? 127 : 126);
  }
  for (const int fd : {out[1], err[1], report[1]}) close(fd);
  child_result done;
  std::string errors;
  int problem = 0, status = 0;
  const bool not_started = read(report[0], &problem, sizeof problem) == sizeof problem;
  read_both(out[0], done.output, err[0], errors);
  rusage usage{};
  while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  done.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  for (const int fd : {out[0], err[0], report[0]}) close(fd);
  if (not_started) throw absent(argv[0] + ": " + std::strerror(problem));
  if (WIFSIGNALED(status))
    throw std::runtime_error(argv[0] + " was killed by signal " + std::to_string(WTERMSIG(status)) + ": " +
                             tail(errors));
  if (WEXITSTATUS(status) != 0)
    throw std::runtime_error(argv[0] + " ended with exit code " + std::to_string(WEXITSTATUS(status)) + ": " +
                             tail(errors.empty() ? done.output : errors));
  return done;
}

nlohmann::json run_for_json(const std::vector<std::string>& argv, const std::string& json_file,
                            const std::vector<std::pair<std::string, std::string>>& environment) {
  if (!json_file.empty()) {
    std::remove(json_file.c_str()); // an old report must not pass for the new one
    run_command(argv, environment);
    std::ifstream file(json_file);
    if (!file) throw std::runtime_error(argv[0] + " did not write " + json_file);
    auto value = nlohmann::json::parse(file, nullptr, false);
    if (value.is_discarded()) throw std::runtime_error(json_file + ", written by " + argv[0] + ", is no JSON");
    return value;
  }
  std::istringstream lines(run_command(argv, environment).output);
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    auto value = nlohmann::json::parse(line, nullptr, false);
    if (value.is_object()) last = std::move(value);
  }
  if (!last.is_object()) throw std::runtime_error(argv[0] + " wrote no line that is a JSON object");
  return last;
}

} // namespace tern::bench

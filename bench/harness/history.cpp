// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/history.hpp"

#include "bench/harness/command.hpp"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>

#include <sched.h>

#ifndef BENCH_SOURCES
#error "define BENCH_SOURCES as the folder of Tern's sources"
#endif

namespace tern::bench {
namespace {

/// What stands behind the first "NAME :" of a file; "" if there is none.
std::string field(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const auto colon = line.find(':');
    const auto start = colon == line.npos ? line.npos : line.find_first_not_of(" \t", colon + 1);
    if (start != line.npos) return line.substr(start);
  }
  return {};
}

std::string machine() {
  std::string cpu = field("/proc/cpuinfo", "model name");
  if (cpu.empty()) cpu = "unknown processor";
  // The name alone can be that of very different ones ("AMD EPYC").
  const std::string family = field("/proc/cpuinfo", "cpu family"), model = field("/proc/cpuinfo", "model\t");
  if (!family.empty() && !model.empty()) cpu += " (family " + family + ", model " + model + ")";
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  std::string all = cpu + ", " + std::to_string(count) + " CPUs";
  std::map<std::string, int> gpus;
  std::error_code none;
  for (const auto& one : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
    ++gpus[field(one.path() / "information", "Model")];
  for (const auto& [name, count_of] : gpus) all += ", " + std::to_string(count_of) + " " + name;
  return all;
}

std::string commit() {
  const auto git = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"git", "-C", BENCH_SOURCES});
    return run_command(words).output;
  };
  try {
    std::string hash = git({"rev-parse", "--short=10", "HEAD"});
    hash.erase(hash.find_last_not_of('\n') + 1);
    return hash + (git({"status", "--porcelain", "--untracked-files=no"}).empty() ? "" : "+");
  } catch (const std::runtime_error&) { // no git, or no repository: an archive of the sources has none
    return "unknown";
  }
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// By what part `now` is worse than `before`.
double worse_by(double now, double before, direction better) {
  if (now == before) return 0;
  const double by = better == direction::lower ? now / before : before / now;
  return std::isfinite(by) ? by - 1 : std::numeric_limits<double>::infinity(); // before it was 0
}

} // namespace

circumstances here_and_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", &utc);
  return {date, machine(), commit()};
}

history::history(const std::string& file, const std::string& machine) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file + "; --record " + file + " writes it");
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    const auto bad = [&](const std::string& what) {
      return std::runtime_error(file + ":" + std::to_string(number) + ": " + what +
                                "; each line is an object as --record writes it");
    };
    auto one = nlohmann::json::parse(line, nullptr, false);
    if (!one.is_object()) throw bad("no JSON object");
    for (const char* text : {"date", "machine", "commit", "name", "unit"})
      if (!one.contains(text) || !one[text].is_string()) throw bad(std::string("no \"") + text + "\" that is a text");
    if (!one.contains("ours") || !one["ours"].is_number()) throw bad("no \"ours\" that is a number");
    if (one.contains("medians") && !one["medians"].is_number() && !one["medians"].is_null())
      throw bad("\"medians\" is no number");
    if (one["machine"] != machine) continue;
    const std::string name = one["name"];
    last_[name] = std::move(one);
  }
}

std::optional<change> history::compare(const result& now) const {
  const auto found = last_.find(now.name);
  if (found == last_.end() || now.status == verdict::absent || found->second["unit"] != now.unit) return std::nullopt;
  const nlohmann::json& before = found->second;
  change c{before["date"], before["commit"], before["ours"], std::nullopt, 0, false};
  if (before.contains("medians") && before["medians"].is_number()) c.medians = before["medians"].get<double>();
  if (c.medians.has_value() != now.rival.has_value()) return std::nullopt; // something else was measured
  c.worse = c.medians ? worse_by(now.medians, *c.medians, now.better) : worse_by(now.ours, c.ours, now.better);
  c.marked = c.worse > tolerance;
  return c;
}

void record(const std::string& file, const circumstances& of, const result& one) {
  if (one.status == verdict::absent) return;
  nlohmann::ordered_json line{{"date", of.date}, {"machine", of.machine}, {"commit", of.commit}};
  line.update(to_json(one));
  std::ofstream out(file, std::ios::app);
  out << line.dump() << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

std::string describe(const change& c, const result& now) {
  const std::string by = std::isinf(c.worse) ? "from 0" : "by " + percent(std::abs(c.worse));
  return "before: " + number(c.ours) + (now.unit.empty() ? "" : " " + now.unit) +
         (c.medians ? ", medians " + number(*c.medians) : "") + " (" + c.date + ", " + c.commit + "): " +
         (c.marked      ? "WORSE "
          : c.worse > 0 ? "worse "
                        : "better ") +
         by;
}

nlohmann::ordered_json to_json(const change& c) {
  using json = nlohmann::ordered_json;
  return {{"date", c.date},
          {"commit", c.commit},
          {"ours", c.ours},
          {"medians", c.medians ? json(*c.medians) : json(nullptr)},
          {"worse", std::isinf(c.worse) ? json(nullptr) : json(c.worse)},
          {"marked", c.marked}};
}

} // namespace tern::bench

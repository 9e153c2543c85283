// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern bench`: runs the benchmark programs of the build tree one after the other and passes their
/// lines through.
#include "tools/tern/commands.hpp"
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>

#include <CLI/CLI.hpp>

namespace tern::tool {
namespace {

namespace fs = std::filesystem;

struct bench_options {
  std::vector<std::string> names;
  bool json = false, list = false, strict = false, ablation = false, tiny = false;
  int pairs = 0;
  std::string filter, record, compare;
  std::vector<std::string> allow_absent;
};

/// The folder that TERN_BENCH_DIR names; empty if it names none.
std::string named_folder() {
  const char* set = std::getenv("TERN_BENCH_DIR");
  return set ? set : "";
}

/// The folder above the one that holds this command: that of the build, if it was not installed.
fs::path build_folder() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).parent_path().parent_path();
}

std::map<std::string, fs::path> find_benchmarks(const fs::path& where) {
  const std::string prefix = "bench_";
  std::map<std::string, fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(where, failed)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && look_for_program(entry.path().string()))
      found.emplace(name.substr(prefix.size()), entry.path());
  }
  return found;
}

/// Tern's benchmarks that are not in `found`.
std::vector<std::string> not_built(const std::map<std::string, fs::path>& found) {
  std::vector<std::string> missing;
  std::istringstream names(TERN_BENCH_NAMES);
  for (std::string name; names >> name;)
    if (!found.count(name)) missing.push_back(name);
  return missing;
}

/// How to build `what`, a benchmark's name or NAME.
std::string how_to_build(const std::string& what) {
  std::error_code failed;
  fs::path build = build_folder();
  const bool is_build = fs::exists(build / "CMakeCache.txt", failed);
  if (const fs::path near = fs::proximate(build, failed);
      is_build && !failed && near.string().size() < build.string().size())
    build = near;
  const std::string folder = is_build ? quoted(build.string()) : "build/release";
  const std::string target = what.empty() ? "" : " --target bench_" + what;
  return (is_build ? "" : "in the folder of Tern's sources: ") +
         (is_build ? "cmake -DTERN_BUILD_BENCH=ON " + folder : "cmake --preset release") + " && cmake --build " +
         folder + target;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Of those meant, what has `--ablation`: its help says so.
std::map<std::string, fs::path> with_ablation(const std::map<std::string, fs::path>& found,
                                              const std::vector<std::string>& meant) {
  std::map<std::string, fs::path> able;
  std::string known;
  for (const auto& [name, path] : found) {
    if (read_output({path.string(), "--help"}).second.find("--ablation") == std::string::npos) continue;
    able.emplace(name, path);
    known += (known.empty() ? "" : ", ") + name;
  }
  if (able.empty()) throw failure("no benchmark here has --ablation", 2);
  for (const auto& name : meant)
    if (!able.count(name)) throw failure("the benchmark \"" + name + "\" has no --ablation; these have: " + known, 2);
  return able;
}

/// What `tern bench --list` says of the benchmarks that are not built.
void tell_not_built(const bench_options& options, const std::vector<std::string>& missing) {
  if (missing.empty()) return;
  std::fprintf(options.json ? stderr : stdout, "not built: %s\nto build one of them (without --target: all)\n  %s\n",
               list_of(missing).c_str(), how_to_build(missing[0]).c_str());
}

int run(const bench_options& options) {
  const std::string named = named_folder();
  const fs::path where = named.empty() ? build_folder() / "bench" : fs::path(named);
  const auto found = find_benchmarks(where);
  const auto missing = named.empty() ? not_built(found) : std::vector<std::string>();
  std::vector<std::string> known;
  for (const auto& one : found) known.push_back(one.first);
  for (const auto& name : options.names)
    if (std::find(missing.begin(), missing.end(), name) != missing.end())
      throw failure("the benchmark \"" + name + "\" is not built; to build it:\n  " + how_to_build(name));
    else if (!found.count(name) && !(found.empty() && missing.empty()))
      throw failure("there is no benchmark \"" + name + "\"; there are: " + list_of(known) +
                        (missing.empty() ? "" : (known.empty() ? "" : "; not built: ") + list_of(missing)),
                    2);
  if (found.empty() && !(options.list && !missing.empty()))
    throw failure("there are no benchmark programs in " + where.string() + "; " +
                  (missing.empty() ? "TERN_BENCH_DIR names that folder"
                                   : "there can be " + list_of(missing) + "; to build them:\n  " + how_to_build("")));

  int failures = 0;
  for (const auto& [name, path] : options.ablation ? with_ablation(found, options.names) : found) {
    if (!options.names.empty() && std::find(options.names.begin(), options.names.end(), name) == options.names.end())
      continue;
    job what;
    what.argv = {path.string()};
    what.ranks = "benchmark " + name;
    if (options.json) what.argv.push_back("--json");
    if (options.list) what.argv.push_back("--list");
    if (options.strict) what.argv.push_back("--strict");
    if (options.tiny) what.argv.push_back("--tiny");
    for (const auto& one : options.allow_absent) what.argv.insert(what.argv.end(), {"--allow-absent", one});
    if (!options.record.empty()) what.argv.insert(what.argv.end(), {"--record", options.record});
    if (!options.compare.empty()) what.argv.insert(what.argv.end(), {"--compare", options.compare});
    if (options.ablation) what.argv.push_back("--ablation");
    if (options.pairs > 0) what.argv.insert(what.argv.end(), {"--pairs", std::to_string(options.pairs)});
    if (!options.filter.empty()) what.argv.insert(what.argv.end(), {"--filter", options.filter});
    if (!options.json) std::printf("%s:\n", name.c_str());
    std::fflush(stdout);
    const outcome end = supervise(what);
    if (end.interrupted_by) {
      std::fprintf(stderr, "tern: interrupted during benchmark %s\n", name.c_str());
      return 128 + end.interrupted_by;
    }
    if (end.status.shell_code() == 0) continue;
    ++failures;
    std::fprintf(stderr, "tern: benchmark %s %s\n", name.c_str(),
                 end.status.signal ? ("was killed by " + signal_name(end.status.signal)).c_str()
                                   : ("failed with exit code " + std::to_string(end.status.code)).c_str());
  }
  if (options.list && options.names.empty()) tell_not_built(options, missing);
  return failures ? 1 : 0;
}

} // namespace

void add_bench(CLI::App& app, int& code) {
  auto* sub = app.add_subcommand("bench", "Compare Tern with its rivals, interleaved in one run");
  auto options = std::make_shared<bench_options>();
  sub->add_option("NAME", options->names, "Benchmarks to run (all)");
  sub->add_flag("--json", options->json, "One JSON object a line");
  sub->add_flag("--list", options->list, "Only name the metrics, and the benchmarks that are not built");
  sub->add_flag("--strict", options->strict, "Fail if a target is not met, or something is absent");
  sub->add_option("--allow-absent", options->allow_absent,
                  "With --strict: what may be absent: a line, the beginning of lines' names up to a dot, or a rival")
      ->allow_extra_args(false);
  sub->add_option("--pairs", options->pairs, "Pairs of measurements for each metric (9)")->check(CLI::Range(1, 10000));
  sub->add_option("--filter", options->filter, "Only metrics whose name contains this");
  sub->add_option("--record", options->record, "Append the results to this file, a JSON object a line");
  sub->add_option("--compare", options->compare, "Show beside each line its last record in this file");
  auto* const tiny =
      sub->add_flag("--tiny", options->tiny, "Each line once, with tiny sizes, to see that the results are right");
  for (const char* other : {"--pairs", "--record", "--compare"}) tiny->excludes(sub->get_option(other));
  auto* const ablation =
      sub->add_flag("--ablation", options->ablation,
                    "Instead: what each of our optimisations brings (benchmarks that have it: cuda)");
  for (const char* other :
       {"--json", "--list", "--strict", "--allow-absent", "--pairs", "--filter", "--record", "--compare", "--tiny"})
    ablation->excludes(sub->get_option(other));
  sub->footer(
      "Each line: name, medians of ours and of the rival, the better quartile of the pairs' ratios, the ratio of\n"
      "the medians, the number of pairs (\"once\" for what is the same each time, or takes long), target, and\n"
      "ok|ok*|short|absent. The quartile is judged; ok*: the medians alone would be short. absent: needs what this\n"
      "machine lacks. Without a rival the value itself is judged.\n"
      "Exit code: 0 unless a benchmark program fails to run, or with --strict misses a target or lacks something.");
  sub->callback([options, &code] { code = run(*options); });
}

} // namespace tern::tool

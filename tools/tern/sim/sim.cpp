// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern sim`: runs a program in the simulator, once, or with many seeds until one fails.
#include "tools/tern/commands.hpp"
#include "tools/tern/launch/process.hpp"
#include "tools/tern/launch/started.hpp"
#include "tools/tern/sim/seeds.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include <tern/base/error.hpp>
#include <tern/base/topology.hpp>

namespace tern::tool {
namespace {

constexpr int most_jobs = 500; // each has a pipe, and a process has 1024 files
constexpr std::int64_t most_seeds = 1'000'000'000'000'000;
constexpr int ranks_of_check = 4, seeds_of_check = 20; // unless told otherwise

struct sim_options {
  std::string ranks, workers, world, faults, seed, trace; // the texts of numbers: the parser of worlds checks them
  std::int64_t seeds = 0;
  bool check = false;
  std::string from;
  int jobs = 0;
  double limit = 60;
  std::optional<double> budget;
};

/// What the options say on top of TERN_SIM. \throws failure(2)
sim::world world_of(const sim_options& o, const std::string& seed) {
  if (o.faults.find(',') != o.faults.npos)
    throw failure("--faults " + o.faults + ": there are colons between faults, as in --faults delay:reorder", 2);
  for (const auto* text : {&o.ranks, &o.workers, &seed})
    if (text->find_first_of(",=") != text->npos)
      throw failure("\"" + *text + "\" is not a number; give a list of words with --world", 2);
  std::string text = o.world;
  const auto add = [&](const char* word, const std::string& value) {
    if (!value.empty()) text += (text.empty() ? "" : ",") + std::string(word) + "=" + value;
  };
  add("ranks", o.ranks);
  add("workers", o.workers);
  add("faults", o.faults);
  add("seed", seed);
  const char* const set = std::getenv("TERN_SIM");
  sim::world base;
  if (o.check) base.ranks = ranks_of_check;
  try {
    if (set) base = sim::parse_world(set, base);
  } catch (const error& e) {
    throw failure("TERN_SIM in the environment: " + e.message() + "; " + e.hint(), 2);
  }
  try {
    return sim::parse_world(text, base);
  } catch (const error& e) {
    const bool twice = e.message().ends_with(" is given twice");
    throw failure(e.message() + "; " + (twice ? "as an option and in --world, or twice in there: " : "") + e.hint(), 2);
  }
}

int run_once(const sim_options& o, const std::vector<std::string>& program) {
  const sim::world w = world_of(o, o.seed);
  const scratch_folder scratch;
  const start_file mark(scratch, "started");
  job what;
  what.argv = program;
  what.argv[0] = find_program(program[0]).string();
  what.ranks = all_ranks(w.ranks);
  what.environment = {{"TERN_SIM", sim_text(w)}, {"TERN_TRANSPORT", "sim"}, {"TERN_STARTED", mark.path()}};
  if (!o.trace.empty()) what.environment.emplace_back("TERN_TRACE", o.trace);
  const outcome end = supervise(what);
  if (end.interrupted_by) return say_interrupted(end, what.ranks);
  if (end.status.signal)
    std::fprintf(stderr, "tern: %s with %s in it %s; simulated: %s\n", program[0].c_str(), what.ranks.c_str(),
                 killed_by(end.status.signal).c_str(), sim_text(w).c_str());
  else if (!mark.started()) {
    std::fprintf(stderr, "tern: %s\n", not_simulated(program[0]).c_str());
    return end.status.code ? end.status.code : 1;
  }
  return end.status.shell_code();
}

int run_many(const sim_options& o, const std::vector<std::string>& program) {
  if (!o.seed.empty()) throw failure("--seed goes with one run; the first of many seeds is given by --from", 2);
  if (!o.trace.empty())
    throw failure("--trace goes with one run; a seed that fails is shown with the command that traces it", 2);
  const auto check_seconds = [](const char* name, double value) {
    if (!(value >= 0.001 && value <= 1e8))
      throw failure(std::string(name) + ": it must be a number of seconds from 0.001 to 100000000", 2);
  };
  check_seconds("--limit", o.limit);
  if (o.budget) check_seconds("--budget", *o.budget);
  const sim::world w = world_of(o, o.from.empty() ? "1" : o.from);
  seed_search what = o.check ? check_of(w) : seed_search{.argv = {}, .shown = {}, .ways = {{w}}, .first = w.seed};
  what.seeds = static_cast<std::uint64_t>(o.seeds > 0 ? o.seeds : seeds_of_check);
  constexpr auto last = std::numeric_limits<std::uint64_t>::max();
  if (what.seeds - 1 > last - what.first)
    throw failure("--seeds " + std::to_string(o.seeds) + ": the last seed would be above " + std::to_string(last) +
                      ", the largest there is",
                  2);
  what.argv = what.shown = program;
  what.argv[0] = find_program(program[0]).string();
  what.jobs = o.jobs > 0 ? o.jobs : std::min(usable_cpus(), most_jobs);
  what.limit = o.limit;
  what.budget = o.budget.value_or(0);
  const search_result result = search_seeds(what);
  return o.check ? tell_check(what, result) : tell_seeds(what, result);
}

} // namespace

void add_sim(CLI::App& app, const std::vector<std::string>& program, int& code) {
  auto* sub = app.add_subcommand("sim", "Run a program in the simulator, once or with many seeds");
  auto o = std::make_shared<sim_options>();
  const auto not_empty = [](const std::string& text) { return std::string(text.empty() ? "it is empty" : ""); };
  sub->add_option("-n,--ranks", o->ranks, "Number of ranks (1)")->check(not_empty);
  sub->add_option("--workers", o->workers, "Workers of each rank (1)")->check(not_empty);
  sub->add_option("--world", o->world, "The network and the rest, as in TERN_SIM: latency=2us,topology=fat-tree:8:4");
  sub->add_option("--faults", o->faults,
                  "What goes wrong, with colons between: delay, reorder, slow, pause, crash=3@2ms")
      ->check(not_empty);
  sub->add_option("--seed", o->seed, "Decides all that is left to chance (1)")->check(not_empty);
  sub->add_option("--trace", o->trace, "Write a trace of the run to this file")->check(not_empty);
  auto* seeds =
      sub->add_option("--seeds", o->seeds,
                      "Run so many seeds, up to the first that fails; with --check so many in each combination (20)")
          ->check(CLI::Range(std::int64_t(1), most_seeds));
  sub->add_flag("--check", o->check,
                "The check of a program: many seeds (--seeds), each with messages that are delayed, overtake each "
                "other, both and neither, and with objects that stay, move all the time, and are packed in place");
  const std::vector<CLI::Option*> of_many{
      sub->add_option("--from", o->from, "The first seed (1)")->check(not_empty),
      sub->add_option("--jobs", o->jobs, "So many at a time (as many as there are CPUs)")
          ->check(CLI::Range(1, most_jobs)),
      sub->add_option("--limit", o->limit, "Seconds after which a seed is killed and has failed (60)"),
      sub->add_option("--budget", o->budget, "Seconds after which no more is tried")};
  sub->prefix_command();
  sub->footer(
      "The program and its arguments stand behind --:\n"
      "  tern sim -n 256 --world topology=fat-tree:16:16 -- ./app --size 100\n"
      "  tern sim -n 8 --faults delay:reorder --seeds 200 -- ./app\n"
      "  tern sim --check -- ./app\n"
      "Options add to what TERN_SIM says. Of many seeds only the output of the first that fails is shown.\n"
      "Exit code: the program's; 128 + signal if it was killed. With --seeds and --check: 0 if none fails, 1 if one "
      "does.\nA program that does not call tern::run has failed.");
  sub->callback([sub, o, seeds, of_many, program, &code] {
    const bool many = seeds->count() || o->check;
    for (const auto* option : of_many)
      if (option->count() && !many) throw failure(option->get_name() + " requires --seeds or --check", 2);
    const auto what = program_of(*sub, program, "tern sim -n 8 -- ./app");
    code = many ? run_many(*o, what) : run_once(*o, what);
  });
}

} // namespace tern::tool

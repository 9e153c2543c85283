// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern sim --check`: what is tried, and the table that says so.
#include "tools/tern/sim/seeds.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace tern::tool {
namespace {

constexpr const char* move_variable = "TERN_DEBUG_MIGRATE";
constexpr std::array<const char*, 4> moves{"none", "rotate", "random", "reserialize"}; // words of that option
constexpr std::array<const char*, 4> faults{"none", "delay", "reorder", "delay:reorder"};
constexpr std::size_t delays = 1, reorders = 2; // bits of the place in `faults`

void print_table(const seed_search& what, const search_result& result) {
  std::fprintf(stderr, "  %-15s", "faults");
  for (const char* move : moves) std::fprintf(stderr, "%13s", move == moves[0] ? "objects stay" : move);
  for (std::size_t way = 0; way < what.ways.size(); ++way) {
    if (way % moves.size() == 0) std::fprintf(stderr, "\n  %-15s", faults[way / moves.size()]);
    const bool fails = result.failed && result.failed->number % what.ways.size() == way;
    std::fprintf(stderr, "%13s", fails ? "fails" : std::to_string(result.well[way]).c_str());
  }
  std::fprintf(stderr, "\n");
}

} // namespace

seed_search check_of(const sim::world& w) {
  seed_search what;
  what.first = w.seed;
  what.counted[0] = "run";
  what.counted[1] = "runs";
  const bool elsewhere = std::getenv(move_variable) || std::getenv("TERN_OPTIONS"); // says it, too
  for (std::size_t fault = 0; fault < faults.size(); ++fault)
    for (const char* move : moves) {
      sim_way way{w};
      const auto time = [](double said, double otherwise) { return said > 0 ? said : otherwise; };
      way.world.faults.delay = fault & delays ? time(w.faults.delay, sim::default_delay) : 0;
      way.world.faults.reorder = fault & reorders ? time(w.faults.reorder, sim::default_reorder) : 0;
      if (move != moves[0] || elsewhere) way.environment.emplace_back(move_variable, move);
      what.ways.push_back(std::move(way));
    }
  return what;
}

int tell_check(const seed_search& what, const search_result& result) {
  const std::string tried = std::to_string(what.ways[0].world.ranks) +
                            (what.ways[0].world.ranks == 1 ? " rank, whose objects cannot move" : " ranks") + ", " +
                            std::to_string(what.ways.size()) + " combinations of " + std::to_string(what.seeds) +
                            (what.seeds == 1 ? " seed" : " seeds");
  if (result.failed && !result.not_started) {
    const auto number = result.failed->number;
    const auto way = number % what.ways.size();
    tell_failure(
        what, *result.failed,
        "seed " + std::to_string(what.first + number / what.ways.size()) + " with faults " +
            faults[way / moves.size()] + " and objects that " +
            (way % moves.size() == 0 ? "stay" : "move (debug-migrate " + std::string(moves[way % moves.size()]) + ")"));
  }
  if (const auto code = tell_early_end(what, result)) return *code;
  const auto well = result.all_well();
  if (result.failed)
    std::fprintf(stderr, "tern: checked %s; %s did not fail (%.1f s):\n", tried.c_str(), count_of(what, well).c_str(),
                 result.seconds);
  else if (well == what.runs())
    std::fprintf(stderr, "tern: checked %s: %s, none fails (%.1f s)\n", tried.c_str(), count_of(what, well).c_str(),
                 result.seconds);
  else
    std::fprintf(stderr, "tern: checked %s: %llu of %s in %s s, none fails\n", tried.c_str(),
                 static_cast<unsigned long long>(well), count_of(what, what.runs()).c_str(),
                 number_text(what.budget).c_str());
  print_table(what, result);
  return result.failed ? 1 : 0;
}

} // namespace tern::tool

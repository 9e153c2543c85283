// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/course.hpp"

#include <algorithm>

#include <fmt/core.h>

#include <tern/base/error.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/net/rank_local.hpp>

namespace nbody {
namespace {

struct choice {
  const char* option;
  std::string begun, wanted;
};

/// What must stay as it was: it decides the bits, or which pictures there are.
std::vector<choice> choices_of(const settings& begun, const settings& wanted) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); }; // of numbers, all digits
  const auto of = [&](const char* option, const auto& a, const auto& b) { return choice{option, text(a), text(b)}; };
  return {
      of("--model", begun.start.name, wanted.start.name),
      of("--input", begun.input, wanted.input),
      of("--n", begun.start.bodies, wanted.start.bodies),
      of("--seed", begun.start.seed, wanted.start.seed),
      of("--dt", begun.step.value_or(0), wanted.step.value_or(0)),
      of("--softening", begun.softening.value_or(0), wanted.softening.value_or(0)),
      of("--theta", begun.tree.theta, wanted.tree.theta),
      of("--order", begun.order, wanted.order),
      of("--gravity", begun.gravity, wanted.gravity),
      of("--leaf", begun.tree.leaf, wanted.tree.leaf),
      of("--group", begun.tree.group, wanted.tree.group),
      of("--pieces", begun.pieces, wanted.pieces),
      of("--frames", begun.frames, wanted.frames),
  };
}

} // namespace

bool find_course(course& to) {
  if (!tern::restored(here().pieces, to)) return false;
  here().fixed = to.fixed;
  return true;
}

void save_course(const std::string& folder, const course& now) { tern::checkpoint(folder, here().pieces, now); }

std::string restart_folder() { return tern::run_options()[tern::mobile::restart_option]; }

void go_on_as_begun(settings& wanted, const course& from, const std::string& folder) {
  const settings& begun = from.begun;
  std::string others, as_before;
  for (const choice& c : choices_of(begun, wanted)) {
    if (!wanted.is_given(c.option) || c.begun == c.wanted) continue;
    others += fmt::format("{}{} is {} and was {}", others.empty() ? "" : ", ", c.option, c.wanted,
                          c.begun.empty() ? "not given" : c.begun);
    as_before += (as_before.empty() ? "" : " and ") + std::string(c.option);
  }
  if (!others.empty())
    throw tern::error(tern::errc::invalid_argument,
                      fmt::format("the run in {} was begun with other options: {}", folder, others),
                      fmt::format("leave {} out to go on as it was begun, or begin anew without --restart", as_before));
  settings all = begun;
  if (wanted.is_given("--steps")) all.steps = wanted.steps;
  if (all.steps < from.step)
    throw tern::error(tern::errc::invalid_argument,
                      fmt::format("--steps is {}, and the run in {} has done {} already", all.steps, folder, from.step),
                      "give a larger --steps, or leave it out");
  // What concerns this job alone.
  all.out = wanted.out;
  all.json = wanted.json;
  all.checkpoint = wanted.checkpoint;
  all.every = wanted.every;
  all.pictures = wanted.pictures;
  all.vtu = wanted.vtu;
  all.csv = wanted.csv;
  all.verify = wanted.verify;
  all.quiet = wanted.quiet;
  all.given = wanted.given;
  wanted = std::move(all);
}

} // namespace nbody

// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/settings.hpp"

#include <algorithm>
#include <cmath>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <tern/base/error.hpp>

namespace nbody {
namespace {

void need(bool fine, const char* option, double value, const char* what) {
  if (fine) return;
  throw tern::error(tern::errc::invalid_argument, fmt::format("{} is {}: it must be {}", option, value, what),
                    std::string("change ") + option);
}

void check(const settings& s, bool goes_on) {
  need(std::isfinite(s.tree.theta) && s.tree.theta >= 0 && s.tree.theta <= 2, "--theta", s.tree.theta,
       "an opening angle from 0 (direct summation) to 2");
  if (s.step) need(std::isfinite(*s.step) && *s.step > 0, "--dt", *s.step, "a positive time");
  if (s.softening)
    need(std::isfinite(*s.softening) && *s.softening >= 0, "--softening", *s.softening, "a length, or 0");
  need(std::isfinite(s.gravity) && s.gravity > 0, "--gravity", s.gravity, "a positive number");
  need(s.tree.leaf >= 1 && s.tree.leaf <= 1024, "--leaf", s.tree.leaf, "a number of bodies from 1 to 1024");
  need(s.tree.group >= 1 && s.tree.group <= 4096, "--group", s.tree.group, "a number of bodies from 1 to 4096");
  need(s.pieces <= 1'000'000, "--pieces", s.pieces, "at most 1000000");
  need((goes_on && !s.is_given("--steps")) || s.frames <= s.steps + 1, "--frames", static_cast<double>(s.frames),
       "at most one more than --steps");
  if (s.frames > 0 && s.out.empty())
    throw tern::error(tern::errc::invalid_argument,
                      fmt::format("--frames is {}, and there is no folder for pictures", s.frames), "add --out FOLDER");
  need(s.every >= 1, "--every", static_cast<double>(s.every), "a number of steps, at least 1");
  if (s.is_given("--every") && s.checkpoint.empty())
    throw tern::error(tern::errc::invalid_argument,
                      fmt::format("--every is {}, and there is no folder for checkpoints", s.every),
                      "add --checkpoint FOLDER");
}

} // namespace

std::uint32_t settings::pieces_for(std::size_t bodies) const noexcept {
  const std::size_t wanted = pieces ? pieces : std::clamp<std::size_t>(bodies / 4096, 16, 65536);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(wanted, 1, bodies));
}

bool settings::is_given(const std::string& option) const {
  return std::find(given.begin(), given.end(), option) != given.end();
}

command_line parse_command_line(int argc, const char* const* argv, bool goes_on) {
  command_line line;
  settings& s = line.wanted;
  std::string bodies;
  double step = 0, softening = 0;
  bool no_pictures = false, no_vtu = false, no_csv = false;
  CLI::App app("Gravity among many bodies by a tree code (Barnes and Hut), in parallel.");
  app.footer("Example: tern run -n 2 -- nbody --model collision --n 100000 --steps 400 --frames 100 --out galaxies");
  app.add_option("--model", s.start.name, std::string("bodies to begin with: ") + model_names)
      ->check(CLI::IsMember({"collision", "spheres", "stream", "plummer", "cube", "two"}))
      ->capture_default_str();
  app.add_option("--input", s.input, "bodies from a CSV file: mass,x,y,z,vx,vy,vz on each line");
  app.add_option("--n", s.start.bodies, "number of bodies of the model")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", s.start.seed, "of the model's random numbers")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--steps", s.steps, "number of steps")->check(CLI::NonNegativeNumber)->capture_default_str();
  auto* const dt = app.add_option("--dt", step, "length of a step (default: what suits the model; 0.01 for a file)");
  auto* const soft = app.add_option("--softening", softening, "Plummer's length (default: what suits the model)");
  app.add_option("--theta", s.tree.theta, "opening angle of the tree; 0: direct summation")->capture_default_str();
  app.add_option("--order", s.order, "1: monopoles, 2: quadrupoles")->check(CLI::Range(1, 2))->capture_default_str();
  app.add_option("--gravity", s.gravity, "Newton's constant in the units of the bodies")->capture_default_str();
  app.add_option("--leaf", s.tree.leaf, "most bodies of an undivided cell")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--group", s.tree.group, "most bodies that share a walk")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--pieces", s.pieces, "parts of space that ranks share out; 0: one for 4096 bodies, 16 at least")
      ->capture_default_str();
  app.add_option("--out", s.out, "folder for pictures, bodies, energies and summary.json");
  app.add_option("--frames", s.frames, "pictures of a film, evenly through the run")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--json", s.json, "file for the summary");
  app.add_flag("--no-pictures", no_pictures, "write no PNG and no film");
  app.add_flag("--no-vtu", no_vtu, "write no VTU file");
  app.add_flag("--no-csv", no_csv, "write no file of bodies");
  app.add_flag("--verify", s.verify, "compare the last forces with direct summation, of 500 bodies");
  app.add_flag("--quiet", s.quiet, "no progress bar");
  app.add_option("--checkpoint", s.checkpoint, "folder in which the run is saved now and then");
  app.add_option("--every", s.every, "steps between two checkpoints; the last step is saved, too")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  std::string restart; // main() has made Tern's option of it
  app.add_option("--restart", restart,
                 "folder of checkpoints to go on from, on any number of ranks; bodies, options of the method, --steps "
                 "and --frames are as they were");
  if (!apps::parse(app, argc, argv, "nbody", line)) return line;
  for (const CLI::Option* o : app.get_options())
    if (o->count() > 0) s.given.push_back(o->get_name());
  if (*dt) s.step = step;
  if (*soft) s.softening = softening;
  s.pictures = !no_pictures;
  s.vtu = !no_vtu;
  s.csv = !no_csv;
  check(s, goes_on);
  return line;
}

} // namespace nbody

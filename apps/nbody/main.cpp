// SPDX-License-Identifier: Apache-2.0
/// \file
/// Gravity among many bodies by a tree code (Barnes and Hut 1986), on many ranks. Space is cut into
/// pieces, which are elements of a mobile array and move to where workers have time
/// (job/piece.hpp).

#include "apps/common/restart_option.hpp"
#include "apps/common/text_file.hpp"
#include "apps/nbody/bodies/csv.hpp"
#include "apps/nbody/job/course.hpp"
#include "apps/nbody/job/job.hpp"
#include "apps/nbody/job/report.hpp"
#include "apps/nbody/job/settings.hpp"
#include "apps/nbody/output/film.hpp"
#include "apps/nbody/output/picture.hpp"
#include "apps/nbody/output/vtu.hpp"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

namespace {

constexpr int frame_pixels = 720, picture_pixels = 1200;

struct preparation {
  nbody::settings wanted;
  nbody::initial start;
};

// Rank 0 only. \return an exit code if there is nothing to do, else -1.
int prepare(int argc, char** argv, preparation& p) {
  const auto line = nbody::parse_command_line(argc, argv, !nbody::restart_folder().empty());
  if (line.stop) {
    std::fputs(line.text.c_str(), line.code == 0 ? stdout : stderr);
    return line.code;
  }
  p.wanted = line.wanted;
  if (!p.wanted.out.empty()) apps::check_writable(p.wanted.out);
  if (!p.wanted.json.empty()) apps::check_file_writable(p.wanted.json);
  if (!p.wanted.checkpoint.empty()) apps::check_writable(p.wanted.checkpoint, "folder for checkpoints", "--checkpoint");
  if (!nbody::restart_folder().empty()) return -1; // its bodies are there
  if (p.wanted.input.empty())
    p.start = nbody::make(p.wanted.start);
  else
    p.start.all = nbody::read_csv(p.wanted.input);
  return -1;
}

// Rank 0: the film goes on with the pictures that are made.
void go_on_filming(nbody::film& moving, const nbody::course& from, bool filmed, const nbody::settings& s) {
  const auto missing = moving.go_on(from.view, filmed ? from.frame : 0);
  if (missing > 0)
    std::fprintf(stderr, "nbody: of the %llu pictures made before step %llu, %llu are not in %s: the film lacks them\n",
                 static_cast<unsigned long long>(from.frame), static_cast<unsigned long long>(from.step),
                 static_cast<unsigned long long>(missing), s.out.c_str());
}

std::string in(const nbody::settings& s, const char* name) { return (std::filesystem::path(s.out) / name).string(); }

// Rank 0; the others only answer.
void output(const preparation& p, const nbody::finished_run& run) {
  const auto& s = p.wanted;
  std::optional<double> error;
  if (s.verify || !s.out.empty()) {
    nbody::bodies all;
    nbody::accelerations pull;
    std::vector<std::uint16_t> rank;
    for (const nbody::extract& part : nbody::gather_bodies(run)) {
      all.append(part.all);
      const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      append(pull.x, part.pull.x);
      append(pull.y, part.pull.y);
      append(pull.z, part.pull.z);
      append(pull.potential, part.pull.potential);
      rank.resize(all.size(), static_cast<std::uint16_t>(part.rank));
    }
    if (s.verify) error = nbody::error_of_forces(all, pull, run, s);
    if (!s.out.empty() && s.csv) nbody::write_csv(in(s, "bodies.csv"), all);
    if (!s.out.empty() && s.vtu) nbody::write_vtu(in(s, "bodies.vtu"), all, pull, rank);
    if (!s.out.empty() && s.pictures) {
      const std::vector<float> x(all.x.begin(), all.x.end()), y(all.y.begin(), all.y.end()),
          z(all.z.begin(), all.z.end());
      const auto seen = nbody::camera_for(x, y, z, all.label, picture_pixels);
      nbody::sky above(seen);
      above.add(x, y, z, all.label);
      nbody::write_png(in(s, "bodies.png"), above.develop(above.bright()), seen,
                       fmt::format("{} bodies, t = {:.2f}", all.size(), run.steps.back().time));
    }
  }
  const std::string json = nbody::summary_json(run, s, error);
  if (!s.json.empty()) apps::write_text(s.json, json);
  if (!s.out.empty()) {
    apps::write_text(in(s, "summary.json"), json);
    apps::write_text(in(s, "energies.csv"), nbody::energies_csv(run));
  }
  nbody::print_table(run, s, error);
}

// What went wrong with what the user gave us: no need for the place in our source.
void tell(const tern::error& e) {
  std::fprintf(stderr, "nbody: %s%s%s\n", e.message().c_str(), e.hint().empty() ? "" : "\n  ", e.hint().c_str());
}

// On rank 0; all get the exit code, or -1.
template <class F> int agree(F what) {
  int code = -1;
  if (tern::rank() == 0) {
    try {
      code = what();
    } catch (const tern::error& e) {
      tell(e);
      code = 2;
    }
  }
  return tern::broadcast(code);
}

int work(int argc, char** argv) {
  preparation p;
  int code = agree([&] { return prepare(argc, argv, p); });
  if (code >= 0) return code;
  nbody::course from;
  bool goes_on = false;
  try {
    goes_on = nbody::find_course(from);
  } catch (const tern::error& e) { // on all ranks
    if (tern::rank() == 0) tell(e);
    return 2;
  }
  code = agree([&] {
    if (goes_on) nbody::go_on_as_begun(p.wanted, from, nbody::restart_folder());
    return -1;
  });
  if (code >= 0) return code;
  nbody::film moving(p.wanted.out, frame_pixels);
  const bool filmed = p.wanted.frames > 0 && p.wanted.pictures && !p.wanted.out.empty();
  if (goes_on && tern::rank() == 0) go_on_filming(moving, from, filmed, p.wanted);
  const auto on_frame = [&](std::uint64_t frame, double time, const nbody::snapshot& s) {
    if (filmed) moving.add(frame, time, s.x, s.y, s.z, s.label);
    return moving.view();
  };
  const auto run = nbody::run_job(p.start, p.wanted, on_frame, goes_on ? &from : nullptr);
  if (tern::rank() != 0) return 0;
  try {
    if (filmed && !moving.finish()) std::puts("nbody: no film.webp, only its pictures: built without libwebp");
    output(p, run);
  } catch (const tern::error& e) {
    if (e.code() != tern::errc::io) throw;
    tell(e);
    return 1;
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  apps::restart_line line(argc, argv);
  return tern::run(line.count(), line.words(), work);
}

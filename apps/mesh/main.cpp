// SPDX-License-Identifier: GPL-3.0-or-later
/// \file
/// The coastal mesher: a conforming triangle mesh of a region's sea, made by many ranks at once.
/// Rank 0 reads and cuts; the subdomains are mobile objects (group.hpp) that mesh themselves and
/// agree on their borders.

#include "apps/common/restart_option.hpp"
#include "apps/common/text_file.hpp"
#include "apps/mesh/domain/domain.hpp"
#include "apps/mesh/domain/input.hpp"
#include "apps/mesh/job/job.hpp"
#include "apps/mesh/job/report.hpp"
#include "apps/mesh/job/settings.hpp"
#include "apps/mesh/output/picture.hpp"
#include "apps/mesh/output/vtu.hpp"
#include "apps/mesh/refine/check_mesh.hpp"
#include "apps/mesh/refine/sequential.hpp"

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

namespace {

struct preparation {
  mesh::settings wanted;
  mesh::domain sea;
  mesh::phase_times times;
};

// Rank 0 only. \return an exit code if there is nothing to mesh, else -1.
int prepare(int argc, char** argv, preparation& p) {
  tern::stopwatch clock;
  const auto line = mesh::parse_command_line(argc, argv);
  if (line.stop) {
    std::fputs(line.text.c_str(), line.code == 0 ? stdout : stderr);
    return line.code;
  }
  p.wanted = line.wanted;
  if (!p.wanted.out.empty()) apps::check_writable(p.wanted.out);
  if (!p.wanted.json.empty()) apps::check_file_writable(p.wanted.json);
  p.sea = mesh::make_domain(mesh::read_land(p.wanted.input), p.wanted.box);
  p.times.input = clock.seconds();
  if (!p.wanted.sequential) return -1;
  clock.restart();
  const mesh::size_field sizes(p.sea, p.wanted.sizes);
  p.times.sizing = clock.seconds();
  const auto result = mesh::run_cgal(p.sea, sizes);
  const std::string json = mesh::sequential_json(result, p.sea, p.wanted, p.times);
  if (!p.wanted.json.empty())
    apps::write_text(p.wanted.json, json);
  else
    std::fputs(json.c_str(), stdout);
  return 0;
}

// Rank 0 has the mesh; the others only answer.
int output(const preparation& p, mesh::meshed& job) {
  tern::stopwatch clock;
  const auto& s = p.wanted;
  const auto in = [&](const char* name) { return (std::filesystem::path(s.out) / name).string(); };
  const bool drawn = !s.out.empty() && (s.pictures || s.vtu);
  bool sound = mesh::conforms(job, p.sea);
  if (drawn || s.verify) {
    std::vector<mesh::extracted> parts;
    const auto whole = mesh::gather_mesh(job, s.verify ? &parts : nullptr);
    if (s.verify) {
      const auto check = mesh::check_mesh(p.sea, parts);
      std::printf("  verified: %s\n", check.describe().c_str());
      sound = sound && check.conforms();
    }
    if (drawn && s.vtu) mesh::write_vtu(in("mesh.vtu"), whole, p.sea);
    if (drawn && s.pictures) {
      mesh::picture_style style;
      mesh::write_picture(in("mesh.png"), whole, p.sea, style);
      style.colour = mesh::colour_by::size;
      mesh::write_picture(in("mesh_size.png"), whole, p.sea, style);
    }
  }
  job.times.output = clock.seconds();
  job.measure_peak();
  const std::string json = mesh::summary_json(job, p.sea, s);
  if (!s.json.empty()) apps::write_text(s.json, json);
  if (!s.out.empty()) apps::write_text(in("summary.json"), json);
  mesh::print_table(job, p.sea, s);
  if (!sound)
    std::fputs("mesh: the mesh does not keep its promises (see above): please report this with the summary\n", stderr);
  return sound ? 0 : 1;
}

// What went wrong with what the user gave us: no need for the place in our source.
void tell(const tern::error& e) {
  std::fprintf(stderr, "mesh: %s%s%s\n", e.message().c_str(), e.hint().empty() ? "" : "\n  ", e.hint().c_str());
}

int work(int argc, char** argv) {
  preparation p;
  int code = -1;
  if (tern::rank() == 0) {
    try {
      code = prepare(argc, argv, p);
    } catch (const tern::error& e) {
      tell(e);
      code = 2;
    }
  }
  code = tern::broadcast(code);
  if (code >= 0) return code;
  auto job = mesh::run_job(p.sea, p.wanted, p.times);
  if (tern::rank() != 0) return 0;
  try {
    return output(p, job);
  } catch (const tern::error& e) {
    if (e.code() != tern::errc::io) throw;
    tell(e); // the mesh is made, but a file cannot be written
    return 1;
  }
}

} // namespace

int main(int argc, char** argv) {
  apps::restart_line line(argc, argv);
  return tern::run(line.count(), line.words(), work);
}

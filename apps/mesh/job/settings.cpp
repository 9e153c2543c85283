// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/job/settings.hpp"

#include <filesystem>
#include <map>
#include <sstream>
#include <vector>

#include <CLI/CLI.hpp>

#include <tern/base/error.hpp>

namespace mesh {

std::string shipped_land() {
  std::error_code failed;
  // An installed program finds its data beside itself, wherever the prefix was moved.
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  for (const auto& folder : {self / ".." / MESH_DATA_FROM_BIN, std::filesystem::path(MESH_DATA_BUILD)}) {
    const auto path = folder / "land-50m.json";
    if (std::filesystem::exists(path, failed)) return path.lexically_normal().string();
  }
  throw tern::error(tern::errc::not_found,
                    "the shipped land polygons (land-50m.json) are not where they were built or installed",
                    "name a GeoJSON or TopoJSON file with --input");
}

command_line parse_command_line(int argc, const char* const* argv) {
  command_line line;
  settings& s = line.wanted;
  std::string box, work = "count";
  bool no_pictures = false, no_vtu = false;
  CLI::App app("Meshes the sea of a region with triangles that grow with their distance from the coast, in parallel.");
  app.footer("Example: tern run -n 2 -- mesh --bbox=-10.5,51,-5,55.5 --hmin 0.3 --out ireland");
  app.add_option("--input", s.input,
                 "land polygons, GeoJSON or TopoJSON (default: the shipped Natural Earth 1:50m land)");
  app.add_option("--bbox", box, "region, degrees: west,south,east,north (default 19,30.5,36.8,41.2)");
  app.add_option("--hmin", s.sizes.h_min, "longest edge at the coast, km")->capture_default_str();
  app.add_option("--hmax", s.sizes.h_max, "longest edge far from it, km")->capture_default_str();
  app.add_option("--grade", s.sizes.grade, "growth of the longest edge for each km from the coast")
      ->capture_default_str();
  app.add_option("--estimate", work, "how subdomains' work is estimated when they are cut and placed: count or area")
      ->check(CLI::IsMember({"count", "area"}))
      ->capture_default_str();
  app.add_option("--group-size", s.triangles_per_group, "triangles aimed at in each subdomain")
      ->capture_default_str()
      ->check(CLI::Range(100.0, 1e9));
  app.add_option("--groups", s.groups, "number of subdomains; 0: from --group-size")->capture_default_str();
  app.add_option("--out", s.out, "folder for mesh.png, mesh_size.png, mesh.vtu and summary.json");
  app.add_option("--json", s.json, "file for the summary");
  app.add_flag("--no-pictures", no_pictures, "write no PNG files");
  app.add_flag("--no-vtu", no_vtu, "write no VTU file");
  app.add_flag("--verify", s.verify, "gather the mesh and check every edge of it");
  app.add_flag("--sequential", s.sequential, "mesh with one call of CGAL instead, on one rank, to compare");
  app.add_flag("--quiet", s.quiet, "no progress bar");
  app.add_option("--checkpoint", s.checkpoint, "folder in which what is meshed so far is saved now and then");
  app.add_option("--every", s.every, "subdomains that are meshed between two checkpoints")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000'000}));
  std::string restart; // main() has made Tern's option of it
  app.add_option("--restart", restart,
                 "folder of checkpoints to go on from, on any number of ranks; with the other options as they were");
  if (!apps::parse(app, argc, argv, "mesh", line)) return line;
  s.pictures = !no_pictures;
  s.vtu = !no_vtu;
  s.work = work == "area" ? estimate::area : estimate::count;
  if (!box.empty()) {
    std::vector<double> numbers;
    std::istringstream in(box);
    for (std::string word; std::getline(in, word, ',');) {
      char* end = nullptr;
      numbers.push_back(std::strtod(word.c_str(), &end));
      if (word.empty() || *end) numbers.resize(5); // not a number: refused below
    }
    if (numbers.size() != 4)
      throw tern::error(tern::errc::invalid_argument, "--bbox '" + box + "' is not four numbers",
                        "give west,south,east,north in degrees, e.g. --bbox=19,30.5,36.8,41.2");
    s.box = {numbers[0], numbers[1], numbers[2], numbers[3]};
  }
  static_cast<void>(projection(s.box)); // checks it
  s.sizes.check();
  if (s.input.empty()) s.input = shipped_land();
  return line;
}

} // namespace mesh

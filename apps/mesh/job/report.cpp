// SPDX-License-Identifier: GPL-3.0-or-later
#include "apps/mesh/job/report.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>

namespace mesh {
namespace {

// Points by their coordinates: open addressing over indices into the point array, so that a million
// points cost 8 MB.
class point_index {
public:
  point_index(std::vector<point>& points, std::size_t expected)
      : points_(points), slots_(std::bit_ceil(2 * expected + 16), empty) {}

  std::uint32_t operator()(const point& p) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash(p) & mask;; at = (at + 1) & mask) {
      if (slots_[at] == empty) {
        slots_[at] = static_cast<std::uint32_t>(points_.size());
        points_.push_back(p);
        return slots_[at];
      }
      if (points_[slots_[at]] == p) return slots_[at];
    }
  }

private:
  static constexpr std::uint32_t empty = 0xffffffffu;
  static std::size_t hash(const point& p) {
    std::uint64_t h = std::bit_cast<std::uint64_t>(p.x) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
    h = (h + std::bit_cast<std::uint64_t>(p.y)) * 0xbf58476d1ce4e5b9ull;
    return static_cast<std::size_t>(h ^ (h >> 29));
  }
  std::vector<point>& points_;
  std::vector<std::uint32_t> slots_;
};

double area_error(const meshed& job, const domain& sea) {
  return std::abs((job.total.area - sea.area) + job.total.area_error) / sea.area;
}

nlohmann::ordered_json head(const domain& sea, const settings& s) {
  nlohmann::ordered_json j;
  j["program"] = "mesh";
  j["input"] = s.input;
  j["bbox"] = {s.box.west, s.box.south, s.box.east, s.box.north};
  j["h_min_km"] = s.sizes.h_min;
  j["h_max_km"] = s.sizes.h_max;
  j["grade"] = s.sizes.grade;
  j["coast_segments"] = sea.coast;
  j["polygon_area_km2"] = sea.area;
  return j;
}

nlohmann::ordered_json phases(const phase_times& t) {
  return {{"input", t.input},           {"sizing", t.sizing}, {"decompose", t.decompose},
          {"distribute", t.distribute}, {"refine", t.refine}, {"exchange", t.exchange},
          {"statistics", t.statistics}, {"output", t.output}, {"meshing", t.meshing()}};
}

} // namespace

gathered_mesh gather_mesh(const meshed& job, std::vector<extracted>* parts) {
  gathered_mesh whole;
  if (tern::rank() != 0) return whole;
  whole.triangles.reserve(job.total.triangles);
  whole.rank.reserve(job.total.triangles);
  whole.group.reserve(job.total.triangles);
  whole.points.reserve(job.total.points);
  point_index index(whole.points, job.total.points);
  // Two at a time: one travels while the other is sorted in, and only two are held twice.
  std::deque<tern::future<extracted>> coming;
  std::vector<std::uint32_t> number;
  for (std::size_t g = 0, asked = 0; g < job.groups.size(); ++g) {
    for (; asked < job.groups.size() && asked < g + 2; ++asked)
      coming.push_back(tern::call<&group::extract>(job.groups[asked]));
    extracted part = coming.front().get();
    coming.pop_front();
    number.clear();
    for (const auto& p : part.points) number.push_back(index(p));
    for (const auto& t : part.triangles) whole.triangles.push_back({number[t[0]], number[t[1]], number[t[2]]});
    whole.rank.resize(whole.triangles.size(), static_cast<std::uint16_t>(job.owners[g]));
    whole.group.resize(whole.triangles.size(), static_cast<std::uint32_t>(g));
    if (parts) parts->push_back(std::move(part));
  }
  return whole;
}

bool conforms(const meshed& job, const domain& sea) {
  return job.total.border_hash == 0 && job.total.below_20_artificial == 0 && area_error(job, sea) <= 1e-9;
}

void print_table(const meshed& job, const domain& sea, const settings& wanted) {
  const auto& t = job.total;
  const auto line = [](const char* name, const std::string& value) { fmt::print("  {:<18} {}\n", name, value); };
  fmt::print("\n");
  line("triangles", fmt::format("{} in {} subdomains", t.triangles, job.groups.size()));
  line("smallest angle", fmt::format("{:.2f} degrees; below 20: {} at the coast's own sharp angles, {} elsewhere",
                                     t.smallest_angle, t.below_20_input, t.below_20_artificial));
  for (const auto& p : t.places) {
    const auto at = sea.proj.to_degrees(p.where);
    line("", fmt::format("  {:.2f} degrees at {:.4f} E {:.4f} N{}", p.degrees, at.x, at.y,
                         p.artificial ? " (our cut)" : ""));
  }
  line("area", fmt::format("{:.4f} km2, the polygons' to {:.1e}", t.area + t.area_error, area_error(job, sea)));
  line("borders", fmt::format("{} edges between subdomains, {}; {} rounds for {} splits", t.border_edges / 2,
                              t.border_hash == 0 ? "all conforming" : "NOT CONFORMING", job.rounds, t.splits / 2));
  line("time", fmt::format("{:.2f} s meshing (cut {:.2f}, refine {:.2f}, exchange {:.2f}); input and sizing {:.2f}",
                           job.times.meshing(), job.times.decompose + job.times.distribute, job.times.refine,
                           job.times.exchange, job.times.input + job.times.sizing));
  line("memory", fmt::format("{:.0f} MiB at most, all ranks together", job.peak_mib()));
  line("imbalance", fmt::format("{:.3f} (most busy rank over mean; estimate by {})", job.imbalance(),
                                wanted.work == estimate::area ? "area" : "count"));
  line("balancing", job.policy == "none"
                        ? "none"
                        : fmt::format("{}: {} of {} subdomains have moved", job.policy, job.moved, job.groups.size()));
  fmt::print("\n  {:>4} {:>11} {:>8} {:>11} {:>9}\n", "rank", "subdomains", "arrived", "triangles", "busy s");
  for (std::size_t r = 0; r < job.ranks.size(); ++r)
    fmt::print("  {:>4} {:>11} {:>8} {:>11} {:>9.3f}\n", r, job.ranks[r].groups, job.ranks[r].arrived,
               job.ranks[r].triangles, job.ranks[r].busy);
  fmt::print("\n");
  std::fflush(stdout);
}

std::string summary_json(const meshed& job, const domain& sea, const settings& wanted) {
  const auto& t = job.total;
  auto j = head(sea, wanted);
  j["ranks"] = job.ranks.size();
  j["estimate"] = wanted.work == estimate::area ? "area" : "count";
  j["subdomains"] = job.groups.size();
  j["coarse_triangles"] = job.coarse_triangles;
  j["triangles"] = t.triangles;
  j["estimated_triangles"] = job.estimated_triangles;
  j["hash"] = fmt::format("{:016x}", t.hash);
  j["conforming"] = conforms(job, sea);
  j["area_km2"] = t.area + t.area_error;
  j["area_relative_error"] = area_error(job, sea);
  j["smallest_angle"] = t.smallest_angle;
  j["below_20"] = {{"input", t.below_20_input}, {"artificial", t.below_20_artificial}};
  j["worst_angles"] = nlohmann::ordered_json::array();
  for (const auto& p : t.places) {
    const auto at = sea.proj.to_degrees(p.where);
    j["worst_angles"].push_back({{"longitude", at.x},
                                 {"latitude", at.y},
                                 {"degrees", p.degrees},
                                 {"cause", p.artificial ? "artificial" : "input"}});
  }
  j["sharp_input_angles"] = job.joints.size();
  j["border_edges"] = t.border_edges / 2;
  j["borders_agree"] = t.border_hash == 0;
  j["exchange_rounds"] = job.rounds;
  j["border_splits"] = t.splits / 2;
  j["seconds"] = phases(job.times);
  j["imbalance"] = job.imbalance();
  j["balance"] = job.policy;
  j["moved_subdomains"] = job.moved;
  j["peak_mib"] = job.peak_mib();
  j["by_rank"] = nlohmann::ordered_json::array();
  for (const auto& r : job.ranks)
    j["by_rank"].push_back({{"subdomains", r.groups},
                            {"triangles", r.triangles},
                            {"arrived", r.arrived},
                            {"busy_seconds", r.busy},
                            {"peak_mib", r.peak_mib}});
  return j.dump(2) + "\n";
}

std::string sequential_json(const sequential_result& result, const domain& sea, const settings& wanted,
                            const phase_times& times) {
  auto j = head(sea, wanted);
  j["sequential"] = true;
  j["triangles"] = result.triangles;
  j["area_km2"] = result.area;
  j["smallest_angle"] = result.smallest_angle;
  auto seconds = phases(times);
  seconds["meshing"] = result.seconds;
  j["seconds"] = seconds;
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  j["peak_mib"] = static_cast<double>(use.ru_maxrss) / 1024;
  return j.dump(2) + "\n";
}

} // namespace mesh

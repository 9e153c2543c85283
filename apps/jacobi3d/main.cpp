// SPDX-License-Identifier: Apache-2.0
/// \file
/// Heat on a grid of three dimensions by Jacobi's iteration, on many ranks and any devices. The
/// grid is cut into blocks, which are elements of a mobile array (job/block.hpp).

#include "apps/common/text_file.hpp"
#include "apps/jacobi3d/grid/serial.hpp"
#include "apps/jacobi3d/job/job.hpp"
#include "apps/jacobi3d/job/report.hpp"
#include "apps/jacobi3d/job/settings.hpp"
#include "apps/jacobi3d/output/pictures.hpp"
#include "apps/jacobi3d/output/vti.hpp"

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

namespace {

using jacobi3d::settings;

// Rank 0 only. \return an exit code if there is nothing to do, else -1.
int prepare(int argc, char** argv, settings& wanted) {
  const auto line = jacobi3d::parse_command_line(argc, argv);
  if (line.stop) {
    std::fputs(line.text.c_str(), line.code == 0 ? stdout : stderr);
    return line.code;
  }
  wanted = line.wanted;
  if (!wanted.out.empty()) apps::check_writable(wanted.out);
  if (!wanted.json.empty()) apps::check_file_writable(wanted.json);
  return -1;
}

std::string in(const settings& s, const char* name) { return (std::filesystem::path(s.out) / name).string(); }

// Which rank had each cell last.
std::vector<std::uint16_t> rank_of_cells(const jacobi3d::plan& about, const std::vector<int>& rank_of_block) {
  std::vector<std::uint16_t> all;
  const jacobi3d::cells size = about.block_size(), &b = about.blocks;
  for (std::int64_t z = 0; z < about.n[2]; ++z)
    for (std::int64_t y = 0; y < about.n[1]; ++y)
      for (std::int64_t x = 0; x < about.n[0]; ++x)
        all.push_back(static_cast<std::uint16_t>(
            rank_of_block[static_cast<std::size_t>((z / size[2] * b[1] + y / size[1]) * b[0] + x / size[0])]));
  return all;
}

template <class T> void draw(const jacobi3d::finished_run<T>& run, const settings& s, const std::vector<T>& values) {
  const jacobi3d::plan& about = run.about;
  if (s.vti) jacobi3d::write_vti(in(s, "grid.vti"), about.n, values, rank_of_cells(about, run.rank_of_block));
  if (!s.pictures) return;
  jacobi3d::write_slice(in(s, "slice.png"), about, {values.begin(), values.end()}, run.iterations);
  jacobi3d::write_course(in(s, "course.png"), about, run.history, run.seconds);
}

// Rank 0; the others only answer. \return the exit code.
template <class T> int output(const jacobi3d::finished_run<T>& run, const settings& s) {
  jacobi3d::run_figures figures = jacobi3d::figures_of(run);
  std::vector<T> values;
  if (s.verify || (!s.out.empty() && (s.vti || s.pictures))) values = jacobi3d::gather(run);
  if (s.verify)
    figures.verified = jacobi3d::run_serially<T>(run.about.n, run.iterations, run.about.alpha).values == values;
  if (!s.out.empty()) draw(run, s, values);
  const std::string json = jacobi3d::summary_json(figures, s);
  if (!s.json.empty()) apps::write_text(s.json, json);
  if (!s.out.empty()) apps::write_text(in(s, "summary.json"), json);
  if (!s.quiet) jacobi3d::print_table(figures, s);
  if (figures.verified.value_or(true)) return 0;
  std::fprintf(stderr, "jacobi3d: the result is not that of plain loops\n");
  return 1;
}

// What went wrong with what the user gave us: no need for the place in our source.
void tell(const tern::error& e) {
  std::fprintf(stderr, "jacobi3d: %s%s%s\n", e.message().c_str(), e.hint().empty() ? "" : "\n  ", e.hint().c_str());
}

template <class T> int compute(const settings& wanted) {
  const auto run = jacobi3d::run_job<T>(wanted);
  if (tern::rank() != 0) return 0;
  try {
    return output(run, wanted);
  } catch (const tern::error& e) {
    if (e.code() != tern::errc::io) throw;
    tell(e);
    return 1;
  }
}

int work(int argc, char** argv) {
  settings wanted;
  int code = -1;
  if (tern::rank() == 0) {
    try {
      code = prepare(argc, argv, wanted);
    } catch (const tern::error& e) {
      tell(e);
      code = 2;
    }
  }
  const auto [stop, single] = tern::broadcast(std::pair(code, wanted.single));
  if (stop >= 0) return stop;
  return single ? compute<float>(wanted) : compute<double>(wanted);
}

} // namespace

int main(int argc, char** argv) {
  jacobi3d::device_line line(argc, argv);
  return tern::run(line.count(), line.words(), work);
}

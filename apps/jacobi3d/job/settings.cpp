// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/job/settings.hpp"

#include "apps/jacobi3d/kernel/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <tern/base/error.hpp>
#include <tern/hetero/devices.hpp>

namespace jacobi3d {
namespace {

struct place {
  const char* name;
  const char* devices; ///< for hetero-devices
  int kind;            ///< of plan
};
constexpr int kind_number(tern::hetero::device_kind k) { return static_cast<int>(k); }
constexpr place places[] = {
    {"host", "host", kind_number(tern::hetero::device_kind::host)},
    {"opencl", "opencl", kind_number(tern::hetero::device_kind::opencl)},
    {"cuda", "cuda", kind_number(tern::hetero::device_kind::cuda)},
    {"fake", "simulated", kind_number(tern::hetero::device_kind::simulated)},
    {"mix", "all", -1},
};
const place* place_named(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(places), std::end(places), [&](const place& p) { return p.name == name; });
  return found == std::end(places) ? nullptr : found;
}

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw tern::error(tern::errc::invalid_argument, what, hint);
}
void need(bool fine, const char* option, double value, const char* what) {
  if (!fine) refuse(fmt::format("{} is {}: it must be {}", option, value, what), std::string("change ") + option);
}

std::string text_of(const cells& n) { return fmt::format("{},{},{}", n[0], n[1], n[2]); }

/// One number is for all three dimensions.
cells three_of(const std::vector<std::int64_t>& given, const char* option) {
  if (given.size() == 1) return {given[0], given[0], given[0]};
  if (given.size() == 3) return {given[0], given[1], given[2]};
  refuse(fmt::format("{} has {} numbers: it takes X,Y,Z, or one for all three", option, given.size()),
         std::string("change ") + option);
}

void check(const settings& s) {
  constexpr const char* axes = "xyz";
  for (std::size_t d = 0; d < 3; ++d) {
    if (s.n[d] < 1 || s.n[d] > 100000)
      refuse(fmt::format("--n is {}: a grid has 1 to 100000 cells along {}", text_of(s.n), axes[d]), "change --n");
    if (s.blocks[d] < 1)
      refuse(fmt::format("--blocks is {}: there is at least one block along {}", text_of(s.blocks), axes[d]),
             "change --blocks");
    if (s.blocks[d] > s.n[d])
      refuse(fmt::format("--blocks is {}, and --n is {}: along {} there are more blocks than cells", text_of(s.blocks),
                         text_of(s.n), axes[d]),
             "give fewer blocks with --blocks, or more cells with --n");
    if (s.n[d] % s.blocks[d] != 0)
      refuse(fmt::format("--blocks is {}, and --n is {}: {} blocks do not divide {} cells along {}", text_of(s.blocks),
                         text_of(s.n), s.blocks[d], s.n[d], axes[d]),
             "blocks are all of one size: give divisors of the numbers of cells");
  }
  const cells size = s.make_plan().block_size();
  if (count(size) > std::numeric_limits<std::int32_t>::max() - 2 * field_pad)
    refuse(fmt::format("a block of {} cells is too large: it may have 2^31 - 17 at most", text_of(size)),
           "give more blocks with --blocks");
  need(s.iterations >= 0, "--iterations", static_cast<double>(s.iterations), "a number of iterations, or 0");
  need(s.alpha >= 0 && s.alpha <= 1, "--alpha", s.alpha, "a weight from 0 to 1");
  need(std::isfinite(s.tolerance) && s.tolerance >= 0, "--tolerance", s.tolerance, "a positive number, or 0 for none");
  need(s.norm_every >= 0, "--norm-every", static_cast<double>(s.norm_every),
       "a number of iterations, or 0 for no norm");
  need(s.depth >= 1, "--depth", static_cast<double>(s.depth), "a number of layers, at least 1");
  for (std::size_t d = 0; d < 3; ++d)
    if (s.depth > size[d])
      refuse(fmt::format("--depth is {}, and blocks have {} cells along {}: layers would reach beyond a neighbour",
                         s.depth, size[d], axes[d]),
             "give fewer blocks with --blocks, or a smaller --depth");
  if (s.norm_every % s.depth != 0)
    refuse(fmt::format("--norm-every is {}, which is no multiple of --depth, {}", s.norm_every, s.depth),
           "change --norm-every, or give 0 for no norm");
  need(s.ahead >= 0, "--ahead", static_cast<double>(s.ahead), "a number of iterations, or 0");
  need(s.balance_every >= 0, "--balance-every", static_cast<double>(s.balance_every), "a number of iterations, or 0");
  if (s.balance_every % s.depth != 0)
    refuse(fmt::format("--balance-every is {}, which is no multiple of --depth, {}", s.balance_every, s.depth),
           "change --balance-every, or give 0 for no such waits");
  if (s.tolerance > 0 && s.balance_every > 0)
    refuse(fmt::format("--tolerance is {}, and --balance-every is {}: only one of the two can say how far blocks go",
                       s.tolerance, s.balance_every),
           "leave one of the two out");
  if (s.tolerance > 0 && s.norm_every == 0)
    refuse(fmt::format("--tolerance is {}, and --norm-every is 0: nothing would look at it", s.tolerance),
           "give --norm-every a number of iterations");
}

} // namespace

plan settings::make_plan() const {
  plan p;
  p.n = n;
  p.blocks = blocks;
  p.alpha = alpha;
  p.tolerance = tolerance;
  p.iterations = iterations;
  p.norm_every = norm_every;
  p.balance_every = balance_every;
  p.depth = depth;
  p.ahead = ahead;
  const place* const found = place_named(on);
  p.kind = found ? found->kind : -1;
  p.history = !out.empty() && pictures;
  return p;
}

command_line parse_command_line(int argc, const char* const* argv) {
  command_line line;
  settings& s = line.wanted;
  std::vector<std::int64_t> n, blocks;
  bool no_pictures = false, no_vti = false;
  std::vector<std::string> names;
  for (const place& p : places) names.emplace_back(p.name);
  CLI::App app("Heat on a grid of three dimensions by Jacobi's iteration, in parallel, on CPUs and devices.");
  app.footer("Example: tern run -n 2 -- jacobi3d --n 128 --blocks 2,2,4 --iterations 400 --out heat");
  app.add_option("--n", n, "cells along x, y, z; one number: of a cube (64)")->delimiter(',');
  app.add_option("--blocks", blocks, "blocks along x, y, z, which divide the cells; one number: along each (2)")
      ->delimiter(',');
  app.add_option("--iterations", s.iterations, "number of iterations")->capture_default_str();
  app.add_option("--alpha", s.alpha, "weight of a cell itself; its neighbours share the rest")->capture_default_str();
  app.add_option("--balance-every", s.balance_every,
                 "iterations after which all wait and --tern-balance moves blocks; 0: it moves them at any time")
      ->capture_default_str();
  app.add_option("--norm-every", s.norm_every, "iterations from one norm to the next; 0: none")->capture_default_str();
  app.add_option("--tolerance", s.tolerance, "the run ends one norm after the first that is not larger; 0: never")
      ->capture_default_str();
  app.add_option("--on", s.on, "where kernels run: host, opencl, cuda, fake (simulated devices) or mix (all)")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  app.add_option("--depth", s.depth, "layers that a message brings; so many iterations follow without another")
      ->capture_default_str();
  app.add_option("--ahead", s.ahead,
                 "iterations that messages may be ahead of kernels; 0: none is sent before its data")
      ->capture_default_str();
  app.add_flag("--float", s.single, "cells are floats, not doubles");
  app.add_option("--out", s.out, "folder for pictures, grid.vti and summary.json");
  app.add_option("--json", s.json, "file for the summary");
  app.add_flag("--no-pictures", no_pictures, "write no PNG");
  app.add_flag("--no-vti", no_vti, "write no VTI file");
  app.add_flag("--verify", s.verify, "compare all bits with those of plain loops on one thread");
  app.add_flag("--quiet", s.quiet, "no table");
  if (!apps::parse(app, argc, argv, "jacobi3d", line)) return line;
  if (!n.empty()) s.n = three_of(n, "--n");
  if (!blocks.empty()) s.blocks = three_of(blocks, "--blocks");
  s.pictures = !no_pictures;
  s.vti = !no_vti;
  check(s);
  return line;
}

void device_line::add(const std::string& option, const std::string& value) {
  std::string variable = "TERN_" + option;
  for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string word = "--tern-" + option;
  const bool given = std::getenv(variable.c_str()) ||
                     std::any_of(words_.begin(), words_.end(),
                                 [&](const std::string& w) { return w == word || w.starts_with(word + "="); });
  if (!given) words_.push_back(word + "=" + value);
}

device_line::device_line(int argc, char** argv) : words_(argv, argv + argc) {
  std::string on = settings().on;
  for (std::size_t i = 1; i < words_.size(); ++i) {
    if (words_[i] == "--on" && i + 1 < words_.size()) on = words_[i + 1];
    if (words_[i].starts_with("--on=")) on = words_[i].substr(5);
  }
  if (const place* const p = place_named(on)) { // else the parser refuses it
    add("hetero-devices", p->devices);
    if (on == "fake" || on == "mix") add("hetero-simulated", "1");
  }
  add("hetero-fma", "false");
  for (std::string& word : words_) line_.push_back(word.data());
  count_ = static_cast<int>(words_.size());
  line_.push_back(nullptr);
}

} // namespace jacobi3d

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Grids of tasks: how short tasks may be while half of two cores' peak is still reached, by what
/// carries them, beside MPI, OpenMP, oneTBB and StarPU (docs/howto/benchmark.md).
///
///     bench_grain                                   as every benchmark (harness.hpp)
///     bench_grain --markdown                        the table in Markdown
///     bench_grain --curves FILE [--points FILE]     a picture of efficiencies; from known points, if given
///     bench_grain --page FILE [--turns N]           all figures of docs/results/grain.md, into that page, and its
///                                                   pictures beside it; 9 turns, unless told
///     bench_grain --tiny-page FILE                  the same with tiny sizes, to see that it works

#include <charconv>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bench/grain/lines.hpp"
#include "bench/grain/page/curves.hpp"
#include "bench/grain/page/page.hpp"
#include "bench/harness/jobs.hpp"
#include "bench/harness/plot.hpp"

namespace {

using namespace tern::bench;

constexpr int usual_turns = 9;

/// 0 for what is no number of turns.
int turns_of(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2) return arguments[0] == "--tiny-page" ? 1 : usual_turns;
  int turns = 0;
  if (arguments.size() != 4 || arguments[0] != "--page" || arguments[2] != "--turns") return 0;
  const std::string& text = arguments[3];
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), turns);
  return error == std::errc() && end == text.data() + text.size() ? turns : 0;
}

int page(const std::vector<std::string>& arguments) {
  const int turns = turns_of(arguments);
  if (turns < 1) {
    std::fprintf(stderr, "usage: bench_grain --page FILE [--turns N] | --tiny-page FILE\n");
    return 2;
  }
  try {
    const scale of(arguments[0] == "--tiny-page");
    std::vector<metric> lines = grain::all_lines(of);
    if (of.tiny()) lines.resize(2); // bench.tiny.grain runs all
    grain::write_page(arguments[1], lines, turns, of);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_grain: %s\n", e.what());
    return 1;
  }
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && (arguments[0] == "--page" || arguments[0] == "--tiny-page")) return page(arguments);
  return run_with_curves(
      "bench_grain", argc, argv, grain::measure_curves,
      [](const nlohmann::ordered_json& curves) { return grain::picture_of(curves); }, grain::all_lines);
}

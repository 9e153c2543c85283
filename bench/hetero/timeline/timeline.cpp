// SPDX-License-Identifier: Apache-2.0
/// \file
/// A picture of a chain of kernels on a simulated device of which the host sees ends 20 us late:
/// launched when the one before has been seen to end, and behind it.
///
///     bench_hetero_timeline FILE.png
///
/// It is drawn from the trace of each run, in virtual time. A trace has a kernel end when the host
/// sees that; the device was done 20 us before. Exit code 1 if the device waits where it should
/// not.

#include "tools/pictures/canvas.hpp"
#include "tools/pictures/frame.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/wait/waiting.hpp>
#include <tern/trace/merge.hpp>
#include <tern/trace/recorder.hpp>

namespace {

using tern::hetero::dialect::group_context;
namespace pictures = tern::pictures;

constexpr int kernels = 20;
constexpr double kernel_us = 10, notice_us = 20;
constexpr const char* words = "1:launch=0us,item=10us,latency=5us,notice=20us"; // a kernel has one item

void add_one(group_context, unsigned* a) { a[0] += 1; }
constexpr tern::hetero::kernel add{"add", &add_one, nullptr, {0, 0, 0}}; // simulated devices run the function

struct span { // microseconds
  double begin, end;
};

/// When the device computed, from when it began the first kernel.
std::vector<span> chain(int ahead, const std::filesystem::path& folder) {
  const std::string parts = (folder / "t.parts").string(), file = (folder / "t.json").string();
  tern::trace::prepare_parts(parts);
  {
    tern::trace::recorder recorder({.folder = parts, .clock = &tern::detail::virtual_ticks});
    tern::options opts;
    opts.set(tern::hetero::hetero_devices, "simulated");
    opts.set(tern::hetero::hetero_simulated, words);
    opts.set(tern::hetero::hetero_models, "read:/nowhere");
    opts.set(tern::hetero::hetero_ahead, ahead);
    tern::sim::simulation world;
    tern::scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
    s.run([] {
      const tern::hetero_object<unsigned> x(1, 0u);
      for (int i = 0; i < kernels; ++i) tern::submit(add, tern::items(1).group(1), tern::read_write(x));
      tern::wait_all();
    });
    recorder.end();
  }
  tern::trace::merge(parts, file);
  std::ifstream in(file);
  const auto trace = nlohmann::json::parse(in);
  std::vector<span> all;
  for (const auto& e : trace)
    if (e.value("cat", "") == "kernel") {
      const double end = e.at("ts").get<double>() + e.at("dur").get<double>() - notice_us;
      all.push_back({end - kernel_us, end});
    }
  std::sort(all.begin(), all.end(), [](const span& a, const span& b) { return a.begin < b.begin; });
  if (all.size() != static_cast<std::size_t>(kernels)) throw std::runtime_error("the trace lacks kernels");
  const double begin = all.front().begin;
  for (span& s : all) s = {s.begin - begin, s.end - begin};
  return all;
}

double busy_share(const std::vector<span>& all) { return kernels * kernel_us / all.back().end; }

void draw(const std::vector<span>& without, const std::vector<span>& with, const std::string& file) {
  constexpr double left = 60, top = 150, high = 130, between = 110;
  pictures::canvas on(pictures::width, 640);
  pictures::headline(on, left, "A chain of 20 kernels of 10 µs, whose ends the host sees 20 µs late",
                     "When a simulated device computes; drawn from traces by bench_hetero_timeline, in virtual time");
  double end = without.back().end;
  const auto panel = [&](double at, const char* title, const std::vector<span>& all, const pictures::colour& hue) {
    pictures::frame f{left, at, pictures::width - 2 * left, high, {}, {}};
    f.x.high = end * 1.02;
    on.text(left, at - 14, title, pictures::large, pictures::ink, 0, true);
    char share[80];
    std::snprintf(share, sizeof share, "busy %.0f %% of %.0f µs", 100 * busy_share(all), all.back().end);
    on.text(f.right(), at - 14, share, pictures::medium, pictures::faint, 1);
    on.box(f.across(0), at, f.across(all.back().end) - f.across(0), high, pictures::idle);
    for (const span& s : all) { // a pixel of paper tells two that touch apart
      on.box(f.across(s.begin), at, f.across(s.end) - f.across(s.begin) - 1, high, hue);
    }
    for (const auto& tick : f.x.ticks(10)) {
      on.rule(f.across(tick.value), f.bottom(), f.across(tick.value), f.bottom() + 6, {pictures::ink, 1.5});
      on.text(f.across(tick.value), f.bottom() + 28, tick.text, pictures::small, pictures::faint, 0.5);
    }
  };
  panel(top, "--tern-hetero-ahead=0: each is launched when the one before has been seen to end", without,
        pictures::vermillion);
  panel(top + high + between, "--tern-hetero-ahead=64: each is launched behind the one before", with, pictures::blue);
  on.text(left, 612, "time (µs); coloured: a kernel runs; grey: the device waits", pictures::medium, pictures::ink);
  on.write(file);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_hetero_timeline FILE.png\n");
    return 2;
  }
  try {
    std::string folder = (std::filesystem::temp_directory_path() / "bench_timeline_XXXXXX").string();
    if (!mkdtemp(folder.data())) throw std::runtime_error("no temporary folder");
    const auto without = chain(0, folder), with = chain(64, folder);
    std::filesystem::remove_all(folder);
    std::printf("ahead 0: %.1f %% busy; ahead 64: %.1f %% busy\n", 100 * busy_share(without), 100 * busy_share(with));
    draw(without, with, argv[1]);
    return busy_share(without) < 0.5 && busy_share(with) > 0.999 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_hetero_timeline: %s\n", e.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Active messages between two processes of one host, beside the same loops in MPI.
///
///     bench_net                                   as every benchmark (harness.hpp)
///     bench_net --markdown                        the table of docs/results/net.md
///     bench_net --curves FILE [--points FILE]     a picture of latency and bandwidth; from known points, if given

#include "bench/harness/harness.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/plot.hpp"
#include "bench/harness/series.hpp"
#include "bench/net/curves.hpp"
#include "bench/net/jobs.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::net;

series raw(mpi library, const std::string& level, const words& arguments) {
  return series([=] { return run_raw(library, level, arguments); });
}
series ours(mpi library, const words& arguments, const environment& more) {
  return series([=] { return run_tern(library, arguments, more); });
}

std::string size_name(std::size_t size) {
  if (size < 1024) return std::to_string(size) + "B";
  if (size < 1048576) return std::to_string(size / 1024) + "KiB";
  return std::to_string(size / 1048576) + "MiB";
}

std::string joined(const std::vector<std::size_t>& sizes) {
  std::string text;
  for (const std::size_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

using metrics = std::vector<metric>;

/// One metric for each size, all from the same processes.
void add_sizes(metrics& all, const metric& like, const std::string& after, const std::vector<std::size_t>& sizes,
               const series& our, const series& their) {
  for (const std::size_t size : sizes) {
    metric m = like;
    m.name += "." + size_name(size) + after;
    m.ours = our[std::to_string(size)];
    m.rival = their[std::to_string(size)];
    all.push_back(m);
  }
}

const environment funneled{{"TERN_MPI_THREADS", "funneled"}}, single{{"TERN_MPI_THREADS", "single"}};
environment aggregate(environment more, const char* how) {
  more.emplace_back("TERN_AGGREGATE", how);
  return more;
}

constexpr std::size_t kib = 1024, mib = 1024 * kib;
const std::vector<std::size_t> tiny{8, 64}, middle{kib, 4 * kib, 16 * kib, 64 * kib},
    large{mib, 4 * mib, 16 * mib, 64 * mib};
const words stream{"stream", "0.4"};

void add_latency(metrics& all, mpi library, const std::string& prefix, bool judged) {
  const metric like{.name = prefix + ".latency", .unit = "us", .rival_name = "raw, funneled"};
  std::vector<std::size_t> sizes = tiny;
  sizes.insert(sizes.end(), middle.begin(), middle.end());
  const words arguments{"latency", joined(sizes), "0.15"};
  const series our = ours(library, arguments, funneled), their = raw(library, "funneled", arguments);
  metric low = like, high = like;
  if (judged) {
    low.target = 1.10;
    high.target = 1.15;
  }
  add_sizes(all, low, "", tiny, our, their);
  add_sizes(all, high, "", middle, our, their);
}

void add_bandwidth(metrics& all, mpi library, const std::string& prefix, bool judged) {
  metric like{
      .name = prefix + ".bandwidth", .unit = "GB/s", .better = direction::higher, .rival_name = "raw, funneled"};
  if (judged) like.target = 0.97;
  const words arguments{"bandwidth", joined(large), "0.2"};
  add_sizes(all, like, "", large, ours(library, arguments, funneled), raw(library, "funneled", arguments));
}

void add_stream(metrics& all, mpi library, const std::string& name, std::optional<double> target,
                const environment& our, const std::string& level) {
  all.push_back({.name = name,
                 .unit = "M/s",
                 .better = direction::higher,
                 .target = target,
                 .rival_name = "raw, " + level,
                 .ours = ours(library, stream, our)["stream"],
                 .rival = raw(library, level, stream)["stream"]});
}

/// For each thousand of small messages. Zero is no ratio, so it is shown as a millionth.
double allocations() {
  const auto found = run_counting(mpi::open_mpi, {"exchange", "20000"});
  return std::max(1e-6, 1000 * found.at("allocations").get<double>() / found.at("messages").get<double>());
}
/// What a longer run has more, so that start and end do not count.
double calls_of_system() {
  const double shorter = 20000, longer = 220000; // twice as many round trips, and messages of the stream
  const auto of = [](double n) { return system_calls(mpi::open_mpi, {"exchange", std::to_string(std::lround(n))}); };
  return std::max(1e-6, 1000 * (of(longer) - of(shorter)) / (2 * 3 * (longer - shorter)));
}

metrics all_metrics() {
  metrics all;
  const words two{"latency", joined(tiny), "0.25"};
  add_sizes(all, {.name = "net.latency", .unit = "us", .target = 1.40, .rival_name = "raw, single"}, ".single", tiny,
            ours(mpi::open_mpi, two, single), raw(mpi::open_mpi, "single", two));
  add_latency(all, mpi::open_mpi, "net", true);
  add_bandwidth(all, mpi::open_mpi, "net", true);
  add_stream(all, mpi::open_mpi, "net.stream.single", 0.55, aggregate(single, "off"), "single");
  add_stream(all, mpi::open_mpi, "net.stream", 0.9, aggregate(funneled, "off"), "funneled");
  add_stream(all, mpi::open_mpi, "net.stream.aggregated", 6, aggregate(single, "on"), "single");

  const series calls = ours(mpi::open_mpi, {"call", "0.5"}, {}); // ours and the rival in one program
  all.push_back({.name = "net.call",
                 .unit = "us",
                 .target = 1.3,
                 .rival_name = "two sends",
                 .ours = calls["call"],
                 .rival = calls["sends"]});
  const words one{"latency", "64", "0.25"};
  all.push_back({.name = "net.inproc.latency.64B",
                 .unit = "us",
                 .target = 0.6,
                 .rival_name = "raw, single",
                 .ours = series([=] { return run_tern_inproc(one); })["64"],
                 .rival = raw(mpi::open_mpi, "single", one)["64"]});

  const auto absolute = [&](const std::string& name, const std::string& unit, double most,
                            std::function<double()> measurement) {
    all.push_back({.name = name,
                   .unit = unit,
                   .target = 1,
                   .rival_name = "budget",
                   .ours = std::move(measurement),
                   .rival = budget(most)});
  };
  absolute("net.idle", "% of a core", 1, once([] {
             return run_tern_sleepy(mpi::open_mpi, {"idle", "5"}).at("percent").get<double>();
           }));
  absolute("net.first", "us", 100, once([] {
             return run_tern_sleepy(mpi::open_mpi, {"first", "7"}).at("first").get<double>();
           }));
  // While the other rank's only worker computes, with a thread for messages.
  const auto busy = [](const char* what) {
    return once([what] {
      return run_tern_sleepy(mpi::open_mpi, {"busy", "3"}, {{"TERN_PROGRESS", "thread"}}).at(what).get<double>();
    });
  };
  absolute("net.busy.received", "ms", 1, busy("received"));
  absolute("net.busy.answered", "ms", 1, busy("answered"));
  absolute("net.allocations", "per 1000", 1, once(allocations));
  absolute("net.system_calls", "per 1000", 1, once(calls_of_system));

  add_latency(all, mpi::mpich, "net.mpich", false);
  add_bandwidth(all, mpi::mpich, "net.mpich", false);
  add_stream(all, mpi::mpich, "net.mpich.stream", {}, aggregate(funneled, "off"), "funneled");
  add_stream(all, mpi::mpich, "net.mpich.stream.aggregated", {}, aggregate(funneled, "on"), "funneled");
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run_with_curves("bench_net", argc, argv, measure_curves, picture_of, all_metrics);
}

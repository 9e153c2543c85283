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

/// How ours and the rival are run. Lines of each way have its name as a suffix.
struct way {
  std::string name;
  spinning ours = spinning::usual;
  rival_settings rival = rival_settings::as_ours;
};
const way usual{""}, spins{".spinning", spinning::always},
    mpi_defaults{".mpi_defaults", spinning::usual, rival_settings::defaults};

series raw(mpi library, const std::string& level, const words& arguments, const way& how) {
  return series([=] { return run_raw(library, level, arguments, how.rival); });
}
series ours(mpi library, const words& arguments, const environment& more, const way& how) {
  return series([=] { return run_tern(library, arguments, how.ours, more); });
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
/// \param shrink how many times smaller they are than their names say.
void add_sizes(metrics& all, const metric& like, const std::string& after, const std::vector<std::size_t>& sizes,
               const series& our, const series& their, std::size_t shrink = 1) {
  for (const std::size_t size : sizes) {
    metric m = like;
    m.name += "." + size_name(size) + after;
    m.ours = our[std::to_string(size / shrink)];
    m.rival = their[std::to_string(size / shrink)];
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

class list {
public:
  explicit list(const scale& of) : of_(of) {}
  metrics made;

  void add_latency_single(const way& how) {
    const words arguments{"latency", joined(tiny), seconds("0.25")};
    add_sizes(made, {.name = "net.latency", .unit = "us", .target = 1.40, .rival_name = "raw, single"},
              ".single" + how.name, tiny, ours(mpi::open_mpi, arguments, single, how),
              raw(mpi::open_mpi, "single", arguments, how));
  }
  void add_latency(mpi library, const std::string& prefix, bool judged, const way& how) {
    const metric like{.name = prefix + ".latency", .unit = "us", .rival_name = "raw, funneled"};
    std::vector<std::size_t> sizes = tiny;
    sizes.insert(sizes.end(), middle.begin(), middle.end());
    const words arguments{"latency", joined(sizes), seconds("0.15")};
    const series our = ours(library, arguments, funneled, how), their = raw(library, "funneled", arguments, how);
    metric low = like, high = like;
    if (judged) {
      low.target = 1.10;
      high.target = 1.15;
    }
    add_sizes(made, low, how.name, tiny, our, their);
    add_sizes(made, high, how.name, middle, our, their);
  }
  void add_bandwidth(mpi library, const std::string& prefix, bool judged, const way& how) {
    metric like{
        .name = prefix + ".bandwidth", .unit = "GB/s", .better = direction::higher, .rival_name = "raw, funneled"};
    if (judged) like.target = 0.97;
    const std::size_t shrink = of_(std::size_t{1}, std::size_t{64});
    std::vector<std::size_t> sizes;
    for (const std::size_t size : large) sizes.push_back(size / shrink);
    const words arguments{"bandwidth", joined(sizes), seconds("0.2")};
    add_sizes(made, like, how.name, large, ours(library, arguments, funneled, how),
              raw(library, "funneled", arguments, how), shrink);
  }
  void add_stream(mpi library, const std::string& name, std::optional<double> target, const environment& our,
                  const std::string& level, const way& how) {
    const words stream{"stream", seconds("0.4")};
    made.push_back({.name = name + how.name,
                    .unit = "M/s",
                    .better = direction::higher,
                    .target = target,
                    .rival_name = "raw, " + level,
                    .ours = ours(library, stream, our, how)["stream"],
                    .rival = raw(library, level, stream, how)["stream"]});
  }
  void add_call(const way& how) {
    const series calls = ours(mpi::open_mpi, {"call", seconds("0.5")}, {}, how); // ours and the rival in one program
    made.push_back({.name = "net.call" + how.name,
                    .unit = "us",
                    .target = 1.3,
                    .rival_name = "two sends",
                    .ours = calls["call"],
                    .rival = calls["sends"]});
  }
  void add_inproc(const way& how) {
    const words one{"latency", "64", seconds("0.25")};
    made.push_back({.name = "net.inproc.latency.64B" + how.name,
                    .unit = "us",
                    .target = 0.6,
                    .rival_name = "raw, single",
                    .ours = series([=] { return run_tern_inproc(one, how.ours); })["64"],
                    .rival = raw(mpi::open_mpi, "single", one, how)["64"]});
  }

  /// At most that much, measured once.
  void add_absolute(const std::string& name, const std::string& unit, double most,
                    std::function<double()> measurement) {
    made.push_back({.name = name,
                    .unit = unit,
                    .target = 1,
                    .rival_name = "budget",
                    .ours = std::move(measurement),
                    .rival = budget(most),
                    .once = true});
  }
  void add_resting() {
    add_absolute("net.idle", "% of a core", 1, alone({"idle", of_("5", "0.1")}, "percent"));
    add_absolute("net.first", "us", 100, alone({"first", of_("7", "1")}, "first"));
    // While the other rank's only worker computes, with a thread for messages.
    const environment progress{{"TERN_PROGRESS", "thread"}};
    for (const char* const what : {"received", "answered"})
      add_absolute(std::string("net.busy.") + what, "ms", 1, alone({"busy", of_("3", "1")}, what, progress));
  }
  /// For each thousand of small messages: none are asked for. What a longer run has more, so that
  /// start and end, which allocate and call, do not count.
  void add_nothing() {
    // `exchange COUNT` sends 2 COUNT messages to and fro and a stream of COUNT, twice.
    const auto per_thousand = [of = of_](double passes, const std::function<double(const words&)>& count) {
      const double shorter = of(20000.0, 2000.0), longer = of(220000.0, 4000.0);
      const auto in = [&](double n) { return count({"exchange", std::to_string(std::lround(n))}); };
      const double more = in(longer)-in(shorter);
      return 1000 * std::max(0.0, more) / (passes * 3 * (longer - shorter));
    };
    const auto allocations = [](const words& line) {
      return run_counting(mpi::open_mpi, line).at("allocations").get<double>(); // in the second pass
    };
    const auto calls = [](const words& line) { return system_calls(mpi::open_mpi, line); };
    made.push_back({.name = "net.allocations",
                    .unit = "per 1000",
                    .target = 0,
                    .ours = [=] { return per_thousand(1, allocations); },
                    .once = true});
    made.push_back({.name = "net.system_calls",
                    .unit = "per 1000",
                    .target = 0,
                    .ours = [=] { return per_thousand(2, calls); },
                    .once = true});
  }

private:
  std::string seconds(const char* time) const { return of_(time, "0.002"); }
  std::function<double()> alone(const words& line, const char* what, const environment& more = {}) const {
    return [=] { return run_tern(mpi::open_mpi, line, spinning::usual, more).at(what).get<double>(); };
  }

  scale of_;
};

metrics all_metrics(const scale& of) {
  list all(of);
  for (const way& how : {usual, spins, mpi_defaults}) {
    all.add_latency_single(how);
    all.add_latency(mpi::open_mpi, "net", true, how);
    all.add_bandwidth(mpi::open_mpi, "net", true, how);
    all.add_stream(mpi::open_mpi, "net.stream.single", 0.55, aggregate(single, "off"), "single", how);
    all.add_stream(mpi::open_mpi, "net.stream", 0.9, aggregate(funneled, "off"), "funneled", how);
    all.add_stream(mpi::open_mpi, "net.stream.aggregated", 6, aggregate(single, "on"), "single", how);
  }
  for (const way& how : {usual, spins}) {
    all.add_call(how);
    all.add_inproc(how);
  }
  all.add_resting();
  all.add_nothing();
  for (const way& how : {usual, spins}) {
    all.add_latency(mpi::mpich, "net.mpich", false, how);
    all.add_bandwidth(mpi::mpich, "net.mpich", false, how);
    all.add_stream(mpi::mpich, "net.mpich.stream", {}, aggregate(funneled, "off"), "funneled", how);
    all.add_stream(mpi::mpich, "net.mpich.stream.aggregated", {}, aggregate(funneled, "on"), "funneled", how);
  }
  return std::move(all.made);
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run_with_curves("bench_net", argc, argv, measure_curves, picture_of, all_metrics);
}

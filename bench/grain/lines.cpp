// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/lines.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/grain/jobs.hpp"
#include "bench/harness/series.hpp"

namespace tern::bench::grain {
namespace {

using measurement = std::function<double()>;

/// A problem and its target.
struct judged {
  std::string problem;
  std::optional<double> target;
};

words names(const std::vector<judged>& all) {
  words found;
  for (const judged& one : all) found.push_back(one.problem);
  return found;
}

/// Of one runtime with several settings, the best of each time.
measurement best_of(std::vector<series> all, const std::string& name) {
  std::vector<measurement> each;
  for (const series& one : all) each.push_back(one[name]);
  return [each] {
    double best = std::numeric_limits<double>::max();
    for (const measurement& one : each) best = std::min(best, one());
    return best;
  };
}

class list {
public:
  explicit list(const scale& of) : of_(of) {}
  std::vector<metric> made;

  /// METG of ours and of a rival, each problem's from the same processes.
  void add_metg(const std::string& prefix, const std::vector<judged>& problems, const series& ours,
                const std::string& rival_name, const std::function<measurement(const std::string&)>& rival) {
    for (const judged& one : problems)
      made.push_back({.name = "grain." + prefix + "." + one.problem,
                      .unit = "us",
                      .target = one.target,
                      .rival_name = rival_name,
                      .ours = ours[one.problem],
                      .rival = rival(one.problem)});
  }

  void add_messages(mpi library, const std::string& prefix, const std::vector<judged>& problems) {
    const asked_for what = metg(problems);
    add_metg(prefix, problems, series([=] { return run_ranks(library, "messages", what); }), "raw MPI",
             raw(library, what));
  }
  /// Ranks that all wait for each other in each step.
  void add_bulk(const std::vector<judged>& problems) {
    const asked_for what = metg(problems);
    add_metg("messages.bulk", problems, series([=] { return run_ranks(mpi::open_mpi, "messages", what); }),
             "raw MPI, bulk", raw(mpi::open_mpi, what, exchange::bulk_synchronous));
  }
  void add_threads(const std::vector<judged>& problems) {
    const asked_for what = metg(problems);
    add_metg("inproc.messages", problems, series([=] { return run_threads("messages", what); }), "raw MPI",
             raw(mpi::open_mpi, what));
  }

  void add_objects() {
    const std::vector<judged> problems{
        {"stencil.16", 2.0}, {"stencil.2", 1.2}, {"stencil.16.64KiB", {}}, {"stencil.2.64KiB", {}}};
    const asked_for what = metg(problems);
    const series ranks([=] { return run_ranks(mpi::open_mpi, "objects", what); });
    add_metg("objects", problems, ranks, "raw MPI", raw(mpi::open_mpi, what));
    const std::vector<judged> one{{"stencil.16", 1.5}};
    const asked_for wide = metg(one);
    const series workers([=] { return run_rank(2, "objects", wide); }),
        two([=] { return run_ranks(mpi::open_mpi, "objects", wide); });
    add_metg("objects.workers", one, workers, "2 ranks of 1", [=](const std::string& name) { return two[name]; });
  }

  void add_hetero() {
    const std::vector<judged> problems{{"stencil.16", 0.2}, {"stencil.2", 0.4}, {"spread5.16", 0.2}};
    const asked_for what = metg(problems);
    const series ours([=] { return run_tasks("hetero", what); });
    const auto omp = [&](openmp runtime) {
      std::vector<series> all;
      for (const environment& settings : settings_of(runtime))
        all.emplace_back([=] { return run_openmp(runtime, what, settings); });
      return all;
    };
    const std::vector<series> libgomp = omp(openmp::libgomp), libomp = omp(openmp::libomp);
    add_metg("hetero", problems, ours, "libgomp", [=](const std::string& name) { return best_of(libgomp, name); });
    std::vector<judged> shown = problems;
    for (judged& one : shown) one.target.reset();
    add_metg("hetero.libomp", shown, ours, "libomp", [=](const std::string& name) { return best_of(libomp, name); });
    std::vector<series> starpu;
    for (const char* const scheduler : starpu_schedulers)
      starpu.emplace_back([=] { return run_starpu(scheduler, what); });
    add_metg("hetero.starpu", shown, ours, "StarPU", [=](const std::string& name) { return best_of(starpu, name); });
  }

  void add_graphs() {
    const auto one = [](std::optional<double> target) { return std::vector<judged>{{"stencil.16", target}}; };
    const asked_for what = metg(one({}));
    const auto tasks = [=](const char* carrier) { return series([=] { return run_tasks(carrier, what); }); };
    const auto tbb = [=](const char* carrier) {
      return [of = series([=] { return run_tbb(carrier, what); })](const std::string& name) { return of[name]; };
    };
    add_metg("graph", one(1.5), tasks("graph"), "raw MPI", raw(mpi::open_mpi, what));
    add_metg("graph.built", one(6.0), tasks("built"), "raw MPI", raw(mpi::open_mpi, what));
    add_metg("graph.tbb", one({}), tasks("graph"), "TBB flow graph", tbb("graph"));
    add_metg("graph.built.tbb", one({}), tasks("built"), "TBB flow graph", tbb("built"));
    add_metg("coroutines", one({}), tasks("coroutines"), "raw MPI", raw(mpi::open_mpi, what));
  }

  /// 16 objects that need nothing of each other, on one rank of two workers.
  void add_independent() {
    const asked_for what{of_("0.05", "0"), {"trivial.16.10us", "trivial.16.200us", "trivial.16.1000us"}};
    const series ours([=] { return run_rank(2, "objects", what); });
    const auto add = [&](const std::string& length, double target) {
      made.push_back({.name = "grain.independent." + length,
                      .unit = "cores",
                      .better = direction::higher,
                      .target = target,
                      .ours = ours["trivial.16." + length + ".cores"]});
    };
    add("10us", 1.5);
    add("200us", 1.85);
    add("1000us", 1.95);
    // Of a core in two workers, which have two.
    const asked_for shorter{of_("0.02", "0"), {"trivial.16.3us"}};
    const auto wall = [=](int workers) {
      return [=, each = series([=] { return run_rank(workers, "objects", shorter); })["trivial.16.3us"]] {
        return each() / workers;
      };
    };
    made.push_back({.name = "grain.invocations.3us",
                    .unit = "us",
                    .target = 0.75,
                    .rival_name = "1 worker",
                    .ours = wall(2),
                    .rival = wall(1)});
  }

  /// Objects on two ranks whose tasks are not equally long.
  void add_imbalance() {
    const words fresh{"stencil.16.fresh.19us", "stencil.16.fresh.150us"},
        stays{"stencil.16.stays.19us", "stencil.16.stays.150us"};
    asked_for what{of_("0.15", "0"), fresh};
    what.problems.insert(what.problems.end(), stays.begin(), stays.end());
    const series none([=] { return run_balanced("none", what); });
    for (const std::string policy : {"steal", "diffusion"}) {
      const series ours([=] { return run_balanced(policy, what); });
      const auto add = [&](const words& problems, double target) {
        for (const std::string& one : problems)
          made.push_back({.name = "grain.imbalance." + policy + "." + one,
                          .unit = "us",
                          .target = target,
                          .rival_name = "no policy",
                          .ours = ours[one],
                          .rival = none[one]});
      };
      add(fresh, 1.05);
      add(stays, 0.80);
      for (const std::string& one : stays) // as good as work that is spread evenly, which nothing surpasses
        made.push_back({.name = "grain.imbalance." + policy + "." + one + ".cores",
                        .unit = "cores",
                        .better = direction::higher,
                        .target = 1 / 1.1,
                        .rival_name = "bound",
                        .ours = ours[one + ".cores"],
                        .rival = budget(2)});
    }
  }

private:
  asked_for metg(const std::vector<judged>& problems) const { return {of_("0.004", "0"), names(problems)}; }
  static std::function<measurement(const std::string&)> raw(mpi library, const asked_for& what,
                                                            exchange how = exchange::non_blocking) {
    return [of = series([=] { return run_raw(library, what, how); })](const std::string& name) { return of[name]; };
  }

  scale of_;
};

} // namespace

std::vector<metric> all_lines(const scale& of) {
  list all(of);
  all.add_messages(mpi::open_mpi, "messages",
                   {{"stencil.16", 1.0},
                    {"stencil.2", 1.0},
                    {"fft.16", 1.0},
                    {"nearest5.16", 1.0},
                    {"spread5.16", 1.0},
                    {"trivial.16", 1.2}});
  all.add_messages(mpi::open_mpi, "messages",
                   {{"stencil.16.64KiB", 0.6},
                    {"stencil.2.64KiB", 0.6},
                    {"fft.16.64KiB", 0.6},
                    {"nearest5.16.64KiB", 0.6},
                    {"spread5.16.64KiB", 0.6}});
  all.add_messages(mpi::open_mpi, "messages", {{"stencil.16.memory", {}}});
  all.add_bulk({{"stencil.16", {}}, {"stencil.2", {}}});
  all.add_messages(mpi::mpich, "mpich.messages", {{"stencil.16", {}}, {"stencil.2", {}}});
  all.add_threads({{"stencil.16", {}}, {"stencil.2", {}}});
  all.add_objects();
  all.add_hetero();
  all.add_graphs();
  all.add_independent();
  all.add_imbalance();
  return std::move(all.made);
}

} // namespace tern::bench::grain

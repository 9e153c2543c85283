// SPDX-License-Identifier: Apache-2.0
/// \file
/// Collective operations of two processes of one host, beside those of MPI.
///
///     bench_collectives                                   as every benchmark (harness.hpp)
///     bench_collectives --markdown                        the table of docs/results/collectives.md
///     bench_collectives --curves FILE [--points FILE]     a picture of `quiesce` on simulated ranks

#include "bench/harness/harness.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/collectives/curves.hpp"
#include "bench/harness/jobs.hpp"
#include "bench/harness/plot.hpp"
#include "bench/harness/series.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::collectives;
using metrics = std::vector<metric>;

/// How long each measurement takes, and how ours spins (jobs.hpp).
struct way {
  std::string seconds, suffix;
  spinning how;
};

series raw(mpi library, const way& w) {
  return series([=] {
    return run_rival_ranks(
        library,
        {library == mpi::open_mpi ? BENCH_COLLECTIVES_MPI_OPENMPI : BENCH_COLLECTIVES_MPI_MPICH, "rounds", w.seconds});
  });
}
series ours(mpi library, const char* what, const way& w) {
  return series([=] { return run_tern_ranks(library, {BENCH_COLLECTIVES_TERN, what, w.seconds}, w.how); });
}

void add_rounds(metrics& all, mpi library, const std::string& prefix, bool judged, const way& w) {
  const series our = ours(library, "rounds", w), their = raw(library, w);
  const auto add = [&](const std::string& name, const std::string& size, double target, const std::string& kind = {}) {
    metric m{.name = prefix + "." + name + size + kind + w.suffix, .unit = "us", .rival_name = "raw MPI"};
    if (judged) m.target = target;
    m.ours = our[name + kind];
    m.rival = their[name];
    all.push_back(std::move(m));
  };
  add("barrier", "", 1.5);
  add("allreduce", ".8B", 1.5);
  for (const char* kind : {"", ".vector"}) { // of a tern::buffer; of a std::vector
    add("broadcast", ".1MiB", 1.15, kind);
    add("allgather", ".64KiB", 1.15, kind);
    add("alltoall", ".64KiB", 1.15, kind);
    add("alltoall_back", ".64KiB", 1.15, kind);
  }
}

// Ours and the rival in one program.
void add_own(metrics& all, const way& w) {
  const series many = ours(mpi::open_mpi, "many", w), quiesce = ours(mpi::open_mpi, "quiesce", w);
  all.push_back({.name = "collectives.at_once" + w.suffix,
                 .unit = "us",
                 .target = 0.5,
                 .rival_name = "64 in sequence",
                 .ours = many["at_once"],
                 .rival = many["sequence"]});
  all.push_back({.name = "collectives.quiesce" + w.suffix,
                 .unit = "us",
                 .target = 5,
                 .rival_name = "half a round trip",
                 .ours = quiesce["quiesce"],
                 .rival = quiesce["half_trip"]});
  const series epochs = ours(mpi::open_mpi, "epochs", w); // what an epoch adds
  const auto beside = [&](const char* name, const char* plain, const char* of_epoch, const char* rival) {
    all.push_back({.name = std::string("collectives.epoch.") + name + w.suffix,
                   .unit = "us",
                   .rival_name = rival,
                   .ours = epochs[of_epoch],
                   .rival = epochs[plain]});
  };
  beside("stream", "stream", "stream.epoch", "without an epoch");
  beside("finish", "call", "finish", "a call");
}

metrics all_metrics(const scale& of) {
  const std::string seconds = of("0.2", "0.002");
  const way usual{seconds, "", spinning::usual}, spins{seconds, ".spinning", spinning::always};
  metrics all;
  for (const way& w : {usual, spins}) {
    add_rounds(all, mpi::open_mpi, "collectives", true, w);
    add_own(all, w);
  }
  for (const int ranks : {2, 64, 1024, 10000}) {
    const int simulated = of(ranks, std::min(ranks, 64));
    all.push_back({.name = "collectives.quiesce.simulated." + std::to_string(ranks),
                   .unit = "half trips",
                   .rival_name = "2 log2 of the ranks",
                   .ours = [=] { return quiescence_of(simulated); },
                   .rival = budget(least_messages(simulated)),
                   .once = true});
  }
  for (const way& w : {usual, spins}) add_rounds(all, mpi::mpich, "collectives.mpich", false, w);
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run_with_curves("bench_collectives", argc, argv, measure_curves, picture_of, all_metrics);
}

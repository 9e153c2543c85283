// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival: grids of tasks in MPI, compiled once for each. Each rank has a block of columns. In
/// each step it posts receives of what its tasks need from others, sends what others need of the
/// last step, waits for all of that, and runs its tasks. Bulk-synchronous ranks also wait for each
/// other before they run tasks, as Task Bench's do.
///
///     bench_grain_mpi_X raw SECONDS PROBLEM…        non-blocking; two ranks, each bound to a core
///     bench_grain_mpi_X bulk SECONDS PROBLEM…       bulk-synchronous

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/grain/problem/contestant.hpp"
#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::grain;

/// The columns of a rank, and the outputs of two steps.
class part {
public:
  part(const problem& p, bool bulk, int rank, int ranks) : p_(p), bulk_(bulk), rank_(rank), ranks_(ranks) {
    for (auto& one : outputs_) one.assign(static_cast<std::size_t>(p.width()) * p.bytes, std::byte{0xff});
    for (int step = 0; step < p.plan.period(); ++step) plan(step);
  }

  /// Collective. \return seconds on this rank, from when all have begun until all have ended.
  double run(int steps, long iterations) {
    long done = 0, inputs = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = seconds();
    for (int step = 0; step < steps; ++step) {
      if (step > 0) exchange(step - 1);
      for (int column = first(rank_); column < first(rank_ + 1); ++column) {
        inputs += static_cast<long>(run_task(p_, step, column, iterations, output(step, column),
                                             [&](int from) { return output(step - 1, from); }));
        ++done;
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double taken = seconds() - began;
    const std::array<long, 2> mine{done, inputs};
    std::array<long, 2> all{};
    MPI_Allreduce(mine.data(), all.data(), 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check_run(p_, steps, all[0], all[1]);
    return taken;
  }

private:
  /// An output that goes to another rank, or comes from it.
  struct transfer {
    int column, rank;
  };

  int first(int rank) const { return static_cast<int>(static_cast<long>(rank) * p_.width() / ranks_); }
  int owner(int column) const {
    int rank = 0;
    while (column >= first(rank + 1)) ++rank;
    return rank;
  }
  std::span<std::byte> output(int step, int column) {
    return std::span(outputs_[static_cast<std::size_t>(step) % 2])
        .subspan(static_cast<std::size_t>(column) * p_.bytes, p_.bytes);
  }

  /// What is to be sent and received of a step's outputs: each once to each rank that needs it.
  void plan(int step) {
    std::vector<transfer> out, in;
    for (int column = 0; column < p_.width(); ++column) {
      const int from = owner(column);
      for (int to = 0; to < ranks_; ++to) {
        const auto after = p_.plan.dependents(step, column);
        const bool needed = std::any_of(after.begin(), after.end(), [&](int one) { return owner(one) == to; });
        if (!needed || from == to) continue;
        if (from == rank_) out.push_back({column, to});
        if (to == rank_) in.push_back({column, from});
      }
    }
    sends_.push_back(std::move(out));
    receives_.push_back(std::move(in));
  }

  /// Brings the outputs of that step to where they are needed.
  void exchange(int step) {
    requests_.clear();
    const auto size = static_cast<int>(p_.bytes);
    const auto phase = static_cast<std::size_t>(step % p_.plan.period());
    for (const transfer& one : receives_[phase])
      MPI_Irecv(output(step, one.column).data(), size, MPI_BYTE, one.rank, one.column, MPI_COMM_WORLD,
                &requests_.emplace_back());
    for (const transfer& one : sends_[phase])
      MPI_Isend(output(step, one.column).data(), size, MPI_BYTE, one.rank, one.column, MPI_COMM_WORLD,
                &requests_.emplace_back());
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    if (bulk_) MPI_Barrier(MPI_COMM_WORLD);
  }

  const problem& p_;
  const bool bulk_;
  int rank_, ranks_;
  std::vector<std::vector<transfer>> sends_, receives_; // of each step of a period
  std::array<std::vector<std::byte>, 2> outputs_;
  std::vector<MPI_Request> requests_;
};

/// What rank 0 has all do next. No steps: the problem is measured.
struct order {
  int steps = 0;
  long iterations = 0;
};

double calibrated(const problem& p, int ranks) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double mine = calibrate(p.work, 1);
  double sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum / ranks;
}

void measure_all(const request& asked, int rank, int ranks) {
  const bool bulk = asked.carrier == "bulk";
  if (!bulk && asked.carrier != "raw") throw std::invalid_argument("no carrier is called " + asked.carrier);
  report found(asked.seconds);
  for (const auto& name : asked.problems) {
    const problem p(name);
    part mine(p, bulk, rank, ranks);
    const double per_iteration = asked.seconds == 0 ? 0 : calibrated(p, ranks);
    const auto tell = [](order o) {
      MPI_Bcast(&o, sizeof o, MPI_BYTE, 0, MPI_COMM_WORLD);
      return o;
    };
    if (rank == 0) {
      found.measure(p, ranks, per_iteration, [&](int steps, long iterations) {
        tell({steps, iterations});
        return mine.run(steps, iterations);
      });
      tell({});
    } else {
      for (order o = tell({}); o.steps > 0; o = tell({})) mine.run(o.steps, o.iterations);
    }
  }
  if (rank == 0) found.print();
}

} // namespace

int main(int argc, char** argv) {
  const int code = guarded("bench_grain_mpi", [&] {
    bind_to_core();
    const request asked = request_of(argc, argv);
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    measure_all(asked, rank, ranks);
    MPI_Finalize();
  });
  if (code != 0) std::_Exit(code); // the launcher ends the other rank
}

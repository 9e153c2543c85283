// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <thread>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/base/options.hpp>
#include <tern/base/topology.hpp>
#include <tern/net/transport/mpi/mpi_transport.hpp>
#include <tern/net/transport_kind.hpp>

namespace tern::net::detail {
namespace {

const option<std::string> mpi_option{"mpi", "", "which MPI to use where the launcher leaves it open",
                                     one_of({"", "openmpi", "mpich"})};
const option<bool> preallocate_option{"preallocate", true,
                                      "keep receives and memory for small messages ready; without, for comparisons"};

// Before MPI has started, the launcher's variables tell this process' rank.
std::optional<int> launcher_number(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return std::nullopt;
}
std::optional<int> launcher_size() { return launcher_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}); }

class mpi_kind final : public transport_kind {
public:
  mpi_kind()
      : transport_kind(
            {.name = "mpi", .what = "by MPI", .words = {}, .automatic = "under an MPI launcher", .preference = 2}) {}

  // The option 'mpi' chooses between MPIs; whether there is one at all, the launcher or the option
  // 'transport' says.
  bool suits(const options&) const override { return !detect_mpi("").empty(); }

  int run(job_start& job, rank_runner run_ranks) const override {
    std::string mpi = detect_mpi(job.opts[mpi_option]);
    if (mpi.empty()) mpi = "openmpi";
    const auto by = launched();
    if (job.opts.source("ranks") != "default" && (!by || by->rank == 0))
      log_warning("the option 'ranks' (" + job.opts.source("ranks") +
                  ") means nothing under MPI, where each process is a rank");
    // MPI is told how many threads there will be before it can tell how many ranks share the host:
    // that is kept.
    if (job.workers == 0)
      job.workers =
          std::max(1, usable_cpus() /
                          std::max(1, launcher_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}).value_or(1)));
    std::vector<std::unique_ptr<transport>> end;
    end.push_back(
        make_mpi(mpi, &job.argc, &job.argv, job.workers > 1 || job.polls_apart, job.opts[preallocate_option]));
    return run_ranks(job, std::move(end));
  }

  std::optional<launch> launched() const override {
    const auto rank = launcher_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"});
    if (!rank) return std::nullopt;
    return launch{"an MPI launcher", *rank, launcher_size().value_or(1)};
  }

  bool refuse(int& argc, char** argv, const std::function<void()>& tell) const override {
    std::string mpi;
    try {
      mpi = detect_mpi("");
    } catch (const std::exception&) { // is perhaps what `tell` says
    }
    if (mpi.empty() || launcher_size().value_or(2) < 2) return false;
    // Other ranks may have started well and wait for this one inside MPI_Init, where only MPI can
    // end them (MPICH's launcher does not mind a rank that leaves before it). Mostly all ranks fail
    // alike: the first tells it and ends the others.
    try {
      const auto wire = make_mpi(mpi, &argc, &argv, false);
      if (wire->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
      tell();
      wire->abort(2);
    } catch (const std::exception&) {
      // No MPI to end the others with. Open MPI's launcher ends them when it sees the first leave:
      // not before it has spoken.
      const auto by = launched();
      if (!by || by->rank == 0)
        tell();
      else
        std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    return true;
  }
};

} // namespace

const transport_kind& mpi_transport() {
  static const mpi_kind one;
  return one;
}

} // namespace tern::net::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the `tern` command knows about the MPIs' launchers: where they are, their flags, and what
/// they write when a job fails, which is replaced by one line of ours.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tern/launch/process.hpp"

namespace tern::tool {

/// One MPI on this machine, as far as it is there.
struct mpi_installation {
  std::string name;                              ///< "openmpi" or "mpich"
  std::string title;                             ///< "Open MPI" or "MPICH"
  std::optional<std::filesystem::path> launcher; ///< its mpirun
  std::optional<std::filesystem::path> plugin;   ///< Tern's plug-in for it
};

/// Open MPI and MPICH, in this order.
std::vector<mpi_installation> find_mpis();

struct placement {
  int ranks = 0; ///< 0: as many as `per` gives
  enum class per_what { none, socket, node } per = per_what::none;
};

/// The launcher with its flags, up to where the program and its arguments follow.
std::vector<std::string> launcher_command(const mpi_installation& mpi, const placement& where);

/// Whether the launcher will use this machine only, as far as the environment tells.
bool job_stays_here();

/// What a launcher said about the end of a job.
struct job_failure {
  int rank = -1; ///< -1: it did not say
  long pid = -1;
  int signal = 0;
  int code = 0;
  bool aborted = false; ///< by MPI_Abort
  bool known = false;
};

/// Drops the launchers' banners about a failed job from one of its streams and remembers what they
/// said. Everything else passes at once, except for a line that may yet become a banner.
class launcher_noise final : public output_filter {
public:
  /// \param seen shared by the filters of both streams; the first to say something wins.
  explicit launcher_noise(job_failure& seen) : seen_(&seen) {}
  std::string feed(std::string_view text) override;
  std::string end() override;

private:
  enum class where { outside, maybe_openmpi, in_openmpi, in_mpich, after_mpich };
  std::string line(const std::string& text);
  void learn(const std::string& text);

  job_failure* seen_;
  where where_ = where::outside;
  std::string partial_, held_;
  bool inside_line_ = false; // its beginning was passed on already
};

} // namespace tern::tool

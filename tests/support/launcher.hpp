// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests: jobs under each MPI's launcher. The target has called tern_define_launchers
/// (cmake/TernRankTest.cmake).

#include "child.hpp"

#include <cstdlib>
#include <string>

namespace tern::test {

/// The command that starts ranks under an MPI, "openmpi" or "mpich", to which "-np", their number
/// and the program are added; empty if there is no such launcher here, under a sanitizer, and for
/// anything else.
inline strings launcher(const std::string& mpi) {
  const std::string program = mpi == "openmpi" ? MPIRUN_OPENMPI : mpi == "mpich" ? MPIRUN_MPICH : "";
  if (program.empty()) return {};
  if (mpi == "openmpi") return {program, "--oversubscribe", "--bind-to", "none"};
  return {program, "-bind-to", "none"};
}

/// That its ranks may run as root; and that Open MPI's shared memory, which it leaves behind when
/// they end badly, goes with the test.
inline void prepare_for_launcher(variables& environment, const temporary& scratch) {
  environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
  environment["OMPI_MCA_btl_vader_backing_directory"] = scratch.path.string();
}

/// Of the process that wrote "ready RANK of process N"; -1: none did.
inline int process_of(const std::string& out, int rank) {
  const std::string before = "ready " + std::to_string(rank) + " of process ";
  const auto at = out.find(before);
  return at == std::string::npos ? -1 : std::atoi(out.c_str() + at + before.size());
}

} // namespace tern::test

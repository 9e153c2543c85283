// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Jobs as children, under each launcher that there is.
#include "child.hpp"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace tern::test {

inline finished run_soon(const strings& command, const variables& environment) {
  return run(command, 10, {.environment = environment});
}

inline finished alone(const char* program, const strings& arguments, variables environment = {}) {
  strings command{program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  environment.try_emplace("TERN_WORKERS", "1");
  return run_soon(command, environment);
}

/// How the ranks of a job are started: "inproc", "openmpi" or "mpich".
class started : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (GetParam() != "inproc" && !launcher()) GTEST_SKIP() << "no " << GetParam() << " here, or a sanitizer";
  }
  bool mpich() const { return GetParam() == "mpich"; }
  bool under_mpi() const { return GetParam() != "inproc"; }

  std::optional<strings> launcher() const {
    const strings found{START_MPIRUN_OPENMPI, START_MPIRUN_MPICH};
    const std::string path = found[GetParam() == "openmpi" ? 0 : 1];
    if (path.empty()) return std::nullopt;
    if (GetParam() == "openmpi") return strings{path, "--oversubscribe", "--bind-to", "none"};
    return strings{path, "-bind-to", "none"};
  }

  finished job(int ranks, const char* program, const strings& arguments, variables environment = {}) const {
    if (!under_mpi()) {
      environment.try_emplace("TERN_RANKS", std::to_string(ranks));
      return alone(program, arguments, environment);
    }
    strings command = *launcher();
    command.insert(command.end(), {"-np", std::to_string(ranks), program});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return launch(command, environment);
  }
  static finished launch(const strings& command, variables environment = {}) {
    environment.try_emplace("TERN_WORKERS", "1");
    environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
    // Open MPI leaves its shared memory behind when ranks end badly: somewhere that goes with the test.
    const temporary scratch;
    environment["OMPI_MCA_btl_vader_backing_directory"] = scratch.path.string();
    return run_soon(command, environment);
  }
};

} // namespace tern::test

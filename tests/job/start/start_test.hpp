// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Jobs as children, under each launcher that there is.
#include "launcher.hpp"

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
    if (under_mpi() && launcher(GetParam()).empty()) GTEST_SKIP() << "no " << GetParam() << " here, or a sanitizer";
  }
  bool mpich() const { return GetParam() == "mpich"; }
  bool under_mpi() const { return GetParam() != "inproc"; }

  finished job(int ranks, const char* program, const strings& arguments, variables environment = {}) const {
    if (!under_mpi()) {
      environment.try_emplace("TERN_RANKS", std::to_string(ranks));
      return alone(program, arguments, environment);
    }
    return launch(under_launcher(ranks, program, arguments), environment);
  }
  strings under_launcher(int ranks, const char* program, const strings& arguments) const {
    strings command = launcher(GetParam());
    command.insert(command.end(), {"-np", std::to_string(ranks), program});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  static finished launch(const strings& command, variables environment = {}) {
    environment.try_emplace("TERN_WORKERS", "1");
    const temporary scratch;
    prepare_for_launcher(environment, scratch);
    return run_soon(command, environment);
  }
};

} // namespace tern::test

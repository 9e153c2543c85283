// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests: jobs that are traced, started in several ways, and what is read of their traces.

#include "launcher.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace trace_test {

namespace fs = std::filesystem;
using tern::test::finished;
using tern::test::has;
using tern::test::launcher;
using tern::test::strings;
using tern::test::temporary;
using tern::test::variables;

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What the checker says of a trace.
inline finished checked(const std::string& path, const strings& arguments = {"--complete"}) {
  strings command{TRACE_PYTHON, TRACE_CHECK, path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return tern::test::run(command);
}
inline void expect_whole(const std::string& path) {
  const finished end = checked(path);
  EXPECT_EQ(end.code, 0) << end.all();
  EXPECT_FALSE(fs::exists(path + ".parts"));
}
/// Made of parts by hand.
inline finished merge(const std::string& path) { return tern::test::run({TRACE_TOOL, "trace", path}); }

/// How the ranks of a job are started.
class traced : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (under_mpi() && launcher(GetParam()).empty()) GTEST_SKIP() << "no " << GetParam() << " here, or a sanitizer";
  }
  bool under_mpi() const { return GetParam() == "openmpi" || GetParam() == "mpich"; }
  bool simulated() const { return GetParam() == "sim"; }
  /// Of `program`, with arguments.
  strings command(int ranks, strings arguments) const {
    arguments.insert(arguments.begin(), program);
    if (!under_mpi()) return arguments;
    strings line = launcher(GetParam());
    line.insert(line.end(), {"-np", std::to_string(ranks)});
    line.insert(line.end(), arguments.begin(), arguments.end());
    return line;
  }
  variables around(int ranks, variables more = {}) const {
    tern::test::prepare_for_launcher(more, scratch);
    more.try_emplace("TERN_WORKERS", "2");
    if (simulated())
      more["TERN_SIM"] = "ranks=" + std::to_string(ranks) + ",workers=2,faults=delay:reorder";
    else if (!under_mpi())
      more["TERN_RANKS"] = std::to_string(ranks);
    return more;
  }
  finished job(int ranks, const strings& arguments, variables more = {}) const {
    return tern::test::run(command(ranks, arguments), 40, {.environment = around(ranks, std::move(more))});
  }

  std::string program = TRACE_TRACED;
  temporary scratch;
  const std::string file = scratch / "run.json";
};

} // namespace trace_test

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests: the nbody program and the `tern` command as child processes. Needs the definitions
/// NBODY_PATH, TERN_TOOL_PATH and NBODY_TEST_MPIS (the MPIs that can be used, separated by commas).

#include "child.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace nbody_test {

using tern::test::finished;
using tern::test::has;
using tern::test::run;
using tern::test::strings;
using tern::test::temporary;

inline strings operator+(strings a, const strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The command line of a job: `where` is "" (the program alone, one rank), "inproc" or the name of
/// an MPI.
inline strings job(const std::string& where, int ranks, const strings& arguments, int workers = 0) {
  strings line;
  if (!where.empty()) {
    line = {TERN_TOOL_PATH, "run", "-n", std::to_string(ranks)};
    if (where != "inproc") line.insert(line.end(), {"--mpi", where});
    if (workers > 0) line.insert(line.end(), {"--workers", std::to_string(workers)});
    line.push_back("--");
  }
  line.push_back(NBODY_PATH);
  return line + arguments;
}

/// "inproc" and the MPIs that can be used.
inline strings transports() {
  strings names{"inproc"};
  std::istringstream words(NBODY_TEST_MPIS);
  for (std::string word; std::getline(words, word, ',');) names.push_back(word);
  return names;
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in, nullptr, false);
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace nbody_test

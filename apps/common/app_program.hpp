// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests: the program of an application and the `tern` command as child processes. Needs the
/// definitions APP_PATH, TERN_TOOL_PATH and APP_TEST_MPIS (the MPIs that can be used, separated by
/// commas).

#include "child.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <sys/types.h>

#include <nlohmann/json.hpp>

namespace app_test {

using tern::test::child;
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
  line.push_back(APP_PATH);
  return line + arguments;
}

/// "inproc" and the MPIs that can be used.
inline strings transports() {
  strings names{"inproc"};
  std::istringstream words(APP_TEST_MPIS);
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

/// Processes of the program whose command line has `mark`: ranks, not their launcher.
inline std::vector<pid_t> processes_of(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (std::filesystem::read_symlink(entry.path() / "exe", failed) != std::filesystem::path(APP_PATH)) continue;
    if (has(read_text(entry.path() / "cmdline"), mark)) found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

} // namespace app_test

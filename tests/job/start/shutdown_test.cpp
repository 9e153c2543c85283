// SPDX-License-Identifier: Apache-2.0
/// \file
/// The end of a job, at random moments: what has been taken is handled, and all processes end.
#include "start_test.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace {

using namespace tern::test;

// How often, for each number of ranks: TERN_SHUTDOWN_RUNS for a long test.
int runs(int usually) {
  const char* const wanted = std::getenv("TERN_SHUTDOWN_RUNS");
  return wanted ? std::atoi(wanted) : usually;
}

struct sums {
  long taken = 0, handled = 0, refused = 0, late = 0;
  int processes = 0;
};
sums sums_of(const std::string& text) {
  sums all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    sums s;
    if (std::sscanf(line.c_str(), "taken %ld handled %ld refused %ld late %ld", &s.taken, &s.handled, &s.refused,
                    &s.late) != 4)
      continue;
    all.taken += s.taken;
    all.handled += s.handled;
    all.refused += s.refused;
    all.late += s.late;
    ++all.processes;
  }
  return all;
}

TEST_P(started, the_end_loses_nothing) {
  long refused = 0;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    // Processes that have one job each, or one that has all of them.
    const int times = runs(under_mpi() ? 1 : 20), processes = under_mpi() ? times : 1;
    for (int i = 0; i < processes; ++i) {
      const auto end =
          job(ranks, START_SHUTDOWN, {std::to_string(1000 * ranks + i), std::to_string(under_mpi() ? 1 : times)});
      ASSERT_TRUE(end.in_time()) << ranks << " ranks, run " << i << "\n" << end.all();
      ASSERT_EQ(end.code, 0) << ranks << " ranks, run " << i << "\n" << end.all();
      const sums all = sums_of(end.out);
      EXPECT_EQ(all.processes, under_mpi() ? ranks : 1) << end.all();
      EXPECT_EQ(all.taken, all.handled) << ranks << " ranks, run " << i << "\n" << end.all();
      EXPECT_EQ(all.late, 0) << ranks << " ranks, run " << i << "\n" << end.all();
      refused += all.refused;
    }
  }
  RecordProperty("refused", std::to_string(refused));
}

} // namespace

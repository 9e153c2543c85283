// SPDX-License-Identifier: Apache-2.0
// What a simulated rank that waits takes of memory, as bench/sim measures it. There is no noise in
// it, so it is a test. The only one of its program: memory that another has freed would be used
// again.
#include <cstdint>
#include <fstream>

#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>

namespace {

struct memory {
  double resident = 0, heap = 0; ///< bytes: in pages that are there; given out by malloc
};

memory used() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  const struct mallinfo2 heap = mallinfo2();
  return {resident * static_cast<double>(sysconf(_SC_PAGESIZE)), static_cast<double>(heap.uordblks + heap.hblkhd)};
}

TEST(simulated_rank, waits_in_20_kib) {
#ifndef NDEBUG
  GTEST_SKIP() << "frames of a debug build are larger";
#endif
  // A huge page would be there as a whole, with the parts of ranks that nothing has touched.
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  constexpr int ranks = 10'000;
  const memory before = used();
  memory after;
  tern::sim::run(tern::sim::parse_world("ranks=10000"), [&] {
    tern::barrier();
    if (tern::rank() == 0) after = used(); // the others wait in the next one
    tern::barrier();
    return 0;
  });
  const double resident = (after.resident - before.resident) / ranks, heap = (after.heap - before.heap) / ranks;
  RecordProperty("bytes", static_cast<int>(resident));
  EXPECT_GT(resident, 4096) << "it has a stack";
  EXPECT_LE(resident, 20 * 1024) << "of which " << heap
                                 << " bytes were given out by malloc, touched or not; the others are its stack: see "
                                    "docs/results/sim.md for what they were, and massif for what has them";
}

} // namespace

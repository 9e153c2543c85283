// SPDX-License-Identifier: Apache-2.0
// Global pointers: each rank puts a row into a table of rank 0, all add to a sum there, and each
// gets the whole.
#include <cstdio>
#include <functional>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(table)
TERN_KERNEL(fill, int n, float value, TERN_GLOBAL float* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] = value; };
}
TERN_KERNELS_END(table)

constexpr int columns = 10000;

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    const int ranks = tern::size(), me = tern::rank();
    // Every rank has such objects; those of rank 0 are used.
    tern::hetero_object<float, 2> rows({ranks, columns}, 0.0f);
    tern::hetero_object<double> sum(1, 0.0);
    const tern::exported open_rows(rows); // as long as these live, other ranks reach the objects
    const tern::exported open_sum(sum);
    const tern::global_ptr<float, 2> there = tern::broadcast(open_rows.ptr());
    const tern::global_ptr<double> total = tern::broadcast(open_sum.ptr());

    tern::hetero_object<float, 2> mine({1, columns});
    const float value = 1.0f + static_cast<float>(me);
    tern::submit(table::fill, tern::items(columns), columns, value, tern::write(mine)); // on any device
    tern::put(mine, there.rows(me, me + 1)); // waits for nothing, nor for that task
    const tern::hetero_object<double> one(1, 1.0 + me);
    tern::accumulate(one, total, tern::accumulation::plus);
    tern::fence().get(); // all that this rank has announced is done
    tern::barrier();     // … and what the others have

    const tern::hetero_object<float, 2> all = tern::get(there); // arrives while this goes on
    const tern::hetero_object<double> got = tern::get(total);
    double sum_of_rows = 0;
    {
      const auto v = all.host(tern::access_mode::read).get(); // waits for the data
      for (int r = 0; r < ranks; ++r) sum_of_rows += v(r, columns - 1);
    }
    const double expected = got.host(tern::access_mode::read).get()(0);
    const bool right = tern::allreduce(sum_of_rows == expected, std::logical_and<>());
    if (me == 0) std::printf("%d ranks have put their rows, and find the sum %g in them\n", ranks, sum_of_rows);
    tern::barrier(); // all have read: the objects may go
    return right ? 0 : 1;
  });
}

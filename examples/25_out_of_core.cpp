// SPDX-License-Identifier: Apache-2.0
// Out of core: the blocks of a matrix take four times the memory that objects may have on the host.
// What is not used goes to disk, and comes back for the tasks that need it.
// --tern-hetero-host-memory 8M --tern-hetero-disk /var/tmp
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(sweep)
TERN_KERNEL(twice, int n, TERN_GLOBAL double* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] *= 2; };
}
TERN_KERNELS_END(sweep)

constexpr int blocks = 128, size = 32 * 1024, sweeps = 3; // 256 KiB a block, 32 MiB together

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    std::vector<tern::hetero_object<double>> matrix; // a block is what goes and comes as a whole
    for (int b = 0; b < blocks; ++b) matrix.emplace_back(size, b + 1.0);
    tern::hetero_object<double> sums(blocks, 0.0);

    for (int s = 0; s < sweeps; ++s) // all submitted at once: so it is known what comes next
      for (int b = 0; b < blocks; ++b) {
        tern::submit(sweep::twice, tern::items(size), size, tern::read_write(matrix[b]));
        tern::submit(
            [](tern::host_view<const double, 1> x, tern::host_view<double, 1> sum) {
              sum(0) = 0;
              for (const double v : x) sum(0) += v;
            },
            tern::read(matrix[b]), tern::write(sums.rows(b, b + 1)));
      }
    tern::wait_all();

    bool right = true;
    {
      const auto host = sums.host(tern::access_mode::read).get();
      for (int b = 0; b < blocks; ++b) right = right && host[b] == (b + 1.0) * size * (1 << sweeps);
    }
    const tern::hetero::statistics done = tern::hetero::count();
    const bool within = done.host_limit == 0 || done.host_bytes <= done.host_limit;
    if (tern::rank() == 0) {
      std::printf("the sums of %d blocks are %s\n", blocks, right ? "right" : "wrong");
      if (done.host_limit > 0)
        std::printf("memory within %lld MiB: %s; to disk: %s\n", static_cast<long long>(done.host_limit >> 20),
                    within ? "yes" : "no", done.bytes_to_disk > 0 ? "yes" : "no");
    }
    return right && within ? 0 : 1;
  });
}

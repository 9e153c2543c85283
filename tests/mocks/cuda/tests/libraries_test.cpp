// SPDX-License-Identifier: Apache-2.0
// The libraries as the examples open them: those that cannot be used are passed over, and handles
// outlive schedulers.
#include "examples/cuda_libraries.hpp"

#include <cstdlib>

#include <dlfcn.h>

#include <gtest/gtest.h>

#include "tests/hetero/support/mock_cuda.hpp"
#include <tern/base/options.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/task/scheduler.hpp>

namespace {

using view = tern::device_view<double, 2>;
using input = tern::device_view<const double, 2>;

/// c = a a, of a scheduler of its own, with a device that is opened and closed.
double product(double element) {
  int none = 0;
  tern::options opts = tern::options::parse(none, nullptr);
  opts.set(tern::hetero::hetero_devices, "host,cuda");
  tern::scheduler s({.workers = 1, .opts = &opts});
  double found = 0;
  EXPECT_EQ(s.run([&] {
    const tern::hetero_object<double, 2> a({8, 8}, element), c({8, 8});
    tern::submit(tern::variants(tern::on_queue(tern::hetero::device_kind::cuda,
                                               [](const tern::native_queue& q, input x, view y) {
                                                 using cuda_libraries::plain;
                                                 cuda_libraries::blas::here(q).gemm(plain, plain, 8, 8, 8, 1,
                                                                                    x.address(), 8, x.address(), 8, 0,
                                                                                    y.address(), 8);
                                               })),
                 tern::read(a), tern::write(c));
    tern::wait_all();
    found = c.host(tern::access_mode::read).get()(3, 4);
  }),
            0u);
  return found;
}

TEST(libraries, the_first_that_can_be_used_is_taken_and_its_handles_outlive_schedulers) {
  setenv("TERN_EXAMPLE_CUBLAS", "libnotthere.so:libm.so.6:" TERN_MOCK_CUDA_LIBRARIES, 1);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(product(i), 8 * i * i);
  // All in one context: a later one could have the address of the first, and would get its handle.
  tern_mock_counters now{};
  void* const driver = dlopen(TERN_MOCK_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  ASSERT_TRUE(driver);
  reinterpret_cast<void (*)(tern_mock_counters*)>(dlsym(driver, "tern_mock_cuda_counters"))(&now);
  EXPECT_EQ(now.contexts_created, 1u);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
// Kernels that are not in the program, but read from their file when a device first needs them:
// this file is compiled with -DTERN_KERNELS_AT_RUN_TIME.
#ifndef TERN_KERNELS_AT_RUN_TIME
#error "compile it with -DTERN_KERNELS_AT_RUN_TIME"
#endif
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/dialect.hpp>

static const char* const this_file = __FILE__;

TERN_KERNELS_BEGIN(run_time_kernels)
TERN_KERNEL(triple, int n, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] *= 3; };
}
TERN_KERNELS_END(run_time_kernels)

// As if it had been compiled elsewhere.
#line 28 "no_such_folder/run_time_kernels_test.cpp"
TERN_KERNELS_BEGIN(moved_kernels)
TERN_KERNEL(twice, int n, TERN_GLOBAL int* x) {
  TERN_REGION_IN(n, 1, 1) { x[item.x] *= 2; };
}
TERN_KERNELS_END(moved_kernels)

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class kernels_at_run_time : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (GetParam() == std::string("opencl") && !there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  }
  template <class F> static void run(F&& f) {
    const mock_cuda driver;
    on({.devices = std::string("host,") + GetParam(), .cuda = GetParam() == std::string("cuda")}, std::forward<F>(f));
  }
  template <class K> static int first_of(const K& kernel, const hetero_object<int>& x, const std::string& device) {
    hetero_task t(kernel, items(100), 100, read_write(x));
    t.on(device).submit();
    t.wait();
    return x.host(access_mode::read).get()[99];
  }
  std::string id() const { return std::string(GetParam()) + "0"; }
};
INSTANTIATE_TEST_SUITE_P(on, kernels_at_run_time, testing::Values("opencl", "cuda"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(kernels_at_run_time, are_read_from_their_file) {
  EXPECT_EQ(run_time_kernels::tern_source().begin, nullptr);
  run([&] {
    const hetero_object<int> x(100, 5);
    EXPECT_EQ(first_of(run_time_kernels::triple, x, id()), 15);
    EXPECT_EQ(first_of(run_time_kernels::triple, x, "host"), 45);
  });
}

TEST_P(kernels_at_run_time, say_which_file_is_missing_and_are_found_elsewhere) {
  run([&] {
    hetero_object<int> x(100, 5);
    EXPECT_EQ(first_of(moved_kernels::twice, x, "host"), 10); // the program has that itself
    EXPECT_THAT(text_of_error([&] { first_of(moved_kernels::twice, x, id()); }),
                AllOf(HasSubstr("the kernels 'moved_kernels' cannot be read from "
                                "no_such_folder/run_time_kernels_test.cpp"),
                      HasSubstr("TERN_KERNEL_PATH")));
    const hetero_object<int> other(100, 5);
    EXPECT_EQ(first_of(run_time_kernels::triple, other, id()), 15); // others go on
  });
  ::setenv("TERN_KERNEL_PATH", std::filesystem::path(this_file).parent_path().c_str(), 1);
  run([&] {
    const hetero_object<int> x(100, 5);
    EXPECT_EQ(first_of(moved_kernels::twice, x, id()), 10);
  });
  ::unsetenv("TERN_KERNEL_PATH");
}

} // namespace
} // namespace tern::hetero

// SPDX-License-Identifier: Apache-2.0
// CUDA devices without NVRTC, on the mock driver: what they run, and what they say of the rest. The
// kernels of support/kernels.hpp have PTX in this program (tern_device_code), by a clang of the
// mock's.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/device_code/kernels_without_ptx.hpp"
#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/batch.hpp>
#include <tern/hetero/device/cuda/nvrtc.hpp>
#include <tern/hetero/kernel/device_code.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/variants.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class without_nvrtc : public testing::Test {
protected:
  without_nvrtc() {
    std::string name = (std::filesystem::temp_directory_path() / "tern-code-XXXXXX").string();
    cache_ = mkdtemp(name.data());
  }
  ~without_nvrtc() override { std::filesystem::remove_all(cache_); }
  void run(const std::string& devices, const std::function<void()>& f, bool nvrtc = false, bool contract = true) {
    const mock_cuda driver;
    options opts;
    opts.set(detail::cuda_libraries,
             std::string(TERN_MOCK_CUDA) + (nvrtc ? ":" TERN_MOCK_NVRTC : ":/no/such/nvrtc.so"));
    opts.set(hetero_devices, devices);
    opts.set(hetero_cache, cache_.string());
    opts.set(hetero_models, "off");
    opts.set(hetero_fma, contract);
    scheduler s({.workers = 2, .opts = &opts});
    EXPECT_EQ(s.run([&] {
      f();
      expect_nothing_left();
    }),
              0u);
  }
  static void axpy_is_right() {
    hetero_object<double> x(100, 2.0), y(100, 1.0);
    submit(test_kernels::axpy, items(100), 100, 3.0, read(x), read_write(y));
    EXPECT_EQ(y.host(access_mode::read).get()[99], 7.0);
  }
  template <class... A> static std::string error_of(const A&... arguments) {
    hetero_task t(arguments...);
    t.submit();
    return text_of_error([&] { t.wait(); });
  }
  static std::uint64_t tasks_on(const char* device) {
    for (const auto& d : count().devices)
      if (d.id == device) return d.tasks;
    return 0;
  }

  std::filesystem::path cache_;
};

TEST_F(without_nvrtc, kernels_run_by_ptx_that_was_made_with_the_program) {
  for (const bool contract : {true, false})
    run(
        "cuda0",
        [] {
          axpy_is_right();
          EXPECT_EQ(tasks_on("cuda0"), 1u);
        },
        false, contract);
}

// So does a batch of small tasks: its launches are several at a time.
TEST_F(without_nvrtc, small_tasks_are_launched_together_by_ptx_of_the_program) {
  std::uint64_t launches = 0, programs = 0;
  run("cuda0", [&] {
    std::vector<hetero_object<double>> all;
    for (int i = 0; i < 100; ++i) all.emplace_back(extents<1>{8}, 1.0 * i);
    const hetero_object<double> x(8, 2.0);
    constexpr int rounds = 40;
    for (int r = 0; r < rounds; ++r)
      submit_batch(test_kernels::axpy, items(8), all.size(),
                   [&](std::size_t i) { return std::tuple(8, 0.5, read(x), read_write(all[i])); });
    wait_all();
    launches = mock_cuda::counters().launches;
    programs = mock_cuda::calls("cuModuleLoadDataEx");
    EXPECT_EQ(tasks_on("cuda0"), rounds * all.size());
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(all[static_cast<std::size_t>(i)].host(access_mode::read).get()[7], i + 1.0 * rounds);
  });
  EXPECT_LT(launches, 3900u); // at least while it is tried
  EXPECT_EQ(programs, 2u);    // alone, and several at a time
}

// Where the program has none, they are launched one by one, and run.
TEST_F(without_nvrtc, small_tasks_are_launched_one_by_one_if_no_ptx_is_for_several) {
  // How many are launched together depends on what waits when the device has room: on a busy
  // machine a round has none.
  const auto many = [](std::uint64_t& least, int rounds) {
    least = 1000;
    for (int round = 0; round < rounds && least == 1000; ++round) {
      std::vector<hetero_object<int>> all;
      for (int i = 0; i < 100; ++i) all.emplace_back(extents<1>{8}, 1);
      const std::uint64_t before = mock_cuda::counters().launches;
      for (int r = 0; r < 10; ++r)
        submit_batch(without_ptx::triple, items(8), all.size(),
                     [&](std::size_t i) { return std::tuple(8, read_write(all[i])); });
      wait_all();
      least = std::min<std::uint64_t>(least, mock_cuda::counters().launches - before);
      EXPECT_EQ(all[99].host(access_mode::read).get()[7], 59049);
    }
  };
  const auto triple = [] {
    hetero_object<int> x(10, 1);
    submit(without_ptx::triple, items(10), 10, read_write(x));
    wait_all();
  };
  std::uint64_t launches = 0;
  run("cuda0", triple, true); // this kernel alone is kept
  run("cuda0", [&] { many(launches, 5); });
  EXPECT_EQ(launches, 1000u);
  run(
      "cuda0", [&] { many(launches, 50); }, true); // with NVRTC the one of several is made, and kept
  EXPECT_LT(launches, 1000u);
  run("cuda0", [&] { many(launches, 50); });
  EXPECT_LT(launches, 1000u);
}

TEST_F(without_nvrtc, a_kernel_without_ptx_says_what_is_missing) {
  run("cuda0", [] {
    hetero_object<int> x(10, 1);
    EXPECT_THAT(
        error_of(without_ptx::triple, items(10), 10, read_write(x)),
        AllOf(HasSubstr("task 'triple' has no place to run: cuda0 cannot run 'triple': the kernels 'without_ptx' ("),
              HasSubstr("kernels_without_ptx.hpp) cannot be compiled here ("), HasSubstr("/no/such/nvrtc.so"),
              HasSubstr("no earlier run has kept them, and the program has no PTX of them; install NVRTC"),
              HasSubstr("tern_device_code(TARGET)")));
    static const cuda_source source("one", "extern \"C\" __global__ void one(int* x) { *x = 1; }");
    hetero_object<int> y(1, 1);
    EXPECT_THAT(error_of(source, items(1), read_write(y)),
                AllOf(HasSubstr("'one'"), HasSubstr("CUDA source"), HasSubstr("give it as PTX (tern::cuda_module)"),
                      Not(HasSubstr("tern_device_code"))));
  });
}

TEST_F(without_nvrtc, it_runs_elsewhere_if_it_can) {
  run("host,cuda0", [] {
    hetero_object<int> x(10, 1);
    for (int i = 0; i < 5; ++i) submit(without_ptx::triple, items(10), 10, read_write(x));
    EXPECT_EQ(x.host(access_mode::read).get()[9], 243);
    EXPECT_EQ(tasks_on("cuda0"), 0u);
    hetero_task there(without_ptx::triple, items(10), 10, read_write(x));
    there.on("cuda0").submit();
    EXPECT_THAT(text_of_error([&] { there.wait(); }), HasSubstr("has no place to run: cuda0 cannot run 'triple'"));
  });
}

TEST_F(without_nvrtc, ptx_modules_and_functions_on_queues_always_run) {
  std::vector<std::string> notes;
  const auto nvrtc = detail::nvrtc_api::open(std::vector<std::string>{TERN_MOCK_NVRTC}, notes);
  ASSERT_TRUE(nvrtc);
  static const std::string ptx =
      compile_cuda(*nvrtc,
                   {"extern \"C\" __global__ void seven(int n, int* x) { for (int i = 0; i < n; ++i) x[i] = 7; }",
                    "seven.cu", "seven", ""},
                   {75, false})
          .code;
  static const cuda_module module("seven", std::as_bytes(std::span(ptx)));
  run("cuda0", [] {
    hetero_object<int> x(10, 1);
    submit(module, items(1), 10, write(x));
    EXPECT_EQ(x.host(access_mode::read).get()[9], 7);
    submit(variants(on_queue(device_kind::cuda, [](const native_queue&, const device_view<int, 1>&) {})),
           read_write(x));
    wait_all();
    EXPECT_EQ(tasks_on("cuda0"), 2u);
  });
}

TEST_F(without_nvrtc, what_an_earlier_run_has_kept_is_used_first) {
  const auto triple = [] {
    hetero_object<int> x(10, 1);
    submit(without_ptx::triple, items(10), 10, read_write(x));
    EXPECT_EQ(x.host(access_mode::read).get()[9], 3);
    EXPECT_EQ(tasks_on("cuda0"), 1u);
  };
  run("cuda0", triple, true);
  run("cuda0", triple);
  run(
      "cuda0",
      [] { // of other options it was not kept
        hetero_object<int> x(10, 1);
        EXPECT_THAT(error_of(without_ptx::triple, items(10), 10, read_write(x)),
                    HasSubstr("no earlier run has kept them"));
      },
      false, false);
}

TEST_F(without_nvrtc, ptx_of_another_text_is_not_used) {
  static const detail::made_code_registration old({"of_another_text", {1, 2}, 70, true, "// no PTX"});
  run("cuda0", [] {
    hetero_object<int> x(10, 1);
    EXPECT_THAT(error_of(of_another_text::negate, items(10), 10, read_write(x)),
                HasSubstr("the program has no PTX of them but for another text: build it again"));
  });
}

TEST_F(without_nvrtc, recorded_tasks_run_where_all_of_them_can) {
  run("host,cuda0", [] {
    hetero_object<int> x(10, 1), y(10, 0);
    recorded all("both"), first("first");
    for (int round = 0; round < 3; ++round) {
      first.submit([&] { submit(test_kernels::copy_some, items(10), 10, read(x), write(y)); });
      all.submit([&] {
        submit(test_kernels::copy_some, items(10), 10, read(x), write(y));
        submit(without_ptx::triple, items(10), 10, read_write(y));
      });
    }
    EXPECT_EQ(y.host(access_mode::read).get()[0], 3);
    recorded there("there");
    there.on(device_kind::cuda);
    there.submit([&] { submit(without_ptx::triple, items(10), 10, read_write(y)); });
    EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("cuda0 cannot run 'triple'"));
  });
}

} // namespace
} // namespace tern::hetero

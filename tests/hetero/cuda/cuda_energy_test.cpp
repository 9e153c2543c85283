// SPDX-License-Identifier: Apache-2.0
// The power of CUDA devices and of the host, by mocks of NVIDIA's management library and of the
// kernel's powercap folder.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/mock_nvml.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/device/cuda/cuda_device.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/task/fiber.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class cuda_energy : public testing::Test {
protected:
  cuda_energy() { configure("usage=50,limit=700"); }
  static void configure(const char* text) {
    void* const library = dlopen(TERN_MOCK_NVML, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    reinterpret_cast<decltype(&tern_mock_nvml_configure)>(dlsym(library, "tern_mock_nvml_configure"))(text);
  }
  options energy_options(const std::string& policy, const std::string& nvml = TERN_MOCK_NVML) const {
    options opts = cuda_options();
    opts.set(detail::cuda_libraries, opts[detail::cuda_libraries] + ":" + nvml);
    opts.set(hetero_devices, "host,cuda");
    opts.set(hetero_policy, policy);
    opts.set(hetero_powercap, folder.path.string());
    return opts;
  }
  void package(std::uint64_t watts_at_most) const {
    const auto at = folder.path / "intel-rapl:0";
    std::filesystem::create_directories(at);
    std::ofstream(at / "name") << "package-0\n";
    std::ofstream(at / "energy_uj") << "1000000\n";
    std::ofstream(at / "constraint_0_power_limit_uw") << watts_at_most * 1'000'000 << "\n";
  }
  /// What `tern info` says, of the host and the first GPU.
  std::string told(const std::string& nvml = TERN_MOCK_NVML) const {
    std::string all;
    for (const device_info& i : devices(energy_options("locality", nvml), nullptr, true))
      all += i.id + ": " + i.energy + "\n";
    return all;
  }
  const test::temporary folder;
  const mock_cuda driver;
};

void on_gpu() {
  hetero_task t(test_kernels::nothing, tern::items(1));
  t.on("cuda0").submit().wait();
}

TEST_F(cuda_energy, info_says_what_is_found) {
  package(120);
  EXPECT_EQ(told(), "host: powercap (package-0): at most 120 W\ncuda0: NVML: 50 W now, at most 700 W\n");
}

TEST_F(cuda_energy, info_says_what_is_missing) {
  configure("no-energy");
  EXPECT_THAT(told(), AllOf(HasSubstr("host: not known: " + folder.path.string() + " has no counter"),
                            HasSubstr("cuda0: not known: NVML says of the GPU at 0000:01:00.0: Not Supported")));
  configure("no-gpu");
  EXPECT_THAT(told(), HasSubstr("0000:01:00.0: Not Found"));
  EXPECT_THAT(told("/no/such/libnvidia-ml.so"),
              AllOf(HasSubstr("cuda0: not known: NVIDIA's management library"), HasSubstr("cannot be opened")));
}

TEST_F(cuda_energy, limits_count_until_it_is_measured) {
  package(100);
  const options opts = energy_options("energy");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    on_gpu();
    detail::task_sampler& known = detail::runtime::here("the test").sampler();
    EXPECT_DOUBLE_EQ(known.expected_joules(1, 2).value_or(0), 2 * (700 - 50));
    EXPECT_DOUBLE_EQ(known.idle_watts(1).value_or(0), 50);
    EXPECT_DOUBLE_EQ(known.expected_joules(0, 2).value_or(0), 2 * 100 / 2.0) << "of two workers";
  }),
            0u);
}

TEST_F(cuda_energy, is_measured_while_tasks_run) {
  configure("usage=50,limit=700,watts=300");
  const options opts = energy_options("energy");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    detail::task_sampler& known = detail::runtime::here("the test").sampler();
    const auto begin = std::chrono::steady_clock::now();
    double idle = 0;
    do { // the device is idle but for moments
      on_gpu();
      idle = known.idle_watts(1).value_or(0);
      this_fiber::sleep_for(std::chrono::milliseconds(10));
    } while (idle < 200 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
    EXPECT_NEAR(idle, 300, 60);
  }),
            0u);
}

TEST_F(cuda_energy, is_not_looked_for_unless_a_policy_weighs_it) {
  for (const auto& [policy, measured] : {std::pair{"locality", false}, {"dmda", false}, {"dmda:gamma=1", true}}) {
    const options opts = energy_options(policy);
    scheduler s({.workers = 2, .opts = &opts});
    EXPECT_EQ(s.run([measured = measured, policy = policy] {
      on_gpu();
      EXPECT_EQ(detail::runtime::here("the test").sampler().measures_power(), measured) << policy;
    }),
              0u);
  }
}

} // namespace
} // namespace tern::hetero

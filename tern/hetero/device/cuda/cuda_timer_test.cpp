// SPDX-License-Identifier: Apache-2.0
// How long kernels and copies took on CUDA devices, by the mock driver's virtual clock.
#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/opencl.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

class cuda_timer_test : public testing::Test {
protected:
  cuda_device& open(const std::string& how) {
    mock_ = std::make_unique<mock_cuda>(how);
    device_ = first_cuda_device(cuda_options());
    if (!device_) throw std::runtime_error("the mock driver has no device");
    device_->open();
    return *device_;
  }
  static launch_request request(bool timed) {
    return {.code = &code_of<test_kernels::nothing>(), .shape = {}, .timed = timed};
  }
  std::unique_ptr<mock_cuda> mock_; // after the device
  std::unique_ptr<cuda_device> device_;
};

TEST_F(cuda_timer_test, a_kernel_has_a_time_if_its_launch_asks_for_it) {
  cuda_device& d = open("call=100ns,start=5us,kernel=10us");
  EXPECT_TRUE(d.measures());
  EXPECT_TRUE(d.measures_on_request());
  wait(d, d.launch(2, request(true)));
  EXPECT_NEAR(static_cast<double>(d.took()), 10'000, 500);
  wait(d, d.launch(2, request(false)));
  EXPECT_EQ(d.took(), 0);
  const ticket first = d.launch(2, request(false)), second = d.launch(2, request(true));
  wait(d, first);
  EXPECT_EQ(d.took(), 0);
  wait(d, second);
  EXPECT_NEAR(static_cast<double>(d.took()), 10'000, 500) << "from when the one before it has ended";
}

TEST_F(cuda_timer_test, copies_have_times_at_first_and_seldom_later) {
  cuda_device& d = open("call=100ns,bandwidth=1G");
  const memory_handle m = d.allocate(100'000);
  std::vector<std::byte> x(100'000);
  const copy_request to{.way = direction::to_device, .host = x.data(), .device = m, .row_bytes = x.size()};
  unsigned told = 0;
  constexpr unsigned copies = 64;
  for (unsigned i = 0; i < copies; ++i) {
    wait(d, d.copy(0, to));
    if (d.took() == 0) continue;
    ++told;
    EXPECT_NEAR(static_cast<double>(d.took()), 100'000 * 1e9 / (1 << 30), 500);
  }
  EXPECT_EQ(told, cuda_timer::first_copies + copies / cuda_timer::every);
  copy_request within{.way = direction::within, .device = m, .offset = 50'000, .from = m, .row_bytes = 10'000};
  wait(d, d.copy(2, within));
  EXPECT_EQ(d.took(), 0) << "no model is made of it";
  d.free(m, x.size());
}

TEST_F(cuda_timer_test, its_events_are_used_again) {
  cuda_device& d = open("");
  for (int i = 0; i < 100; ++i) wait(d, d.launch(2, request(true)));
  EXPECT_EQ(mock_cuda::counters().live_events, 3u);
  EXPECT_GT(d.took(), 0) << "by the machine's clock";
}

TEST_F(cuda_timer_test, a_launch_that_fails_leaves_no_pair_behind) {
  cuda_device& d = open("fail-launch=1");
  EXPECT_ANY_THROW(d.launch(2, request(true)));
  wait(d, d.launch(2, request(true)));
  EXPECT_EQ(mock_cuda::counters().live_events, 3u);
}

TEST_F(cuda_timer_test, a_driver_that_tells_no_times_measures_nothing) {
  mock_ = std::make_unique<mock_cuda>("");
  std::vector<std::string> notes;
  const options opts = cuda_options();
  const std::string mocks = opts[cuda_libraries];
  auto api = cuda_api::open(std::vector{mocks.substr(0, mocks.find(':'))}, notes).value();
  const auto nvrtc = nvrtc_api::open(nvrtc_libraries(opts), notes).value();
  api.EventElapsedTime = nullptr;
  ASSERT_EQ(api.Init(0), cu::success);
  const auto all = open_cuda(api, nvrtc, "", opts, nullptr, notes);
  ASSERT_EQ(all.size(), 1u);
  all[0]->open();
  EXPECT_FALSE(all[0]->measures());
  wait(*all[0], all[0]->launch(2, request(true)));
  EXPECT_EQ(all[0]->took(), 0);
}

} // namespace
} // namespace tern::hetero::detail

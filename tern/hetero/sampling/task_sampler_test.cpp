// SPDX-License-Identifier: Apache-2.0
// Which times of kernels are taken.
#include <tern/hetero/sampling/task_sampler.hpp>

#include <gtest/gtest.h>

#include <tern/hetero/devices.hpp>

namespace tern::hetero::detail {
namespace {

class task_sampler_test : public testing::Test {
protected:
  task_sampler_test() { sampler.add_devices(); }
  static options in_memory() {
    options opts;
    opts.set(hetero_models, "read:none");
    return opts;
  }
  static kernel_code code_of(const char* name) {
    return {name, nullptr, {}, nullptr, nullptr, code_form::cuda_module, "text", ""};
  }
  /// \return how many of `n` times of so long were taken.
  int take(const kernel_code& of, int n, std::int64_t nanoseconds) {
    int taken = 0;
    for (int i = 0; i < n; ++i)
      if (sampled_kernel* const k = sampler.to_sample(task, of, grid{})) {
        sampler.ran(*k, nanoseconds);
        ++taken;
      }
    return taken;
  }
  const kernel_code brief = code_of("brief"), longer = code_of("longer");
  const device_table devices{device_info{}};
  task_sampler sampler{in_memory(), false, devices};
  task_record task;
};

TEST_F(task_sampler_test, brief_kernels_that_are_known_are_sampled_seldom) {
  EXPECT_EQ(take(brief, 65, 1000), 65) << "the first does not count";
  EXPECT_EQ(take(brief, 160, 1000), 10);
  EXPECT_EQ(take(longer, 65, task_sampler::brief), 65);
  EXPECT_EQ(take(longer, 160, task_sampler::brief), 160);
}

TEST_F(task_sampler_test, after_a_change_each_time_counts_again) {
  take(brief, 65, 1000);
  EXPECT_EQ(take(brief, 6 * 16, 2000), 6) << "then it is seen";
  EXPECT_EQ(take(brief, 59, 2000), 59) << "64, after the two old ones among the eight have gone as well";
  EXPECT_EQ(take(brief, 16, 2000), 1);
}

TEST_F(task_sampler_test, times_beside_others_count_until_there_are_others) {
  sampled_kernel* const k = sampler.to_sample(task, longer, grid{});
  ASSERT_NE(k, nullptr);
  const auto samples = [this] { return sampler.models().all().kernels.begin()->second.times.size(); };
  for (int i = 0; i < 5; ++i) sampler.ran(*k, 2000, true);
  EXPECT_EQ(samples(), 4u);
  sampler.ran(*k, 1000);
  EXPECT_EQ(samples(), 5u);
  for (int i = 0; i < 5; ++i) sampler.ran(*k, 2000, true);
  EXPECT_EQ(samples(), 5u) << "it has been alone";
}

TEST_F(task_sampler_test, sizes_and_devices_are_apart) {
  sampled_kernel* const one = sampler.to_sample(task, brief, grid{});
  EXPECT_EQ(sampler.to_sample(task, brief, grid{}), one);
  EXPECT_NE(sampler.to_sample(task, longer, grid{}), one);
  EXPECT_NE(sampler.to_sample(task, brief, grid{{2, 1, 1}, {1, 1, 1}, false}), one);
}

TEST_F(task_sampler_test, numbers_of_the_users_are_apart) {
  sampled_kernel* const one = sampler.to_sample(task, brief, grid{});
  use_block block{};
  task.more_uses = &block;
  task.marks = task_record::sized;
  EXPECT_EQ(sampler.to_sample(task, brief, grid{}), one) << "0 is none";
  block.size_number = 5;
  sampled_kernel* const other = sampler.to_sample(task, brief, grid{});
  EXPECT_NE(other, one);
  block.size_number = 6;
  EXPECT_NE(sampler.to_sample(task, brief, grid{}), other);
  block.size_number = 5;
  EXPECT_EQ(sampler.to_sample(task, brief, grid{}), other);
}

TEST_F(task_sampler_test, off_is_off) {
  options opts;
  opts.set(hetero_models, "off");
  task_sampler none(opts, false, devices);
  EXPECT_EQ(none.to_sample(task, brief, grid{}), nullptr);
  none.add_devices();
  none.copied(0, direction::to_device, 1, 1, false);
  EXPECT_TRUE(none.models().all().empty());
}

TEST_F(task_sampler_test, a_kernel_without_a_text_has_no_model) {
  const source_block& (*const missing)() = []() -> const source_block& {
    static const source_block b{"b", "/nowhere/b.cpp", nullptr, nullptr, 1, 3};
    return b;
  };
  const kernel_code code{"k", missing, {}, nullptr, nullptr};
  EXPECT_EQ(sampler.to_sample(task, code, grid{}), nullptr);
  EXPECT_EQ(sampler.to_sample(task, code, grid{}), nullptr);
}

TEST_F(task_sampler_test, copies_between_devices_are_left_out) {
  sampler.copied(0, direction::between, 1000, 1000, false);
  sampler.copied(0, direction::within, 1000, 1000, false);
  EXPECT_TRUE(sampler.models().all().links.empty());
  sampler.copied(0, direction::from_device, 1000, 1000, false);
  EXPECT_EQ(sampler.models().all().links.size(), 1u);
}

} // namespace
} // namespace tern::hetero::detail

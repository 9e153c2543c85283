// SPDX-License-Identifier: Apache-2.0
// Devices of OpenCL: kernels give what they give on the host, in the host's memory and in buffers;
// copies; order; what is refused.
#include "tests/hetero/support/opencl.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class opencl : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    device_ = first_device(options_for(GetParam()));
    if (!device_) GTEST_SKIP() << "no OpenCL device";
  }
  void TearDown() override {
    if (device_) {
      EXPECT_EQ(device_->open_tickets(), 0u);
    }
  }
  opencl_device& d() { return *device_; }
  std::unique_ptr<opencl_device> device_;
};
INSTANTIATE_TEST_SUITE_P(memory, opencl, testing::Values("auto", "buffers"),
                         [](const auto& one) { return std::string(one.param); });

TEST(opencl_signals, stay_with_the_program) {
  std::array<void (*)(int), 32> before{};
  const auto handlers = [] {
    std::array<void (*)(int), 32> all{};
    for (int s = 1; s < 32; ++s) {
      struct sigaction now {};
      if (::sigaction(s, nullptr, &now) == 0) all[static_cast<std::size_t>(s)] = now.sa_handler;
    }
    return all;
  };
  before = handlers();
  const auto d = first_device(options_for("auto"));
  if (!d) GTEST_SKIP() << "no OpenCL device";
  EXPECT_EQ(handlers(), before) << "opening";
  launch_request what;
  what.code = &code_of<k::nothing>();
  wait(*d, d->launch(2, what));
  EXPECT_EQ(handlers(), before) << "compiling and launching";
}

TEST_P(opencl, says_what_it_is) {
  const device_info& i = d().info();
  EXPECT_EQ(i.kind, device_kind::opencl);
  EXPECT_EQ(i.id, "opencl0");
  EXPECT_NE(i.name, "");
  EXPECT_NE(i.driver, "");
  EXPECT_GE(i.compute_units, 1);
  EXPECT_GE(i.max_group_items, 1);
  EXPECT_LE(i.max_group_items, 1024);
  for (const int most : i.max_group) EXPECT_GE(most, 1);
  EXPECT_GE(i.local_memory_bytes, 1024);
  EXPECT_EQ(i.shares_host_memory, i.memory_bytes == 0);
  if (GetParam() == std::string("buffers")) {
    EXPECT_FALSE(i.shares_host_memory);
  } else if (i.driver.starts_with("Portable Computing Language")) {
    EXPECT_TRUE(i.shares_host_memory);
  }
  EXPECT_EQ(d().streams(), 7);
  EXPECT_GE(d().poll_delay(), 0);
}

TEST_P(opencl, refuses_what_it_cannot_launch) {
  const auto refused = [&](const std::function<void()>& body) { return message_of(errc::invalid_argument, body); };
  std::vector<int> some(4096);
  given on(d(), some);
  const auto out = on.as_argument();
  EXPECT_THAT(
      refused([&] {
        launch<k::who>(d(), {{1, 1, 1}, {1025, 1, 1}}, {out});
      }),
      AllOf(HasSubstr("opencl0 ("), HasSubstr("'who'"), HasSubstr("can have 1024 items"), HasSubstr("smaller groups")));
  EXPECT_THAT(refused([&] { launch<k::who>(d(), {{1, 1, 1}, {1, 1, 1 << 20}}, {out}); }), HasSubstr("in z"));
  EXPECT_THAT(refused([&] {
                launch<k::who>(d(), {{1, 1, 1}, {0, 1, 1}}, {out});
              }),
              HasSubstr("groups of 0 items in x"));
  EXPECT_THAT(refused([&] { launch<k::who>(d(), {{1, -1, 1}, {1, 1, 1}}, {out}); }), HasSubstr("no -1 groups"));
  EXPECT_THAT(refused([&] { launch<k::who>(d(), {}, {out, out}); }), HasSubstr("has 1 parameters, 2 arguments"));
  EXPECT_THAT(refused([&] { launch<k::nothing>(d(), {}, {}, 2, std::size_t{1} << 30); }), HasSubstr("dynamic memory"));
  EXPECT_THAT(refused([&] { launch<k::nothing>(d(), {}, {}, 7); }), HasSubstr("streams 0 to 6"));
  EXPECT_THAT(refused([&] { d().done(99); }), HasSubstr("no ticket 99"));
  const double not_an_int = 0;
  EXPECT_THAT(message_of(errc::device_failed,
                         [&] {
                           launch<k::axpy>(d(), {}, {by_value(not_an_int), out, out, out});
                         }),
              AllOf(HasSubstr("launch the kernel 'axpy'"), HasSubstr("parameter 1"), HasSubstr("CL_INVALID_ARG_SIZE")));
}

const source_block& broken_block() {
  static const std::string text = "one\nTERN_KERNELS_BEGIN(broken)\n\nTERN_KERNEL(wrong, TERN_GLOBAL int* p) {\n"
                                  "  p[0] = dxx;\n}\nTERN_KERNELS_END(broken)\n";
  static const source_block block{"broken", "/some/where/broken.hpp", text.data(), text.data() + text.size(), 2, 7};
  return block;
}

TEST_P(opencl, kernels_that_do_not_compile_are_shown) {
  const kernel_code wrong{"wrong", &broken_block, {0, 0, 0}, nullptr, nullptr};
  const std::string text = message_of(errc::invalid_data, [&] { d().launch(2, {.code = &wrong}); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("the kernels 'broken' (/some/where/broken.hpp) do not compile for opencl0"),
                    HasSubstr("/some/where/broken.hpp:5:"), HasSubstr("dxx"), HasSubstr("docs/concepts/kernels.md")));
  const kernel_code missing{"not_there", k::axpy.source, {0, 0, 0}, nullptr, nullptr};
  EXPECT_THAT(message_of(errc::device_failed, [&] { d().launch(2, {.code = &missing}); }),
              AllOf(HasSubstr("'not_there' in the kernels 'test_kernels'"), HasSubstr("CL_INVALID_KERNEL_NAME")));
}

// Memory of its own ---------------------------------------------------------------------------------------------------

class opencl_buffers : public opencl {};
INSTANTIATE_TEST_SUITE_P(memory, opencl_buffers, testing::Values("buffers"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(opencl_buffers, within_one_buffer) {
  std::vector<std::byte> host(1000), back(1000);
  for (std::size_t i = 0; i < 1000; ++i) host[i] = static_cast<std::byte>(i);
  const memory_handle m = d().allocate(1000);
  const copy_request all{.way = direction::to_device, .host = host.data(), .device = m, .row_bytes = 1000};
  wait(d(), d().copy(0, all));
  // The pitches differ, which OpenCL does not do in one buffer.
  wait(d(), d().copy(2, {.way = direction::within,
                         .device = m,
                         .offset = 500,
                         .pitch = 20,
                         .from = m,
                         .from_offset = 0,
                         .from_pitch = 10,
                         .row_bytes = 5,
                         .rows = 20}));
  copy_request fetch = all;
  fetch.way = direction::from_device;
  fetch.host = back.data();
  wait(d(), d().copy(1, fetch));
  for (std::size_t y = 0; y < 20; ++y)
    for (std::size_t x = 0; x < 5; ++x) host[500 + 20 * y + x] = host[10 * y + x];
  EXPECT_TRUE(back == host);
  wait(d(), d().copy(1, {.way = direction::from_device, .host = back.data(), .device = m, .row_bytes = 0}));

  fetch.offset = 1;
  EXPECT_THAT(message_of(errc::device_failed, [&] { d().copy(1, fetch); }),
              AllOf(HasSubstr("opencl0"), HasSubstr("copy 1000 bytes"), HasSubstr("CL_INVALID_VALUE (-30)")));
  fetch.device = nullptr;
  EXPECT_THAT(message_of(errc::invalid_argument, [&] { d().copy(1, fetch); }), HasSubstr("there is no memory"));
  d().free(m, 1000);
}

TEST_P(opencl_buffers, kernels_get_parts_of_buffers) {
  const int n = 64;
  const double a = 2;
  std::vector<double> x(512), y(512, 1.0);
  std::iota(x.begin(), x.end(), 0.0);
  {
    given on_x(d(), x), on_y(d(), y);
    const grid shape{{1, 1, 1}, {64, 1, 1}};
    wait(d(), launch<k::axpy>(d(), shape, {by_value(n), by_value(a), on_x.as_argument(128), on_y.as_argument(256)}));
    on_y.fetch();
    EXPECT_THAT(
        message_of(errc::unsupported,
                   [&] {
                     launch<k::axpy>(d(), shape, {by_value(n), by_value(a), on_x.as_argument(1), on_y.as_argument()});
                   }),
        AllOf(HasSubstr("byte 8"), HasSubstr("multiples of")));
  }
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], i < 256 || i >= 320 ? 1.0 : 1.0 + 2.0 * static_cast<double>(i - 128)) << i;
}

} // namespace
} // namespace tern::hetero::detail

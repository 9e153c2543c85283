// SPDX-License-Identifier: Apache-2.0
// Kernels that encode and decode as libzfp does, to the byte, on each kind of device.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/global/codec.hpp>
#include <tern/global/codec/zfp_kernels.hpp>

#ifdef TERN_HAS_ZFP

namespace tern::global {
namespace {

using hetero::machine;

/// Fields of all kinds: smooth, rough, of all magnitudes, with zeros and blocks of zeros.
std::vector<std::vector<float>> fields() {
  std::mt19937 bits(7);
  std::vector<std::vector<float>> all;
  for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 1000u, 4099u}) {
    std::vector<float> smooth(n), rough(n), scaled(n), sparse(n);
    for (std::size_t i = 0; i < n; ++i) {
      smooth[i] = std::sin(0.01f * static_cast<float>(i));
      rough[i] = static_cast<float>(static_cast<int>(bits() % 20001) - 10000) * 0.37f;
      scaled[i] =
          std::ldexp(static_cast<float>(static_cast<int>(bits() % 2001) - 1000), static_cast<int>(bits() % 200) - 90);
      sparse[i] = i % 9 < 5 ? 0.0f : i % 9 == 5 ? -0.0f : static_cast<float>(i);
    }
    all.insert(all.end(), {smooth, rough, scaled, sparse});
  }
  return all;
}

/// What libzfp makes a number of 0 bits, or of all bits, of.
std::vector<float> extremes() {
  std::vector<float> x{1e-40f,
                       3e-39f,
                       0,
                       1e-45f, // denormal
                       1e-30f,
                       2e-30f,
                       -1e-30f,
                       0,
                       1e-29f,
                       1e-31f,
                       1e-38f,
                       5e-38f,
                       std::numeric_limits<float>::max(),
                       -std::numeric_limits<float>::max(),
                       1,
                       -1};
  std::mt19937 bits(11);
  while (x.size() < 4000) {
    const std::uint32_t b = bits();
    float f = 0;
    std::memcpy(&f, &b, sizeof f);
    if (std::isfinite(f)) x.push_back(f);
  }
  return x;
}

class zfp_kernels_on : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    kind_ = GetParam();
    if (kind_ == "cuda") driver_.emplace();
    if (kind_.starts_with("opencl") && !hetero::there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  }
  machine here() const {
    machine m{.devices = kind_ == "host"   ? "host"
                         : kind_ == "cuda" ? "host,cuda"
                                           : "host,opencl",
              .cuda = kind_ == "cuda"};
    if (kind_ == "opencl_buffers") m.opencl_memory = "buffers";
    return m;
  }
  const char* device() const { return kind_ == "host" ? "host" : kind_ == "cuda" ? "cuda0" : "opencl0"; }
  std::string kind_;
  std::optional<hetero::mock_cuda> driver_;

  std::vector<std::uint16_t> encoded(const std::vector<float>& x, int rate, std::size_t bytes) {
    const int n = static_cast<int>(x.size());
    hetero_object<float> in(n);
    hetero_object<std::uint16_t> out(static_cast<std::int64_t>(bytes / 2));
    {
      const auto v = in.host(access_mode::write).get();
      std::copy(x.begin(), x.end(), v.begin());
    }
    hetero_task t(zfp_kernels::encode, items((n + 3) / 4), n, rate, read(in), write(out));
    t.on(device()).submit();
    const auto v = out.host(access_mode::read).get();
    return {v.begin(), v.end()};
  }
  std::vector<float> decoded(const std::vector<std::uint16_t>& from, int rate, std::size_t count) {
    const int n = static_cast<int>(count);
    hetero_object<std::uint16_t> in(static_cast<std::int64_t>(from.size()));
    hetero_object<float> out(n);
    {
      const auto v = in.host(access_mode::write).get();
      std::copy(from.begin(), from.end(), v.begin());
    }
    hetero_task t(zfp_kernels::decode, items((n + 3) / 4), n, rate, read(in), write(out));
    t.on(device()).submit();
    const auto v = out.host(access_mode::read).get();
    return {v.begin(), v.end()};
  }
  void compare(const std::vector<float>& x, int rate) {
    const auto library = make_codec("zfp:rate=" + std::to_string(rate));
    const array_shape s = shape_of<float, 1>({static_cast<std::int64_t>(x.size())});
    std::vector<std::byte> bytes(library->bound(s));
    bytes.resize(library->encode(s, std::as_bytes(std::span(x)), bytes));
    const auto ours = encoded(x, rate, bytes.size());
    ASSERT_EQ(ours.size() * 2, bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(std::as_bytes(std::span(ours))[i], bytes[i])
          << "byte " << i << " of " << x.size() << " at rate " << rate;
    std::vector<float> wanted(x.size());
    library->decode(s, bytes, std::as_writable_bytes(std::span(wanted)));
    const auto back = decoded(ours, rate, x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::memcmp(&back[i], &wanted[i], sizeof(float)), 0)
          << back[i] << " for " << wanted[i] << ", element " << i << " of " << x.size() << " at rate " << rate;
  }
};
INSTANTIATE_TEST_SUITE_P(codec, zfp_kernels_on, testing::Values("host", "opencl", "opencl_buffers", "cuda"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(zfp_kernels_on, make_the_bytes_of_libzfp) {
  hetero::on(here(), [&] {
    for (const std::vector<float>& x : fields())
      for (const int rate : {4, 8, 16, 24, 32}) compare(x, rate);
  });
}

TEST_P(zfp_kernels_on, make_them_of_any_numbers) {
  hetero::on(here(), [&] {
    for (const int rate : {4, 8, 16, 24}) compare(extremes(), rate);
  });
}

// Bits from outside: some floats, in bounds, and those of libzfp.
TEST_P(zfp_kernels_on, decode_any_bits) {
  hetero::on(here(), [&] {
    std::mt19937 bits(3);
    for (const int rate : {4, 8, 16, 24}) {
      const auto library = make_codec("zfp:rate=" + std::to_string(rate));
      const array_shape s = shape_of<float, 1>({2001});
      std::vector<std::uint16_t> any(*library->fixed_size(s) / 2);
      for (std::uint16_t& a : any) a = static_cast<std::uint16_t>(bits());
      std::vector<float> wanted(2001);
      library->decode(s, std::as_bytes(std::span(any)), std::as_writable_bytes(std::span(wanted)));
      const auto ours = decoded(any, rate, wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_EQ(std::memcmp(&ours[i], &wanted[i], sizeof(float)), 0)
            << ours[i] << " for " << wanted[i] << ", element " << i << " at rate " << rate;
    }
  });
}

} // namespace
} // namespace tern::global

#endif

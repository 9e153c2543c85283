// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The mock driver and the mock NVRTC, opened, and a test that begins and ends without misuse.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <gtest/gtest.h>

#include <tern/hetero/device/cuda/nvrtc.hpp>

#include "tests/hetero/support/mock_cuda.hpp"
#include "tests/mocks/cuda/more_api.hpp"

namespace mock {

namespace nvrtc = tern::hetero::detail::nvrtc;
using tern::hetero::detail::cuda_api;
using tern::hetero::detail::nvrtc_api;

struct driver : cuda_api, more_api {
  decltype(&tern_mock_cuda_configure) configure = nullptr;
  decltype(&tern_mock_cuda_counters) counters = nullptr;
  decltype(&tern_mock_cuda_misuse) misuse = nullptr;
  decltype(&tern_mock_cuda_forget_misuse) forget_misuse = nullptr;
  decltype(&tern_mock_cuda_calls) calls = nullptr;
  decltype(&tern_mock_cuda_clock) clock = nullptr;
};
const driver& gpu();
const nvrtc_api& compiler();

/// What the tests launch; in mock_test.cpp.
extern const std::string test_kernels;

/// \return the result, and what was made: `cubin` or PTX. The log is NVRTC's.
nvrtc::result compile(const std::string& source, bool cubin, std::string& made, std::string& log,
                      std::vector<const char*> more = {}, const char* architecture = "90");
/// The same for what must compile; kept, since it takes a while.
const std::string& compiled(const std::string& source, bool cubin = true);

#define OK(...) ASSERT_EQ(__VA_ARGS__, 0) << mock::gpu().misuse()

/// One device, its context current, and a stream.
class on_device : public testing::Test {
protected:
  void begin(const char* text);
  void SetUp() override { begin("seed=1"); }
  void TearDown() override;
  /// What was misused, which is forgotten.
  static std::string misuse();
  cu::pointer allocate(std::size_t bytes);
  cu::function load(const std::string& source, const char* name, bool cubin = true);
  /// A launch in one dimension.
  cu::result launch(cu::function f, unsigned groups, unsigned items, std::vector<void*> parameters,
                    unsigned dynamic = 0);
  static tern_mock_counters counters();
  void give_back();

  cu::context context = nullptr;
  cu::stream stream = nullptr;
  std::vector<cu::pointer> memory;
  std::vector<cu::module> modules;
};

} // namespace mock

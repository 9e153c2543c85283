// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of CUDA devices where there are none: a driver and an NVRTC that compute on the host
/// (tests/mocks/cuda). With TERN_TEST_ON_GPU the same tests are for a real one (tests/gpu).

#include <string>

#include "tests/hetero/support/mock_cuda.hpp"
#include <tern/base/options.hpp>

namespace tern::hetero {

/// The driver, from outside. It is one for the process: each test says first what it is to be like.
/// A real driver neither is configured nor counts.
class mock_cuda {
public:
  explicit mock_cuda(const std::string& how = {});
  /// Everything was used as it should be, and nothing is left.
  ~mock_cuda();
  mock_cuda(const mock_cuda&) = delete;
  mock_cuda& operator=(const mock_cuda&) = delete;

  static tern_mock_counters counters();
  static std::string misuse();
  static void forget_misuse();
  static std::uint64_t calls(const char* name); ///< of a function: "cuLaunchKernel"
  static std::int64_t clock();                  ///< virtual, in nanoseconds
};

/// With the mock libraries; what was compiled is kept from test to test. With
/// TERN_TEST_WITHOUT_NVRTC in the environment there is only what has been kept.
options cuda_options(const std::string& memory = {}, const std::string& without = {});

} // namespace tern::hetero

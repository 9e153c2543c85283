// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests of CUDA devices where there are none: a driver and an NVRTC that compute on the host (tests/mock_cuda).
/// With TERN_TEST_ON_GPU the same tests are for a real one (tests/gpu).

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <gtest/gtest.h>

#include "tests/hetero/support/mock_cuda.hpp"
#include <tern/hetero/data/pinned_memory.hpp>
#include <tern/hetero/device/cuda/cuda_device.hpp>

namespace tern::hetero {

#ifdef TERN_TEST_ON_GPU

/// Nothing can be asked of a real driver, or told it.
class mock_cuda {
public:
  explicit mock_cuda(const std::string& = {}) {}
  static tern_mock_counters counters() { return {}; }
};

#else

/// The driver, from outside. It is one for the process: each test says first what it is to be like.
class mock_cuda {
public:
  explicit mock_cuda(const std::string& how = {}) { find<void(const char*)>("tern_mock_cuda_configure")(how.c_str()); }
  /// Everything was used as it should be, and nothing is left.
  ~mock_cuda() {
    EXPECT_EQ(misuse(), "");
    EXPECT_EQ(counters().live_contexts, 0u);
  }
  mock_cuda(const mock_cuda&) = delete;
  mock_cuda& operator=(const mock_cuda&) = delete;

  static tern_mock_counters counters() {
    tern_mock_counters now;
    find<void(tern_mock_counters*)>("tern_mock_cuda_counters")(&now);
    return now;
  }
  static std::string misuse() { return find<const char*()>("tern_mock_cuda_misuse")(); }
  static void forget_misuse() { find<void()>("tern_mock_cuda_forget_misuse")(); }

private:
  template <class F> static F* find(const char* name) {
    static void* const library = dlopen(TERN_MOCK_CUDA, RTLD_NOW | RTLD_LOCAL);
    void* const symbol = library ? dlsym(library, name) : nullptr;
    if (!symbol) throw std::runtime_error(std::string("the mock CUDA driver lacks ") + name);
    return reinterpret_cast<F*>(symbol);
  }
};

#endif

/// With the mock libraries; what was compiled is kept from test to test.
inline options cuda_options(const std::string& memory = {}, const std::string& without = {}) {
  options opts;
#ifndef TERN_TEST_ON_GPU
  opts.set(detail::cuda_libraries, TERN_MOCK_CUDA ":" TERN_MOCK_NVRTC);
  opts.set(hetero_cache, TERN_MOCK_CACHE);
#endif
  opts.set(hetero_memory, memory);
  opts.set(detail::cuda_without, without);
  return opts;
}

namespace detail {

/// \return null: there is none, and `notes` says why.
inline std::unique_ptr<cuda_device> first_cuda_device(const options& opts,
                                                      const std::shared_ptr<pinned_memory>& host = nullptr,
                                                      std::vector<std::string>* notes = nullptr) {
  std::vector<std::string> said;
  auto all = open_cuda(opts, host, notes ? *notes : said);
  return all.empty() ? nullptr : std::unique_ptr<cuda_device>(static_cast<cuda_device*>(all.front().release()));
}

} // namespace detail
} // namespace tern::hetero

// SPDX-License-Identifier: Apache-2.0
#include "tests/hetero/support/cuda.hpp"

#include <cstdlib>
#include <stdexcept>

#include <dlfcn.h>

#include <gtest/gtest.h>

#include "tests/hetero/support/cuda_device.hpp"

namespace tern::hetero {

#ifdef TERN_TEST_ON_GPU

mock_cuda::mock_cuda(const std::string&) {}
mock_cuda::~mock_cuda() = default;
tern_mock_counters mock_cuda::counters() { return {}; }
std::string mock_cuda::misuse() { return {}; }
void mock_cuda::forget_misuse() {}
std::uint64_t mock_cuda::calls(const char*) { return 0; }
std::int64_t mock_cuda::clock() { return 0; }

#else

namespace {
template <class F> F* find(const char* name) {
  static void* const library = dlopen(TERN_MOCK_CUDA, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) throw std::runtime_error(std::string("the mock CUDA driver lacks ") + name);
  return reinterpret_cast<F*>(symbol);
}
} // namespace

mock_cuda::mock_cuda(const std::string& how) { find<void(const char*)>("tern_mock_cuda_configure")(how.c_str()); }
mock_cuda::~mock_cuda() {
  EXPECT_EQ(misuse(), "");
  EXPECT_EQ(counters().live_contexts, 0u);
}
tern_mock_counters mock_cuda::counters() {
  tern_mock_counters now;
  find<void(tern_mock_counters*)>("tern_mock_cuda_counters")(&now);
  return now;
}
std::string mock_cuda::misuse() { return find<const char*()>("tern_mock_cuda_misuse")(); }
void mock_cuda::forget_misuse() { find<void()>("tern_mock_cuda_forget_misuse")(); }
std::uint64_t mock_cuda::calls(const char* name) {
  return find<std::uint64_t(const char*)>("tern_mock_cuda_calls")(name);
}
std::int64_t mock_cuda::clock() { return find<std::int64_t()>("tern_mock_cuda_clock")(); }

#endif

namespace {
bool without_nvrtc() {
  const char* const given = std::getenv("TERN_TEST_WITHOUT_NVRTC");
  return given && *given;
}
} // namespace

options cuda_options(const std::string& memory, const std::string& without) {
  options opts;
#ifdef TERN_TEST_ON_GPU
  if (without_nvrtc()) {
    opts.set(detail::cuda_libraries, "libcuda.so.1:/there/is/no/nvrtc.so");
    opts.set(hetero_cache, "off"); // nothing that NVRTC has made is found
  }
#else
  opts.set(detail::cuda_libraries,
           without_nvrtc() ? TERN_MOCK_CUDA ":/there/is/no/nvrtc.so" : TERN_MOCK_CUDA ":" TERN_MOCK_NVRTC);
  opts.set(hetero_cache, TERN_MOCK_CACHE);
#endif
  opts.set(hetero_memory, memory);
  opts.set(hetero_models, "read:none"); // times are gathered, and not stored
  opts.set(detail::cuda_without, without);
  return opts;
}

namespace detail {

std::unique_ptr<cuda_device> first_cuda_device(const options& opts, const std::shared_ptr<pinned_memory>& host,
                                               std::vector<std::string>* notes) {
  std::vector<std::string> said;
  auto all = open_cuda(opts, host, notes ? *notes : said);
  return all.empty() ? nullptr : std::unique_ptr<cuda_device>(static_cast<cuda_device*>(all.front().release()));
}

} // namespace detail
} // namespace tern::hetero

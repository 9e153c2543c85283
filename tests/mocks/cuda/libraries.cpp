// SPDX-License-Identifier: Apache-2.0
// What examples/cuda_libraries.hpp needs of cuBLAS and cuSOLVER, for tests: kernels of one thread,
// which the mock driver runs in the stream's order. Statuses are those that the real ones give.
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <tern/hetero/device/cuda/cuda_api.hpp>
#include <tern/hetero/device/cuda/nvrtc.hpp>

#include "tests/hetero/support/mock_cuda.hpp"

#include "exports.hpp"

namespace {

namespace cu = tern::hetero::detail::cu;
namespace nvrtc = tern::hetero::detail::nvrtc;

constexpr int ok = 0, not_initialized = 1, invalid_value = 7, execution_failed = 13;

constexpr const char* text = R"(
extern "C" __global__ void gemm(int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b,
                                int ldb, double beta, double* c, int ldc) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += (ta ? a[i * lda + l] : a[l * lda + i]) * (tb ? b[l * ldb + j] : b[j * ldb + l]);
      c[j * ldc + i] = alpha * sum + (beta == 0 ? 0 : beta * c[j * ldc + i]);
    }
}
extern "C" __global__ void syrk(int n, int k, double alpha, const double* a, int lda, double beta, double* c, int ldc) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i <= j; ++i) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += a[i * lda + l] * a[j * lda + l];
      c[j * ldc + i] = alpha * sum + (beta == 0 ? 0 : beta * c[j * ldc + i]);
    }
}
extern "C" __global__ void trsm(int m, int n, double alpha, const double* u, int ldu, double* b, int ldb) {
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double x = alpha * b[j * ldb + i];
      for (int l = 0; l < i; ++l) x -= u[i * ldu + l] * b[j * ldb + l];
      b[j * ldb + i] = x / u[i * ldu + i];
    }
}
extern "C" __global__ void potrf(int n, double* a, int lda, int* info) {
  *info = 0;
  for (int j = 0; j < n; ++j) {
    double d = a[j * lda + j];
    for (int l = 0; l < j; ++l) d -= a[j * lda + l] * a[j * lda + l];
    if (!(d > 0)) {
      *info = j + 1;
      return;
    }
    d = sqrt(d);
    a[j * lda + j] = d;
    for (int i = j + 1; i < n; ++i) {
      double x = a[i * lda + j];
      for (int l = 0; l < j; ++l) x -= a[j * lda + l] * a[i * lda + l];
      a[i * lda + j] = x / d;
    }
  }
}
)";

template <class F> F* find(void* library, const char* name) { return reinterpret_cast<F*>(dlsym(library, name)); }
#define OF(library, name) find<decltype(name)>(library, #name)

/// What the program uses as its driver and compiler: these are there already.
void* opened(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD); }

std::string image() {
  void* const l = dlopen(MOCK_NVRTC, RTLD_NOW | RTLD_LOCAL);
  nvrtc::program p = nullptr;
  std::size_t size = 0;
  std::string code;
  const auto api = [&]<class F>(F* tern::hetero::detail::nvrtc_api::*, const char* name) { return find<F>(l, name); };
  using table = tern::hetero::detail::nvrtc_api;
  const char* const options[] = {"--gpu-architecture=sm_90"};
  if (api(&table::CreateProgram, "nvrtcCreateProgram")(&p, text, "libraries.cu", 0, nullptr, nullptr) != 0 ||
      api(&table::CompileProgram, "nvrtcCompileProgram")(p, 1, options) != 0 ||
      api(&table::GetCUBINSize, "nvrtcGetCUBINSize")(p, &size) != 0)
    return {};
  code.resize(size);
  api(&table::GetCUBIN, "nvrtcGetCUBIN")(p, code.data());
  api(&table::DestroyProgram, "nvrtcDestroyProgram")(&p);
  return code;
}

struct handle {
  cu::context context = nullptr;
  cu::stream stream = nullptr;
  cu::module module = nullptr;
};
std::mutex lock;
std::map<void*, handle> handles;
std::uintptr_t given = 0;

int create(void** to) {
  void* const driver = opened(MOCK_CUDA);
  handle h;
  if (!to || !driver || OF(driver, cuCtxGetCurrent)(&h.context) != 0 || !h.context) return not_initialized;
  const std::lock_guard hold(lock);
  static const std::string code = image();
  if (code.empty() || OF(driver, cuModuleLoadDataEx)(&h.module, code.data(), 0, nullptr, nullptr) != 0)
    return not_initialized;
  OF(driver, tern_mock_cuda_keep)(reinterpret_cast<std::uintptr_t>(h.module));
  *to = reinterpret_cast<void*>(++given); // NOLINT(performance-no-int-to-ptr): it points to nothing
  handles.emplace(*to, h);
  return ok;
}

int set_stream(void* of, void* stream) {
  const std::lock_guard hold(lock);
  const auto found = handles.find(of);
  if (found == handles.end()) return not_initialized;
  found->second.stream = static_cast<cu::stream>(stream);
  return ok;
}

template <class... T> int launch(void* of, const char* name, T... values) {
  void* const driver = opened(MOCK_CUDA);
  handle h;
  {
    const std::lock_guard hold(lock);
    const auto found = handles.find(of);
    if (!driver || found == handles.end()) return not_initialized;
    h = found->second;
  }
  cu::context now = nullptr;
  cu::function f = nullptr;
  void* all[] = {&values..., nullptr};
  if (OF(driver, cuCtxGetCurrent)(&now) != 0 || now != h.context) return not_initialized; // made in another
  if (OF(driver, cuModuleGetFunction)(&f, h.module, name) != 0 ||
      OF(driver, cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, h.stream, all, nullptr) != 0)
    return execution_failed;
  return ok;
}

/// Contexts are kept as long as the process lives, which the mock driver would take for a leak.
struct kept_contexts {
  ~kept_contexts() {
    void* const driver = opened(MOCK_CUDA);
    for (const cu::device d : all)
      if (driver) OF(driver, cuDevicePrimaryCtxRelease_v2)(d);
  }
  std::vector<cu::device> all;
};

bool fits(int rows, int ld) { return rows >= 0 && ld >= (rows > 1 ? rows : 1); }

} // namespace

extern "C" {
#pragma GCC visibility push(default)
/// A program that looks it up in these libraries gets the mock driver's. It has the type with which
/// the examples call it: the sanitizer compares types.
int retain_for_examples(void** to, int of) __asm__("cuDevicePrimaryCtxRetain");
int retain_for_examples(void** to, int of) {
  void* const driver = opened(MOCK_CUDA);
  const int r = driver ? OF(driver, cuDevicePrimaryCtxRetain)(reinterpret_cast<cu::context*>(to), of) : not_initialized;
  const std::lock_guard hold(lock);
  static kept_contexts kept; // made after the driver, so it goes first
  if (r == 0) kept.all.push_back(of);
  return r;
}
int cublasCreate_v2(void** to) { return create(to); }
int cublasSetStream_v2(void* of, void* stream) { return set_stream(of, stream); }
int cublasDgemm_v2(void* of, int ta, int tb, int m, int n, int k, const double* alpha, const double* a, int lda,
                   const double* b, int ldb, const double* beta, double* c, int ldc) {
  if (!alpha || !beta || n < 0 || k < 0 || !fits(ta ? k : m, lda) || !fits(tb ? n : k, ldb) || !fits(m, ldc))
    return invalid_value;
  return launch(of, "gemm", ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
int cublasDsyrk_v2(void* of, int fill, int trans, int n, int k, const double* alpha, const double* a, int lda,
                   const double* beta, double* c, int ldc) {
  if (!alpha || !beta || fill != 1 || trans != 1 || k < 0 || !fits(k, lda) || !fits(n, ldc)) return invalid_value;
  return launch(of, "syrk", n, k, *alpha, a, lda, *beta, c, ldc);
}
int cublasDtrsm_v2(void* of, int side, int fill, int trans, int diagonal, int m, int n, const double* alpha,
                   const double* u, int ldu, double* b, int ldb) {
  if (!alpha || side != 0 || fill != 1 || trans != 1 || diagonal != 0 || n < 0 || !fits(m, ldu) || !fits(m, ldb))
    return invalid_value;
  return launch(of, "trsm", m, n, *alpha, u, ldu, b, ldb);
}
int cusolverDnCreate(void** to) { return create(to); }
int cusolverDnSetStream(void* of, void* stream) { return set_stream(of, stream); }
int cusolverDnDpotrf_bufferSize(void*, int fill, int n, double*, int lda, int* to) {
  if (fill != 1 || !fits(n, lda) || !to) return invalid_value;
  *to = n;
  return ok;
}
int cusolverDnDpotrf(void* of, int fill, int n, double* a, int lda, double* work, int room, int* info) {
  if (fill != 1 || !fits(n, lda) || !work || room < n || !info) return invalid_value;
  return launch(of, "potrf", n, a, lda, info);
}
#pragma GCC visibility pop
}

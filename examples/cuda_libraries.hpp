// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Functions of cuBLAS and cuSOLVER, which are opened at their first use. So the build of a program
/// needs no CUDA. Signatures are those of NVIDIA's cublas_v2.h and cusolverDn.h.
///
/// Handles: the libraries require one handle for each thread that calls at the same time. A handle
/// keeps the context that was current at its creation. Tern calls the functions of one device one
/// at a time, in any thread, so one handle for each context is enough. Handles live as long as the
/// process, and so do their contexts. Otherwise a new context could get the address of one that
/// Tern released at the end of a scheduler, and with it an invalid handle.

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <tern/base/error.hpp>
#include <tern/hetero/variants.hpp>

namespace cuda_libraries {

namespace detail {

/// Opens the first library that exists and that `use(library)` accepts. A library of a later CUDA
/// than the driver's creates no handles.
/// \param variable of the environment: files, separated by colons, which replace all others.
/// \param names for the loader.
/// \throws tern::error(not_found)
template <class Use> void open(const char* variable, const std::vector<std::string>& names, Use use) {
  std::vector<std::string> all;
  if (const char* const given = std::getenv(variable)) {
    std::istringstream in(given);
    for (std::string one; std::getline(in, one, ':');) all.push_back(one);
  } else {
    all = names;
    const char* const homes[] = {std::getenv("CUDA_HOME"), std::getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (const char* const home : homes)
      for (const std::string& name : names)
        if (home) all.push_back(std::string(home) + "/lib64/" + name);
  }
  std::string why;
  for (const std::string& one : all)
    if (void* const library = dlopen(one.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      try {
        return use(library);
      } catch (const tern::error& e) {
        why += (why.empty() ? "" : "; ") + one + ": " + e.message();
      }
    }
  throw tern::error(tern::errc::not_found,
                    "there is no " + names.front() + (why.empty() ? "" : " that can be used (" + why + ")"),
                    std::string("install NVIDIA's CUDA libraries, or name the file in ") + variable);
}

template <class F> void find(void* library, F*& f, const char* name) {
  f = reinterpret_cast<F*>(dlsym(library, name));
  if (!f) throw tern::error(tern::errc::not_found, std::string("NVIDIA's library lacks ") + name, "it is too old");
}

inline void check(int status, const char* what) {
  if (status != 0)
    throw tern::error(tern::errc::device_failed, std::string(what) + " failed with status " + std::to_string(status));
}

/// Retains the device's primary context, which is current, until the process ends.
inline void keep_context(const tern::native_queue& q, void* library) {
  constexpr const char* name = "cuDevicePrimaryCtxRetain";
  void* function = dlsym(library, name); // the library of tests is also its driver
  if (void* const driver = function ? nullptr : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    function = dlsym(driver, name);
  if (!function)
    throw tern::error(tern::errc::not_found, std::string("there is no ") + name, "install NVIDIA's driver");
  void* context = nullptr;
  const auto device = static_cast<int>(reinterpret_cast<std::intptr_t>(q.native_device));
  check(reinterpret_cast<int (*)(void**, int)>(function)(&context, device), name);
}

} // namespace detail

constexpr int plain = 0, transposed = 1, upper = 1, left = 0, not_unit = 0;

/// cuBLAS. Matrices are stored by columns.
class blas {
public:
  /// For calls on the queue's stream. \throws tern::error(not_found): there is no cuBLAS.
  static const blas& here(const tern::native_queue& q) {
    static std::mutex lock;
    static std::map<void*, blas> all;
    const std::lock_guard hold(lock);
    blas& b = all.try_emplace(q.context).first->second;
    if (!b.handle_) b.open(q);
    detail::check(b.set_stream_(b.handle_, q.queue), "cublasSetStream");
    return b;
  }
  /// c = alpha op(a) op(b) + beta c
  void gemm(int op_a, int op_b, int m, int n, int k, double alpha, const double* a, int lda, const double* b, int ldb,
            double beta, double* c, int ldc) const {
    detail::check(gemm_(handle_, op_a, op_b, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc), "cublasDgemm");
  }
  /// c = alpha a^T a + beta c, its upper half
  void syrk(int n, int k, double alpha, const double* a, int lda, double beta, double* c, int ldc) const {
    detail::check(syrk_(handle_, upper, transposed, n, k, &alpha, a, lda, &beta, c, ldc), "cublasDsyrk");
  }
  /// b = (u^T)^-1 b, u upper triangular, m × m
  void trsm(int m, int n, const double* u, int ldu, double* b, int ldb) const {
    const double one = 1;
    detail::check(trsm_(handle_, left, upper, transposed, not_unit, m, n, &one, u, ldu, b, ldb), "cublasDtrsm");
  }

private:
  void open(const tern::native_queue& q) {
    const auto use = [&](void* l) {
      int (*create)(void**) = nullptr;
      detail::find(l, create, "cublasCreate_v2");
      detail::find(l, set_stream_, "cublasSetStream_v2");
      detail::find(l, gemm_, "cublasDgemm_v2");
      detail::find(l, syrk_, "cublasDsyrk_v2");
      detail::find(l, trsm_, "cublasDtrsm_v2");
      void* made = nullptr;
      detail::check(create(&made), "cublasCreate");
      detail::keep_context(q, l);
      handle_ = made;
    };
    detail::open("TERN_EXAMPLE_CUBLAS", {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}, use);
  }
  void* handle_ = nullptr;
  int (*set_stream_)(void*, void*) = nullptr;
  int (*gemm_)(void*, int, int, int, int, int, const double*, const double*, int, const double*, int, const double*,
               double*, int) = nullptr;
  int (*syrk_)(void*, int, int, int, int, const double*, const double*, int, const double*, double*, int) = nullptr;
  int (*trsm_)(void*, int, int, int, int, int, int, const double*, const double*, int, double*, int) = nullptr;
};

/// cuSOLVER, in the same form as `blas`.
class solver {
public:
  static const solver& here(const tern::native_queue& q) {
    static std::mutex lock;
    static std::map<void*, solver> all;
    const std::lock_guard hold(lock);
    solver& s = all.try_emplace(q.context).first->second;
    if (!s.handle_) s.open(q);
    detail::check(s.set_stream_(s.handle_, q.queue), "cusolverDnSetStream");
    return s;
  }
  /// The number of elements of `potrf`'s workspace.
  int potrf_room(int n, double* a, int lda) const {
    int room = 0;
    detail::check(room_(handle_, upper, n, a, lda, &room), "cusolverDnDpotrf_bufferSize");
    return room;
  }
  /// The upper half of a becomes u, where a = u^T u.
  /// \param info on the device: 0, or the order of the leading minor that is not positive definite.
  void potrf(int n, double* a, int lda, double* work, int room, int* info) const {
    detail::check(potrf_(handle_, upper, n, a, lda, work, room, info), "cusolverDnDpotrf");
  }

private:
  void open(const tern::native_queue& q) {
    const auto use = [&](void* l) {
      int (*create)(void**) = nullptr;
      detail::find(l, create, "cusolverDnCreate");
      detail::find(l, set_stream_, "cusolverDnSetStream");
      detail::find(l, room_, "cusolverDnDpotrf_bufferSize");
      detail::find(l, potrf_, "cusolverDnDpotrf");
      void* made = nullptr;
      detail::check(create(&made), "cusolverDnCreate");
      detail::keep_context(q, l);
      handle_ = made;
    };
    detail::open("TERN_EXAMPLE_CUSOLVER", {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"}, use);
  }
  void* handle_ = nullptr;
  int (*set_stream_)(void*, void*) = nullptr;
  int (*room_)(void*, int, int, double*, int, int*) = nullptr;
  int (*potrf_)(void*, int, int, double*, int, double*, int, int*) = nullptr;
};

} // namespace cuda_libraries

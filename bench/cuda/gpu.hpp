// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A GPU by CUDA's driver interface, for programs that use it by hand. Nothing of Tern is used but
/// the declarations of CUDA's functions, and what compiles a text with NVRTC.

#include <cstddef>
#include <span>
#include <string>

#include <tern/hetero/device/cuda/cuda_api.hpp>
#include <tern/hetero/device/cuda/nvrtc.hpp>

namespace tern::bench::cuda {

namespace cu = tern::hetero::detail::cu;

/// The first device, with its primary context current in this thread until the end of the process.
class gpu {
public:
  /// The libraries are the usual ones, or those of TERN_CUDA_LIBRARIES, which our contestant has
  /// too.
  /// \throws contest::not_here
  gpu();
  ~gpu();
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;

  /// \throws std::runtime_error naming what failed.
  void must(cu::result r, const char* what) const;
  cu::pointer allocate(std::size_t bytes) const;
  void free(cu::pointer p) const;
  cu::stream stream() const;
  cu::event event() const;
  /// Page-locks memory for the rest of the process.
  void lock(void* at, std::size_t bytes) const;
  void wait(cu::stream s) const { must(api.StreamSynchronize(s), "synchronize"); }
  /// Asks until it has come: quicker than to sleep.
  void wait(cu::event e) const;
  /// A kernel of a text in CUDA C++, compiled for this device. \param options of NVRTC's.
  cu::function compile(const std::string& text, const char* name, std::span<const std::string> options = {}) const;

  struct shape {
    unsigned groups[3], items[3];
  };
  template <class... T> void launch(cu::function f, const shape& s, cu::stream to, T... values) const {
    void* all[] = {&values..., nullptr};
    must(api.LaunchKernel(f, s.groups[0], s.groups[1], s.groups[2], s.items[0], s.items[1], s.items[2], 0, to, all,
                          nullptr),
         "launch");
  }

  tern::hetero::detail::cuda_api api;

private:
  tern::hetero::detail::nvrtc_api nvrtc_;
  cu::device device_ = 0;
  int capability_ = 0;
};
/// Made once.
const gpu& the_gpu();

} // namespace tern::bench::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where a CUDA device's code of kernels comes from: a cache, NVRTC, or PTX that was made when the
/// program was built, in this order. What is PTX or machine code already needs none of them.
/// Internal.

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <tern/hetero/device/cuda/nvrtc.hpp>
#include <tern/hetero/device/kernel_cache.hpp>
#include <tern/hetero/kernel/device_code.hpp>

namespace tern::hetero::detail {

/// Of one device. Any thread.
class cuda_ways {
public:
  /// \param nvrtc empty where there is none; then `why_none` says why, for errors. \param
  /// capability of the device, 90 is 9.0. \param contract hetero_fma
  cuda_ways(nvrtc_api nvrtc, std::string why_none, kernel_cache cache, int capability, bool contract);

  /// Is there an NVRTC that compiles for the device?
  bool compiles() const noexcept { return target_.compute_capability != 0; }
  const nvrtc_api& nvrtc() const noexcept { return nvrtc_; }
  /// What NVRTC is to compile for. \pre `compiles`.
  cuda_code target() const noexcept { return target_; }
  const kernel_cache& cache() const noexcept { return cache_; }

  /// Is there a way for this kernel? Remembers the answer. \pre it is one of CUDA's forms, or the
  /// dialect's.
  bool runs(const kernel_code& code) const noexcept;
  /// What is missing, and how to get it.
  std::string why_not(const kernel_code& code) const;

  /// The kernel's program, and options for its compiler. \throws what `text_of` throws.
  static cuda_text text_of(const kernel_code& code, bool fused);
  std::vector<std::string> options_of(const kernel_code& code) const;

  /// By NVRTC, or what it has made before. \pre `compiles`. \throws as `compile_cuda`.
  cuda_program compile(const cuda_text& text, const std::vector<std::string>& options) const;
  /// What some NVRTC has made before, where there is none now.
  std::optional<cuda_program> cached(const cuda_text& text, const std::vector<std::string>& options) const;
  /// What was made when the program was built. Says in the log once for each block if that is of
  /// another text. \return null: none. \throws what `text_of` throws.
  const made_code* made(const kernel_code& code, bool fused = false) const;

private:
  std::string name_for_any(const cuda_text& text, const std::vector<std::string>& options) const;
  bool look_for(const kernel_code& code) const;

  const nvrtc_api nvrtc_;
  const std::string why_none_;
  const kernel_cache cache_;
  const int capability_;
  const bool contract_;
  const cuda_code target_;
  mutable std::mutex lock_;
  mutable std::unordered_map<const void*, bool> known_; // address: looked up only; blocks, and kernels by themselves
};

} // namespace tern::hetero::detail

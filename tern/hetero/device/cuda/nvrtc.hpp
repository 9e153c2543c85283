// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Kernels become PTX, or machine code, of NVIDIA's by NVRTC, which is found when a program runs.
/// Internal.
///
/// As with OpenCL nothing is built with NVIDIA's headers or linked to it (docs/decisions/0029).
/// Names and numbers are NVRTC's, without `nvrtc`. No device and no driver of NVIDIA's is needed to
/// compile.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tern/hetero/device/kernel_cache.hpp>
#include <tern/hetero/kernel.hpp>

namespace tern::hetero::detail {

namespace nvrtc {

using result = int;
using program = struct opaque_program*; ///< what it points to is NVRTC's

// Results that mean more than "it failed".
constexpr result success = 0, out_of_memory = 1, invalid_option = 5, compilation = 6;

} // namespace nvrtc

/// The driver and the devices that it compiles for.
struct nvrtc_users {
  int driver = 0;                ///< the latest CUDA that the driver knows, 12040 is 12.4; 0: any
  std::vector<int> capabilities; ///< of the devices, 75 is 7.5
};

/// NVRTC's functions, by their names without `nvrtc`, and what it says of itself. A plain value:
/// tests put others in.
struct nvrtc_api {
  using name_list = std::span<const std::string>;

  nvrtc::result (*Version)(int*, int*) = nullptr;
  nvrtc::result (*CreateProgram)(nvrtc::program*, const char*, const char*, int, const char* const*,
                                 const char* const*) = nullptr;
  nvrtc::result (*CompileProgram)(nvrtc::program, int, const char* const*) = nullptr;
  nvrtc::result (*DestroyProgram)(nvrtc::program*) = nullptr;
  nvrtc::result (*GetPTXSize)(nvrtc::program, std::size_t*) = nullptr;
  nvrtc::result (*GetPTX)(nvrtc::program, char*) = nullptr;
  nvrtc::result (*GetCUBINSize)(nvrtc::program, std::size_t*) = nullptr; ///< null before 11.1, with the next
  nvrtc::result (*GetCUBIN)(nvrtc::program, char*) = nullptr;
  nvrtc::result (*GetProgramLogSize)(nvrtc::program, std::size_t*) = nullptr;
  nvrtc::result (*GetProgramLog)(nvrtc::program, char*) = nullptr;
  const char* (*GetErrorString)(nvrtc::result) = nullptr;
  nvrtc::result (*GetNumSupportedArchs)(int*) = nullptr; ///< null before 11.2, with the next
  nvrtc::result (*GetSupportedArchs)(int*) = nullptr;

  int major = 0, minor = 0;
  std::vector<int> architectures; ///< compute capabilities, 75 is 7.5, rising; empty: it does not say

  bool is_there() const noexcept { return CreateProgram != nullptr; } ///< else this is the place of none
  std::string version() const { return std::to_string(major) + "." + std::to_string(minor); }

  /// Opens the first of the libraries that is there, has what is needed, and compiles for all
  /// users; else one that does for some. Not one of a later CUDA's than the driver, which would not
  /// load what it makes. It stays open until the program ends. Any thread.
  /// \return nothing if there is none; then `notes` says why, and what to install.
  static std::optional<nvrtc_api> open(name_list libraries, std::vector<std::string>& notes,
                                       const nvrtc_users& users = {});
  /// The names that it usually has, for the loader to find, and then files: those that are there in
  /// `lib64` of $CUDA_HOME, $CUDA_PATH and /usr/local/cuda.
  static std::vector<std::string> usual_libraries();
};

/// What to compile for.
struct cuda_code {
  int compute_capability = 0; ///< 75 is 7.5
  bool cubin = false;         ///< machine code for just this one; else PTX, which later ones can run as well
};

/// For a device of that compute capability: its own code where NVRTC makes it, else PTX for the
/// latest that is not later, of which the driver makes code. \return capability 0: there is none.
cuda_code best_code(const nvrtc_api& nvrtc, int capability);

/// A block of kernels, compiled.
struct cuda_program {
  std::string code;        ///< PTX as text, or the bytes of a cubin
  std::string key;         ///< of its entry in the cache, for one that a driver refuses: kernel_cache::remove
  bool from_cache = false; ///< nothing was compiled
};

/// A program in CUDA C++.
struct cuda_text {
  std::string source; ///< all of it
  std::string name;   ///< what errors call a line's file, unless a `#line` says so
  std::string what;   ///< for errors: "the kernels 'tiles' (tiles.cpp)"
  std::string hint;   ///< where it does not compile
};
/// A block of kernels. \param fused its kernels are several at a time (prelude.hpp). \throws what
/// `text_of` throws.
cuda_text text_for_cuda(const source_block& block, bool fused = false);

/// Compiles it, unless the cache has it: kept by NVRTC's version, the options and the source. In
/// any thread, also several at a time. It takes seconds, and runs on the caller's stack, which is
/// to have some MiB, as for OpenCL.
/// \param more options of NVRTC's, after those that are always given. Multiplications and additions
/// are contracted unless they say `--fmad=false`: as OpenCL's compilers do it
/// (docs/concepts/kernels.md).
/// \throws error(invalid_data) with NVRTC's log, which names the file and line, if it does not
/// compile; error(unsupported) if NVRTC cannot compile for the target; error(invalid_argument) if
/// it does not know an option; error(out_of_memory); error(device_failed) with its log for all else
/// that goes wrong in it.
cuda_program compile_cuda(const nvrtc_api& api, const cuda_text& text, cuda_code target, const kernel_cache& cache = {},
                          std::span<const std::string> more = {});

} // namespace tern::hetero::detail

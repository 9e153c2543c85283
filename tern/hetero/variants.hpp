// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Variants of a task, each for the devices that it suits: a device runs the variant that suits it
/// best.
///
///     const tern::opencl_source tuned("update", "kernel void update(int n, global double* a) { … }");
///     const auto update = tern::variants(tiles::update,            // a kernel of the dialect: any device
///                                        tuned,                    // OpenCL devices, rather than the dialect's
///                                        update_with_blas,         // the host, rather than the dialect's
///                                        tern::on_queue(tern::hetero::device_kind::cuda, update_with_cublas));
///     tern::submit(update, tern::items(n, n), n, tern::read_write(a));
///
/// Of each sort, for each kind of device, there is one at most, in any order; what is there says
/// which devices the task can run on.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/kernel.hpp>

namespace tern {

/// A kernel in OpenCL C, as it stands: its parameters are the task's arguments, in their order and
/// with their types as they are (an object is a `global` pointer, a pitch an `int`); with dynamic
/// memory one `local` pointer more, the last. Compiled when it is needed first; what the compiler
/// has against it is what the task fails with, as are a wrong number of arguments and those of a
/// wrong size. Lives as long as the program.
class opencl_source : public hetero::detail::kernel_code {
public:
  /// \param kernel_name of one in `program`. \param compiler_options for OpenCL's, such as
  /// "-cl-fast-relaxed-math". All of them live as long as the program.
  constexpr opencl_source(const char* kernel_name, std::string_view program, const char* compiler_options = "")
      : kernel_code{kernel_name, nullptr,         {0, 0, 0}, nullptr, nullptr, hetero::detail::code_form::opencl_c,
                    program,     compiler_options} {}
  static constexpr hetero::device_kind native_to = hetero::device_kind::opencl;
  opencl_source(const opencl_source&) = delete;
  opencl_source& operator=(const opencl_source&) = delete;
};

/// The same as a module of SPIR-V, for devices that take it: a task on one that does not fails with
/// error(unsupported).
class opencl_spirv : public hetero::detail::kernel_code {
public:
  opencl_spirv(const char* kernel_name, std::span<const std::byte> module, const char* compiler_options = "")
      : kernel_code{kernel_name,
                    nullptr,
                    {0, 0, 0},
                    nullptr,
                    nullptr,
                    hetero::detail::code_form::spirv,
                    {reinterpret_cast<const char*>(module.data()), module.size()},
                    compiler_options} {}
  static constexpr hetero::device_kind native_to = hetero::device_kind::opencl;
  opencl_spirv(const opencl_spirv&) = delete;
  opencl_spirv& operator=(const opencl_spirv&) = delete;
};

/// A kernel in CUDA C++, as it stands: declared `extern "C" __global__ void`, its parameters the
/// task's arguments as for `opencl_source` (an object is a pointer; dynamic memory is CUDA's
/// `extern __shared__`). NVRTC compiles it for the device.
class cuda_source : public hetero::detail::kernel_code {
public:
  /// \param kernel_name of one in `program`. \param compiler_options for NVRTC, such as
  /// "--use_fast_math". All of them live as long as the program.
  /// \param together all groups are on the device at once, so that they may wait for each other
  /// (cooperative_groups::grid_group); more of them than it has room for are an error.
  constexpr cuda_source(const char* kernel_name, std::string_view program, const char* compiler_options = "",
                        bool together = false)
      : kernel_code{kernel_name, nullptr,          {0, 0, 0}, nullptr, nullptr, hetero::detail::code_form::cuda_cpp,
                    program,     compiler_options, together} {}
  static constexpr hetero::device_kind native_to = hetero::device_kind::cuda;
  cuda_source(const cuda_source&) = delete;
  cuda_source& operator=(const cuda_source&) = delete;
};

/// The same, compiled: PTX, a cubin or a fatbin, whatever the driver loads.
class cuda_module : public hetero::detail::kernel_code {
public:
  cuda_module(const char* kernel_name, std::span<const std::byte> module)
      : kernel_code{kernel_name,
                    nullptr,
                    {0, 0, 0},
                    nullptr,
                    nullptr,
                    hetero::detail::code_form::cuda_module,
                    {reinterpret_cast<const char*>(module.data()), module.size()},
                    ""} {}
  static constexpr hetero::device_kind native_to = hetero::device_kind::cuda;
  cuda_module(const cuda_module&) = delete;
  cuda_module& operator=(const cuda_module&) = delete;
};

/// What a function that puts its own work on a device gets.
struct native_queue {
  hetero::device_kind kind;
  const char* device;  ///< its id: "opencl0", "cuda0"
  void* queue;         ///< a cl_command_queue, with commands run in order; a CUstream, which is a cudaStream_t
  void* context;       ///< a cl_context; a CUcontext, the device's primary one, which is the thread's current one
  void* native_device; ///< a cl_device_id; a CUdevice, an int, as an address
};

/// A view of an object for such a function. \tparam T const if it is only read.
template <class T, int N> struct device_view {
  void* memory;       ///< a cl_mem; an address on a device of CUDA
  std::size_t offset; ///< bytes in it, of the first element
  extents<N> size;
  std::int64_t pitch, slice; ///< elements from row to row, from slice to slice
  /// Of the first element, on a device of CUDA: what cuBLAS and its like want.
  T* address() const noexcept { return reinterpret_cast<T*>(static_cast<std::byte*>(memory) + offset); }
};

namespace hetero::detail {
template <class F> struct on_queue {
  device_kind kind;
  F function;
};
[[noreturn]] void no_native_queue(device_kind kind);
[[noreturn]] void two_for_a_queue(device_kind kind);
template <class... W> auto gather(W&&... w);
} // namespace hetero::detail

/// `f(const native_queue&, arguments…)` puts work of its own, a library's for example, into the
/// queue of a device of that kind. It gets device_views of what the task uses, and copies of its
/// other arguments. When it returns the runtime notes what is in the queue; the task is done when
/// that is. `f` must not wait, for the queue or otherwise: a task fails if its function left its
/// worker. It must not use the queue later.
/// \throws error(invalid_argument) for a kind without such queues: all but `opencl` and `cuda`.
template <class F> hetero::detail::on_queue<std::decay_t<F>> on_queue(hetero::device_kind kind, F&& f) {
  if (kind != hetero::device_kind::opencl && kind != hetero::device_kind::cuda) hetero::detail::no_native_queue(kind);
  return {kind, std::forward<F>(f)};
}

/// The variants of a task, in the place of a kernel for `hetero_task` and `submit`: a kernel of the
/// dialect, a kernel in a device's own language, a function for the host, a function for a device's
/// queue. A device runs its queue's function, else the kernel in its own language, else that of the
/// dialect; the host the function, else the kernel.
template <class... Variants> auto variants(Variants&&... all) {
  return hetero::detail::gather(std::forward<Variants>(all)...);
}

} // namespace tern

#include <tern/hetero/graph/variant_arguments.hpp>

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The part of OpenCL that Tern uses, found when a program runs: types, constants and a table of
/// functions. Internal.
///
/// Nothing is built with OpenCL's headers or linked to it (docs/decisions/0029). Names and numbers
/// are those of the specification, without `CL_`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tern::hetero::detail {

namespace cl {

using status = std::int32_t;
using uint = std::uint32_t;
using bits = std::uint64_t;
// Opaque; what they point to is the driver's.
using platform_id = struct opaque_platform*;
using device_id = struct opaque_device*;
using context = struct opaque_context*;
using queue = struct opaque_queue*;
using memory = struct opaque_memory*;
using program = struct opaque_program*;
using kernel = struct opaque_kernel*;
using event = struct opaque_event*;
struct buffer_region {
  std::size_t origin, size;
};

// Statuses that mean more than "it failed".
constexpr status success = 0, device_not_found = -1, device_not_available = -2, mem_object_allocation_failure = -4,
                 out_of_resources = -5, out_of_host_memory = -6, build_program_failure = -11,
                 misaligned_sub_buffer_offset = -13, failed_before = -14, invalid_command_queue = -36,
                 invalid_kernel_name = -46, invalid_buffer_size = -61, platform_not_found = -1001;
constexpr status complete = 0, queued = 3;

constexpr uint platform_version = 0x0901, platform_name = 0x0902;
constexpr uint device_type = 0x1000, device_max_compute_units = 0x1002, device_max_work_group_size = 0x1004,
               device_max_work_item_sizes = 0x1005, device_address_bits = 0x100d, device_max_mem_alloc_size = 0x1010,
               device_max_parameter_size = 0x1017, device_mem_base_addr_align = 0x1019, device_global_mem_size = 0x101f,
               device_local_mem_size = 0x1023, device_endian_little = 0x1026, device_available = 0x1027,
               device_compiler_available = 0x1028, device_name = 0x102b, driver_version = 0x102d,
               device_version = 0x102f, device_double_fp_config = 0x1032, device_svm_capabilities = 0x1053,
               device_il_version = 0x105b;
constexpr bits device_type_cpu = 1u << 1, device_type_all = 0xffffffff;
constexpr bits svm_fine_grain_buffer = 1u << 1, svm_fine_grain_system = 1u << 2;
constexpr bits mem_read_write = 1, mem_use_host_ptr = 1u << 3, map_read = 1;
constexpr uint mem_size = 0x1102, buffer_create_type_region = 0x1220;
constexpr uint program_binary_sizes = 0x1165, program_binaries = 0x1166, program_build_log = 0x1183;
constexpr uint kernel_num_args = 0x1191, kernel_work_group_size = 0x11b0, kernel_local_mem_size = 0x11b2;
constexpr uint event_command_execution_status = 0x11d3;
constexpr uint profiling_command_start = 0x1282, profiling_command_end = 0x1283;
constexpr bits queue_profiling_enable = 2;

/// "CL_INVALID_VALUE (-30)"; "CL error -7777" for a number that has no name.
std::string text_of(status s);

} // namespace cl

/// OpenCL's functions, by their names without `cl`. A plain value: tests put others in.
struct opencl_api {
  using name_list = std::span<const char* const>;

  cl::status (*GetPlatformIDs)(cl::uint, cl::platform_id*, cl::uint*) = nullptr;
  cl::status (*GetPlatformInfo)(cl::platform_id, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::status (*GetDeviceIDs)(cl::platform_id, cl::bits, cl::uint, cl::device_id*, cl::uint*) = nullptr;
  cl::status (*GetDeviceInfo)(cl::device_id, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::context (*CreateContext)(const std::intptr_t*, cl::uint, const cl::device_id*,
                               void (*)(const char*, const void*, std::size_t, void*), void*, cl::status*) = nullptr;
  cl::status (*ReleaseContext)(cl::context) = nullptr;
  cl::queue (*CreateCommandQueue)(cl::context, cl::device_id, cl::bits, cl::status*) = nullptr;
  cl::status (*ReleaseCommandQueue)(cl::queue) = nullptr;
  cl::program (*CreateProgramWithSource)(cl::context, cl::uint, const char**, const std::size_t*,
                                         cl::status*) = nullptr;
  cl::program (*CreateProgramWithBinary)(cl::context, cl::uint, const cl::device_id*, const std::size_t*,
                                         const unsigned char**, cl::status*, cl::status*) = nullptr;
  cl::program (*CreateProgramWithIL)(cl::context, const void*, std::size_t,
                                     cl::status*) = nullptr; ///< null before OpenCL 2.1
  cl::status (*BuildProgram)(cl::program, cl::uint, const cl::device_id*, const char*, void (*)(cl::program, void*),
                             void*) = nullptr;
  cl::status (*GetProgramBuildInfo)(cl::program, cl::device_id, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::status (*GetProgramInfo)(cl::program, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::status (*ReleaseProgram)(cl::program) = nullptr;
  cl::kernel (*CreateKernel)(cl::program, const char*, cl::status*) = nullptr;
  cl::status (*ReleaseKernel)(cl::kernel) = nullptr;
  cl::status (*GetKernelInfo)(cl::kernel, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::status (*GetKernelWorkGroupInfo)(cl::kernel, cl::device_id, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::status (*SetKernelArg)(cl::kernel, cl::uint, std::size_t, const void*) = nullptr;
  cl::status (*SetKernelArgSVMPointer)(cl::kernel, cl::uint, const void*) = nullptr; ///< null before OpenCL 2.0
  cl::memory (*CreateBuffer)(cl::context, cl::bits, std::size_t, void*, cl::status*) = nullptr;
  cl::memory (*CreateSubBuffer)(cl::memory, cl::bits, cl::uint, const void*, cl::status*) = nullptr;
  cl::status (*GetMemObjectInfo)(cl::memory, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::status (*ReleaseMemObject)(cl::memory) = nullptr;
  cl::status (*EnqueueReadBuffer)(cl::queue, cl::memory, cl::uint, std::size_t, std::size_t, void*, cl::uint,
                                  const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueWriteBuffer)(cl::queue, cl::memory, cl::uint, std::size_t, std::size_t, const void*, cl::uint,
                                   const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueCopyBuffer)(cl::queue, cl::memory, cl::memory, std::size_t, std::size_t, std::size_t, cl::uint,
                                  const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueReadBufferRect)(cl::queue, cl::memory, cl::uint, const std::size_t*, const std::size_t*,
                                      const std::size_t*, std::size_t, std::size_t, std::size_t, std::size_t, void*,
                                      cl::uint, const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueWriteBufferRect)(cl::queue, cl::memory, cl::uint, const std::size_t*, const std::size_t*,
                                       const std::size_t*, std::size_t, std::size_t, std::size_t, std::size_t,
                                       const void*, cl::uint, const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueCopyBufferRect)(cl::queue, cl::memory, cl::memory, const std::size_t*, const std::size_t*,
                                      const std::size_t*, std::size_t, std::size_t, std::size_t, std::size_t, cl::uint,
                                      const cl::event*, cl::event*) = nullptr;
  void* (*EnqueueMapBuffer)(cl::queue, cl::memory, cl::uint, cl::bits, std::size_t, std::size_t, cl::uint,
                            const cl::event*, cl::event*, cl::status*) = nullptr;
  cl::status (*EnqueueUnmapMemObject)(cl::queue, cl::memory, void*, cl::uint, const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueNDRangeKernel)(cl::queue, cl::kernel, cl::uint, const std::size_t*, const std::size_t*,
                                     const std::size_t*, cl::uint, const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueMarkerWithWaitList)(cl::queue, cl::uint, const cl::event*, cl::event*) = nullptr;
  cl::status (*EnqueueBarrierWithWaitList)(cl::queue, cl::uint, const cl::event*, cl::event*) = nullptr;
  cl::status (*Flush)(cl::queue) = nullptr;
  cl::status (*Finish)(cl::queue) = nullptr;
  cl::status (*GetEventInfo)(cl::event, cl::uint, std::size_t, void*, std::size_t*) = nullptr;
  cl::status (*GetEventProfilingInfo)(cl::event, cl::uint, std::size_t, void*, std::size_t*) = nullptr; ///< may be null
  cl::status (*ReleaseEvent)(cl::event) = nullptr;

  /// Opens the ICD loader, the library of the first of the names that is there. It stays open until
  /// the program ends: drivers do not survive being closed. Any thread.
  /// \return nothing if there is none, or if it lacks a function; then `notes` says which, and what
  /// to install.
  static std::optional<opencl_api> open(name_list libraries, std::vector<std::string>& notes);
  /// The names that it usually has.
  static name_list usual_libraries() noexcept;
};

} // namespace tern::hetero::detail

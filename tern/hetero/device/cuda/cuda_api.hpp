// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The part of CUDA's driver interface that Tern uses, found when a program runs: types, constants
/// and a table of functions. Internal.
///
/// Nothing is built with NVIDIA's headers or linked to its libraries (docs/decisions/0029). Names
/// and numbers are those of cuda.h, without `cu` and `CU_`. That header renames functions silently
/// (`cuMemAlloc` is the symbol `cuMemAlloc_v2`, the symbol `cuMemAlloc` is CUDA 3's, with 32 bits),
/// so cuda_api.cpp has each symbol's whole name.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tern::hetero::detail {

namespace cu {

using result = int;
using device = int;
using pointer = std::uint64_t; ///< an address on a device: CUdeviceptr
// Opaque; what they point to is the driver's.
using context = struct opaque_context*;
using stream = struct opaque_stream*;
using event = struct opaque_event*;
using module = struct opaque_module*;
using function = struct opaque_function*;
using graph = struct opaque_graph*;
using graph_exec = struct opaque_graph_exec*;
using graph_node = struct opaque_graph_node*;

constexpr unsigned memory_host = 1, memory_device = 2;
/// CUDA_MEMCPY2D: a part of rows.
struct copy_2d {
  std::size_t src_x = 0, src_y = 0;
  unsigned src_memory = 0;
  const void* src_host = nullptr;
  pointer src_device = 0;
  void* src_array = nullptr;
  std::size_t src_pitch = 0;
  std::size_t dst_x = 0, dst_y = 0;
  unsigned dst_memory = 0;
  void* dst_host = nullptr;
  pointer dst_device = 0;
  void* dst_array = nullptr;
  std::size_t dst_pitch = 0;
  std::size_t row_bytes = 0, rows = 0;
};
static_assert(sizeof(copy_2d) == 128);
/// CUDA_MEMCPY3D: of slices, each of which has `height` rows. CUDA_MEMCPY3D_PEER, too, which has
/// contexts for what is reserved here.
struct copy_3d {
  std::size_t src_x = 0, src_y = 0, src_z = 0, src_lod = 0;
  unsigned src_memory = 0;
  const void* src_host = nullptr;
  pointer src_device = 0;
  void* src_array = nullptr;
  context src_context = nullptr;
  std::size_t src_pitch = 0, src_height = 0;
  std::size_t dst_x = 0, dst_y = 0, dst_z = 0, dst_lod = 0;
  unsigned dst_memory = 0;
  void* dst_host = nullptr;
  pointer dst_device = 0;
  void* dst_array = nullptr;
  context dst_context = nullptr;
  std::size_t dst_pitch = 0, dst_height = 0;
  std::size_t row_bytes = 0, rows = 0, slices = 0;
};
static_assert(sizeof(copy_3d) == 200);

/// CUDA_KERNEL_NODE_PARAMS_v2
struct kernel_node {
  function code = nullptr;
  unsigned groups[3] = {1, 1, 1}, items[3] = {1, 1, 1};
  unsigned dynamic_bytes = 0;
  void** values = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  context in = nullptr;
};
static_assert(sizeof(kernel_node) == 72);

// Results that mean more than "it failed".
constexpr result success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, stub_library = 34,
                 not_available = 46, invalid_image = 200, no_binary_for_gpu = 209, unsupported_ptx_version = 222,
                 already_registered = 712, not_found = 500, not_ready = 600, launch_out_of_resources = 701,
                 cooperative_too_large = 720, peer_access_unsupported = 217, peer_access_already_enabled = 704,
                 too_many_peers = 711;

constexpr int max_threads_per_block = 1, max_block_x = 2, max_block_y = 3, max_block_z = 4, max_grid_x = 5,
              max_grid_y = 6, max_grid_z = 7, max_shared_per_block = 8, multiprocessors = 16, compute_mode = 20,
              unified_addressing = 41, capability_major = 75, capability_minor = 76, cooperative_launch = 95,
              max_shared_per_block_optin = 97;
constexpr int compute_mode_exclusive = 3, compute_mode_prohibited = 2;
constexpr int function_max_threads = 0, function_shared_bytes = 1, function_max_dynamic_shared = 8;
constexpr unsigned stream_non_blocking = 1, event_disable_timing = 2, host_register_portable = 1;
constexpr int jit_error_log = 5, jit_error_log_bytes = 6;

} // namespace cu

/// The driver's functions, by their names without `cu`. A plain value: tests put others in.
struct cuda_api {
  using name_list = std::span<const std::string>;

  cu::result (*Init)(unsigned) = nullptr;
  cu::result (*DriverGetVersion)(int*) = nullptr;
  cu::result (*GetErrorName)(cu::result, const char**) = nullptr;
  cu::result (*GetErrorString)(cu::result, const char**) = nullptr;
  cu::result (*DeviceGetCount)(int*) = nullptr;
  cu::result (*DeviceGet)(cu::device*, int) = nullptr;
  cu::result (*DeviceGetName)(char*, int, cu::device) = nullptr;
  cu::result (*DeviceGetAttribute)(int*, int, cu::device) = nullptr;
  cu::result (*DeviceGetPCIBusId)(char*, int, cu::device) = nullptr; ///< may be null
  cu::result (*DeviceTotalMem)(std::size_t*, cu::device) = nullptr;
  cu::result (*DevicePrimaryCtxRetain)(cu::context*, cu::device) = nullptr;
  cu::result (*DevicePrimaryCtxRelease)(cu::device) = nullptr;
  cu::result (*CtxSetCurrent)(cu::context) = nullptr;
  cu::result (*CtxGetCurrent)(cu::context*) = nullptr;
  cu::result (*StreamCreateWithPriority)(cu::stream*, unsigned, int) = nullptr;
  cu::result (*StreamDestroy)(cu::stream) = nullptr;
  cu::result (*StreamSynchronize)(cu::stream) = nullptr;
  cu::result (*StreamQuery)(cu::stream) = nullptr;
  cu::result (*StreamWaitEvent)(cu::stream, cu::event, unsigned) = nullptr;
  cu::result (*EventCreate)(cu::event*, unsigned) = nullptr;
  cu::result (*EventRecord)(cu::event, cu::stream) = nullptr;
  cu::result (*EventQuery)(cu::event) = nullptr;
  cu::result (*EventDestroy)(cu::event) = nullptr;
  /// In milliseconds.
  cu::result (*EventElapsedTime)(float*, cu::event begin, cu::event end) = nullptr; ///< may be null
  cu::result (*MemGetInfo)(std::size_t*, std::size_t*) = nullptr;
  cu::result (*MemAlloc)(cu::pointer*, std::size_t) = nullptr;
  cu::result (*MemFree)(cu::pointer) = nullptr;
  cu::result (*MemHostRegister)(void*, std::size_t, unsigned) = nullptr;
  cu::result (*MemHostUnregister)(void*) = nullptr;
  cu::result (*MemcpyHtoDAsync)(cu::pointer, const void*, std::size_t, cu::stream) = nullptr;
  cu::result (*MemcpyDtoHAsync)(void*, cu::pointer, std::size_t, cu::stream) = nullptr;
  cu::result (*MemcpyDtoDAsync)(cu::pointer, cu::pointer, std::size_t, cu::stream) = nullptr;
  cu::result (*Memcpy2DAsync)(const cu::copy_2d*, cu::stream) = nullptr;
  cu::result (*Memcpy3DAsync)(const cu::copy_3d*, cu::stream) = nullptr;
  cu::result (*DeviceCanAccessPeer)(int*, cu::device, cu::device) = nullptr;
  cu::result (*CtxEnablePeerAccess)(cu::context, unsigned) = nullptr;
  cu::result (*MemcpyPeerAsync)(cu::pointer, cu::context, cu::pointer, cu::context, std::size_t, cu::stream) = nullptr;
  cu::result (*Memcpy3DPeerAsync)(const cu::copy_3d*, cu::stream) = nullptr;
  cu::result (*ModuleLoadDataEx)(cu::module*, const void*, unsigned, int*, void**) = nullptr;
  cu::result (*ModuleUnload)(cu::module) = nullptr;
  cu::result (*ModuleGetFunction)(cu::function*, cu::module, const char*) = nullptr;
  cu::result (*ModuleGetGlobal)(cu::pointer*, std::size_t*, cu::module, const char*) = nullptr;
  cu::result (*FuncGetAttribute)(int*, int, cu::function) = nullptr;
  cu::result (*FuncSetAttribute)(cu::function, int, int) = nullptr;
  cu::result (*FuncGetParamInfo)(cu::function, std::size_t, std::size_t*,
                                 std::size_t*) = nullptr; ///< null before CUDA 12.4
  /// Groups in x, y, z, items of each in x, y, z, dynamic bytes, stream, parameters, options.
  cu::result (*LaunchKernel)(cu::function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             cu::stream, void**, void**) = nullptr;
  cu::result (*LaunchCooperativeKernel)(cu::function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, cu::stream, void**) = nullptr;

  // Graphs. All null before CUDA 12, or none.
  cu::result (*GraphCreate)(cu::graph*, unsigned) = nullptr;
  cu::result (*GraphDestroy)(cu::graph) = nullptr;
  cu::result (*GraphAddKernelNode)(cu::graph_node*, cu::graph, const cu::graph_node*, std::size_t,
                                   const cu::kernel_node*) = nullptr;
  cu::result (*GraphInstantiateWithFlags)(cu::graph_exec*, cu::graph, unsigned long long) = nullptr;
  cu::result (*GraphExecKernelNodeSetParams)(cu::graph_exec, cu::graph_node, const cu::kernel_node*) = nullptr;
  cu::result (*GraphLaunch)(cu::graph_exec, cu::stream) = nullptr;
  cu::result (*GraphExecDestroy)(cu::graph_exec) = nullptr;
  bool has_graphs() const noexcept { return GraphCreate != nullptr; }

  /// "CUDA_ERROR_INVALID_VALUE (1): invalid argument"
  std::string text_of(cu::result r) const;

  /// Opens the first of the libraries that is there. It stays open until the program ends: drivers
  /// do not survive being closed. Any thread.
  /// \return nothing if there is none, or if it lacks a function; then `notes` says which, and what
  /// to install.
  static std::optional<cuda_api> open(name_list libraries, std::vector<std::string>& notes);
  /// `libcuda.so.1`. Not `libcuda.so`, which may be the one for linkers, in which nothing works.
  static std::vector<std::string> usual_libraries();
};

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
// Are Tern's table and the mock's additions what cuda.h declares? Checked where that header is;
// nothing is made of it.
#ifdef MOCK_CUDA_H // where CMake has found it
#include MOCK_CUDA_H

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "more_api.hpp"

namespace {

namespace cu = tern::hetero::detail::cu;
using tern::hetero::detail::cuda_api;

// Handles are other opaque structs here, and enumerations ints; a pointer to an enumeration is one
// to an int.
template <class A, class B> constexpr bool same() {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>)
    return std::is_const_v<std::remove_pointer_t<A>> == std::is_const_v<std::remove_pointer_t<B>>;
  else
    return sizeof(A) == sizeof(B) &&
           (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>);
}
template <class A, class B> struct alike : std::false_type {};
template <class R, class... P, class S, class... Q>
struct alike<R (*)(P...), S (*)(Q...)> : std::bool_constant<sizeof...(P) == sizeof...(Q) && []() {
  if constexpr (sizeof...(P) == sizeof...(Q))
    return same<R, S>() && (same<P, Q>() && ...);
  else
    return false;
}()> {};

#define MOCK_TEXT_OF(...) #__VA_ARGS__
#define MOCK_TEXT(...) MOCK_TEXT_OF(__VA_ARGS__)
// The symbol that the header's name stands for, and its type.
#define CHECK_IN(table, name, symbol)                                                                                  \
  static_assert(std::string_view(MOCK_TEXT(cu##name)) == symbol, "cuda.h has another symbol for cu" #name);            \
  static_assert(alike<decltype(&cu##name), decltype(table::name)>::value, "cu" #name " differs")
#define CHECK(name) CHECK_IN(cuda_api, name, "cu" #name)
#define CHECK_2(name) CHECK_IN(cuda_api, name, "cu" #name "_v2")
#define CHECK_MORE(name, symbol) CHECK_IN(mock::more_api, name, symbol)

CHECK(Init);
CHECK(DriverGetVersion);
CHECK(GetErrorName);
CHECK(GetErrorString);
CHECK(DeviceGetCount);
CHECK(DeviceGet);
CHECK(DeviceGetName);
CHECK(DeviceGetAttribute);
CHECK_2(DeviceTotalMem);
CHECK(DevicePrimaryCtxRetain);
CHECK_2(DevicePrimaryCtxRelease);
CHECK(CtxSetCurrent);
CHECK(CtxGetCurrent);
CHECK(StreamCreateWithPriority);
CHECK_2(StreamDestroy);
CHECK(StreamSynchronize);
CHECK(StreamQuery);
CHECK(StreamWaitEvent);
CHECK(EventCreate);
CHECK(EventRecord);
CHECK(EventQuery);
CHECK_2(EventDestroy);
CHECK_2(MemGetInfo);
CHECK_2(MemAlloc);
CHECK_2(MemFree);
CHECK_2(MemHostRegister);
CHECK(MemHostUnregister);
CHECK_2(MemcpyHtoDAsync);
CHECK_2(MemcpyDtoHAsync);
CHECK_2(MemcpyDtoDAsync);
CHECK_2(Memcpy2DAsync);
CHECK_2(Memcpy3DAsync);
CHECK(DeviceCanAccessPeer);
CHECK(CtxEnablePeerAccess);
CHECK(MemcpyPeerAsync);
CHECK(Memcpy3DPeerAsync);
static_assert(sizeof(cu::copy_3d) == sizeof(CUDA_MEMCPY3D_PEER) &&
              offsetof(cu::copy_3d, src_context) == offsetof(CUDA_MEMCPY3D_PEER, srcContext) &&
              offsetof(cu::copy_3d, dst_context) == offsetof(CUDA_MEMCPY3D_PEER, dstContext) &&
              offsetof(cu::copy_3d, slices) == offsetof(CUDA_MEMCPY3D_PEER, Depth));
CHECK(ModuleLoadDataEx);
CHECK(ModuleUnload);
CHECK(ModuleGetFunction);
CHECK_2(ModuleGetGlobal);
CHECK(FuncGetAttribute);
CHECK(FuncSetAttribute);
#if CUDA_VERSION >= 12040
CHECK(FuncGetParamInfo);
#endif
CHECK(LaunchKernel);
CHECK(LaunchCooperativeKernel);
#if CUDA_VERSION >= 12000
CHECK(GraphCreate);
CHECK(GraphDestroy);
CHECK_2(GraphAddKernelNode);
CHECK(GraphInstantiateWithFlags);
CHECK_2(GraphExecKernelNodeSetParams);
CHECK(GraphLaunch);
CHECK(GraphExecDestroy);
static_assert(sizeof(cu::kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS) &&
              offsetof(cu::kernel_node, groups) == offsetof(CUDA_KERNEL_NODE_PARAMS, gridDimX) &&
              offsetof(cu::kernel_node, items) == offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimX) &&
              offsetof(cu::kernel_node, dynamic_bytes) == offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes) &&
              offsetof(cu::kernel_node, values) == offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams) &&
              offsetof(cu::kernel_node, extra) == offsetof(CUDA_KERNEL_NODE_PARAMS, extra) &&
              offsetof(cu::kernel_node, in) == offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
#endif
CHECK_MORE(EventSynchronize, "cuEventSynchronize");
CHECK_MORE(StreamBeginCapture, "cuStreamBeginCapture_v2");
CHECK_MORE(StreamEndCapture, "cuStreamEndCapture");
CHECK_MORE(GraphExecUpdate, "cuGraphExecUpdate_v2");

#define CHECK_PLACE(mine, name, theirs, field)                                                                         \
  static_assert(offsetof(mine, name) == offsetof(theirs, field) && sizeof(mine::name) == sizeof(theirs::field),        \
                #name " of " #mine " differs")
#define CHECK_BOTH(mine, theirs)                                                                                       \
  static_assert(sizeof(mine) == sizeof(theirs));                                                                       \
  CHECK_PLACE(mine, src_x, theirs, srcXInBytes);                                                                       \
  CHECK_PLACE(mine, src_y, theirs, srcY);                                                                              \
  CHECK_PLACE(mine, src_memory, theirs, srcMemoryType);                                                                \
  CHECK_PLACE(mine, src_host, theirs, srcHost);                                                                        \
  CHECK_PLACE(mine, src_device, theirs, srcDevice);                                                                    \
  CHECK_PLACE(mine, src_array, theirs, srcArray);                                                                      \
  CHECK_PLACE(mine, src_pitch, theirs, srcPitch);                                                                      \
  CHECK_PLACE(mine, dst_x, theirs, dstXInBytes);                                                                       \
  CHECK_PLACE(mine, dst_y, theirs, dstY);                                                                              \
  CHECK_PLACE(mine, dst_memory, theirs, dstMemoryType);                                                                \
  CHECK_PLACE(mine, dst_host, theirs, dstHost);                                                                        \
  CHECK_PLACE(mine, dst_device, theirs, dstDevice);                                                                    \
  CHECK_PLACE(mine, dst_array, theirs, dstArray);                                                                      \
  CHECK_PLACE(mine, dst_pitch, theirs, dstPitch);                                                                      \
  CHECK_PLACE(mine, row_bytes, theirs, WidthInBytes);                                                                  \
  CHECK_PLACE(mine, rows, theirs, Height)
CHECK_BOTH(cu::copy_2d, CUDA_MEMCPY2D);
CHECK_BOTH(cu::copy_3d, CUDA_MEMCPY3D);
CHECK_PLACE(cu::copy_3d, src_z, CUDA_MEMCPY3D, srcZ);
CHECK_PLACE(cu::copy_3d, src_lod, CUDA_MEMCPY3D, srcLOD);
CHECK_PLACE(cu::copy_3d, src_height, CUDA_MEMCPY3D, srcHeight);
CHECK_PLACE(cu::copy_3d, dst_z, CUDA_MEMCPY3D, dstZ);
CHECK_PLACE(cu::copy_3d, dst_lod, CUDA_MEMCPY3D, dstLOD);
CHECK_PLACE(cu::copy_3d, dst_height, CUDA_MEMCPY3D, dstHeight);
CHECK_PLACE(cu::copy_3d, slices, CUDA_MEMCPY3D, Depth);
static_assert(sizeof(mock::update_info) == sizeof(CUgraphExecUpdateResultInfo));

#define CHECK_NUMBER(mine, theirs) static_assert(static_cast<long>(cu::mine) == static_cast<long>(theirs))
CHECK_NUMBER(memory_host, CU_MEMORYTYPE_HOST);
CHECK_NUMBER(memory_device, CU_MEMORYTYPE_DEVICE);
CHECK_NUMBER(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
CHECK_NUMBER(no_device, CUDA_ERROR_NO_DEVICE);
CHECK_NUMBER(stub_library, CUDA_ERROR_STUB_LIBRARY);
CHECK_NUMBER(invalid_image, CUDA_ERROR_INVALID_IMAGE);
CHECK_NUMBER(no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
CHECK_NUMBER(unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
CHECK_NUMBER(already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
CHECK_NUMBER(not_found, CUDA_ERROR_NOT_FOUND);
CHECK_NUMBER(not_ready, CUDA_ERROR_NOT_READY);
CHECK_NUMBER(launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
CHECK_NUMBER(peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
CHECK_NUMBER(max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
CHECK_NUMBER(max_block_x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
CHECK_NUMBER(max_block_y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
CHECK_NUMBER(max_block_z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
CHECK_NUMBER(max_grid_x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
CHECK_NUMBER(max_grid_y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
CHECK_NUMBER(max_grid_z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
CHECK_NUMBER(max_shared_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
CHECK_NUMBER(multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
CHECK_NUMBER(compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
CHECK_NUMBER(unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
CHECK_NUMBER(capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
CHECK_NUMBER(capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
CHECK_NUMBER(max_shared_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
CHECK_NUMBER(compute_mode_prohibited, CU_COMPUTEMODE_PROHIBITED);
CHECK_NUMBER(compute_mode_exclusive, CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
CHECK_NUMBER(function_max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
CHECK_NUMBER(function_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
CHECK_NUMBER(function_max_dynamic_shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
CHECK_NUMBER(stream_non_blocking, CU_STREAM_NON_BLOCKING);
CHECK_NUMBER(event_disable_timing, CU_EVENT_DISABLE_TIMING);
CHECK_NUMBER(host_register_portable, CU_MEMHOSTREGISTER_PORTABLE);
CHECK_NUMBER(jit_error_log, CU_JIT_ERROR_LOG_BUFFER);
CHECK_NUMBER(jit_error_log_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

} // namespace
#endif

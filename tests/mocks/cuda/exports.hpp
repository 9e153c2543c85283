// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The driver's functions by their symbols, declared from Tern's table: one that is defined
/// otherwise does not compile.

#include <type_traits>

#include "more_api.hpp"

#define DECLARE_AS(table, name, symbol) std::remove_pointer_t<decltype(tern::hetero::detail::table::name)> symbol
#define DECLARE(name) DECLARE_AS(cuda_api, name, cu##name)
#define DECLARE_2(name) DECLARE_AS(cuda_api, name, cu##name##_v2)
#define DECLARE_MORE(name, symbol) std::remove_pointer_t<decltype(mock::more_api::name)> symbol

extern "C" {
#pragma GCC visibility push(default)
DECLARE(Init);
DECLARE(DriverGetVersion);
DECLARE(GetErrorName);
DECLARE(GetErrorString);
DECLARE(DeviceGetCount);
DECLARE(DeviceGet);
DECLARE(DeviceGetName);
DECLARE(DeviceGetAttribute);
DECLARE(DeviceGetPCIBusId);
DECLARE_2(DeviceTotalMem);
DECLARE(DevicePrimaryCtxRetain);
DECLARE_2(DevicePrimaryCtxRelease);
DECLARE(CtxSetCurrent);
DECLARE(CtxGetCurrent);
DECLARE(StreamCreateWithPriority);
DECLARE_2(StreamDestroy);
DECLARE(StreamSynchronize);
DECLARE(StreamQuery);
DECLARE(StreamWaitEvent);
DECLARE(EventCreate);
DECLARE(EventRecord);
DECLARE(EventQuery);
DECLARE_2(EventDestroy);
DECLARE(EventElapsedTime);
DECLARE_2(MemGetInfo);
DECLARE_2(MemAlloc);
DECLARE_2(MemFree);
DECLARE_2(MemHostRegister);
DECLARE(MemHostUnregister);
DECLARE_2(MemcpyHtoDAsync);
DECLARE_2(MemcpyDtoHAsync);
DECLARE_2(MemcpyDtoDAsync);
DECLARE_2(Memcpy2DAsync);
DECLARE_2(Memcpy3DAsync);
DECLARE(DeviceCanAccessPeer);
DECLARE(CtxEnablePeerAccess);
DECLARE(MemcpyPeerAsync);
DECLARE(Memcpy3DPeerAsync);
DECLARE(ModuleLoadDataEx);
DECLARE(ModuleUnload);
DECLARE(ModuleGetFunction);
DECLARE_2(ModuleGetGlobal);
DECLARE(FuncGetAttribute);
DECLARE(FuncSetAttribute);
DECLARE(FuncGetParamInfo);
DECLARE(LaunchKernel);
DECLARE(LaunchCooperativeKernel);
DECLARE_MORE(EventSynchronize, cuEventSynchronize);
DECLARE_MORE(StreamBeginCapture, cuStreamBeginCapture_v2);
DECLARE_MORE(StreamEndCapture, cuStreamEndCapture);
DECLARE(GraphCreate);
DECLARE_2(GraphAddKernelNode);
DECLARE_2(GraphExecKernelNodeSetParams);
DECLARE(GraphInstantiateWithFlags);
DECLARE(GraphLaunch);
DECLARE(GraphExecDestroy);
DECLARE(GraphDestroy);
DECLARE_MORE(GraphExecUpdate, cuGraphExecUpdate_v2);
#pragma GCC visibility pop
}

#undef DECLARE
#undef DECLARE_2
#undef DECLARE_AS
#undef DECLARE_MORE

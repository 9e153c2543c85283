// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/cuda/cuda_api.hpp>

#include <utility>

#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/device/dynamic_library.hpp>

namespace tern::hetero::detail {

std::string cuda_api::text_of(cu::result r) const {
  const char *name = nullptr, *text = nullptr;
  if (GetErrorName(r, &name) != cu::success || !name) name = "CUDA error";
  std::string all = name + (" (" + std::to_string(r) + ")");
  if (GetErrorString(r, &text) == cu::success && text) all += std::string(": ") + text;
  return all;
}

std::vector<std::string> cuda_api::usual_libraries() { return {"libcuda.so.1"}; }

namespace {

/// \param why what the loader says if there is no such library. \param missing functions that it
/// lacks.
std::optional<cuda_api> open_one(const std::string& name, std::string& why, std::string& missing) {
  dynamic_library library = dynamic_library::open(name, why);
  if (!library) return {};
  cuda_api api;
#define TERN_FIND(name) library.find(api.name, "cu" #name)
#define TERN_FIND_V2(name) library.find(api.name, "cu" #name "_v2")
  TERN_FIND(Init);
  TERN_FIND(DriverGetVersion);
  TERN_FIND(GetErrorName);
  TERN_FIND(GetErrorString);
  TERN_FIND(DeviceGetCount);
  TERN_FIND(DeviceGet);
  TERN_FIND(DeviceGetName);
  TERN_FIND(DeviceGetAttribute);
  TERN_FIND_V2(DeviceTotalMem);
  TERN_FIND(DevicePrimaryCtxRetain);
  TERN_FIND_V2(DevicePrimaryCtxRelease);
  TERN_FIND(CtxSetCurrent);
  TERN_FIND(CtxGetCurrent);
  TERN_FIND(StreamCreateWithPriority);
  TERN_FIND_V2(StreamDestroy);
  TERN_FIND(StreamSynchronize);
  TERN_FIND(StreamQuery);
  TERN_FIND(StreamWaitEvent);
  TERN_FIND(EventCreate);
  TERN_FIND(EventRecord);
  TERN_FIND(EventQuery);
  TERN_FIND_V2(EventDestroy);
  TERN_FIND_V2(MemGetInfo);
  TERN_FIND_V2(MemAlloc);
  TERN_FIND_V2(MemFree);
  TERN_FIND_V2(MemHostRegister);
  TERN_FIND(MemHostUnregister);
  TERN_FIND_V2(MemcpyHtoDAsync);
  TERN_FIND_V2(MemcpyDtoHAsync);
  TERN_FIND_V2(MemcpyDtoDAsync);
  TERN_FIND_V2(Memcpy2DAsync);
  TERN_FIND_V2(Memcpy3DAsync);
  TERN_FIND(DeviceCanAccessPeer);
  TERN_FIND(CtxEnablePeerAccess);
  TERN_FIND(MemcpyPeerAsync);
  TERN_FIND(Memcpy3DPeerAsync);
  TERN_FIND(ModuleLoadDataEx);
  TERN_FIND(ModuleUnload);
  TERN_FIND(ModuleGetFunction);
  TERN_FIND_V2(ModuleGetGlobal);
  TERN_FIND(FuncGetAttribute);
  TERN_FIND(FuncSetAttribute);
  TERN_FIND(LaunchKernel);
  TERN_FIND(LaunchCooperativeKernel);
#undef TERN_FIND
#undef TERN_FIND_V2
  library.find(api.FuncGetParamInfo, "cuFuncGetParamInfo", false);
  library.find(api.DeviceGetPCIBusId, "cuDeviceGetPCIBusId", false);
  library.find(api.EventElapsedTime, "cuEventElapsedTime", false);
  missing = library.missing();
  if (!missing.empty()) return {}; // nothing has been asked of it
  library.find(api.GraphCreate, "cuGraphCreate");
  library.find(api.GraphDestroy, "cuGraphDestroy");
  library.find(api.GraphAddKernelNode, "cuGraphAddKernelNode_v2");
  library.find(api.GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
  library.find(api.GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2");
  library.find(api.GraphLaunch, "cuGraphLaunch");
  library.find(api.GraphExecDestroy, "cuGraphExecDestroy");
  if (!library.missing().empty()) api.GraphCreate = nullptr; // it can do without
  library.keep();
  return api;
}

} // namespace

std::optional<cuda_api> cuda_api::open(name_list libraries, std::vector<std::string>& notes) {
  static auto& all = *new opened_libraries<cuda_api>; // never destroyed: runtimes use what it knows
  std::string why;
  for (const std::string& name : libraries) {
    std::string missing;
    if (const auto found = all.get(name, [&] { return open_one(name, why, missing); })) return found;
    if (missing.empty()) continue;
    notes.push_back("no CUDA devices: " + name + " lacks " + missing + "; install a driver for CUDA 11 or later");
    return {};
  }
  notes.push_back("no CUDA devices: NVIDIA's driver cannot be opened (" + why +
                  "); where there is a GPU of NVIDIA's, install its driver, nvidia-driver");
  return {};
}

} // namespace tern::hetero::detail

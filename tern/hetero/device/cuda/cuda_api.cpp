// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/cuda/cuda_api.hpp>

#include <utility>

#include <dlfcn.h>

#include <tern/hetero/device/discovery.hpp>

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

/// \param why what the loader says if there is no such library. \param missing functions that it lacks.
std::optional<cuda_api> open_one(const std::string& name, std::string& why, std::string& missing) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const said = dlerror();
    why += (why.empty() ? "" : "; ") + std::string(said ? said : name);
    return {};
  }

  cuda_api api;
  const auto find = [&]<class F>(F*& function, const char* symbol, bool needed = true) {
    function = reinterpret_cast<F*>(dlsym(library, symbol));
    if (!function && needed) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
#define TERN_FIND(name) find(api.name, "cu" #name)
#define TERN_FIND_V2(name) find(api.name, "cu" #name "_v2")
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
  TERN_FIND(FuncGetAttribute);
  TERN_FIND(FuncSetAttribute);
  TERN_FIND(LaunchKernel);
  TERN_FIND(LaunchCooperativeKernel);
#undef TERN_FIND
#undef TERN_FIND_V2
  find(api.FuncGetParamInfo, "cuFuncGetParamInfo", false);
  if (missing.empty()) {
    find(api.GraphCreate, "cuGraphCreate");
    find(api.GraphDestroy, "cuGraphDestroy");
    find(api.GraphAddKernelNode, "cuGraphAddKernelNode_v2");
    find(api.GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
    find(api.GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2");
    find(api.GraphLaunch, "cuGraphLaunch");
    find(api.GraphExecDestroy, "cuGraphExecDestroy");
    if (!missing.empty()) api.GraphCreate = nullptr;
    missing.clear(); // it can do without
    return api;
  }
  dlclose(library); // nothing has been asked of it
  return {};
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

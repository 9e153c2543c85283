// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/opencl/opencl_api.hpp>

#include <utility>

#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/device/dynamic_library.hpp>

namespace tern::hetero::detail {
namespace cl {

std::string text_of(status s) {
  static constexpr std::pair<status, const char*> names[] = {
      {0, "SUCCESS"},
      {-1, "DEVICE_NOT_FOUND"},
      {-2, "DEVICE_NOT_AVAILABLE"},
      {-3, "COMPILER_NOT_AVAILABLE"},
      {-4, "MEM_OBJECT_ALLOCATION_FAILURE"},
      {-5, "OUT_OF_RESOURCES"},
      {-6, "OUT_OF_HOST_MEMORY"},
      {-8, "MEM_COPY_OVERLAP"},
      {-11, "BUILD_PROGRAM_FAILURE"},
      {-13, "MISALIGNED_SUB_BUFFER_OFFSET"},
      {-14, "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
      {-30, "INVALID_VALUE"},
      {-32, "INVALID_PLATFORM"},
      {-33, "INVALID_DEVICE"},
      {-34, "INVALID_CONTEXT"},
      {-36, "INVALID_COMMAND_QUEUE"},
      {-37, "INVALID_HOST_PTR"},
      {-38, "INVALID_MEM_OBJECT"},
      {-42, "INVALID_BINARY"},
      {-43, "INVALID_BUILD_OPTIONS"},
      {-44, "INVALID_PROGRAM"},
      {-45, "INVALID_PROGRAM_EXECUTABLE"},
      {-46, "INVALID_KERNEL_NAME"},
      {-47, "INVALID_KERNEL_DEFINITION"},
      {-48, "INVALID_KERNEL"},
      {-49, "INVALID_ARG_INDEX"},
      {-50, "INVALID_ARG_VALUE"},
      {-51, "INVALID_ARG_SIZE"},
      {-52, "INVALID_KERNEL_ARGS"},
      {-53, "INVALID_WORK_DIMENSION"},
      {-54, "INVALID_WORK_GROUP_SIZE"},
      {-55, "INVALID_WORK_ITEM_SIZE"},
      {-56, "INVALID_GLOBAL_OFFSET"},
      {-57, "INVALID_EVENT_WAIT_LIST"},
      {-58, "INVALID_EVENT"},
      {-59, "INVALID_OPERATION"},
      {-61, "INVALID_BUFFER_SIZE"},
      {-63, "INVALID_GLOBAL_WORK_SIZE"},
      {-1001, "PLATFORM_NOT_FOUND_KHR"},
  };
  for (const auto& [number, name] : names)
    if (number == s) return std::string("CL_") + name + " (" + std::to_string(s) + ")";
  return "CL error " + std::to_string(s);
}

} // namespace cl

opencl_api::name_list opencl_api::usual_libraries() noexcept {
  static constexpr const char* names[] = {"libOpenCL.so.1", "libOpenCL.so"};
  return names;
}

namespace {

/// \param why what the loader says if there is no such library. \param missing functions that it
/// lacks.
std::optional<opencl_api> open_one(const char* name, std::string& why, std::string& missing) {
  dynamic_library library = dynamic_library::open(name, why);
  if (!library) return {};
  opencl_api api;
#define TERN_FIND(name) library.find(api.name, "cl" #name)
  TERN_FIND(GetPlatformIDs);
  TERN_FIND(GetPlatformInfo);
  TERN_FIND(GetDeviceIDs);
  TERN_FIND(GetDeviceInfo);
  TERN_FIND(CreateContext);
  TERN_FIND(ReleaseContext);
  TERN_FIND(CreateCommandQueue);
  TERN_FIND(ReleaseCommandQueue);
  TERN_FIND(CreateProgramWithSource);
  TERN_FIND(CreateProgramWithBinary);
  TERN_FIND(BuildProgram);
  TERN_FIND(GetProgramBuildInfo);
  TERN_FIND(GetProgramInfo);
  TERN_FIND(ReleaseProgram);
  TERN_FIND(CreateKernel);
  TERN_FIND(ReleaseKernel);
  TERN_FIND(GetKernelInfo);
  TERN_FIND(GetKernelWorkGroupInfo);
  TERN_FIND(SetKernelArg);
  TERN_FIND(CreateBuffer);
  TERN_FIND(CreateSubBuffer);
  TERN_FIND(GetMemObjectInfo);
  TERN_FIND(ReleaseMemObject);
  TERN_FIND(EnqueueReadBuffer);
  TERN_FIND(EnqueueWriteBuffer);
  TERN_FIND(EnqueueCopyBuffer);
  TERN_FIND(EnqueueReadBufferRect);
  TERN_FIND(EnqueueWriteBufferRect);
  TERN_FIND(EnqueueCopyBufferRect);
  TERN_FIND(EnqueueMapBuffer);
  TERN_FIND(EnqueueUnmapMemObject);
  TERN_FIND(EnqueueNDRangeKernel);
  TERN_FIND(EnqueueMarkerWithWaitList);
  TERN_FIND(EnqueueBarrierWithWaitList);
  TERN_FIND(Flush);
  TERN_FIND(Finish);
  TERN_FIND(GetEventInfo);
  TERN_FIND(ReleaseEvent);
#undef TERN_FIND
  library.find(api.GetEventProfilingInfo, "clGetEventProfilingInfo", false);
  missing = library.missing();
  if (!missing.empty()) return {}; // no driver has been asked for anything
  library.find(api.SetKernelArgSVMPointer, "clSetKernelArgSVMPointer", false);
  library.find(api.CreateProgramWithIL, "clCreateProgramWithIL", false);
  library.keep();
  return api;
}

} // namespace

std::optional<opencl_api> opencl_api::open(name_list libraries, std::vector<std::string>& notes) {
  static auto& all = *new opened_libraries<opencl_api>; // never destroyed: runtimes use what it knows
  std::string why;
  for (const char* name : libraries) {
    std::string missing;
    if (const auto found = all.get(name, [&] { return open_one(name, why, missing); })) return found;
    if (missing.empty()) continue;
    notes.push_back("no OpenCL devices: " + std::string(name) + " lacks " + missing +
                    "; install a loader for OpenCL 1.2 or later, such as ocl-icd-libopencl1");
    return {};
  }
  notes.push_back("no OpenCL devices: its loader cannot be opened (" + why +
                  "); install ocl-icd-libopencl1 and a driver, such as pocl-opencl-icd for the CPU");
  return {};
}

} // namespace tern::hetero::detail

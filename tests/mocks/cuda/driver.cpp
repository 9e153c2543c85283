// SPDX-License-Identifier: Apache-2.0
// The mock driver's devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "state.hpp"

using namespace mock;

namespace {

struct error_name {
  cu::result number;
  const char *name, *text;
};
constexpr error_name errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints specific to "
     "instantiated graph update"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const error_name* find_error(cu::result r) {
  const auto* const found =
      std::find_if(std::begin(errors), std::end(errors), [r](const error_name& e) { return e.number == r; });
  return found == std::end(errors) ? nullptr : found;
}

constexpr struct {
  int attribute, value;
} attributes[] = {{cu::max_threads_per_block, 1024},
                  {cu::max_block_x, 1024},
                  {cu::max_block_y, 1024},
                  {cu::max_block_z, 64},
                  {cu::max_grid_x, 2147483647},
                  {cu::max_grid_y, 65535},
                  {cu::max_grid_z, 65535},
                  {cu::max_shared_per_block, 49152},
                  {10, 32},         // items of a warp
                  {11, 2147483647}, // largest pitch of copies
                  {cu::multiprocessors, 132},
                  {cu::unified_addressing, 1},
                  {cu::cooperative_launch, 1},
                  {cu::max_shared_per_block_optin, 232448}};

bool known(call& c, cu::device d) {
  if (d >= 0 && d < c.s.set.devices) return true;
  c.failed = c.misuse(invalid_device, "there is no device " + std::to_string(d));
  return false;
}

} // namespace

MOCK_EXPORT cu::result cuInit(unsigned flags) {
  call c("cuInit", needs::nothing);
  note_stack(c.s);
  if (flags != 0) return c.misuse(invalid_value, "flags");
  if (c.s.set.no_init || c.s.set.devices == 0) return cu::no_device;
  c.s.initialized = true;
  return 0;
}

MOCK_EXPORT cu::result cuDriverGetVersion(int* version) {
  const call c("cuDriverGetVersion", needs::nothing);
  *version = c.s.set.driver;
  return 0;
}

MOCK_EXPORT cu::result cuGetErrorName(cu::result r, const char** name) {
  const call c("cuGetErrorName", needs::nothing);
  const error_name* const found = find_error(r);
  *name = found ? found->name : nullptr;
  return found ? 0 : invalid_value;
}

MOCK_EXPORT cu::result cuGetErrorString(cu::result r, const char** text) {
  const call c("cuGetErrorString", needs::nothing);
  const error_name* const found = find_error(r);
  *text = found ? found->text : nullptr;
  return found ? 0 : invalid_value;
}

MOCK_EXPORT cu::result cuDeviceGetCount(int* count) {
  const call c("cuDeviceGetCount", needs::init);
  if (!c.failed) *count = c.s.set.devices;
  return c.failed;
}

MOCK_EXPORT cu::result cuDeviceGet(cu::device* d, int number) {
  call c("cuDeviceGet", needs::init);
  if (c.failed || !known(c, number)) return c.failed;
  *d = number;
  return 0;
}

MOCK_EXPORT cu::result cuDeviceGetName(char* to, int bytes, cu::device d) {
  call c("cuDeviceGetName", needs::init);
  if (c.failed || !known(c, d)) return c.failed;
  std::snprintf(to, static_cast<std::size_t>(bytes), "Mock GPU %d", d);
  return 0;
}

MOCK_EXPORT cu::result cuDeviceGetPCIBusId(char* to, int bytes, cu::device d) {
  call c("cuDeviceGetPCIBusId", needs::init);
  if (c.failed || !known(c, d)) return c.failed;
  std::snprintf(to, static_cast<std::size_t>(bytes), "0000:%02x:00.0", d + 1);
  return 0;
}

MOCK_EXPORT cu::result cuDeviceGetAttribute(int* to, int attribute, cu::device d) {
  call c("cuDeviceGetAttribute", needs::init);
  if (c.failed || !known(c, d)) return c.failed;
  if (attribute == cu::compute_mode) return *to = c.s.set.mode, 0;
  if (attribute == cu::capability_major) return *to = c.s.set.capability / 10, 0;
  if (attribute == cu::capability_minor) return *to = c.s.set.capability % 10, 0;
  for (const auto& one : attributes)
    if (one.attribute == attribute) return *to = one.value, 0;
  return c.misuse(invalid_value, "the mock does not know the attribute " + std::to_string(attribute));
}

MOCK_EXPORT cu::result cuDeviceTotalMem_v2(std::size_t* bytes, cu::device d) {
  call c("cuDeviceTotalMem", needs::init);
  if (c.failed || !known(c, d)) return c.failed;
  *bytes = c.s.set.memory;
  return 0;
}

MOCK_EXPORT cu::result cuDevicePrimaryCtxRetain(cu::context* made, cu::device d) {
  call c("cuDevicePrimaryCtxRetain", needs::init);
  note_stack(c.s);
  if (c.failed || !known(c, d)) return c.failed;
  if (c.s.set.mode == cu::compute_mode_prohibited) return device_unavailable;
  if (c.s.set.fail_context) return cu::out_of_memory;
  device& one = c.s.devices[static_cast<std::size_t>(d)];
  if (one.retains++ == 0) {
    one.context = ++c.s.given;
    ++c.s.counted.contexts_created;
  }
  *made = as_handle<cu::context>(one.context);
  return 0;
}

MOCK_EXPORT cu::result cuDevicePrimaryCtxRelease_v2(cu::device d) {
  call c("cuDevicePrimaryCtxRelease", needs::init);
  if (c.failed || !known(c, d)) return c.failed;
  device& one = c.s.devices[static_cast<std::size_t>(d)];
  if (one.retains == 0) return c.misuse(invalid_context, "device " + std::to_string(d) + "'s context is not retained");
  if (--one.retains == 0) drop(c.s, d);
  return 0;
}

MOCK_EXPORT cu::result cuCtxSetCurrent(cu::context context) {
  call c("cuCtxSetCurrent", needs::init);
  if (c.failed) return c.failed;
  ++c.s.counted.set_currents;
  const handle number = number_of(context);
  if (number != 0 &&
      std::none_of(c.s.devices.begin(), c.s.devices.end(), [&](const device& d) { return d.context == number; }))
    return c.misuse(invalid_context, "the context " + hex(number) + " is " + gone(c.s, number));
  current_context(c.s) = number;
  return 0;
}

MOCK_EXPORT cu::result cuCtxGetCurrent(cu::context* context) {
  const call c("cuCtxGetCurrent", needs::init);
  if (!c.failed) *context = as_handle<cu::context>(current_context(c.s));
  return c.failed;
}

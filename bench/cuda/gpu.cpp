// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/gpu.hpp"

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "bench/harness/contestant.hpp"

namespace tern::bench::cuda {

using contest::not_here;

namespace {

std::vector<std::string> named_libraries(std::size_t n, std::vector<std::string> usual) {
  const char* const given = std::getenv("TERN_CUDA_LIBRARIES");
  std::vector<std::string> all;
  std::istringstream in(given ? given : "");
  for (std::string one; std::getline(in, one, ':');) all.push_back(one);
  return n < all.size() ? std::vector{all[n]} : usual;
}

template <class Api, class... More> Api opened(std::size_t n, const More&... more) {
  std::vector<std::string> notes;
  const auto names = named_libraries(n, Api::usual_libraries());
  auto api = Api::open(names, notes, more...);
  if (!api) throw not_here(notes.empty() ? "CUDA" : notes.front());
  return *api;
}

} // namespace

gpu::gpu() : api(opened<tern::hetero::detail::cuda_api>(0)) {
  int count = 0;
  if (api.Init(0) != cu::success || api.DeviceGetCount(&count) != cu::success || count == 0)
    throw not_here("a CUDA device");
  int major = 0, minor = 0;
  cu::context context = nullptr;
  must(api.DeviceGet(&device_, 0), "open the device");
  must(api.DeviceGetAttribute(&major, cu::capability_major, device_), "ask the device");
  must(api.DeviceGetAttribute(&minor, cu::capability_minor, device_), "ask the device");
  capability_ = 10 * major + minor;
  tern::hetero::detail::nvrtc_users users{0, {capability_}};
  must(api.DriverGetVersion(&users.driver), "say its version");
  nvrtc_ = opened<tern::hetero::detail::nvrtc_api>(1, users);
  // Another process uses the device exclusively, or its mode prohibits use, or its memory is full:
  // neither contestant is at fault.
  if (const cu::result r = api.DevicePrimaryCtxRetain(&context, device_); r != cu::success)
    throw not_here("a GPU that two processes can use: no context, " + api.text_of(r));
  must(api.CtxSetCurrent(context), "enter the context");
}
// The process ends: the driver frees what is there.
gpu::~gpu() = default;

void gpu::must(cu::result r, const char* what) const {
  if (r != cu::success) throw std::runtime_error(std::string(what) + ": " + api.text_of(r));
}

cu::pointer gpu::allocate(std::size_t bytes) const {
  cu::pointer p = 0;
  const cu::result r = api.MemAlloc(&p, bytes);
  if (r == cu::out_of_memory) throw not_here("a GPU with " + std::to_string(bytes >> 20) + " MiB more of memory");
  must(r, "allocate");
  return p;
}
void gpu::free(cu::pointer p) const { must(api.MemFree(p), "free"); }
cu::stream gpu::stream() const {
  cu::stream s = nullptr;
  must(api.StreamCreateWithPriority(&s, cu::stream_non_blocking, 0), "make a stream");
  return s;
}
cu::event gpu::event() const {
  cu::event e = nullptr;
  must(api.EventCreate(&e, cu::event_disable_timing), "make an event");
  return e;
}
void gpu::lock(void* at, std::size_t bytes) const { must(api.MemHostRegister(at, bytes, 0), "page-lock"); }
void gpu::wait(cu::event e) const {
  cu::result r = cu::not_ready;
  while ((r = api.EventQuery(e)) == cu::not_ready) {
  }
  must(r, "wait");
}

cu::function gpu::compile(const std::string& text, const char* name, std::span<const std::string> options) const {
  // As our contestant does it: PTX where NVRTC is older than the device.
  const auto target = tern::hetero::detail::best_code(nvrtc_, capability_);
  if (target.compute_capability == 0) throw not_here("an NVRTC that compiles for this GPU");
  const auto made =
      tern::hetero::detail::compile_cuda(nvrtc_, {text, std::string(name) + ".cu", name, ""}, target, {}, options);
  cu::module m = nullptr;
  cu::function f = nullptr;
  must(api.ModuleLoadDataEx(&m, made.code.data(), 0, nullptr, nullptr), "load a kernel");
  must(api.ModuleGetFunction(&f, m, name), "find a kernel");
  return f;
}

const gpu& the_gpu() {
  static const gpu one;
  return one;
}

} // namespace tern::bench::cuda

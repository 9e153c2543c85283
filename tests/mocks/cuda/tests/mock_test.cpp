// SPDX-License-Identifier: Apache-2.0
#include "mock_test.hpp"

#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <thread>

namespace mock {
namespace {

template <class F> void find(void* library, F*& function, const char* symbol) {
  function = reinterpret_cast<F*>(dlsym(library, symbol));
  if (!function) ADD_FAILURE() << "no " << symbol;
}

void* open(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) ADD_FAILURE() << dlerror();
  return library;
}

driver open_driver() {
  driver d;
  void* const l = open(TERN_MOCK_CUDA_LIBRARY);
#define FIND(name) find(l, d.name, "cu" #name)
#define FIND_2(name) find(l, d.name, "cu" #name "_v2")
  FIND(Init), FIND(DriverGetVersion), FIND(GetErrorName), FIND(GetErrorString), FIND(DeviceGetCount);
  FIND(DeviceGet), FIND(DeviceGetName), FIND(DeviceGetAttribute), FIND_2(DeviceTotalMem);
  FIND(DevicePrimaryCtxRetain), FIND_2(DevicePrimaryCtxRelease), FIND(CtxSetCurrent), FIND(CtxGetCurrent);
  FIND(StreamCreateWithPriority), FIND_2(StreamDestroy), FIND(StreamSynchronize), FIND(StreamWaitEvent);
  FIND(EventCreate), FIND(EventRecord), FIND(EventQuery), FIND_2(EventDestroy), FIND(EventElapsedTime);
  FIND_2(MemGetInfo);
  FIND_2(MemAlloc), FIND_2(MemFree), FIND_2(MemHostRegister), FIND(MemHostUnregister), FIND_2(MemcpyHtoDAsync);
  FIND_2(MemcpyDtoHAsync), FIND_2(MemcpyDtoDAsync), FIND_2(Memcpy2DAsync), FIND_2(Memcpy3DAsync);
  FIND(DeviceCanAccessPeer), FIND(CtxEnablePeerAccess), FIND(MemcpyPeerAsync), FIND(Memcpy3DPeerAsync);
  FIND(ModuleLoadDataEx), FIND(ModuleUnload), FIND(ModuleGetFunction), FIND(FuncGetAttribute);
  FIND_2(ModuleGetGlobal);
  FIND(FuncSetAttribute), FIND(FuncGetParamInfo), FIND(LaunchKernel), FIND(LaunchCooperativeKernel), FIND(StreamQuery),
      FIND(EventSynchronize);
  FIND_2(StreamBeginCapture), FIND(StreamEndCapture), FIND(GraphLaunch), FIND(GraphExecDestroy), FIND(GraphDestroy);
  FIND_2(GraphExecUpdate), FIND(GraphInstantiateWithFlags), FIND(GraphCreate), FIND_2(GraphAddKernelNode);
  FIND_2(GraphExecKernelNodeSetParams);
  find(l, d.configure, "tern_mock_cuda_configure"), find(l, d.counters, "tern_mock_cuda_counters");
  find(l, d.misuse, "tern_mock_cuda_misuse"), find(l, d.forget_misuse, "tern_mock_cuda_forget_misuse");
  find(l, d.calls, "tern_mock_cuda_calls"), find(l, d.clock, "tern_mock_cuda_clock");
  return d;
}

nvrtc_api open_compiler() {
  nvrtc_api a;
  void* const l = open(TERN_MOCK_NVRTC_LIBRARY);
#define FIND_N(name) find(l, a.name, "nvrtc" #name)
  FIND_N(Version), FIND_N(CreateProgram), FIND_N(CompileProgram), FIND_N(DestroyProgram), FIND_N(GetPTXSize);
  FIND_N(GetPTX), FIND_N(GetCUBINSize), FIND_N(GetCUBIN), FIND_N(GetProgramLogSize), FIND_N(GetProgramLog);
  FIND_N(GetErrorString), FIND_N(GetNumSupportedArchs), FIND_N(GetSupportedArchs);
  return a;
}

} // namespace

const std::string test_kernels = R"(
extern "C" __global__ void add(int* a, int n, int by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] += by;
}
extern "C" __global__ void __launch_bounds__((8) * (8)) turn(int* to, const int* from) {
  __shared__ int tile[8][8];
  tile[threadIdx.y][threadIdx.x] = from[(blockIdx.y * 8 + threadIdx.y) * 16 + blockIdx.x * 8 + threadIdx.x];
  __syncthreads();
  to[(blockIdx.x * 8 + threadIdx.y) * 16 + blockIdx.y * 8 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void sum(float* to, const float* from, int n) {
  extern __shared__ __align__(16) char dynamic[];
  float* part = (float*)dynamic;
  const int me = threadIdx.x;
  if (me >= n) return; // some end before the others meet
  part[me] = from[blockIdx.x * n + me];
  for (int left = n; left > 1;) {
    __syncthreads();
    const int half = (left + 1) / 2;
    if (me + half < left) part[me] += part[me + half];
    left = half;
  }
  if (me == 0) to[blockIdx.x] = part[0];
}
extern "C" __global__ void warp(int* to) {
  int v = threadIdx.x;
  for (int by = 16; by > 0; by /= 2) v += __shfl_down_sync(~0u, v, by);
  if (threadIdx.x % 32 == 0) to[threadIdx.x / 32] = v;
  if (threadIdx.x == 0) to[2] = (int)__ballot_sync(~0u, 1);
  else __ballot_sync(~0u, threadIdx.x < 4);
}
struct pair { double a; char b; };
extern "C" __global__ void mixed(char a, pair b, const float* c, short d) { if (c) asm volatile("trap;"); }
extern "C" __global__ void beyond(int n) { extern __shared__ char bytes[]; bytes[n] = 1; }
)";

const driver& gpu() {
  static const driver one = open_driver();
  return one;
}
const nvrtc_api& compiler() {
  static const nvrtc_api one = open_compiler();
  return one;
}

nvrtc::result compile(const std::string& source, bool cubin, std::string& made, std::string& log,
                      std::vector<const char*> more, const char* architecture) {
  const nvrtc_api& a = compiler();
  nvrtc::program p = nullptr;
  EXPECT_EQ(a.CreateProgram(&p, source.c_str(), "test.cu", 0, nullptr, nullptr), 0);
  const std::string arch = std::string("--gpu-architecture=") + (cubin ? "sm_" : "compute_") + architecture;
  more.insert(more.begin(), {arch.c_str(), "--std=c++17", "--device-as-default-execution-space"});
  const nvrtc::result r = a.CompileProgram(p, static_cast<int>(more.size()), more.data());
  std::size_t size = 0;
  a.GetProgramLogSize(p, &size);
  log.resize(size);
  a.GetProgramLog(p, log.data());
  (cubin ? a.GetCUBINSize : a.GetPTXSize)(p, &size);
  made.resize(size);
  (cubin ? a.GetCUBIN : a.GetPTX)(p, made.data());
  a.DestroyProgram(&p);
  EXPECT_EQ(p, nullptr);
  return r;
}

const std::string& compiled(const std::string& source, bool cubin) {
  static std::map<std::string, std::string> known;
  std::string& made = known[source + (cubin ? "C" : "P")];
  std::string log;
  if (made.empty()) {
    EXPECT_EQ(compile(source, cubin, made, log), 0) << log;
  }
  return made;
}

void on_device::begin(const char* text) {
  memory.clear();
  modules.clear();
  gpu().configure(text);
  OK(gpu().Init(0));
  OK(gpu().DevicePrimaryCtxRetain(&context, 0));
  OK(gpu().CtxSetCurrent(context));
  OK(gpu().StreamCreateWithPriority(&stream, cu::stream_non_blocking, 0));
}
void on_device::give_back() {
  for (const cu::pointer p : memory) gpu().MemFree(p);
  for (cu::module m : modules) gpu().ModuleUnload(m);
  gpu().StreamDestroy(stream);
  memory.clear();
  modules.clear();
}
void on_device::TearDown() {
  gpu().StreamSynchronize(stream);
  give_back();
  OK(gpu().DevicePrimaryCtxRelease(0));
  EXPECT_EQ(misuse(), "");
  const tern_mock_counters c = counters();
  EXPECT_EQ(c.live_contexts + c.live_streams + c.live_events + c.live_modules + c.live_graphs + c.live_allocations +
                c.live_bytes + c.live_registrations + c.pending,
            0u);
}
std::string on_device::misuse() {
  std::string text = gpu().misuse();
  gpu().forget_misuse();
  return text;
}
cu::pointer on_device::allocate(std::size_t bytes) {
  cu::pointer p = 0;
  EXPECT_EQ(gpu().MemAlloc(&p, bytes), 0) << gpu().misuse();
  memory.push_back(p);
  return p;
}
cu::function on_device::load(const std::string& source, const char* name, bool cubin) {
  cu::module m = nullptr;
  cu::function f = nullptr;
  EXPECT_EQ(gpu().ModuleLoadDataEx(&m, compiled(source, cubin).data(), 0, nullptr, nullptr), 0);
  modules.push_back(m);
  EXPECT_EQ(gpu().ModuleGetFunction(&f, m, name), 0);
  return f;
}
cu::result on_device::launch(cu::function f, unsigned groups, unsigned items, std::vector<void*> parameters,
                             unsigned dynamic) {
  return gpu().LaunchKernel(f, groups, 1, 1, items, 1, 1, dynamic, stream, parameters.data(), nullptr);
}
tern_mock_counters on_device::counters() {
  tern_mock_counters c{};
  gpu().counters(&c);
  return c;
}

namespace {

// ---- copies

TEST_F(on_device, copies_of_all_shapes_are_as_a_plain_loop) {
  std::mt19937 random(5);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 100; ++round) {
    const std::size_t width = 1 + below(20), rows = 1 + below(5), slices = 1 + below(3);
    struct side {
      std::size_t x, y, z, pitch, height, bytes;
    } s[3];
    for (side& one : s) {
      one.x = below(5), one.y = below(3), one.z = below(3);
      one.pitch = one.x + width + below(4), one.height = one.y + rows + below(3);
      one.bytes = (one.z + slices) * one.pitch * one.height;
    }
    std::vector<char> from(s[0].bytes), to(s[2].bytes, 'x'), expected = to;
    for (char& c : from) c = static_cast<char>(random());
    const cu::pointer first = allocate(s[0].bytes), second = allocate(s[1].bytes);
    OK(gpu().MemcpyHtoDAsync(first, from.data(), from.size(), stream));
    const auto shape = [&](const side& a, const side& b) {
      cu::copy_3d c;
      c.src_x = a.x, c.src_y = a.y, c.src_z = a.z, c.src_pitch = a.pitch, c.src_height = a.height;
      c.dst_x = b.x, c.dst_y = b.y, c.dst_z = b.z, c.dst_pitch = b.pitch, c.dst_height = b.height;
      c.row_bytes = width, c.rows = rows, c.slices = slices;
      c.src_memory = c.dst_memory = cu::memory_device;
      return c;
    };
    cu::copy_3d c = shape(s[0], s[1]);
    c.src_device = first, c.dst_device = second;
    OK(gpu().Memcpy3DAsync(&c, stream));
    c = shape(s[1], s[2]);
    c.src_device = second, c.dst_memory = cu::memory_host, c.dst_host = to.data();
    OK(gpu().Memcpy3DAsync(&c, stream)); // not registered: it is done when the call returns
    for (std::size_t z = 0; z < slices; ++z)
      for (std::size_t y = 0; y < rows; ++y)
        for (std::size_t x = 0; x < width; ++x)
          expected[((s[2].z + z) * s[2].height + s[2].y + y) * s[2].pitch + s[2].x + x] =
              from[((s[0].z + z) * s[0].height + s[0].y + y) * s[0].pitch + s[0].x + x];
    ASSERT_EQ(to, expected);
    cu::copy_2d d;
    d.src_memory = cu::memory_host, d.src_host = from.data(), d.src_pitch = s[0].pitch, d.src_x = s[0].x;
    d.dst_memory = cu::memory_device, d.dst_device = second, d.dst_pitch = s[1].pitch, d.dst_y = s[1].y;
    d.row_bytes = width, d.rows = rows;
    OK(gpu().Memcpy2DAsync(&d, stream));
    std::vector<char> all(s[1].bytes);
    OK(gpu().MemcpyDtoHAsync(all.data(), second, all.size(), stream));
    for (std::size_t y = 0; y < rows; ++y)
      for (std::size_t x = 0; x < width; ++x)
        ASSERT_EQ(all[(s[1].y + y) * s[1].pitch + x], from[y * s[0].pitch + s[0].x + x]);
    give_back();
    OK(gpu().StreamCreateWithPriority(&stream, 1, 0));
  }
}

TEST_F(on_device, fresh_memory_is_poisoned_and_counted) {
  const cu::pointer p = allocate(100);
  std::vector<unsigned char> got(100);
  OK(gpu().MemcpyDtoHAsync(got.data(), p, 100, stream));
  EXPECT_EQ(got, std::vector<unsigned char>(100, 0xa5));
  std::size_t free = 0, all = 0;
  OK(gpu().MemGetInfo(&free, &all));
  EXPECT_EQ(all - free, 100u);
  EXPECT_EQ(counters().live_bytes, 100u);
  EXPECT_EQ(counters().copies_from_device, 1u);
  EXPECT_EQ(counters().pageable_copies, 1u);
}

// ---- order

TEST_F(on_device, events_order_streams_and_nothing_else_does) {
  int early = 0, late = 0;
  for (int seed = 1; seed <= 60; ++seed) {
    begin(("seed=" + std::to_string(seed)).c_str());
    cu::stream other = nullptr;
    cu::event e = nullptr;
    OK(gpu().StreamCreateWithPriority(&other, 1, 0));
    OK(gpu().EventCreate(&e, cu::event_disable_timing));
    OK(gpu().EventQuery(e)); // never recorded
    OK(gpu().StreamWaitEvent(other, e, 0));
    const cu::pointer p = allocate(4);
    int one = 1, two = 2, ordered = 0, unordered = 0;
    for (int* host : {&one, &two, &ordered, &unordered}) OK(gpu().MemHostRegister(host, 4, 1));
    OK(gpu().MemcpyHtoDAsync(p, &one, 4, stream));
    OK(gpu().StreamSynchronize(stream));
    OK(gpu().MemcpyHtoDAsync(p, &two, 4, stream));
    OK(gpu().EventRecord(e, stream));
    OK(gpu().MemcpyDtoHAsync(&unordered, p, 4, other));
    EXPECT_NE(misuse().find("nothing says which comes first"), std::string::npos);
    OK(gpu().StreamWaitEvent(other, e, 0));
    OK(gpu().MemcpyDtoHAsync(&ordered, p, 4, other));
    EXPECT_EQ(ordered, 0); // nothing is done by itself
    OK(gpu().EventRecord(e, other));
    cu::result r = cu::not_ready;
    for (int i = 0; i < 1000 && r == cu::not_ready; ++i) r = gpu().EventQuery(e);
    OK(r);
    EXPECT_EQ(ordered, 2);
    (unordered == 1 ? early : late)++;
    for (int* host : {&one, &two, &ordered, &unordered}) OK(gpu().MemHostUnregister(host));
    OK(gpu().EventDestroy(e));
    OK(gpu().StreamDestroy(other));
    EXPECT_EQ(misuse(), "");
    if (seed == 60) break;
    give_back();
    OK(gpu().DevicePrimaryCtxRelease(0));
  }
  EXPECT_GT(early, 5);
  EXPECT_GT(late, 5);
}

TEST_F(on_device, nothing_is_done_before_its_delay) {
  begin("delay=20ms");
  cu::event e = nullptr;
  OK(gpu().EventCreate(&e, 2));
  const auto start = std::chrono::steady_clock::now();
  OK(gpu().EventRecord(e, stream));
  EXPECT_EQ(gpu().EventQuery(e), cu::not_ready);
  OK(gpu().EventSynchronize(e));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  OK(gpu().EventDestroy(e));
}

// ---- kernels

TEST_F(on_device, kernels_with_barriers_and_memory_of_groups) {
  for (int seed = 1; seed <= 6; ++seed) {
    begin(("seed=" + std::to_string(seed)).c_str());
    for (const bool cubin : {true, false}) {
      const cu::function turn = load(test_kernels, "turn", cubin), sum = load(test_kernels, "sum", cubin);
      std::vector<int> from(256), to(256);
      std::iota(from.begin(), from.end(), 0);
      cu::pointer a = allocate(1024), b = allocate(1024);
      OK(gpu().MemcpyHtoDAsync(a, from.data(), 1024, stream));
      void* parameters[] = {&b, &a};
      OK(gpu().LaunchKernel(turn, 2, 2, 1, 8, 8, 1, 0, stream, parameters, nullptr));
      OK(gpu().MemcpyDtoHAsync(to.data(), b, 1024, stream));
      for (int i = 0; i < 256; ++i) ASSERT_EQ(to[static_cast<std::size_t>(i % 16 * 16 + i / 16)], i);
      int value = 0, n = 100;
      OK(gpu().FuncGetAttribute(&value, cu::function_shared_bytes, turn));
      EXPECT_EQ(value, 256);
      OK(gpu().FuncGetAttribute(&value, cu::function_max_threads, turn));
      EXPECT_EQ(value, 64);
      std::vector<float> numbers(200, 1.0f), sums(2);
      numbers[0] = 5;
      OK(gpu().MemcpyHtoDAsync(a, numbers.data(), 800, stream));
      OK(launch(sum, 2, 128, {&b, &a, &n}, 400));
      OK(gpu().MemcpyDtoHAsync(sums.data(), b, 8, stream));
      EXPECT_EQ(sums[0], 104);
      EXPECT_EQ(sums[1], 100);
      const cu::function warp = load(test_kernels, "warp", cubin);
      int got[3] = {};
      OK(launch(warp, 1, 64, {&b}));
      OK(gpu().MemcpyDtoHAsync(got, b, 12, stream));
      EXPECT_EQ(got[0], 496);
      EXPECT_EQ(got[1], 496 + 1024);
      EXPECT_EQ(got[2], 15);
    }
    OK(gpu().StreamSynchronize(stream));
    if (seed == 6) break;
    give_back();
    OK(gpu().DevicePrimaryCtxRelease(0));
    EXPECT_EQ(misuse(), "");
  }
}

TEST_F(on_device, parameters_are_told) {
  const cu::function mixed = load(test_kernels, "mixed");
  const std::size_t expected[][2] = {{0, 1}, {8, 16}, {24, 8}, {32, 2}};
  for (std::size_t i = 0; i < 4; ++i) {
    std::size_t offset = 99, size = 99;
    OK(gpu().FuncGetParamInfo(mixed, i, &offset, &size));
    EXPECT_EQ(offset, expected[i][0]);
    EXPECT_EQ(size, expected[i][1]);
  }
  std::size_t unused = 0;
  EXPECT_EQ(gpu().FuncGetParamInfo(mixed, 4, &unused, &unused), 1);
  cu::function none = nullptr;
  EXPECT_EQ(gpu().ModuleGetFunction(&none, modules[0], "nobody"), cu::not_found);
}

TEST_F(on_device, a_trap_is_a_failed_launch_and_stays) {
  const cu::function mixed = load(test_kernels, "mixed");
  char a = 0;
  double b[2] = {};
  cu::pointer c = allocate(8);
  short d = 0;
  OK(launch(mixed, 2, 64, {&a, b, &c, &d}));
  EXPECT_EQ(gpu().StreamSynchronize(stream), 719);
  EXPECT_EQ(gpu().MemAlloc(&c, 8), 719);
  EXPECT_EQ(gpu().StreamQuery(stream), 719);
  EXPECT_EQ(launch(mixed, 2, 64, {&a, b, &c, &d}), 719);
  EXPECT_NE(misuse().find("after the context was lost"), std::string::npos);
  give_back();
  OK(gpu().DevicePrimaryCtxRelease(0));
  EXPECT_EQ(misuse(), "");
  begin("seed=2"); // and stacks are good for others
  const cu::function add = load(test_kernels, "add");
  cu::pointer p = allocate(4);
  int n = 1, by = 3, got = 4;
  OK(gpu().MemcpyHtoDAsync(p, &got, 4, stream));
  OK(launch(add, 1, 32, {&p, &n, &by}));
  OK(gpu().MemcpyDtoHAsync(&got, p, 4, stream));
  EXPECT_EQ(got, 7);
}

TEST_F(on_device, faults_that_were_ordered) {
  begin("fail-alloc=2,fail-copy=1,fail-launch=1,fault-kernel=2");
  const cu::function add = load(test_kernels, "add");
  cu::pointer p = allocate(4), q = 0;
  EXPECT_EQ(gpu().MemAlloc(&q, 4), cu::out_of_memory);
  OK(gpu().MemAlloc(&q, 4));
  int n = 1, by = 3, value = 1;
  EXPECT_EQ(gpu().MemcpyHtoDAsync(p, &value, 4, stream), cu::out_of_memory);
  EXPECT_EQ(launch(add, 1, 1, {&p, &n, &by}), cu::launch_out_of_resources);
  OK(launch(add, 1, 1, {&p, &n, &by}));
  OK(gpu().StreamSynchronize(stream));
  cu::event e = nullptr;
  OK(gpu().EventCreate(&e, 2));
  OK(launch(add, 1, 1, {&p, &n, &by}));
  OK(gpu().EventRecord(e, stream));
  cu::result r = cu::not_ready;
  while (r == cu::not_ready) r = gpu().EventQuery(e);
  EXPECT_EQ(r, 700);
  EXPECT_EQ(gpu().MemFree(q), 700);
  EXPECT_EQ(gpu().EventDestroy(e), 700);
  const char* name = nullptr;
  OK(gpu().GetErrorName(r, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_EQ(gpu().DevicePrimaryCtxRelease(0), 0);
  EXPECT_EQ(misuse(), ""); // what is lost cannot be given back
  begin("memory=1k,lose=1");
  p = allocate(1024);
  EXPECT_EQ(gpu().MemAlloc(&q, 1), cu::out_of_memory);
  EXPECT_EQ(gpu().MemcpyDtoHAsync(&value, p, 4, stream), 214);
  gpu().configure("no-init");
  EXPECT_EQ(gpu().Init(0), cu::no_device);
  gpu().configure("mode=prohibited");
  OK(gpu().Init(0));
  EXPECT_EQ(gpu().DevicePrimaryCtxRetain(&context, 0), 46);
  begin("seed=1");
}

// ---- NVRTC, and what it makes

TEST(mock_nvrtc, tells_what_is_wrong) {
  std::string made, log;
  EXPECT_EQ(compile("#line 41 \"some/where.hpp\"\nextern \"C\" __global__ void k(int* a) {\n  a[0] = dxx;\n}\n", true,
                    made, log),
            nvrtc::compilation);
  EXPECT_NE(log.find("some/where.hpp:42"), std::string::npos) << log;
  EXPECT_NE(log.find("dxx"), std::string::npos) << log;
  EXPECT_EQ(log.back(), '\0');
  EXPECT_EQ(compile("int x;", true, made, log, {"--nonsense"}), nvrtc::invalid_option);
  EXPECT_NE(log.find("--nonsense"), std::string::npos);
  EXPECT_EQ(compile("int x;", true, made, log, {}, "42"), nvrtc::invalid_option);
  EXPECT_EQ(compile("#if N != 3 || __CUDA_ARCH__ != 800\n#error no\n#endif\n", true, made, log, {"-DN=3"}, "80"), 0)
      << log;
  int n = 0, all[8] = {};
  EXPECT_EQ(compiler().GetNumSupportedArchs(&n), 0);
  EXPECT_EQ(compiler().GetSupportedArchs(all), 0);
  EXPECT_EQ(std::vector<int>(all, all + n), (std::vector<int>{75, 80, 86, 89, 90, 100}));
}

TEST_F(on_device, images_that_do_not_fit_are_refused) {
  const auto refused = [](const std::string& image, cu::result expected, const char* why) {
    char log[200] = "";
    int options[] = {cu::jit_error_log, cu::jit_error_log_bytes};
    void* values[] = {log, reinterpret_cast<void*>(std::uintptr_t{sizeof log})};
    cu::module m = nullptr;
    EXPECT_EQ(gpu().ModuleLoadDataEx(&m, image.data(), 2, options, values), expected);
    EXPECT_NE(std::string(log).find(why), std::string::npos) << log;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values[1]), std::strlen(log));
  };
  std::string cubin = compiled(test_kernels), ptx = compiled(test_kernels, false);
  EXPECT_NE(ptx.find(".entry add("), std::string::npos);
  cubin[cubin.size() / 2] = static_cast<char>(cubin[cubin.size() / 2] ^ 1);
  refused(cubin, cu::invalid_image, "damaged");
  ptx[ptx.size() / 2] = '?';
  refused(ptx, cu::invalid_image, "something else");
  refused("nothing", cu::invalid_image, "neither");
  std::string other, log;
  ASSERT_EQ(compile("extern \"C\" __global__ void k() {}", true, other, log, {}, "80"), 0);
  refused(other, cu::no_binary_for_gpu, "sm_80");
  ASSERT_EQ(compile("extern \"C\" __global__ void k() {}", false, other, log, {}, "100"), 0);
  refused(other, 218, "sm_100");
  // A kernel has at most 48 KiB of its own: ptxas says so of machine code, the driver of PTX.
  const std::string large = "extern \"C\" __global__ void large(int* a) { __shared__ int b[12289]; b[1] = *a; }";
  EXPECT_EQ(compile(large, true, other, log), nvrtc::compilation);
  EXPECT_NE(log.find("ptxas error   : Entry function 'large' uses too much shared data (0xc004 bytes, 0xc000 max)"),
            std::string::npos)
      << log;
  ASSERT_EQ(compile(large, false, other, log), 0);
  refused(other, 218, "Entry function 'large' uses too much shared data (0xc004 bytes, 0xc000 max)");
  begin("driver=12040");
  refused(compiled(test_kernels, false), cu::unsupported_ptx_version, "13000");
}

TEST_F(on_device, variables_of_modules_have_their_sizes) {
  const cu::function k = load("extern \"C\" { __device__ char five[5]; } extern \"C\" __global__ void k(int* n) { "
                              "asm(\"mov.u32 %0, %%dynamic_smem_size;\" : \"=r\"(*n)); }",
                              "k");
  cu::pointer at = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(gpu().ModuleGetGlobal(&at, &bytes, modules[0], "five"), 0);
  EXPECT_GE(bytes, 5u); // the address sanitizer adds some
  EXPECT_LE(bytes, 64u);
  EXPECT_EQ(gpu().ModuleGetGlobal(&at, &bytes, modules[0], "six"), cu::not_found);
  cu::pointer n = allocate(4);
  int got = 0;
  OK(launch(k, 1, 1, {&n}, 96));
  OK(gpu().MemcpyDtoHAsync(&got, n, 4, stream));
  OK(gpu().StreamSynchronize(stream));
  EXPECT_EQ(got, 96);
}

// ---- threads

TEST(threads, each_with_its_device) {
  gpu().configure("devices=2,seed=3");
  ASSERT_EQ(gpu().Init(0), 0);
  const std::string& code = compiled(test_kernels);
  std::vector<std::thread> all;
  for (int d = 0; d < 2; ++d)
    all.emplace_back([d, &code] {
      cu::context c = nullptr;
      OK(gpu().DevicePrimaryCtxRetain(&c, d));
      OK(gpu().CtxSetCurrent(c));
      cu::stream s = nullptr;
      cu::event e = nullptr;
      cu::module m = nullptr;
      cu::function f = nullptr;
      OK(gpu().StreamCreateWithPriority(&s, 1, 0));
      OK(gpu().EventCreate(&e, 2));
      OK(gpu().ModuleLoadDataEx(&m, code.data(), 0, nullptr, nullptr));
      OK(gpu().ModuleGetFunction(&f, m, "sum"));
      cu::pointer p = 0, q = 0;
      OK(gpu().MemAlloc(&p, 256));
      OK(gpu().MemAlloc(&q, 4));
      std::vector<float> host(64);
      float got = 0;
      OK(gpu().MemHostRegister(host.data(), 256, 0));
      OK(gpu().MemHostRegister(&got, 4, 0));
      for (int i = 1; i <= 50; ++i) {
        host.assign(64, static_cast<float>(i));
        OK(gpu().MemcpyHtoDAsync(p, host.data(), 256, s));
        int n = 64;
        void* parameters[] = {&q, &p, &n};
        OK(gpu().LaunchKernel(f, 1, 1, 1, 64, 1, 1, 256, s, parameters, nullptr));
        OK(gpu().MemcpyDtoHAsync(&got, q, 4, s));
        OK(gpu().EventRecord(e, s));
        cu::result r = cu::not_ready;
        while (r == cu::not_ready) r = gpu().EventQuery(e);
        OK(r);
        ASSERT_EQ(got, 64.0f * static_cast<float>(i));
      }
      OK(gpu().MemHostUnregister(host.data()));
      OK(gpu().MemHostUnregister(&got));
      OK(gpu().MemFree(p));
      OK(gpu().MemFree(q));
      OK(gpu().ModuleUnload(m));
      OK(gpu().EventDestroy(e));
      OK(gpu().StreamDestroy(s));
      OK(gpu().DevicePrimaryCtxRelease(d));
    });
  for (std::thread& t : all) t.join();
  EXPECT_STREQ(gpu().misuse(), "");
}

} // namespace
} // namespace mock

// SPDX-License-Identifier: Apache-2.0
#include "mock_test.hpp"

namespace mock {
namespace {

const std::string kernels = R"(
extern "C" __global__ void add(int* a, int by) { a[0] += by; }
extern "C" __global__ void multiply(int* a, int by) { a[0] *= by; }
extern "C" __global__ void join(int* to, const int* a, const int* b) { to[0] = 1000 * a[0] + b[0]; }
)";

class graphs : public on_device {
protected:
  // Two streams from one copy, joined at the end: (5 + by) * 2 and 7 * 3.
  graph_plan capture(int by) {
    const auto put = [](cu::function f, cu::stream s, std::vector<void*> parameters) {
      EXPECT_EQ(gpu().LaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, parameters.data(), nullptr), 0);
    };
    int two = 2, three = 3;
    EXPECT_EQ(gpu().StreamBeginCapture(stream, 1), 0);
    EXPECT_EQ(gpu().MemcpyHtoDAsync(a, host, 4, stream), 0);
    EXPECT_EQ(gpu().EventRecord(fork, stream), 0);
    EXPECT_EQ(gpu().StreamWaitEvent(other, fork, 0), 0);
    put(add, stream, {&a, &by});
    EXPECT_EQ(gpu().MemcpyHtoDAsync(b, host + 1, 4, other), 0);
    put(multiply, other, {&b, &three});
    put(multiply, stream, {&a, &two});
    EXPECT_EQ(gpu().EventRecord(back, other), 0);
    EXPECT_EQ(gpu().StreamWaitEvent(stream, back, 0), 0);
    put(join, stream, {&c, &a, &b});
    EXPECT_EQ(gpu().MemcpyDtoHAsync(host + 2, c, 4, stream), 0);
    graph_plan g = nullptr;
    EXPECT_EQ(gpu().StreamEndCapture(stream, &g), 0) << gpu().misuse();
    return g;
  }
  void open(const char* text) {
    begin(text);
    host[0] = 5, host[1] = 7, host[2] = 0;
    add = load(kernels, "add"), multiply = load(kernels, "multiply"), join = load(kernels, "join");
    OK(gpu().StreamCreateWithPriority(&other, 1, 0));
    OK(gpu().EventCreate(&fork, 2));
    OK(gpu().EventCreate(&back, 2));
    OK(gpu().MemHostRegister(host, sizeof host, 1));
    a = allocate(4), b = allocate(4), c = allocate(4);
  }
  void close() {
    OK(gpu().MemHostUnregister(host));
    OK(gpu().EventDestroy(fork));
    OK(gpu().EventDestroy(back));
    OK(gpu().StreamDestroy(other));
  }

  cu::function add = nullptr, multiply = nullptr, join = nullptr;
  cu::stream other = nullptr;
  cu::event fork = nullptr, back = nullptr;
  cu::pointer a = 0, b = 0, c = 0;
  int host[3] = {};
};

TEST_F(graphs, are_captured_and_replayed) {
  for (int seed = 1; seed <= 20; ++seed) {
    open(("seed=" + std::to_string(seed)).c_str());
    const graph_plan g = capture(10);
    EXPECT_EQ(counters().operations_done, 0u);
    graph_exec e = nullptr;
    OK(gpu().GraphInstantiateWithFlags(&e, g, 0));
    OK(gpu().GraphLaunch(e, stream));
    OK(gpu().GraphLaunch(e, other)); // not beside the first
    OK(gpu().StreamSynchronize(other));
    EXPECT_EQ(host[2], 30021);
    EXPECT_EQ(counters().operations_done, 14u);
    host[0] = 6;
    const graph_plan changed = capture(20);
    update_info info;
    OK(gpu().GraphExecUpdate(e, changed, &info));
    OK(gpu().GraphLaunch(e, stream));
    OK(gpu().StreamSynchronize(stream));
    EXPECT_EQ(host[2], 52021);
    OK(gpu().GraphExecDestroy(e));
    OK(gpu().GraphDestroy(g));
    OK(gpu().GraphDestroy(changed));
    close();
    EXPECT_EQ(misuse(), "");
    if (seed == 20) break;
    give_back();
    OK(gpu().DevicePrimaryCtxRelease(0));
  }
}

TEST_F(graphs, misuse_is_told) {
  open("seed=1");
  const auto told = [](const char* what) {
    const std::string all = misuse();
    EXPECT_NE(all.find(what), std::string::npos) << "'" << what << "' is not in: " << all;
  };
  graph_plan g = nullptr;
  EXPECT_EQ(gpu().StreamEndCapture(stream, &g), 903);
  told("nothing is captured");
  OK(gpu().StreamBeginCapture(stream, 0));
  EXPECT_EQ(gpu().StreamSynchronize(stream), 900);
  told("are captured");
  EXPECT_EQ(gpu().StreamEndCapture(stream, &g), 901);
  OK(gpu().StreamBeginCapture(stream, 0));
  OK(gpu().EventRecord(fork, stream));
  OK(gpu().StreamWaitEvent(other, fork, 0));
  OK(gpu().MemcpyHtoDAsync(a, host, 4, other));
  EXPECT_EQ(gpu().EventQuery(fork), 907);
  EXPECT_EQ(gpu().StreamEndCapture(stream, &g), 904);
  told("was not waited for");
  cu::pointer p = 0;
  OK(gpu().StreamBeginCapture(stream, 0));
  EXPECT_EQ(gpu().MemAlloc(&p, 4), 900);
  EXPECT_EQ(gpu().StreamEndCapture(stream, &g), 901);
  OK(gpu().EventRecord(fork, other));
  OK(gpu().StreamBeginCapture(stream, 1));
  EXPECT_EQ(gpu().StreamWaitEvent(stream, fork, 0), 905);
  EXPECT_EQ(gpu().StreamEndCapture(stream, &g), 901);
  told("waits for an event that is not");
  const graph_plan one = capture(1);
  OK(gpu().StreamBeginCapture(stream, 1));
  OK(gpu().MemcpyHtoDAsync(a, host, 4, stream));
  OK(gpu().StreamEndCapture(stream, &g));
  graph_exec e = nullptr;
  OK(gpu().GraphInstantiateWithFlags(&e, one, 0));
  update_info info;
  EXPECT_EQ(gpu().GraphExecUpdate(e, g, &info), 910);
  EXPECT_EQ(info.result, update_topology_changed);
  OK(gpu().MemFree(memory.back()));
  memory.pop_back();
  EXPECT_EQ(gpu().GraphLaunch(e, stream), 1);
  told("uses memory that is gone");
  OK(gpu().GraphExecDestroy(e));
  EXPECT_EQ(gpu().GraphLaunch(e, stream), 400);
  told("is destroyed");
  OK(gpu().GraphDestroy(one));
  OK(gpu().GraphDestroy(g));
  close();
}

} // namespace
} // namespace mock

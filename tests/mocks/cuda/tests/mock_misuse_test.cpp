// SPDX-License-Identifier: Apache-2.0
#include "mock_test.hpp"

#include <cstdlib>

namespace mock {
namespace {

// Copies and kernels in two streams, with an order between them or without.
TEST_F(on_device, what_has_no_order_is_told) {
  begin("seed=3"); // no operation is done before a call asks for it
  const cu::pointer p = allocate(64), other = allocate(64);
  cu::stream second = nullptr;
  cu::event done = nullptr;
  OK(gpu().StreamCreateWithPriority(&second, 1, 0));
  OK(gpu().EventCreate(&done, cu::event_disable_timing));
  std::vector<char> host(64), back(64);
  OK(gpu().MemHostRegister(host.data(), 64, 1));
  OK(gpu().MemHostRegister(back.data(), 64, 1));
  const cu::function add = load(test_kernels, "add");
  int n = 1, by = 1;
  cu::pointer first = p, beyond = p + 32;

  OK(gpu().MemcpyHtoDAsync(p, host.data(), 32, stream));
  OK(gpu().MemcpyHtoDAsync(other, host.data(), 32, second)); // both read that
  OK(gpu().MemcpyDtoHAsync(back.data(), p + 32, 32, second));
  EXPECT_EQ(misuse(), "");
  OK(gpu().MemcpyDtoHAsync(back.data() + 32, p, 32, second));
  EXPECT_NE(misuse().find("the copy of 32 bytes from the device in the stream"), std::string::npos);
  OK(gpu().MemcpyHtoDAsync(p + 28, host.data(), 8, second));
  EXPECT_NE(misuse().find("nothing says which comes first"), std::string::npos);

  OK(gpu().EventRecord(done, stream));
  OK(gpu().StreamWaitEvent(second, done, 0));
  OK(gpu().MemcpyDtoHAsync(back.data() + 32, p, 32, second));
  EXPECT_EQ(misuse(), "");

  cu::stream third = nullptr;
  OK(gpu().StreamCreateWithPriority(&third, 1, 0));
  std::swap(stream, third);
  OK(launch(add, 1, 1, {&first, &n, &by}));
  EXPECT_NE(misuse().find("the kernel 'add' in the stream"), std::string::npos);
  OK(gpu().EventRecord(done, second));
  OK(gpu().StreamWaitEvent(stream, done, 0));
  OK(launch(add, 1, 1, {&first, &n, &by})); // by way of the second
  OK(launch(add, 1, 1, {&beyond, &n, &by}));
  EXPECT_EQ(misuse(), "");
  std::swap(stream, third);
  OK(gpu().MemcpyHtoDAsync(p, host.data(), 32, stream));
  EXPECT_NE(misuse().find("nothing says which comes first"), std::string::npos);

  for (const cu::stream s : {stream, second, third}) OK(gpu().StreamSynchronize(s));
  OK(gpu().MemcpyHtoDAsync(p, host.data(), 32, second)); // what has been seen to end comes before
  OK(gpu().StreamSynchronize(second));
  EXPECT_EQ(misuse(), "");
  OK(gpu().MemHostUnregister(host.data()));
  OK(gpu().MemHostUnregister(back.data()));
  OK(gpu().EventDestroy(done));
  OK(gpu().StreamDestroy(second));
  OK(gpu().StreamDestroy(third));
}

TEST_F(on_device, each_misuse_is_told) {
  const auto told = [](const char* what) {
    const std::string all = misuse();
    EXPECT_NE(all.find(what), std::string::npos) << "'" << what << "' is not in: " << all;
  };
  const cu::pointer p = allocate(16), freed = allocate(1000);
  memory.pop_back();
  OK(gpu().MemFree(freed));
  char host[64] = {};
  EXPECT_EQ(gpu().MemcpyHtoDAsync(p + 8, host, 12, stream), 1);
  told("cuMemcpyHtoDAsync: 12 bytes: the destination");
  EXPECT_EQ(gpu().MemcpyDtoHAsync(host, freed, 4, stream), 1);
  told("has been freed");
  EXPECT_EQ(gpu().MemFree(freed), 1);
  told("has been freed already");
  EXPECT_EQ(gpu().MemFree(p + 1), 1);
  told("lies within an allocation");
  EXPECT_EQ(gpu().MemcpyDtoDAsync(p, p + 4, 8, stream), 1);
  told("overlap");
  cu::copy_2d narrow;
  narrow.src_memory = cu::memory_host, narrow.src_host = host, narrow.src_pitch = 4;
  narrow.dst_memory = cu::memory_device, narrow.dst_device = p, narrow.dst_pitch = 8;
  narrow.row_bytes = 8, narrow.rows = 1;
  EXPECT_EQ(gpu().Memcpy2DAsync(&narrow, stream), 1);
  told("pitch 4 is smaller");
  OK(gpu().MemHostRegister(host, 32, 1));
  EXPECT_EQ(gpu().MemHostRegister(host + 8, 32, 1), cu::already_registered);
  EXPECT_EQ(misuse(), ""); // programs may ask
  EXPECT_EQ(gpu().MemcpyHtoDAsync(p, host + 24, 16, stream), 1);
  told("registered in part only");
  OK(gpu().MemcpyHtoDAsync(p, host, 16, stream));
  EXPECT_EQ(gpu().MemHostUnregister(host), 1);
  told("the copy of 16 bytes to the device");
  EXPECT_EQ(gpu().MemHostUnregister(host), 713);
  told("is not registered");
  const cu::function add = load(test_kernels, "add"), beyond = load(test_kernels, "beyond");
  int n = 1, by = 1;
  cu::pointer used = p, dead = freed;
  OK(launch(add, 1, 1, {&used, &n, &by}));
  EXPECT_EQ(gpu().MemFree(p), 1);
  told("the kernel 'add'");
  memory.clear();
  EXPECT_EQ(launch(add, 1, 1, {&dead, &n, &by}), 1);
  told("memory as parameter 0 that has been freed");
  EXPECT_EQ(launch(add, 0, 1, {&used, &n, &by}), 1);
  told("0 x 1 x 1 groups");
  EXPECT_EQ(launch(add, 1, 1025, {&used, &n, &by}), 1);
  told("groups of 1025 x 1 x 1 items");
  EXPECT_EQ(launch(load(test_kernels, "turn"), 1, 65, {&used, &used}), 1);
  told("64 at most");
  EXPECT_EQ(launch(beyond, 1, 1, {&n}, 50000), 1);
  told("50000 dynamic");
  OK(gpu().FuncSetAttribute(beyond, 8, 50000));
  OK(launch(beyond, 1, 1, {&n}, 50000));
  OK(launch(beyond, 1, 1, {&n}, 1));
  OK(gpu().StreamSynchronize(stream));
  told("'beyond' wrote beyond its 1 bytes");
  EXPECT_EQ(gpu().FuncSetAttribute(beyond, 8, 232449), 1);
  told("cannot have 232449");
  cu::stream gone = nullptr;
  OK(gpu().StreamCreateWithPriority(&gone, 1, 0));
  OK(gpu().StreamDestroy(gone));
  EXPECT_EQ(gpu().StreamSynchronize(gone), 400);
  told("is destroyed");
  EXPECT_EQ(gpu().EventQuery(reinterpret_cast<cu::event>(std::uintptr_t{0x123456789})), 400);
  told("the event 0x123456789 is unknown");
  OK(launch(beyond, 1, 1, {&n}, 2));
  EXPECT_EQ(gpu().ModuleUnload(modules[1]), 1);
  told("the kernel 'beyond' is not done");
  EXPECT_EQ(launch(beyond, 1, 1, {&n}, 2), 400);
  told("of a module that is unloaded");
  EXPECT_EQ(gpu().ModuleUnload(modules[1]), 400);
  told("is destroyed");
  modules.erase(modules.begin() + 1);
  OK(gpu().CtxSetCurrent(nullptr));
  cu::event e = nullptr;
  EXPECT_EQ(gpu().EventCreate(&e, 2), 201);
  told("cuEventCreate: no context is current");
  OK(gpu().CtxSetCurrent(context));
}

TEST_F(on_device, times_of_events_that_have_none_are_refused) {
  begin("call=100ns,start=1us");
  cu::event timed = nullptr, plain = nullptr;
  float took = -1;
  OK(gpu().EventCreate(&timed, 0));
  OK(gpu().EventCreate(&plain, cu::event_disable_timing));
  OK(gpu().EventRecord(plain, stream));
  EXPECT_NE(gpu().EventElapsedTime(&took, timed, timed), 0);
  EXPECT_NE(misuse().find("was never recorded is asked for its time"), std::string::npos);
  OK(gpu().EventRecord(timed, stream));
  EXPECT_EQ(gpu().EventElapsedTime(&took, timed, timed), cu::not_ready);
  OK(gpu().EventSynchronize(timed));
  EXPECT_NE(gpu().EventElapsedTime(&took, plain, timed), 0);
  EXPECT_NE(misuse().find("keeps no time is asked for it"), std::string::npos);
  OK(gpu().EventElapsedTime(&took, timed, timed));
  EXPECT_EQ(took, 0);
  OK(gpu().EventDestroy(timed));
  OK(gpu().EventDestroy(plain));
}

TEST_F(on_device, streams_of_another_device_are_refused) {
  begin("devices=2");
  cu::context other = nullptr;
  OK(gpu().DevicePrimaryCtxRetain(&other, 1));
  OK(gpu().CtxSetCurrent(other));
  EXPECT_EQ(gpu().StreamSynchronize(stream), 201);
  EXPECT_NE(misuse().find("is of device 0, and the context of device 1 is current"), std::string::npos);
  OK(gpu().DevicePrimaryCtxRelease(1));
  EXPECT_EQ(gpu().StreamSynchronize(stream), 709);
  EXPECT_NE(misuse().find("has been destroyed"), std::string::npos);
  OK(gpu().CtxSetCurrent(context));
}

TEST_F(on_device, what_is_left_is_told_when_the_context_ends) {
  cu::pointer p = 0;
  cu::event e = nullptr;
  cu::stream another = nullptr;
  OK(gpu().MemAlloc(&p, 24));
  OK(gpu().EventCreate(&e, 2));
  OK(gpu().StreamCreateWithPriority(&another, 1, 0));
  load(test_kernels, "add");
  OK(gpu().DevicePrimaryCtxRelease(0));
  EXPECT_EQ(misuse(), "device 0: its context ended with what was not given back: 1 allocation not freed, 24 bytes "
                      "(allocation 1 of 24), 2 streams, 1 event, 1 module");
  begin("seed=1");
}

TEST(process, leaks_end_it_badly) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto leak = [] {
    gpu().configure("");
    cu::context c = nullptr;
    gpu().Init(0);
    gpu().DevicePrimaryCtxRetain(&c, 0);
    std::exit(0);
  };
  EXPECT_EXIT(leak(), testing::ExitedWithCode(86), "mock CUDA: device 0: its primary context was not released");
  const auto quiet = [] {
    gpu().configure("quiet");
    gpu().Init(1);
    std::exit(0);
  };
  EXPECT_EXIT(quiet(), testing::ExitedWithCode(0), "");
  EXPECT_DEATH(gpu().configure("devices=2,speed=3"), "cannot make sense of \"speed=3\"");
}

} // namespace
} // namespace mock

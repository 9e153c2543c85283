// SPDX-License-Identifier: Apache-2.0
// What the mock driver has that CUDA has not: memory that is shut, counts of calls, a clock.
#include <cstdint>
#include <string>
#include <vector>

#include "mock_test.hpp"

namespace mock {
namespace {

TEST_F(on_device, memory_is_found_where_it_is_not_allowed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const cu::pointer p = allocate(100);
  int mine = 0;
  void* host = &mine;
  const cu::function add = load(test_kernels, "add");
  int n = 1, by = 1;
  EXPECT_NE(launch(add, 1, 1, {&host, &n, &by}), 0);
  EXPECT_NE(misuse().find("the kernel 'add' has an address as parameter 0 that is no device's: 0x"), std::string::npos);
  cu::pointer end = p + 100, none = 0; // where a block ends, and nowhere
  n = 0;
  OK(launch(add, 1, 1, {&end, &n, &by}));
  OK(launch(add, 1, 1, {&none, &n, &by}));
  OK(gpu().StreamSynchronize(stream));
  EXPECT_DEATH(
      {
        cu::pointer q = 0;
        gpu().MemAlloc(&q, 100);
        *reinterpret_cast<volatile char*>(q) = 1; // NOLINT(performance-no-int-to-ptr)
      },
      "the host touches 0x[0-9a-f]+, the memory of allocation 2 of device 0, which has 100 bytes: it is a device's");
  EXPECT_DEATH(
      {
        cu::pointer q = 0;
        int far = 500;
        gpu().MemAlloc(&q, 1024);
        std::vector<void*> given;
        given.push_back(&q);
        given.push_back(&far);
        given.push_back(&by);
        launch(add, 1, 1000, given);
        gpu().StreamSynchronize(stream);
      },
      "the kernel 'add' touches 0x[0-9a-f]+, beyond the end of allocation 2 of device 0, which has 1024 bytes");
}

TEST_F(on_device, calls_are_counted_by_their_names) {
  const std::uint64_t before = gpu().calls("cuStreamSynchronize");
  OK(gpu().StreamSynchronize(stream));
  OK(gpu().StreamSynchronize(stream));
  EXPECT_EQ(gpu().calls("cuStreamSynchronize"), before + 2);
  EXPECT_EQ(gpu().calls("cuNothing"), 0u);
}

TEST_F(on_device, time_goes_on_by_calls_and_what_they_wait_for) {
  begin("call=1us,start=5us,kernel=20us,bandwidth=1G");
  const cu::function add = load(test_kernels, "add");
  cu::pointer p = allocate(20'000);
  int n = 1, by = 1;
  std::vector<char> host(10'000);
  OK(gpu().MemHostRegister(host.data(), host.size(), 0));
  cu::stream other = nullptr;
  cu::event e = nullptr;
  OK(gpu().StreamCreateWithPriority(&other, 1, 0));
  OK(gpu().EventCreate(&e, cu::event_disable_timing));
  const std::int64_t first = gpu().clock();
  OK(launch(add, 1, 1, {&p, &n, &by}));
  OK(launch(add, 1, 1, {&p, &n, &by}));
  OK(gpu().EventRecord(e, stream));
  OK(gpu().StreamWaitEvent(other, e, 0));
  OK(gpu().MemcpyDtoHAsync(host.data(), p, 10'000, other));
  EXPECT_EQ(gpu().clock(), first + 5'000); // five calls
  EXPECT_EQ(gpu().EventQuery(e), cu::not_ready);
  OK(gpu().StreamSynchronize(other));
  // The first kernel begins 5 us after its call, and each takes 20 us; then the copy.
  EXPECT_EQ(gpu().clock(), first + 1'000 + 5'000 + 40'000 + (10'000LL * 1'000'000'000 >> 30));
  EXPECT_EQ(gpu().EventQuery(e), 0);
  OK(gpu().EventDestroy(e));
  OK(gpu().StreamDestroy(other));
  OK(gpu().MemHostUnregister(host.data()));
}

} // namespace
} // namespace mock

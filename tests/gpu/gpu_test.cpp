// SPDX-License-Identifier: Apache-2.0
// On a GPU of NVIDIA's, with its driver: what the mock driver (tests/mocks/cuda) cannot show. The
// program has the tests of kernels, graphs of tasks and recorded tasks as well, there on the real
// device. Ends with 77 where there is no GPU.
#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/variants.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace cu = detail::cu;
using object = hetero_object<unsigned, 2>;

machine with_gpu() { return {.devices = "host,cuda", .cuda = true}; }

const detail::cuda_api& driver() {
  static const detail::cuda_api api = [] {
    std::vector<std::string> notes;
    return detail::cuda_api::open(detail::cuda_api::usual_libraries(), notes).value();
  }();
  return api;
}

void add_to(const object& o, const char* device) {
  hetero_task t(graph_kernels::add, items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
                static_cast<int>(o.extent(0)), 1u, pitch(o), read_write(o));
  t.on(device).submit();
}

/// Does a kernel that breaks its context end as it should? For a process of its own: CUDA has no
/// way back.
bool goes_astray(const char* name, const char* text, const char* says) {
  bool right = true;
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) std::fprintf(stderr, "not as it should be: %s\n", what.c_str());
    right = right && holds;
  };
  on(with_gpu(), [&] {
    const cuda_source stray(name, text);
    hetero_object<int> broken(16, 0), other(16, 1);
    submit(stray, items(16).group(16), read_write(broken));
    const std::string told = text_of_error([&] { wait_all(); });
    expect(told.find(name) != told.npos && told.find("cuda0") != told.npos && told.find(says) != told.npos, told);
    const std::string after = text_of_error([&] { broken.host(access_mode::read).get(); });
    expect(after.find(name) != after.npos || after.find("lost") != after.npos, after);
    submit([](int* x) { x[0] += 1; }, read_write(other)); // the rest goes on
    expect(other.host(access_mode::read).get()[0] == 2, "a task on the host afterwards");
  });
  return right;
}

TEST(gpu, an_address_that_is_not_there) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(goes_astray("stray", R"(extern "C" __global__ void stray(int* x) {
  x[threadIdx.x] = *(volatile int*)(16 + 4 * threadIdx.x);
})",
                                    "ILLEGAL_ADDRESS")
                            ? 0
                            : 1),
              testing::ExitedWithCode(0), "cuda0 is lost");
}

TEST(gpu, a_trap) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(goes_astray("falls", R"(extern "C" __global__ void falls(int* x) { asm volatile("trap;"); })",
                                    "CUDA_ERROR")
                            ? 0
                            : 1),
              testing::ExitedWithCode(0), "cuda0 is lost");
}

TEST(gpu, memory_that_a_function_does_not_get_is_told) {
  on(with_gpu(), [] {
    object o({10, 10}, 1u);
    submit(variants(on_queue(device_kind::cuda,
                             [](const native_queue&, device_view<unsigned, 2>) {
                               cu::pointer made = 0;
                               if (driver().MemAlloc(&made, std::size_t{1} << 50) == cu::out_of_memory)
                                 throw error(errc::out_of_memory, "the function got no memory");
                               driver().MemFree(made);
                             })),
           read_write(o));
    EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("the function got no memory"));
    object next({10, 10}, 1u);
    add_to(next, "cuda0");
    EXPECT_EQ(next.host(access_mode::read).get()(0, 0), 2u);
  });
}

TEST(gpu, more_than_its_memory) {
  options opts = cuda_options("256M");
  opts.set(hetero_devices, "host,cuda");
  scheduler s({.workers = 2, .opts = &opts});
  EXPECT_EQ(s.run([] {
    std::vector<object> objects;
    for (int i = 0; i < 20; ++i) objects.emplace_back(extents<2>{2048, 4096}, 1u); // of 32 MiB
    for (int round = 0; round < 3; ++round)
      for (const object& o : objects) add_to(o, "cuda0");
    for (const object& o : objects) {
      const auto now = o.host(access_mode::read).get();
      EXPECT_EQ(now(0, 0), 4u);
      EXPECT_EQ(now(2047, 4095), 1u + 3 * (4095 + 3 * 2047 + 1));
    }
    EXPECT_GT(count().copies_from_devices, 20u);
  }),
            0u);
}

TEST(gpu, several_copy_from_each_other) {
  on(with_gpu(), [] {
    bool second = false;
    for (const auto& d : count().devices) second = second || d.id == "cuda1";
    if (!second) GTEST_SKIP() << "there is one GPU";
    object o({1000, 1000}, 1u);
    for (int i = 0; i < 10; ++i) add_to(o, i % 2 ? "cuda1" : "cuda0");
    EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 11u);
  });
}

/// Contexts stay for all tests: to make one takes longer than most of them. \return the devices
/// that have one; empty: there is no GPU
std::vector<cu::device> keep_contexts() {
  std::vector<cu::device> kept;
  std::vector<device_note> notes;
  for (const device_info& d : devices(cuda_options(), &notes))
    if (d.kind == device_kind::cuda) {
      std::printf("%s: %s, %s\n", d.id.c_str(), d.name.c_str(), d.driver.c_str());
      cu::device number = 0;
      cu::context context = nullptr;
      const int n = std::stoi(d.id.substr(std::string("cuda").size()));
      if (driver().DeviceGet(&number, n) == cu::success &&
          driver().DevicePrimaryCtxRetain(&context, number) == cu::success)
        kept.push_back(number);
    }
  for (const device_note& n : notes)
    if (n.kind == device_kind::cuda) std::printf("%s\n", n.text.c_str());
  return kept;
}

} // namespace
} // namespace tern::hetero

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto kept = tern::hetero::keep_contexts();
  if (kept.empty()) {
    std::printf("skipped: there is no GPU that CUDA can be used on\n");
    return 77;
  }
  const int result = RUN_ALL_TESTS();
  for (const auto device : kept) tern::hetero::driver().DevicePrimaryCtxRelease(device);
  return result;
}

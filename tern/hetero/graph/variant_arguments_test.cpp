// SPDX-License-Identifier: Apache-2.0
// Tasks with variants, kernels in OpenCL C, and functions that use a device's queue themselves.
#include <tern/hetero/variants.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/device/opencl/opencl_api.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/task/fiber.hpp>

TERN_KERNELS_BEGIN(variants_test_kernels)
TERN_KERNEL(mark, int n, int with, TERN_GLOBAL int* to) {
  TERN_REGION_IN(n, 1, 1) { to[item.x] = with; };
}
TERN_KERNELS_END(variants_test_kernels)

namespace tern::hetero {
namespace {

namespace k = variants_test_kernels;
using testing::AllOf;
using testing::HasSubstr;
namespace cl = detail::cl;

constexpr const char* text = R"CL(
kernel void mark(int n, int with, global int* to) {
  if (get_global_id(0) < (size_t)n) to[get_global_id(0)] = with + 1000;
}
kernel void transpose(int rows, int columns, int pitch, global const double* from, global double* to) {
  const int i = get_global_id(1), j = get_global_id(0);
  if (i < rows && j < columns) to[j * rows + i] = from[i * pitch + j];
}
kernel void reverse(int n, global int* x, local int* mine) {
  const int i = get_local_id(0);
  if (i < n) mine[i] = x[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < n) x[i] = mine[n - 1 - i];
}
)CL";
const opencl_source mark_cl("mark", text), transpose_cl("transpose", text), reverse_cl("reverse", text),
    missing_cl("nowhere", text),
    broken_cl("broken", "kernel void broken(global int* x) {\n  x[0] = undefined_name;\n}"),
    defined_cl("defined", "kernel void defined(global int* x) { x[get_global_id(0)] = VALUE; }", "-DVALUE=77");

class variant_tasks : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    options opts;
    opts.set(hetero_cache, "off");
    const auto all = devices(opts);
    if (std::none_of(all.begin(), all.end(), [](const device_info& i) { return i.kind == device_kind::opencl; }))
      GTEST_SKIP() << "no OpenCL device";
  }
  template <class F> static void run(F&& f) {
    on({.devices = "host,opencl0,simulated", .simulated = "1:launch=0us,item=0ns", .opencl_memory = GetParam()},
       std::forward<F>(f));
  }
};
INSTANTIATE_TEST_SUITE_P(memory, variant_tasks, testing::Values("auto", "buffers"));

int first_of(const hetero_object<int>& x) { return x.host(access_mode::read).get()[0]; }

TEST_P(variant_tasks, each_device_takes_the_way_that_suits_it) {
  run([] {
    hetero_object<int> x(100);
    const auto choice =
        variants(k::mark, mark_cl, [](int n, int with, int* to) { std::fill(to, to + n, with + 2000); });
    const auto on_device = [&](const char* device) {
      hetero_task t(choice, items(100), 100, 7, write(x));
      t.on(device).submit();
      t.wait();
      auto host = x.host(access_mode::read).get();
      EXPECT_TRUE(std::all_of(host.begin(), host.end(), [&](int v) { return v == host[0]; }));
      return host[0];
    };
    EXPECT_EQ(on_device("host"), 2007);
    EXPECT_EQ(on_device("simulated0"), 7);
    EXPECT_EQ(on_device("opencl0"), 1007);
    submit(choice, items(100), 100, 8, write(x)); // anywhere
    EXPECT_EQ(first_of(x) % 1000, 8);
  });
}

TEST_P(variant_tasks, a_kernel_in_opencl_c_alone) {
  run([] {
    constexpr int rows = 20, columns = 30;
    hetero_object<double, 2> from({rows + 4, columns + 6}), to({columns, rows});
    {
      auto host = from.host(access_mode::write).get();
      for (int i = 0; i < rows + 4; ++i)
        for (int j = 0; j < columns + 6; ++j) host(i, j) = i * 100 + j;
    }
    const auto part = from.part({2, 16}, {2 + rows, 16 + columns - 10}); // begins at a multiple of what devices ask for
    const int wide = static_cast<int>(part.extent(1));
    submit(transpose_cl, items(wide, rows), rows, wide, pitch(part), read(part), write(to));
    hetero_object<int> x(5);
    submit(defined_cl, items(5).group(5), write(x));
    auto host = to.host(access_mode::read).get();
    for (int j = 0; j < wide; ++j)
      for (int i = 0; i < rows; ++i) ASSERT_EQ(host.data()[j * rows + i], (i + 2) * 100 + j + 16);
    EXPECT_EQ(first_of(x), 77);
  });
}

TEST_P(variant_tasks, dynamic_memory_comes_last) {
  run([] {
    hetero_object<int> x(64);
    {
      auto host = x.host(access_mode::write).get();
      std::iota(host.begin(), host.end(), 0);
    }
    submit(reverse_cl, items(64).group(64).dynamic(64 * sizeof(int)), 64, read_write(x));
    auto host = x.host(access_mode::read).get();
    for (int i = 0; i < 64; ++i) ASSERT_EQ(host[i], 63 - i);
  });
}

TEST_P(variant_tasks, what_is_wrong_is_said) {
  run([] {
    hetero_object<int> x(10, 0);
    const auto failure = [&](hetero_task t) {
      t.submit();
      return text_of_error([&] { t.wait(); });
    };
    EXPECT_THAT(failure(hetero_task(broken_cl, items(10), write(x))),
                AllOf(HasSubstr("the OpenCL source of 'broken' does not compile for opencl0"),
                      HasSubstr("undefined_name"), HasSubstr("the lines named are those of the text")));
    EXPECT_THAT(failure(hetero_task(missing_cl, items(10), write(x))),
                AllOf(HasSubstr("find the kernel 'nowhere' in the OpenCL source of 'nowhere'"),
                      HasSubstr("the first argument of opencl_source")));
    EXPECT_THAT(failure(hetero_task(mark_cl, items(10), 10, write(x))),
                AllOf(HasSubstr("the kernel 'mark'"), HasSubstr("it has 3 parameters, 2 arguments were given")));
    EXPECT_THAT(failure(hetero_task(mark_cl, items(10), 10, 5L, write(x))),
                AllOf(HasSubstr("for its parameter 2, which was given 8 bytes"), HasSubstr("CL_INVALID_ARG_SIZE")));
    EXPECT_THAT(failure(hetero_task(reverse_cl, items(10), 10, write(x))),
                HasSubstr("it has 3 parameters, 2 arguments were given"));
    EXPECT_THAT(failure(hetero_task(mark_cl, items(10).dynamic(64), 10, 5, write(x))),
                HasSubstr("it has 2 parameters before that of dynamic memory, 3 arguments were given"));
    hetero_task only(mark_cl, items(10), 10, 5, write(x));
    EXPECT_THAT(text_of_error([&] { only.on(device_kind::host); }),
                HasSubstr("task 'mark' has nothing that runs on host"));
    only.submit();
    only.wait();
    EXPECT_EQ(first_of(x), 1005);
  });
}

TEST_P(variant_tasks, spirv_where_it_is_taken) {
  run([] {
    // Too short to be a module: a device that takes SPIR-V says so, others that they do not.
    static const std::vector<std::byte> bytes(16);
    static const opencl_spirv module("mark", bytes);
    hetero_object<int> x(10, 0);
    hetero_task t(module, items(10), 10, 5, read_write(x));
    t.submit();
    EXPECT_THAT(text_of_error([&] { t.wait(); }), HasSubstr("the SPIR-V module of 'mark'"));
  });
}

// Queues --------------------------------------------------------------------------------------------------------------

const detail::opencl_api& api() {
  static const detail::opencl_api found = [] {
    std::vector<std::string> notes;
    return detail::opencl_api::open(detail::opencl_api::usual_libraries(), notes).value();
  }();
  return found;
}

template <class T> void copy(const native_queue& q, device_view<const T, 1> from, device_view<T, 1> to) {
  const cl::status s = api().EnqueueCopyBuffer(static_cast<cl::queue>(q.queue), static_cast<cl::memory>(from.memory),
                                               static_cast<cl::memory>(to.memory), from.offset, to.offset,
                                               static_cast<std::size_t>(to.size[0]) * sizeof(T), 0, nullptr, nullptr);
  if (s != cl::success) throw std::runtime_error("copying: " + cl::text_of(s));
}

TEST_P(variant_tasks, a_function_uses_the_queue) {
  run([] {
    hetero_object<double> from(1000), to(1000, 0.0);
    {
      auto host = from.host(access_mode::write).get();
      std::iota(host.begin(), host.end(), 0.0);
    }
    const auto choice = variants(
        [](host_view<const double, 1> a, host_view<double, 1> b, const std::string& who) {
          EXPECT_EQ(who, "a string, which no kernel takes");
          std::copy(a.begin(), a.end(), b.begin());
        },
        on_queue(device_kind::opencl, [](const native_queue& q, device_view<const double, 1> a,
                                         device_view<double, 1> b, const std::string& who) {
          EXPECT_EQ(who, "a string, which no kernel takes");
          EXPECT_STREQ(q.device, "opencl0");
          EXPECT_EQ(q.kind, device_kind::opencl);
          EXPECT_NE(q.context, nullptr);
          EXPECT_NE(q.native_device, nullptr);
          copy<double>(q, a, b);
        }));
    const std::string who = "a string, which no kernel takes";
    for (const char* device : {"opencl0", "host"}) {
      // Parts, so that there are offsets: of 128 elements, at which every device takes addresses.
      hetero_task t(choice, read(from.part({128}, {384})), write(to.part({512}, {768})), who);
      t.on(device).submit();
      submit(
          [](host_view<double, 1> x) {
            for (double& v : x) v += 0.5;
          },
          read_write(to));
      auto host = to.host(access_mode::read_write).get();
      for (int i = 0; i < 256; ++i) ASSERT_EQ(host[512 + i], 128 + i + 0.5) << device;
      EXPECT_EQ(host[511], 0.5);
      EXPECT_EQ(host[768], 0.5);
      std::fill(host.begin(), host.end(), 0.0);
    }
  });
}

TEST_P(variant_tasks, what_such_a_function_throws_is_what_the_task_fails_with) {
  run([] {
    hetero_object<int> x(10, 3);
    hetero_task t(
        variants(on_queue(device_kind::opencl,
                          [](const native_queue&, device_view<int, 1>) { throw std::runtime_error("no plan"); })),
        read_write(x));
    t.name("planner").submit();
    hetero_task after(k::mark, items(10), 10, 1, read_write(x));
    after.submit();
    try {
      t.wait();
      ADD_FAILURE();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "no plan");
    }
    EXPECT_THAT(text_of_error([&] { after.wait(); }),
                AllOf(HasSubstr("'planner' before it failed"), HasSubstr("no plan")));
    submit(k::mark, items(10), 10, 4, write(x)); // written anew
    EXPECT_EQ(first_of(x), 4);
  });
}

TEST_P(variant_tasks, such_a_function_must_not_wait) {
  run([] {
    hetero_object<int> x(10, 3);
    hetero_task t(
        variants(on_queue(device_kind::opencl, [](const native_queue&, device_view<int, 1>) { this_fiber::yield(); })),
        read_write(x));
    t.name("sleeper").submit();
    EXPECT_THAT(text_of_error([&] { t.wait(); }),
                AllOf(HasSubstr("the function of task 'sleeper' waited while it had the queue of opencl0"),
                      HasSubstr("only put work into the queue")));
    submit(k::mark, items(10), 10, 4, write(x));
    EXPECT_EQ(first_of(x), 4);
  });
}

TEST(variants, without_a_device_for_it_a_way_is_not_taken) {
  const auto choice = variants(mark_cl, [](int n, int with, int* to) { std::fill(to, to + n, with + 2000); });
  for (const char* devices : {"host", "simulated"}) // functions run on the host also where no kernels do
    on({.devices = devices, .simulated = "1:launch=0us,item=0ns"}, [&] {
      hetero_object<int> x(10, 0);
      submit(choice, items(10), 10, 7, read_write(x));
      EXPECT_EQ(first_of(x), 2007);
      hetero_task only(mark_cl, items(10), 10, 7, write(x));
      only.submit();
      EXPECT_THAT(
          text_of_error([&] { only.wait(); }),
          AllOf(HasSubstr("task 'mark' can run on opencl, and there is no such device"), HasSubstr("hetero-devices")));
    });
}

TEST(variants, other_devices_have_no_queue) {
  EXPECT_THAT(text_of_error([] { on_queue(device_kind::simulated, [](const native_queue&) {}); }),
              AllOf(HasSubstr("devices of the kind simulated have no queue"), HasSubstr("opencl and cuda have")));
}

} // namespace
} // namespace tern::hetero

// SPDX-License-Identifier: Apache-2.0
// Tasks on each kind of device that has memory of its own, or works in the host's: what stays
// there, what goes, in which order they run, and that nothing is left.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/device/cuda/nvrtc.hpp>
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/device/simulated/simulated_device.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/recorded.hpp>
#include <tern/hetero/variants.hpp>
#include <tern/task/sim.hpp>

TERN_KERNELS_BEGIN(device_task_kernels)
// A box whose rows lie p, and whose slices s elements apart.
TERN_KERNEL(number_all, int nx, int ny, int nz, int p, int s, TERN_GLOBAL int* a) {
  TERN_REGION_IN(nx, ny, nz) { a[item.z * s + item.y * p + item.x] += 10000 * item.z + 100 * item.y + item.x + 1; };
}
// What has come when.
TERN_KERNEL(come, int who, TERN_GLOBAL int* count, TERN_GLOBAL int* order) {
  TERN_REGION {
    if (item.x == 0) order[fetch_add(count, 1)] = who;
  };
}
TERN_KERNELS_END(device_task_kernels)

namespace tern::hetero {
namespace {

namespace k = device_task_kernels;
using testing::AllOf;
using testing::HasSubstr;
using object = hetero_object<unsigned, 2>;

hetero_task added(const object& o, unsigned a = 1) {
  return {graph_kernels::add,
          items(o.extent(1), o.extent(0)),
          static_cast<int>(o.extent(1)),
          static_cast<int>(o.extent(0)),
          a,
          pitch(o),
          read_write(o)};
}
unsigned first(const object& o) { return o.host(access_mode::read).get()(0, 0); }

struct place {
  const char *name, *kind; ///< of device
  const char* opencl_memory = "auto";
  bool own_memory = true;
};
void PrintTo(const place& p, std::ostream* out) { *out << p.name; }

class device_tasks : public testing::TestWithParam<place> {
protected:
  void SetUp() override {
    if (GetParam().kind == std::string("opencl") && !there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  }
  std::string id() const { return std::string(GetParam().kind) + (GetParam().kind == std::string("host") ? "" : "0"); }
  /// With the host beside it. \param memory of the device, with k or M
  machine where(const std::string& memory = "1M", const std::string& more = {}) const {
    machine m{.devices = GetParam().kind == std::string("host") ? "host" : "host," + id()};
    m.simulated = "1:launch=1us,latency=1us,bandwidth=0,memory=" + memory + more;
    m.opencl_memory = GetParam().opencl_memory;
    m.cuda = true;
    m.memory = memory;
    for (char& c : m.memory) c = static_cast<char>(c == 'k' ? 'K' : c);
    return m;
  }
};
constexpr place places[] = {{"host", "host", "auto", false},
                            {"simulated", "simulated"},
                            {"opencl", "opencl", "auto", false},
                            {"opencl_buffers", "opencl", "buffers"},
                            {"cuda", "cuda"}};
std::string name_of_place(const testing::TestParamInfo<place>& one) { return one.param.name; }
INSTANTIATE_TEST_SUITE_P(on, device_tasks, testing::ValuesIn(places), name_of_place);

TEST_P(device_tasks, in_boxes_of_three_dimensions) {
  const mock_cuda driver;
  on(where(), [&] {
    constexpr int x0 = 3, nx = 32 - x0;
    for (const bool whole_first : {false, true}) {
      hetero_object<int, 3> o({5, 7, 32}, 0);
      if (whole_first) o.prefetch(id());
      const auto box = o.part({1, 2, x0}, {4, 6, 32}), slab = o.rows(2, 3);
      hetero_task(k::number_all, items(nx, 4, 3), nx, 4, 3, pitch(box), slice(box), read_write(box)).on(id()).submit();
      hetero_task(k::number_all, items(32, 7, 1), 32, 7, 1, pitch(slab), slice(slab), read_write(slab))
          .on(id())
          .submit();
      const auto host = o.host(access_mode::read).get();
      for (int z = 0; z < 5; ++z)
        for (int y = 0; y < 7; ++y)
          for (int x = 0; x < 32; ++x) {
            int expected = z == 2 ? 100 * y + x + 1 : 0;
            if (z >= 1 && z < 4 && y >= 2 && y < 6 && x >= x0) expected += 10000 * (z - 1) + 100 * (y - 2) + x - x0 + 1;
            ASSERT_EQ(host(z, y, x), expected) << z << ", " << y << ", " << x << (whole_first ? " in the whole" : "");
          }
    }
  });
}

TEST_P(device_tasks, leave_nothing_behind) {
  const mock_cuda driver;
  machine m = where();
  m.workers = 1; // so no other worker drives the device while the test looks at it
  on(m, [&] {
    {
      object a({20, 32}, 1u), b({20, 32}, 2u), gone({20, 32}, 3u);
      recorded step("step");
      step.on(id());
      for (unsigned i = 0; i < 5; ++i) {
        added(a, i).on(id()).submit();
        step.submit([&] {
          submit(graph_kernels::add, items(32, 20), 32, 20, i, pitch(b), read_write(b));
          submit(graph_kernels::add, items(32, 20), 32, 20, i, pitch(a), read_write(a));
        });
      }
      b.prefetch(id());
      added(gone).on(id()).submit();
      gone.drop(id());
      submit([](host_view<unsigned, 2>) { throw error(errc::io, "on purpose"); }, read_write(gone));
      added(gone).on(id()).submit(); // is not run
      EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("on purpose"));
      EXPECT_EQ(first(a), 1u + 2 * (1 + 2 + 3 + 4));
      if (GetParam().own_memory) {
        EXPECT_EQ(count().devices[1].memory_bytes, 2 * 20 * 32 * 4);
      }
    }
    expect_nothing_left();
    {
      object last({1, 32}, 1u); // the worker that runs it gives back memory that waited for that
      added(last).on(id()).submit();
      EXPECT_EQ(first(last), 2u);
    }
    if (GetParam().kind == std::string("host")) return;
    const detail::device& d = detail::runtime::here("test").devices().queue(1)->of();
    if (const auto* const simulated = dynamic_cast<const detail::simulated_device*>(&d)) {
      EXPECT_LE(simulated->counters().allocations, 1u); // that of the last
      EXPECT_EQ(simulated->counters().tickets, 0u);
    } else if (const auto* const opencl = dynamic_cast<const detail::opencl_device*>(&d)) {
      EXPECT_EQ(opencl->open_tickets(), 0u);
    } else {
      EXPECT_EQ(dynamic_cast<const detail::cuda_device&>(d).open_tickets(), 0u);
    }
  });
}

// Higher ones first, those of one in order; not before tasks that had been given to the device by
// then.
TEST(device_order, is_by_priority) {
  for (const char* policy : {"locality", "eager", "round-robin", "random", "dmda", "steal", "energy"}) {
    SCOPED_TRACE(policy);
    options opts;
    opts.set(hetero_devices, "simulated");
    opts.set(hetero_simulated, "1:launch=100us,latency=1us");
    opts.set(hetero_queues, 1);
    opts.set(hetero_policy, policy);
    sim::simulation world;
    scheduler s({.workers = 2, .simulation = &world, .opts = &opts});
    EXPECT_EQ(s.run([] {
      constexpr int before = 40, after = 60;
      hetero_object<int> counter(1, 0), order(before + after, -1);
      counter.prefetch("simulated0");
      order.prefetch("simulated0");
      wait_all();
      std::vector<int> expected;
      const auto send = [&](int who, int priority) {
        hetero_task t(k::come, items(1), who, read_write(counter), read_write(order));
        t.implicit(false).priority(priority).submit();
      };
      for (int i = 0; i < before; ++i) send(i, 9); // as many as the device is given at a time, and more
      for (int i = 0; i < after; ++i) send(before + i, i % 3 - 1);
      for (int i = 0; i < before; ++i) expected.push_back(i);
      for (const int priority : {1, 0, -1})
        for (int i = 0; i < after; ++i)
          if (i % 3 - 1 == priority) expected.push_back(before + i);
      wait_all();
      const auto host = order.host(access_mode::read).get();
      EXPECT_EQ(std::vector<int>(host.begin(), host.end()), expected);
    }),
              0u);
  }
}

// Memory --------------------------------------------------------------------------------------------------------------

class device_memory : public device_tasks {};
class device_memory_faults : public device_tasks {}; // of OpenCL: opencl_faults_test.cpp
INSTANTIATE_TEST_SUITE_P(on, device_memory, testing::Values(places[1], places[3], places[4]), name_of_place);
INSTANTIATE_TEST_SUITE_P(on, device_memory_faults, testing::Values(places[1], places[4]), name_of_place);

TEST_P(device_memory, keeps_what_is_pinned_until_it_is_not) {
  const mock_cuda driver;
  on(where("64k"), [&] { // room for six
    object x({50, 50}, 1u);
    std::vector<object> others;
    for (int i = 0; i < 10; ++i) others.emplace_back(extents<2>{50, 50}, 1u);
    const auto use_others = [&] { // the longest unused goes first: each has gone when its turn comes
      for (const object& o : others) {
        added(o).on(id()).submit();
        wait_all();
      }
    };
    const auto use_x = [&] {
      added(x).on(id()).submit();
      wait_all();
    };
    x.pin(id());
    wait_all();
    EXPECT_EQ(count().copies_to_devices, 1u);
    use_others();
    use_others();
    EXPECT_EQ(count().copies_to_devices, 21u);
    use_x();
    EXPECT_EQ(count().copies_to_devices, 21u);
    const std::uint64_t home = count().copies_from_devices;
    EXPECT_GE(home, 14u); // what was changed was saved first
    use_others();
    EXPECT_EQ(count().copies_to_devices, 31u);
    use_x();
    EXPECT_EQ(count().copies_to_devices, 31u);
    x.unpin(id());
    wait_all();
    use_others();
    EXPECT_EQ(count().copies_to_devices, 41u);
    use_x();
    EXPECT_EQ(count().copies_to_devices, 42u);
    EXPECT_EQ(first(x), 4u);
    for (const object& o : others) EXPECT_EQ(first(o), 5u);
  });
}

TEST_P(device_memory_faults, are_their_tasks_errors) {
  const mock_cuda driver("fail-alloc=1");
  machine m = where("1M", ",fail-allocation=1");
  m.without = "no-pool";
  on(m, [&] {
    object a({16, 16}, 1u), b({16, 16}, 1u), c({16, 16}, 1u);
    hetero_task bad = added(a);
    bad.on(id()).submit();
    EXPECT_THAT(text_of_error([&] { bad.wait(); }),
                AllOf(HasSubstr("task 'add' uses 1024 bytes on " + id() + ", which has no room left for them"),
                      HasSubstr("out_of_memory")));
    added(b).on(id()).submit();
    added(c).submit();
    wait_all();
    EXPECT_EQ(first(b), 2u);
    EXPECT_EQ(first(c), 2u);
    EXPECT_THAT(text_of_error([&] { first(a); }), HasSubstr("no room left"));
    submit([](host_view<unsigned, 2> v) { v(0, 0) = 7; }, write(a));
    added(a).on(id()).submit();
    EXPECT_EQ(first(a), 8u);
  });
}

TEST(fake_memory, that_cannot_be_had_is_taken_from_what_is_not_used) {
  on({.devices = "host,simulated", .simulated = "1:fail-allocation=2"}, [] {
    object a({16, 16}, 1u), b({16, 16}, 1u);
    added(a).on("simulated0").submit();
    wait_all();
    added(b).on("simulated0").submit();
    wait_all();
    EXPECT_EQ(count().copies_from_devices, 1u); // a has come home
    EXPECT_EQ(first(a), 2u);
    EXPECT_EQ(first(b), 2u);
  });
}

// What functions call: the driver of the devices.
const detail::cuda_api& api() {
  static const detail::cuda_api found = [] {
    std::vector<std::string> notes;
    return detail::cuda_api::open(std::vector<std::string>{TERN_MOCK_CUDA}, notes).value();
  }();
  return found;
}

TEST(cuda_memory, that_a_function_cannot_have_is_its_tasks_error) {
  const mock_cuda driver("memory=64M");
  on({.devices = "host,cuda", .cuda = true}, [] {
    object x({16, 16}, 1u), other({16, 16}, 1u);
    added(other).on("cuda0").submit();
    wait_all();
    const auto greedy = variants(on_queue(device_kind::cuda, [](const native_queue& q, device_view<unsigned, 2>) {
      std::vector<detail::cu::pointer> all;
      detail::cu::pointer one = 0;
      while (api().MemAlloc(&one, 1 << 20) == detail::cu::success) all.push_back(one);
      for (const detail::cu::pointer p : all) api().MemFree(p);
      throw error(errc::out_of_memory, std::string("no more on ") + q.device + " after " + std::to_string(all.size()));
    }));
    hetero_task t(greedy, read_write(x));
    t.name("greedy").submit();
    added(other).on("cuda0").submit();
    EXPECT_THAT(text_of_error([&] { t.wait(); }), AllOf(HasSubstr("no more on cuda0 after "), HasSubstr("out_of_mem")));
    added(other).on("cuda0").submit();
    EXPECT_EQ(first(other), 4u);
    EXPECT_THAT(text_of_error([&] { first(x); }), AllOf(HasSubstr("'greedy' before it failed"), HasSubstr("no more")));
  });
}

TEST(cuda_memory, that_functions_have_taken_is_missing_until_they_give_it_back) {
  const mock_cuda driver("memory=64M");
  on({.devices = "host,cuda", .cuda = true, .without = "no-pool"}, [] {
    std::vector<detail::cu::pointer> all;
    const auto run = [](const auto& way) { hetero_task(way).submit().wait(); };
    run(variants(on_queue(device_kind::cuda, [&all](const native_queue&) {
      detail::cu::pointer one = 0;
      while (api().MemAlloc(&one, 1 << 20) == detail::cu::success) all.push_back(one);
    })));
    EXPECT_GE(all.size(), 60u);
    object large({1024, 1024}, 1u), other({16, 16}, 1u);
    hetero_task bad = added(large);
    bad.on("cuda0").submit();
    EXPECT_THAT(text_of_error([&] { bad.wait(); }),
                AllOf(HasSubstr("'add' uses 4194304 bytes on cuda0"), HasSubstr("no room left")));
    added(other).on("host").submit();
    EXPECT_EQ(first(other), 2u);
    run(variants(on_queue(device_kind::cuda, [&all](const native_queue&) {
      for (const detail::cu::pointer p : all) api().MemFree(p);
    })));
    object again({1024, 1024}, 1u);
    added(again).on("cuda0").submit();
    EXPECT_EQ(first(again), 2u);
  });
}

// Compiled outside Tern -----------------------------------------------------------------------------------------------

TEST(cuda_modules, are_machine_code_of_the_devices_own) {
  const auto compiled_for = [](int capability, bool cubin) {
    std::vector<std::string> notes;
    const auto nvrtc = detail::nvrtc_api::open(std::vector<std::string>{TERN_MOCK_NVRTC}, notes);
    return compile_cuda(nvrtc.value(),
                        {"extern \"C\" __global__ void set(int* x) { x[threadIdx.x] = 42; }", "set.cu", "it", ""},
                        {.compute_capability = capability, .cubin = cubin})
        .code;
  };
  const std::string right = compiled_for(80, true), other = compiled_for(90, true), later = compiled_for(90, false);
  ASSERT_EQ(right.substr(0, 4), "\x7f"
                                "ELF");
  const cuda_module set("set", std::as_bytes(std::span(right))), of_90("set", std::as_bytes(std::span(other))),
      ptx_of_90("set", std::as_bytes(std::span(later))), nowhere("reset", std::as_bytes(std::span(right)));
  const mock_cuda driver("capability=80");
  on({.devices = "host,cuda", .cuda = true}, [&] {
    hetero_object<int> x(8, 0);
    const auto run = [&](const cuda_module& m) {
      return text_of_error([&] { hetero_task(m, items(8), read_write(x)).submit().wait(); });
    };
    EXPECT_EQ(run(set), "nothing was thrown");
    EXPECT_EQ(x.host(access_mode::read).get()[7], 42);
    EXPECT_THAT(run(of_90), AllOf(HasSubstr("cannot load the CUDA module of 'set'"),
                                  HasSubstr("machine code is for sm_90, and the device has sm_80"),
                                  HasSubstr("NO_BINARY_FOR_GPU"), HasSubstr("no code for compute capability 8.0")));
    submit([](host_view<int, 1>) {}, write(x));
    EXPECT_THAT(run(ptx_of_90), AllOf(HasSubstr("PTX is for sm_90"), HasSubstr("INVALID_PTX")));
    submit([](host_view<int, 1>) {}, write(x));
    EXPECT_THAT(run(nowhere), HasSubstr("'reset' in the CUDA module"));
    submit([](host_view<int, 1>) {}, write(x));
    EXPECT_EQ(run(set), "nothing was thrown"); // the device goes on
  });
}

} // namespace
} // namespace tern::hetero

// SPDX-License-Identifier: Apache-2.0
// What is CUDA's own: contexts, memory, streams, kernels that it compiles, and what goes wrong,
// with the mock driver. What kernels compute is in device_kernels_test.cpp.
#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/opencl.hpp"
#include <tern/hetero/variants.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class cuda : public testing::Test {
protected:
  /// \param how the driver is.
  cuda_device& open(const std::string& how = {}, const options& opts = cuda_options(),
                    const std::shared_ptr<pinned_memory>& host = nullptr) {
    mock_ = std::make_unique<mock_cuda>(how);
    device_ = first_cuda_device(opts, host);
    if (!device_) throw std::runtime_error("the mock driver has no device");
    device_->open();
    return *device_;
  }
  void TearDown() override {
    if (!device_) return;
    EXPECT_EQ(device_->open_tickets(), 0u);
    device_.reset();
  }
  std::unique_ptr<mock_cuda> mock_; // after the device
  std::unique_ptr<cuda_device> device_;
};

// What there is
// --------------------------------------------------------------------------------------------------------

TEST_F(cuda, says_what_it_is_without_a_context) {
  mock_ = std::make_unique<mock_cuda>("memory=2G");
  device_ = first_cuda_device(cuda_options());
  ASSERT_NE(device_, nullptr);
  const device_info& i = device_->info();
  EXPECT_EQ(i.kind, device_kind::cuda);
  EXPECT_EQ(i.id, "cuda0");
  EXPECT_NE(i.name, "");
  EXPECT_EQ(i.driver, "CUDA 13.0");
  EXPECT_EQ(i.memory_bytes, std::int64_t{2} << 30);
  EXPECT_FALSE(i.shares_host_memory);
  EXPECT_EQ(i.max_group_items, 1024);
  EXPECT_EQ(i.max_group[2], 64);
  EXPECT_GT(i.local_memory_bytes, 48 << 10);
  EXPECT_EQ(device_->streams(), 7);
  EXPECT_EQ(mock_cuda::counters().contexts_created, 0u);
  EXPECT_THAT(message_of(errc::invalid_state, [&] { device_->allocate(1); }), HasSubstr("has not been opened"));
  device_->open();
  EXPECT_EQ(mock_cuda::counters().contexts_created, 1u);
  device_->open();
  EXPECT_EQ(mock_cuda::counters().contexts_created, 1u);
}

std::string notes_of(const std::string& how, const options& opts = cuda_options()) {
  const mock_cuda mock(how);
  std::vector<std::string> notes;
  const auto d = first_cuda_device(opts, nullptr, &notes);
  std::string all = d ? "found" : "none";
  for (const std::string& n : notes) all += "; " + n;
  return all;
}

TEST(cuda_discovery, tells_why_there_is_none) {
  EXPECT_EQ(notes_of(""), "found");
  EXPECT_THAT(notes_of("no-init"), AllOf(HasSubstr("none; no CUDA devices"), HasSubstr("CUDA_ERROR_NO_DEVICE (100)")));
  EXPECT_THAT(notes_of("mode=prohibited"), AllOf(HasSubstr("none; the CUDA device cuda0 ("), HasSubstr("'prohibited'"),
                                                 HasSubstr("nvidia-smi -c DEFAULT")));
  EXPECT_THAT(notes_of("mode=exclusive"), AllOf(HasSubstr("found; "), HasSubstr("one process at a time")));
  EXPECT_THAT(notes_of("capability=50"), AllOf(HasSubstr("found; "), HasSubstr("does not compile for so old devices"),
                                               HasSubstr("without NVRTC CUDA devices run functions on their queues")));
  EXPECT_THAT(
      notes_of("driver=12040"), // of the mock's NVRTC, 13.0
      AllOf(HasSubstr("found; "), HasSubstr("is of CUDA 13.0, whose code this driver, for CUDA 12.4, does not load")));
  options opts = cuda_options();
  opts.set(cuda_libraries, "/no/such/libcuda.so.1");
  EXPECT_THAT(notes_of("", opts), AllOf(HasSubstr("NVIDIA's driver cannot be opened"), HasSubstr("nvidia-driver")));
  opts.set(cuda_libraries, TERN_MOCK_NVRTC); // a library, but not the driver's
  EXPECT_THAT(notes_of("", opts), AllOf(HasSubstr("lacks cuInit, cuDriverGetVersion"), HasSubstr("cuMemAlloc_v2")));
  opts.set(cuda_libraries, std::string(TERN_MOCK_CUDA) + ":/no/such/libnvrtc.so");
  EXPECT_THAT(notes_of("", opts),
              AllOf(HasSubstr("found; kernels cannot be compiled for CUDA"), HasSubstr("cuda-nvrtc"),
                    HasSubstr("without NVRTC CUDA devices run functions on their queues, PTX, cubins and fatbins"),
                    HasSubstr("tern_device_code")));
}

TEST(cuda_discovery, switches_are_checked) {
  options opts;
  EXPECT_THAT(message_of(errc::invalid_option, [&] { opts.set(cuda_without, "no-pinned,quick"); }),
              HasSubstr("no-pinned, no-pool, one-stream"));
  opts.set(cuda_without, "no-pool,one-stream");
  EXPECT_TRUE(switches_of(opts).pinned);
  EXPECT_FALSE(switches_of(opts).pool);
  EXPECT_FALSE(switches_of(opts).streams);
}

TEST(cuda_discovery, opens_devices_when_asked_to) {
  const auto told = [](const std::string& how) {
    const mock_cuda mock(how);
    options opts = cuda_options();
    opts.set(hetero_devices, "host,cuda");
    std::vector<device_note> notes;
    std::string all;
    for (const device_info& i : devices(opts, &notes, true)) all += i.id + " ";
    for (const device_note& n : notes) all += n.text + " ";
    return all;
  };
  EXPECT_EQ(told(""), "host cuda0 ");
  EXPECT_THAT(told("fail-context"), AllOf(HasSubstr("host cuda0 (Mock GPU 0) cannot be opened"),
                                          HasSubstr("OUT_OF_MEMORY"), HasSubstr("nvidia-smi")));
  EXPECT_THAT(told("memory=10M"),
              AllOf(HasSubstr("host cuda0 (Mock GPU 0) cannot be opened"),
                    HasSubstr("of its 10 MiB only 10 are free, too little"), HasSubstr("nvidia-smi")));
}

TEST_F(cuda, a_device_that_cannot_be_opened_is_lost) {
  mock_ = std::make_unique<mock_cuda>("fail-context");
  device_ = first_cuda_device(cuda_options());
  ASSERT_NE(device_, nullptr);
  EXPECT_THAT(message_of(errc::device_lost, [&] { device_->open(); }),
              AllOf(HasSubstr("cuda0"), HasSubstr("cannot make a context"), HasSubstr("OUT_OF_MEMORY"),
                    HasSubstr("nvidia-smi")));
  EXPECT_THAT(message_of(errc::device_lost, [&] { device_->allocate(1); }), HasSubstr("cannot make a context"));
}

// Memory --------------------------------------------------------------------------------------------------------------

TEST_F(cuda, memory_is_kept_for_later) {
  cuda_device& d = open();
  const auto use = [&] {
    std::vector<memory_handle> all;
    for (const std::size_t bytes : {1000u, 5000000u, 64u, 300000u}) all.push_back(d.allocate(bytes));
    for (const memory_handle m : all) EXPECT_NE(m, nullptr);
    std::size_t n = 0;
    for (const std::size_t bytes : {1000u, 5000000u, 64u, 300000u}) d.free(all[n++], bytes);
  };
  use();
  const auto before = mock_cuda::counters();
  for (int i = 0; i < 100; ++i) use();
  EXPECT_EQ(mock_cuda::counters().allocs, before.allocs);
  EXPECT_EQ(mock_cuda::counters().frees, 0u);
}

TEST_F(cuda, memory_may_come_from_the_driver_each_time) {
  cuda_device& d = open("", cuda_options("", "no-pool"));
  for (int i = 0; i < 10; ++i) d.free(d.allocate(1000), 1000);
  EXPECT_EQ(mock_cuda::counters().allocs, 10u);
  EXPECT_EQ(mock_cuda::counters().frees, 10u);
}

TEST_F(cuda, memory_that_others_have_is_left_to_them) {
  cuda_device& d = open("memory=100M");
  EXPECT_LE(d.memory_limit(), std::size_t{90} << 20);
  EXPECT_GT(d.memory_limit(), std::size_t{80} << 20);
  std::vector<memory_handle> all;
  for (memory_handle m; (m = d.allocate(10 << 20));) all.push_back(m);
  EXPECT_GE(all.size(), 8u);
  EXPECT_LE(all.size(), 9u);
  for (const memory_handle m : all) d.free(m, 10 << 20);
  const memory_handle large = d.allocate(d.memory_limit()); // what was small is given back for it
  EXPECT_NE(large, nullptr);
  d.free(large, d.memory_limit());
}

TEST_F(cuda, memory_of_the_host_is_locked_when_it_opens) {
  const auto host = std::make_shared<pinned_memory>(std::size_t{1} << 30);
  std::byte* const early = host->allocate(1 << 20);
  cuda_device& d = open("", cuda_options(), host);
  EXPECT_TRUE(host->is_locked(early));
  std::byte* const late = host->allocate(300 << 20);
  ASSERT_NE(late, nullptr);
  EXPECT_TRUE(host->is_locked(late));
  std::fill_n(early, 1000, std::byte{7});
  const memory_handle m = d.allocate(1000);
  wait(d, d.copy(0, {.way = direction::to_device, .host = early, .device = m, .row_bytes = 1000}));
  wait(d, d.copy(1, {.way = direction::from_device, .host = late, .device = m, .row_bytes = 1000}));
  EXPECT_EQ(late[999], std::byte{7});
  EXPECT_EQ(mock_cuda::counters().pageable_copies, 0u);
  std::byte ordinary[1000];
  wait(d, d.copy(1, {.way = direction::from_device, .host = ordinary, .device = m, .row_bytes = 1000}));
  EXPECT_EQ(ordinary[999], std::byte{7});
  EXPECT_EQ(mock_cuda::counters().pageable_copies, 1u);
  d.free(m, 1000);
  device_.reset();
  EXPECT_EQ(mock_cuda::counters().live_registrations, 0u);
  EXPECT_FALSE(host->is_locked(early));
  host->free(early);
  host->free(late);
}

TEST_F(cuda, memory_of_the_host_may_be_ordinary) {
  const auto host = std::make_shared<pinned_memory>(std::size_t{1} << 30);
  open("", cuda_options("", "no-pinned"), host);
  std::byte* const some = host->allocate(1 << 20);
  EXPECT_FALSE(host->is_locked(some));
  host->free(some);
}

// Streams -------------------------------------------------------------------------------------------------------------

TEST_F(cuda, only_the_first_of_a_stream_is_asked_for) {
  cuda_device& d = open();
  std::vector<ticket> all;
  for (int i = 0; i < 100; ++i) all.push_back(launch<k::nothing>(d, {}, {}));
  for (std::size_t i = all.size(); i-- > 1;) EXPECT_FALSE(d.done(all[i]));
  EXPECT_LE(mock_cuda::counters().event_queries, 2u);
  for (const ticket t : all) wait(d, t);
  for (const ticket t : all) EXPECT_TRUE(d.done(t)) << "forgotten";
}

TEST_F(cuda, one_stream_takes_all) {
  cuda_device& d = open("", cuda_options("", "one-stream"));
  EXPECT_EQ(mock_cuda::counters().live_streams, 1u);
  EXPECT_EQ(d.streams(), 7);
  std::vector<int> x(100, 3), out(100);
  const memory_handle m = d.allocate(400);
  const ticket in = d.copy(
      0, {.way = direction::to_device, .host = reinterpret_cast<std::byte*>(x.data()), .device = m, .row_bytes = 400});
  d.order(1, in);
  const ticket back = d.copy(
      1,
      {.way = direction::from_device, .host = reinterpret_cast<std::byte*>(out.data()), .device = m, .row_bytes = 400});
  EXPECT_EQ(mock_cuda::counters().stream_waits, 0u);
  wait(d, in);
  wait(d, back);
  EXPECT_EQ(out, x);
  d.free(m, 400);
}

TEST_F(cuda, another_context_in_between_does_no_harm) {
  cuda_device& d = open("devices=2");
  std::vector<std::string> notes;
  auto all = open_cuda(cuda_options(), nullptr, notes);
  ASSERT_EQ(all.size(), 2u);
  all[1]->open();
  const ticket a = launch<k::nothing>(d, {}, {}), b = launch<k::nothing>(*all[1], {}, {});
  const memory_handle here = d.allocate(100), there = all[1]->allocate(100);
  wait(d, a);
  wait(*all[1], b);
  d.free(here, 100);
  all[1]->free(there, 100);
}

// Kernels -------------------------------------------------------------------------------------------------------------

TEST_F(cuda, refuses_what_it_cannot_launch) {
  cuda_device& d = open();
  const auto refused = [&](const std::function<void()>& body) { return message_of(errc::invalid_argument, body); };
  std::vector<int> some(4096);
  {
    const given on(d, some);
    const auto out = on.as_argument();
    EXPECT_THAT(refused([&] {
                  launch<k::who>(d, {{1, 1, 1}, {1025, 1, 1}}, {out});
                }),
                AllOf(HasSubstr("cuda0 ("), HasSubstr("'who'"), HasSubstr("can have 1024")));
    EXPECT_THAT(refused([&] {
                  launch<k::who>(d, {{1, 1, 1}, {32, 64, 1}}, {out});
                }),
                AllOf(HasSubstr("too large"), HasSubstr("1024 items"), HasSubstr("smaller groups")));
    EXPECT_THAT(refused([&] {
                  launch<k::who>(d, {{1, 70000, 1}, {1, 1, 1}}, {out});
                }),
                AllOf(HasSubstr("70000 groups in y"), HasSubstr("65535"), HasSubstr("let x be")));
    EXPECT_THAT(refused([&] {
                  launch<k::who>(d, {{1, 1, 1}, {0, 1, 1}}, {out});
                }),
                HasSubstr("groups of 0 items in x"));
    EXPECT_THAT(refused([&] { launch<k::who>(d, {}, {out, out}); }), HasSubstr("has 1 parameters, 2 arguments"));
    const double eight = 0;
    EXPECT_THAT(refused([&] {
                  launch<k::axpy>(d, {}, {by_value(eight), by_value(eight), out, out});
                }),
                AllOf(HasSubstr("parameter 1 has 4 bytes"), HasSubstr("8 bytes")));
    const int four = 0;
    EXPECT_THAT(refused([&] {
                  launch<k::axpy>(d, {}, {out, by_value(eight), out, out});
                }),
                HasSubstr("was given an object"));
    EXPECT_THAT(refused([&] {
                  launch<k::axpy>(d, {}, {by_value(four), by_value(eight), by_value(four), out});
                }),
                HasSubstr("parameter 3 has 8 bytes"));
    EXPECT_THAT(refused([&] { launch<k::nothing>(d, {}, {}, 2, std::size_t{1} << 30); }), HasSubstr("dynamic memory"));
    EXPECT_THAT(refused([&] { launch<k::nothing>(d, {}, {}, 7); }), HasSubstr("streams 0 to 6"));
    EXPECT_THAT(refused([&] { d.done(99); }), HasSubstr("no ticket 99"));
    EXPECT_THAT(refused([&] { d.copy(0, {.way = direction::to_device, .device = out.memory, .row_bytes = 1}); }),
                HasSubstr("there is no memory"));
  }
}

TEST_F(cuda, groups_may_have_more_dynamic_memory_than_usual) {
  cuda_device& d = open();
  for (const std::size_t bytes : {100u << 10, 50u << 10, 200u << 10}) wait(d, launch<k::nothing>(d, {}, {}, 2, bytes));
}

const source_block& broken_block() {
  static const std::string text = "one\nTERN_KERNELS_BEGIN(broken)\n\nTERN_KERNEL(wrong, TERN_GLOBAL int* p) {\n"
                                  "  p[0] = dxx;\n}\nTERN_KERNELS_END(broken)\n";
  static const source_block block{"broken", "/some/where/broken.hpp", text.data(), text.data() + text.size(), 2, 7};
  return block;
}

TEST_F(cuda, kernels_that_do_not_compile_are_shown) {
  cuda_device& d = open();
  const kernel_code wrong{"wrong", &broken_block, {0, 0, 0}, nullptr, nullptr};
  EXPECT_THAT(
      message_of(errc::invalid_data, [&] { d.launch(2, {.code = &wrong}); }),
      AllOf(HasSubstr("the kernels 'broken' (/some/where/broken.hpp) cannot be compiled for compute capability"),
            HasSubstr("/some/where/broken.hpp:5:"), HasSubstr("dxx"), HasSubstr("docs/concepts/kernels.md")));
  const kernel_code missing{"not_there", k::axpy.source, {0, 0, 0}, nullptr, nullptr};
  EXPECT_THAT(message_of(errc::device_failed, [&] { d.launch(2, {.code = &missing}); }),
              AllOf(HasSubstr("'not_there' in the kernels 'test_kernels'"), HasSubstr("CUDA_ERROR_NOT_FOUND")));
}

TEST_F(cuda, kernels_for_a_later_device_than_nvrtc_knows_become_ptx) {
  cuda_device& d = open("capability=123");
  wait(d, launch<k::nothing>(d, {}, {}));
}

TEST_F(cuda, what_was_compiled_is_kept) {
  const std::filesystem::path folder = testing::TempDir() + "tern-cuda-cache-" + std::to_string(::getpid());
  options opts = cuda_options();
  opts.set(hetero_cache, folder.string());
  const auto once = [&] {
    cuda_device& d = open("", opts);
    wait(d, launch<k::nothing>(d, {}, {}));
    wait(d, launch<k::axpy>(d, {{0, 1, 1}, {1, 1, 1}}, // of the same block
                            {by_value(1), by_value(1.0), argument{}, argument{}}));
    const std::pair found{d.programs().compiled(), d.programs().from_cache()};
    device_.reset();
    return found;
  };
  EXPECT_EQ(once(), std::pair(1, 0));
  EXPECT_EQ(once(), std::pair(0, 1));
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.is_regular_file()) std::ofstream(file.path(), std::ios::in | std::ios::binary).seekp(300) << "damage";
  EXPECT_EQ(once(), std::pair(1, 0));
  EXPECT_EQ(once(), std::pair(0, 1));
  std::filesystem::remove_all(folder);
}

TEST_F(cuda, kernels_in_cudas_own_languages) {
  cuda_device& d = open();
  static const cuda_source twice("twice", R"(
extern "C" __global__ void twice(int n, int* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = FACTOR * x[i];
}
)",
                                 "-DFACTOR=2");
  std::vector<int> x(100);
  std::iota(x.begin(), x.end(), 0);
  const int n = 100;
  {
    given on_x(d, x);
    const std::vector<argument> arguments{by_value(n), on_x.as_argument()};
    wait(d, d.launch(2, {.code = &twice, .shape = {{4, 1, 1}, {32, 1, 1}}, .arguments = arguments}));
    on_x.fetch();
  }
  for (int i = 0; i < n; ++i) EXPECT_EQ(x[static_cast<std::size_t>(i)], 2 * i);

  static const cuda_source wrong("wrong", "extern \"C\" __global__ void wrong(int* x) { x[0] = dxx; }");
  EXPECT_THAT(message_of(errc::invalid_data, [&] { d.launch(2, {.code = &wrong}); }),
              AllOf(HasSubstr("the CUDA source of 'wrong' cannot be compiled"), HasSubstr("dxx"),
                    HasSubstr("the text that cuda_source was given")));
  static const cuda_source mangled("mangled", "extern \"C\" __global__ void other() {}");
  EXPECT_THAT(message_of(errc::device_failed, [&] { d.launch(2, {.code = &mangled}); }),
              AllOf(HasSubstr("'mangled' in the CUDA source"), HasSubstr("extern \"C\" __global__ void")));

  // As PTX, and what is none.
  std::vector<std::string> notes;
  const auto nvrtc = nvrtc_api::open(std::vector<std::string>{TERN_MOCK_NVRTC}, notes);
  ASSERT_TRUE(nvrtc);
  const std::string ptx =
      compile_cuda(*nvrtc, {"extern \"C\" __global__ void fill(int* x) { x[threadIdx.x] = 42; }", "fill.cu", "it", ""},
                   {.compute_capability = 90})
          .code;
  const cuda_module fill("fill", std::as_bytes(std::span(ptx)));
  std::vector<int> y(8);
  {
    given on_y(d, y);
    const std::vector<argument> arguments{on_y.as_argument()};
    wait(d, d.launch(2, {.code = &fill, .shape = {{1, 1, 1}, {8, 1, 1}}, .arguments = arguments}));
    on_y.fetch();
  }
  EXPECT_EQ(y, std::vector<int>(8, 42));
  static const std::string nonsense = "this is no module";
  static const cuda_module none("none", std::as_bytes(std::span(nonsense)));
  EXPECT_THAT(message_of(errc::device_failed, [&] { d.launch(2, {.code = &none}); }),
              AllOf(HasSubstr("cannot load the CUDA module of 'none'"), HasSubstr("CUDA_ERROR_INVALID")));
}

// What goes wrong
// -------------------------------------------------------------------------------------------------------

TEST_F(cuda, a_kernel_that_goes_astray_takes_the_device_with_it) {
  cuda_device& d = open("fault-kernel=2,devices=2");
  std::vector<std::string> notes;
  auto all = open_cuda(cuda_options(), nullptr, notes);
  all[1]->open();
  const ticket first = launch<k::nothing>(d, {}, {});
  wait(d, first);
  const ticket astray = launch<k::nothing>(d, {}, {}), other = launch<k::nothing>(d, {}, {}, 3);
  const std::string text = message_of(errc::device_lost, [&] {
    wait(d, astray);
    wait(d, other); // whichever was the second
  });
  EXPECT_THAT(text, AllOf(HasSubstr("cuda0"), HasSubstr("run the kernel 'nothing'"),
                          HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), HasSubstr("--tern-hetero-devices")));
  for (const ticket t : {astray, other}) try {
      d.done(t);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::device_lost);
    }
  EXPECT_THAT(message_of(errc::device_lost, [&] { launch<k::nothing>(d, {}, {}); }), HasSubstr("ILLEGAL_ADDRESS"));
  EXPECT_THAT(message_of(errc::device_lost, [&] { d.allocate(100); }), HasSubstr("ILLEGAL_ADDRESS"));
  wait(*all[1], launch<k::nothing>(*all[1], {}, {})); // the other goes on
}

// What cannot be asked is never known to be over, whatever the reason.
TEST_F(cuda, an_event_or_a_stream_that_cannot_be_asked_loses_the_device) {
  mock_ = std::make_unique<mock_cuda>("delay=1ms");
  std::vector<std::string> notes;
  auto api = cuda_api::open(std::vector<std::string>{TERN_MOCK_CUDA}, notes).value();
  const auto nvrtc = nvrtc_api::open(std::vector<std::string>{TERN_MOCK_NVRTC}, notes).value();
  static auto ask = api.EventQuery;
  static auto ask_stream = api.StreamQuery;
  static bool fails = false;
  api.EventQuery = [](cu::event e) {
    constexpr cu::result captured_event = 907; // a function has left the stream recording
    return fails ? captured_event : ask(e);
  };
  api.StreamQuery = [](cu::stream s) {
    constexpr cu::result captured_stream = 900;
    return fails ? captured_stream : ask_stream(s);
  };
  ASSERT_EQ(api.Init(0), cu::success);
  for (const bool by_event : {true, false}) {
    fails = false;
    auto all = open_cuda(api, nvrtc, "", cuda_options(), nullptr, notes);
    ASSERT_EQ(all.size(), 1u);
    device& d = *all.front();
    d.open();
    const ticket first = launch<k::nothing>(d, {}, {}), second = launch<k::nothing>(d, {}, {});
    wait(d, first);
    wait(d, second);
    const ticket third = launch<k::nothing>(d, {}, {}), fourth = launch<k::nothing>(d, {}, {});
    if (by_event) d.mark(2);
    fails = true;
    const char* const why = by_event ? "(907)" : "(900)";
    EXPECT_THAT(message_of(errc::device_lost, [&] { d.done(third); }),
                AllOf(HasSubstr("cuda0"), HasSubstr("run the kernel 'nothing'"), HasSubstr(why)));
    EXPECT_THAT(message_of(errc::device_lost, [&] { d.done(fourth); }), HasSubstr(why));
    EXPECT_THAT(message_of(errc::device_lost, [&] { launch<k::nothing>(d, {}, {}); }), HasSubstr(why));
  }
}

TEST_F(cuda, what_fails_alone_leaves_the_device_alone) {
  cuda_device& d = open("fail-launch=1,fail-copy=1,fail-alloc=1");
  EXPECT_THAT(message_of(errc::device_failed, [&] { launch<k::nothing>(d, {}, {}); }),
              AllOf(HasSubstr("cannot launch the kernel 'nothing'"), HasSubstr("(701)"), HasSubstr("smaller groups")));
  EXPECT_EQ(d.allocate(200 << 20), nullptr);
  const memory_handle m = d.allocate(100);
  ASSERT_NE(m, nullptr);
  std::vector<std::byte> x(100);
  const copy_request to{.way = direction::to_device, .host = x.data(), .device = m, .row_bytes = 100};
  EXPECT_THAT(message_of(errc::out_of_memory, [&] { d.copy(0, to); }), HasSubstr("copy 100 bytes, 1 rows"));
  wait(d, d.copy(0, to));
  wait(d, launch<k::nothing>(d, {}, {}));
  d.free(m, 100);
}

} // namespace
} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
// OpenCL that is not there or not as it should be: what a driver does only when something is broken
// is done by functions put in its place. And the cache of compiled kernels, as devices use it.
#include "tests/hetero/support/opencl.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern::hetero::detail {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct temporary_folder {
  temporary_folder() {
    std::string name = (fs::temp_directory_path() / "tern-opencl-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~temporary_folder() { fs::remove_all(path); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  fs::path path;
};

// Discovery -----------------------------------------------------------------------------------------------------------

TEST(opencl_discovery, without_a_loader_there_is_a_note) {
  std::vector<std::string> notes;
  const char* const names[] = {"libnotthere.so", "libneitherthere.so"};
  EXPECT_FALSE(opencl_api::open(names, notes));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], AllOf(HasSubstr("libnotthere.so"), HasSubstr("libneitherthere.so"),
                              HasSubstr("install ocl-icd-libopencl1"), HasSubstr("pocl-opencl-icd")));
}

TEST(opencl_discovery, a_library_that_lacks_functions_is_named) {
  std::vector<std::string> notes;
  const char* const names[] = {"libm.so.6"};
  EXPECT_FALSE(opencl_api::open(names, notes));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], AllOf(HasSubstr("libm.so.6 lacks clGetPlatformIDs, "), HasSubstr("install")));
}

TEST(opencl_discovery, errors_have_names) {
  EXPECT_EQ(cl::text_of(-5), "CL_OUT_OF_RESOURCES (-5)");
  EXPECT_EQ(cl::text_of(-7777), "CL error -7777");
}

// A driver's functions, some of them in the hands of a test.
class opencl_faults : public testing::Test {
protected:
  void SetUp() override {
    std::vector<std::string> notes;
    const auto found = opencl_api::open(opencl_api::usual_libraries(), notes);
    if (!found || !first_device(options_for("buffers"))) GTEST_SKIP() << "no OpenCL device";
    real = *found;
    api = real;
    status = cl::success;
    calls = 0;
  }
  std::vector<std::string> notes_of(const opencl_api& with, std::size_t devices = 0) {
    std::vector<std::string> notes;
    EXPECT_EQ(open_opencl(with, options_for("buffers"), false, notes).size(), devices);
    return notes;
  }
  opencl_api api;
  // Functions of C have no other way to know.
  static inline opencl_api real;
  static inline cl::status status;
  static inline int calls;
};

TEST_F(opencl_faults, no_drivers) {
  api.GetPlatformIDs = [](cl::uint, cl::platform_id*, cl::uint*) -> cl::status { return cl::platform_not_found; };
  EXPECT_THAT(notes_of(api), testing::ElementsAre(HasSubstr("knows no driver")));
  api.GetPlatformIDs = [](cl::uint, cl::platform_id*, cl::uint*) -> cl::status { return cl::out_of_host_memory; };
  EXPECT_THAT(notes_of(api), testing::ElementsAre(HasSubstr("CL_OUT_OF_HOST_MEMORY (-6)")));
}

TEST_F(opencl_faults, drivers_without_devices) {
  api.GetDeviceIDs = [](cl::platform_id, cl::bits, cl::uint, cl::device_id*, cl::uint*) -> cl::status {
    return cl::device_not_found;
  };
  EXPECT_THAT(notes_of(api).at(0), HasSubstr("has no devices"));
}

TEST_F(opencl_faults, devices_that_cannot_be_used) {
  api.GetDeviceInfo = [](cl::device_id d, cl::uint what, std::size_t n, void* to, std::size_t* needs) -> cl::status {
    if (what == cl::device_compiler_available) return std::memset(to, 0, n), cl::success;
    return real.GetDeviceInfo(d, what, n, to, needs);
  };
  EXPECT_THAT(notes_of(api).at(0), HasSubstr("has no compiler"));
  api = real;
  api.CreateContext = [](const std::intptr_t*, cl::uint, const cl::device_id*,
                         void (*)(const char*, const void*, std::size_t, void*), void*,
                         cl::status* s) -> cl::context { return *s = cl::device_not_available, nullptr; };
  EXPECT_THAT(notes_of(api).at(0), HasSubstr("CL_DEVICE_NOT_AVAILABLE"));
  api = real;
  api.CreateCommandQueue = [](cl::context c, cl::device_id d, cl::bits b, cl::status* s) -> cl::queue {
    if (++calls % 3 == 0) return *s = cl::out_of_host_memory, nullptr;
    return real.CreateCommandQueue(c, d, b, s);
  };
  EXPECT_THAT(notes_of(api).at(0), AllOf(HasSubstr("make a queue"), HasSubstr("CL_OUT_OF_HOST_MEMORY")));
}

TEST_F(opencl_faults, memory_that_the_driver_does_not_have) {
  api.CreateBuffer = [](cl::context, cl::bits, std::size_t, void*, cl::status* s) -> cl::memory {
    return *s = status, nullptr;
  };
  const auto d = first_device(options_for("buffers"), &api);
  for (const cl::status s : {cl::mem_object_allocation_failure, cl::out_of_resources, cl::out_of_host_memory}) {
    status = s;
    EXPECT_EQ(d->allocate(100), nullptr);
  }
  status = -34;
  EXPECT_THAT(message_of(errc::device_failed, [&] { d->allocate(100); }),
              AllOf(HasSubstr("allocate 100 bytes"), HasSubstr("CL_INVALID_CONTEXT (-34)")));
}

TEST_F(opencl_faults, kernels_that_fail_are_named_by_their_tickets) {
  api.GetEventInfo = [](cl::event e, cl::uint what, std::size_t n, void* to, std::size_t* needs) -> cl::status {
    if (status == cl::success) return real.GetEventInfo(e, what, n, to, needs);
    return std::memcpy(to, &status, sizeof status), cl::success;
  };
  const auto d = first_device(options_for("auto"), &api);
  const ticket one = launch<k::nothing>(*d, {}, {}), two = launch<k::nothing>(*d, {}, {});
  status = cl::queued;
  EXPECT_FALSE(d->done(one));
  status = -9999;
  EXPECT_THAT(message_of(errc::device_failed, [&] { d->done(one); }),
              AllOf(HasSubstr("cannot run the kernel 'nothing': CL error -9999")));
  EXPECT_TRUE(d->done(one)); // forgotten
  d->order(3, two);          // says nothing
  status = cl::success;
  wait(*d, two);
  EXPECT_EQ(d->open_tickets(), 0u);
}

TEST_F(opencl_faults, what_is_not_done_is_waited_for_in_the_stream) {
  api.GetEventInfo = [](cl::event e, cl::uint what, std::size_t n, void* to, std::size_t* needs) -> cl::status {
    if (status == cl::success) return real.GetEventInfo(e, what, n, to, needs);
    return std::memcpy(to, &status, sizeof status), cl::success;
  };
  api.EnqueueBarrierWithWaitList = [](cl::queue q, cl::uint n, const cl::event* e, cl::event* made) -> cl::status {
    ++calls;
    return real.EnqueueBarrierWithWaitList(q, n, e, made);
  };
  const auto d = first_device(options_for("auto"), &api);
  const ticket one = launch<k::nothing>(*d, {}, {});
  status = cl::queued;
  d->order(3, one);
  EXPECT_EQ(calls, 1);
  const ticket two = launch<k::nothing>(*d, {}, {}, 3);
  status = cl::success;
  wait(*d, one);
  wait(*d, two);
}

TEST_F(opencl_faults, what_is_launched_behind_others_waits_for_them_and_fails_with_them) {
  api.GetEventInfo = [](cl::event e, cl::uint what, std::size_t n, void* to, std::size_t* needs) -> cl::status {
    if (status == cl::success) return real.GetEventInfo(e, what, n, to, needs);
    return std::memcpy(to, &status, sizeof status), cl::success;
  };
  api.EnqueueNDRangeKernel = [](cl::queue q, cl::kernel kernel, cl::uint dimensions, const std::size_t* offset,
                                const std::size_t* items, const std::size_t* local, cl::uint n, const cl::event* e,
                                cl::event* made) -> cl::status {
    calls = static_cast<int>(n);
    return real.EnqueueNDRangeKernel(q, kernel, dimensions, offset, items, local, n, e, made);
  };
  const auto d = first_device(options_for("auto"), &api);
  const kernel_code& nothing = code_of<k::nothing>();
  const auto behind = [&](const std::vector<ticket>& all) {
    launch_request what{.code = &nothing};
    what.after = all;
    return d->launch(3, what);
  };
  const ticket one = launch<k::nothing>(*d, {}, {}), two = launch<k::nothing>(*d, {}, {});
  EXPECT_EQ(calls, 0);
  status = cl::queued;
  const ticket waits = behind({one, two});
  EXPECT_EQ(calls, 2);
  status = -9999; // it is known already that one before it has failed
  const ticket late = behind({one});
  status = cl::failed_before;
  EXPECT_THROW(d->done(waits), predecessor_failed);
  status = cl::success;
  wait(*d, one);
  wait(*d, two);
  EXPECT_THROW(wait(*d, late), predecessor_failed);
  calls = -1;
  wait(*d, behind({one, two, waits, late})); // they are over
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(d->open_tickets(), 0u);
}

TEST_F(opencl_faults, copies_home_wait_in_a_queue_of_their_own) {
  api.GetEventInfo = [](cl::event e, cl::uint what, std::size_t n, void* to, std::size_t* needs) -> cl::status {
    if (status == cl::success) return real.GetEventInfo(e, what, n, to, needs);
    return std::memcpy(to, &status, sizeof status), cl::success;
  };
  api.EnqueueBarrierWithWaitList = [](cl::queue q, cl::uint n, const cl::event* e, cl::event* made) -> cl::status {
    ++calls;
    return real.EnqueueBarrierWithWaitList(q, n, e, made);
  };
  const auto d = first_device(options_for("buffers"), &api);
  const memory_handle m = d->allocate(8);
  std::uint64_t seen = 1;
  copy_request home;
  home.way = direction::from_device;
  home.host = reinterpret_cast<std::byte*>(&seen);
  home.device = m;
  home.row_bytes = sizeof seen;
  const int waiting = d->waiting_stream();
  EXPECT_EQ(waiting, d->streams());
  const ticket kernel = launch<k::nothing>(*d, {}, {});
  status = cl::queued;
  d->order(waiting, kernel);
  EXPECT_EQ(calls, 1);
  const ticket copy = d->copy(waiting, home);
  EXPECT_FALSE(d->done(copy));
  status = cl::failed_before; // as drivers may say, where the kernel has failed
  EXPECT_THROW(d->done(copy), predecessor_failed);
  status = cl::success;
  wait(*d, kernel);
  home.way = direction::to_device;
  EXPECT_THAT(message_of(errc::invalid_argument, [&] { d->copy(waiting, home); }), HasSubstr("has the streams 0 to"));
  d->free(m, 8);
  EXPECT_EQ(d->open_tickets(), 0u);
}

TEST_F(opencl_faults, a_lost_device_says_so_from_then_on) {
  api.GetEventInfo = [](cl::event e, cl::uint what, std::size_t n, void* to, std::size_t* needs) -> cl::status {
    if (status == cl::success) return real.GetEventInfo(e, what, n, to, needs);
    return std::memcpy(to, &status, sizeof status), cl::success;
  };
  for (const cl::status lost : {cl::out_of_resources, cl::device_not_available}) {
    status = cl::success;
    const auto d = first_device(options_for("buffers"), &api);
    const ticket one = launch<k::nothing>(*d, {}, {}), two = launch<k::nothing>(*d, {}, {});
    status = lost;
    const auto expect_lost = [&](const std::function<void()>& body) {
      EXPECT_THAT(message_of(errc::device_lost, body),
                  AllOf(HasSubstr("opencl0"), HasSubstr("'nothing'"), HasSubstr("--tern-hetero-devices")));
    };
    expect_lost([&] { d->done(one); });
    status = cl::success;
    expect_lost([&] { d->done(two); });
    expect_lost([&] { launch<k::nothing>(*d, {}, {}); });
    expect_lost([&] { d->order(2, one); });
    expect_lost([&] { d->allocate(1); });
    expect_lost([&] { d->copy(0, {}); });
    EXPECT_EQ(d->open_tickets(), 0u);
  }
  // When a kernel is launched the same words mean that it needs too much.
  api.EnqueueNDRangeKernel = [](cl::queue, cl::kernel, cl::uint, const std::size_t*, const std::size_t*,
                                const std::size_t*, cl::uint, const cl::event*,
                                cl::event*) -> cl::status { return cl::out_of_resources; };
  const auto d = first_device(options_for("auto"), &api);
  EXPECT_THAT(message_of(errc::device_failed, [&] { launch<k::nothing>(*d, {}, {}); }), HasSubstr("smaller groups"));
}

TEST_F(opencl_faults, a_copy_that_breaks_off_leaves_nothing_under_way) {
  api.EnqueueWriteBuffer = [](cl::queue q, cl::memory m, cl::uint b, std::size_t o, std::size_t n, const void* p,
                              cl::uint w, const cl::event* l, cl::event* e) -> cl::status {
    return ++calls > 3 ? -5 : real.EnqueueWriteBuffer(q, m, b, o, n, p, w, l, e);
  };
  const auto d = first_device(options_for("buffers"), &api);
  std::vector<std::byte> host(1000);
  const memory_handle m = d->allocate(1000);
  copy_request c{.way = direction::to_device,
                 .host = host.data(),
                 .host_pitch = 5,
                 .device = m,
                 .pitch = 20,
                 .row_bytes = 10,
                 .rows = 20};
  EXPECT_THAT(message_of(errc::device_failed, [&] { d->copy(0, c); }), HasSubstr("CL_OUT_OF_RESOURCES"));
  EXPECT_EQ(d->open_tickets(), 0u);
  d->free(m, 1000);
}

// No driver of the tests' machines takes SPIR-V: the text of a program stands for a module here.
TEST_F(opencl_faults, modules_of_spirv_are_handed_on) {
  static constexpr char module[] =
      "kernel void count(global int* p) { p[get_global_id(0)] = get_global_id(0) + FIRST; }";
  const kernel_code count{"count", nullptr, {0, 0, 0}, nullptr, nullptr, code_form::spirv, module, "-DFIRST=5"};
  const auto run = [&](device& d) {
    std::vector<int> out(8);
    {
      given on_out(d, out);
      const argument to = on_out.as_argument();
      wait(d, d.launch(2, {&count, {{2, 1, 1}, {4, 1, 1}}, 0, {&to, 1}}));
      on_out.fetch();
    }
    return out[7];
  };
  api.CreateProgramWithIL = [](cl::context c, const void* il, std::size_t bytes, cl::status* s) -> cl::program {
    ++calls;
    const char* text = static_cast<const char*>(il);
    return real.CreateProgramWithSource(c, 1, &text, &bytes, s);
  };
  api.GetDeviceInfo = [](cl::device_id d, cl::uint what, std::size_t n, void* to, std::size_t* needs) -> cl::status {
    static constexpr char takes[] = "SPIR-V_1.0 SPIR-V_1.2";
    if (what != cl::device_il_version) return real.GetDeviceInfo(d, what, n, to, needs);
    if (needs) *needs = sizeof takes;
    if (to) std::memcpy(to, takes, std::min(n, sizeof takes));
    return cl::success;
  };
  const auto d = first_device(options_for("buffers"), &api);
  EXPECT_EQ(run(*d), 12);
  EXPECT_EQ(run(*d), 12);
  EXPECT_EQ(calls, 1);
  api.CreateProgramWithIL = [](cl::context, const void*, std::size_t, cl::status* s) -> cl::program {
    return *s = -30, nullptr;
  };
  EXPECT_THAT(message_of(errc::device_failed, [&] { run(*first_device(options_for("buffers"), &api)); }),
              AllOf(HasSubstr("take the SPIR-V module of 'count'"), HasSubstr("CL_INVALID_VALUE (-30)")));
  api.CreateProgramWithIL = nullptr; // a loader before OpenCL 2.1
  EXPECT_THAT(message_of(errc::unsupported, [&] { run(*first_device(options_for("buffers"), &api)); }),
              AllOf(HasSubstr("takes no SPIR-V, as the SPIR-V module of 'count' is"), HasSubstr("opencl_source")));
}

// The cache -----------------------------------------------------------------------------------------------------------

const source_block& small_block() {
  static const std::string text = "TERN_KERNELS_BEGIN(small)\nTERN_KERNEL(count, TERN_GLOBAL int* p) {\n"
                                  "  TERN_REGION { p[item.x] = item.x; };\n}\nTERN_KERNEL(other) {}\n"
                                  "TERN_KERNELS_END(small)\n";
  static const source_block block{"small", "small.hpp", text.data(), text.data() + text.size(), 1, 6};
  return block;
}

class opencl_cache : public opencl_faults {
protected:
  void SetUp() override {
    opencl_faults::SetUp();
    real.GetPlatformInfo = &another_driver;
    api = real;
  }
  // PoCL by another name: it has a cache of its own, so ours leaves it alone.
  static cl::status another_driver(cl::platform_id p, cl::uint what, std::size_t n, void* to, std::size_t* needs) {
    static constexpr char name[] = "a driver without a cache";
    static const auto get = opencl_api::open(opencl_api::usual_libraries(), unread)->GetPlatformInfo;
    if (what != cl::platform_name) return get(p, what, n, to, needs);
    if (needs) *needs = sizeof name;
    if (to) std::memcpy(to, name, std::min(n, sizeof name));
    return cl::success;
  }
  static inline std::vector<std::string> unread;

  // Runs kernels of one block. \return how many blocks were compiled, and how many found.
  std::pair<int, int> run(const std::string& where) {
    const auto d = first_device(options_for("buffers", where), &api);
    std::vector<int> out(8);
    {
      given on_out(*d, out);
      const kernel_code count{"count", &small_block, {0, 0, 0}, nullptr, nullptr};
      const kernel_code other{"other", &small_block, {0, 0, 0}, nullptr, nullptr};
      const argument to = on_out.as_argument();
      wait(*d, d->launch(2, {&count, {{2, 1, 1}, {4, 1, 1}}, 0, {&to, 1}}));
      wait(*d, d->launch(2, {.code = &other}));
      on_out.fetch();
    }
    EXPECT_EQ(out[7], 7);
    return {d->programs().compiled(), d->programs().from_cache()};
  }
  const std::pair<int, int> compiled{1, 0}, found{0, 1};
  temporary_folder folder;
  const std::string cache = (folder.path / "kernels").string();
};

TEST_F(opencl_cache, is_used_by_the_next_program) {
  EXPECT_EQ(run(cache), compiled);
  EXPECT_EQ(run(cache), found);
  EXPECT_EQ(run("off"), compiled);
}

TEST_F(opencl_cache, a_damaged_entry_is_made_again) {
  EXPECT_EQ(run(cache), compiled);
  const auto entry = fs::directory_iterator(cache)->path();
  std::fstream(entry, std::ios::binary | std::ios::in | std::ios::out).seekp(-100, std::ios::end) << "damage";
  EXPECT_EQ(run(cache), compiled);
  EXPECT_EQ(run(cache), found);
  fs::resize_file(entry, 1000);
  EXPECT_EQ(run(cache), compiled);
}

TEST_F(opencl_cache, a_binary_that_the_driver_refuses_is_made_again) {
  EXPECT_EQ(run(cache), compiled);
  api.CreateProgramWithBinary = [](cl::context, cl::uint, const cl::device_id*, const std::size_t*,
                                   const unsigned char**, cl::status*,
                                   cl::status* s) -> cl::program { return *s = -42, nullptr; };
  EXPECT_EQ(run(cache), compiled);
  api = real;
  EXPECT_EQ(run(cache), found);
}

TEST_F(opencl_cache, a_folder_that_cannot_be_written_is_harmless) { EXPECT_EQ(run("/proc/nowhere/tern"), compiled); }

} // namespace
} // namespace tern::hetero::detail

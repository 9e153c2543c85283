// SPDX-License-Identifier: Apache-2.0
// Kernels become PTX by NVRTC: how it is found and asked, what is kept and what goes wrong, with a
// library of the tests' in its place; and that all kernels of the tree compile, where NVRTC is.
#include <tern/hetero/device/cuda/nvrtc.hpp>

#include <array>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include "tests/hetero/support/blocks.hpp"
#include "tests/hetero/support/nvrtc_stub.hpp"
#include "tests/hetero/support/words.hpp"
#include <tern/base/error.hpp>
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::hetero::detail {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct temporary_folder {
  temporary_folder() {
    std::string name = (fs::temp_directory_path() / "tern-nvrtc-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~temporary_folder() { fs::remove_all(path); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  fs::path path;
};

std::string message_of(errc code, const std::function<void()>& body) {
  try {
    body();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message() + " | " + e.hint();
  }
  return "nothing was thrown";
}

std::optional<nvrtc_api> opened(const std::vector<std::string>& libraries, std::string* why_not = nullptr) {
  std::vector<std::string> notes;
  auto api = nvrtc_api::open(libraries, notes);
  EXPECT_EQ(notes.size(), api ? 0u : 1u);
  if (why_not && !notes.empty()) *why_not = notes[0];
  return api;
}

const source_block& block_of(const char* name, std::string text) {
  static std::deque<std::pair<std::string, source_block>> all; // they stay where they are
  auto& [kept, block] = all.emplace_back(std::move(text), source_block{});
  block = {name, "/some/where/broken.hpp", kept.data(), kept.data() + kept.size(), 2, 7};
  return block;
}
const source_block& broken_block() {
  static const source_block& block = block_of("broken", "\nTERN_KERNELS_BEGIN(broken)\n\n"
                                                        "TERN_KERNEL(wrong, TERN_GLOBAL int* p) {\n"
                                                        "  p[0] = dxx;\n}\nTERN_KERNELS_END(broken)\n");
  return block;
}
const source_block& right_block() { return words::with_tables.source(); }

// Discovery -----------------------------------------------------------------------------------------------------------

TEST(nvrtc_discovery, without_the_library_there_is_a_note) {
  std::string why;
  EXPECT_FALSE(opened({"libnotthere.so", "libneitherthere.so"}, &why));
  EXPECT_THAT(why, AllOf(HasSubstr("libnotthere.so"), HasSubstr("libneitherthere.so"), HasSubstr("CUDA_HOME")));
}

TEST(nvrtc_discovery, a_library_that_lacks_functions_is_named) {
  std::string why;
  EXPECT_FALSE(opened({"libm.so.6"}, &why));
  EXPECT_THAT(why, AllOf(HasSubstr("libm.so.6 lacks nvrtcVersion, "), HasSubstr("nvrtcGetErrorString"),
                         Not(HasSubstr("nvrtcGetCUBIN")), HasSubstr("install")));
}

TEST(nvrtc_discovery, the_first_that_can_be_used_is_taken) {
  const auto api = opened({"libnotthere.so", "libm.so.6", TERN_NVRTC_STUB, TERN_NVRTC_OLD_STUB});
  ASSERT_TRUE(api);
  EXPECT_EQ(api->version(), "12.6");
  EXPECT_THAT(api->architectures, ElementsAre(75, 90, 100));
  const auto best = [&](int capability) {
    const cuda_code c = best_code(*api, capability);
    return std::pair(c.compute_capability, c.cubin);
  };
  EXPECT_EQ(best(90), std::pair(90, true));
  EXPECT_EQ(best(89), std::pair(75, false)); // the driver makes code of PTX
  EXPECT_EQ(best(120), std::pair(100, false));
  EXPECT_EQ(best(70).first, 0);
}

TEST(nvrtc_discovery, is_one_whose_code_the_driver_loads_on_the_devices_that_there_are) {
  const std::vector<std::string> both{TERN_NVRTC_STUB, TERN_NVRTC_OLD_STUB}; // 12.6 from 7.5 on, and 11.0
  std::vector<std::string> notes;
  const auto version = [&](const nvrtc_users& users) {
    const auto found = nvrtc_api::open(both, notes, users);
    return found ? found->version() : "none";
  };
  EXPECT_EQ(version({.driver = 12000, .capabilities = {75, 90}}), "12.6");
  EXPECT_EQ(version({.driver = 13000, .capabilities = {90}}), "12.6");
  EXPECT_EQ(version({.driver = 11080, .capabilities = {90}}), "11.0");
  EXPECT_EQ(version({.driver = 12000, .capabilities = {60}}), "11.0"); // says nothing of what it can
  EXPECT_THAT(notes, testing::IsEmpty());
  EXPECT_EQ(version({.driver = 10020, .capabilities = {75}}), "none");
  EXPECT_THAT(notes.at(0), AllOf(HasSubstr("is of CUDA 12.6, whose code this driver, for CUDA 10.2, does not load"),
                                 HasSubstr("is of CUDA 11.0"), HasSubstr("install")));
  notes.clear();
  EXPECT_FALSE(
      nvrtc_api::open(std::vector<std::string>{TERN_NVRTC_STUB}, notes, {.driver = 12000, .capabilities = {60}}));
  EXPECT_THAT(notes.at(0), HasSubstr("does not compile for so old devices"));
  EXPECT_TRUE(
      nvrtc_api::open(std::vector<std::string>{TERN_NVRTC_STUB}, notes, {.driver = 12000, .capabilities = {60, 90}}));
}

TEST(nvrtc_discovery, is_told_by_the_environment_where_cuda_is) {
  const temporary_folder home, path;
  for (const fs::path& folder : {home.path, path.path}) fs::create_directory(folder / "lib64");
  const auto put = [](const fs::path& file) {
    std::ofstream(file) << "not a library";
    return file.string();
  };
  const std::string in_home = put(home.path / "lib64/libnvrtc.so.12"), in_path = put(path.path / "lib64/libnvrtc.so");
  const char* const before[] = {std::getenv("CUDA_HOME"), std::getenv("CUDA_PATH")};
  const std::string kept[] = {before[0] ? before[0] : "", before[1] ? before[1] : ""};
  ::setenv("CUDA_HOME", home.path.c_str(), 1);
  ::setenv("CUDA_PATH", path.path.c_str(), 1);
  auto all = nvrtc_api::usual_libraries();
  ASSERT_GE(all.size(), 6u);
  all.resize(6); // then those of the machine
  EXPECT_THAT(all,
              ElementsAre("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", in_home, in_path));
  for (const int i : {0, 1}) {
    const char* const name = i ? "CUDA_PATH" : "CUDA_HOME";
    if (before[i])
      ::setenv(name, kept[i].c_str(), 1);
    else
      ::unsetenv(name);
  }
}

// What it is asked for ------------------------------------------------------------------------------------------------

class nvrtc_compiler : public testing::Test {
protected:
  void SetUp() override { use(TERN_NVRTC_STUB); }
  void TearDown() override { EXPECT_EQ(stub->alive, 0); }
  void use(const char* library) {
    const auto found = opened({library});
    ASSERT_TRUE(found);
    api = *found;
    void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_TRUE(handle);
    stub = reinterpret_cast<nvrtc_stub_function*>(dlsym(handle, "tern_nvrtc_stub"))();
    *stub = {};
    dlclose(handle); // it stays open
  }
  std::string refused(errc code, cuda_code target, const std::vector<std::string>& more = {}) {
    return message_of(code, [&] { compile_cuda(api, text_for_cuda(right_block()), target, {}, more); });
  }
  nvrtc_api api;
  nvrtc_stub_state* stub = nullptr;
  temporary_folder folder;
  const kernel_cache cache{folder.path / "kernels"};
};

TEST_F(nvrtc_compiler, gets_the_definitions_and_the_block) {
  const std::vector<std::string> more{"--fmad=false"};
  const cuda_program made = compile_cuda(api, text_for_cuda(right_block()), {.compute_capability = 90}, {}, more);
  EXPECT_EQ(made.code, "// PTX for --gpu-architecture=compute_90"); // without the null
  EXPECT_FALSE(made.from_cache);
  EXPECT_EQ(stub->source, device_source(right_block(), language::cuda));
  EXPECT_EQ(stub->name, "words");
  EXPECT_THAT(stub->options, ElementsAre("--gpu-architecture=compute_90", "--std=c++17",
                                         "--device-as-default-execution-space", "--fmad=false"));
}

TEST_F(nvrtc_compiler, makes_machine_code_too) {
  const cuda_program made = compile_cuda(api, text_for_cuda(right_block()), {.compute_capability = 100, .cubin = true});
  EXPECT_EQ(made.code, std::string("\x7f\0ELF\0", 6));
  EXPECT_EQ(stub->options.at(0), "--gpu-architecture=sm_100");
}

TEST_F(nvrtc_compiler, is_not_asked_twice) {
  const auto from_cache = [&](cuda_code target, const std::vector<std::string>& more = {}) {
    return compile_cuda(api, text_for_cuda(right_block()), target, cache, more).from_cache;
  };
  const cuda_code ptx{.compute_capability = 90}, cubin{.compute_capability = 90, .cubin = true};
  EXPECT_FALSE(from_cache(ptx));
  EXPECT_TRUE(from_cache(ptx));
  EXPECT_FALSE(from_cache(cubin));
  EXPECT_FALSE(from_cache({.compute_capability = 75}));
  EXPECT_FALSE(from_cache(ptx, {"--fmad=false"}));
  EXPECT_EQ(stub->compiled, 4);
  const cuda_program kept = compile_cuda(api, text_for_cuda(right_block()), cubin, cache);
  EXPECT_TRUE(kept.from_cache);
  EXPECT_EQ(kept.code, std::string("\x7f\0ELF\0", 6));
  EXPECT_EQ(stub->compiled, 4);

  ++api.minor; // another version may make other code
  EXPECT_FALSE(from_cache(ptx));
  EXPECT_TRUE(from_cache(ptx));
  cache.remove(compile_cuda(api, text_for_cuda(right_block()), ptx, cache).key); // a driver refused it
  EXPECT_FALSE(from_cache(ptx));
}

TEST_F(nvrtc_compiler, kernels_that_do_not_compile_are_shown) {
  EXPECT_THAT(
      message_of(errc::invalid_data,
                 [&] { compile_cuda(api, text_for_cuda(broken_block()), {.compute_capability = 75}, cache); }),
      AllOf(StartsWith(
                "the kernels 'broken' (/some/where/broken.hpp) cannot be compiled for compute capability 7.5 (NVRTC "
                "12.6):\n/some/where/broken.hpp(5): error: identifier \"dxx\" is undefined | "),
            HasSubstr("docs/concepts/kernels.md")));
  EXPECT_FALSE(fs::exists(cache.folder()));
}

TEST_F(nvrtc_compiler, refuses_what_it_cannot_do) {
  EXPECT_THAT(refused(errc::unsupported, {.compute_capability = 50}),
              AllOf(HasSubstr("NVRTC 12.6 does not compile for compute capability 5.0"), HasSubstr("7.5, 9.0, 10.0:")));
  EXPECT_EQ(stub->compiled, 0);
  EXPECT_THAT(refused(errc::invalid_argument, {.compute_capability = 75}, {"--nonsense"}),
              HasSubstr("unrecognized option --nonsense"));
}

TEST_F(nvrtc_compiler, may_be_old) {
  use(TERN_NVRTC_OLD_STUB);
  EXPECT_THAT(api.architectures, ElementsAre());
  EXPECT_THAT(refused(errc::unsupported, {.compute_capability = 75, .cubin = true}),
              AllOf(HasSubstr("NVRTC 11.0 makes no machine code"), HasSubstr("11.1 or later")));
  EXPECT_THAT(compile_cuda(api, text_for_cuda(right_block()), {.compute_capability = 50}).code,
              HasSubstr("compute_50"));
}

TEST_F(nvrtc_compiler, what_goes_wrong_in_it_is_told) {
  const cuda_code target{.compute_capability = 75};
  const nvrtc_api whole = api;
  api.CreateProgram = [](nvrtc::program*, const char*, const char*, int, const char* const*,
                         const char* const*) -> nvrtc::result { return nvrtc::out_of_memory; };
  EXPECT_THAT(refused(errc::out_of_memory, target),
              HasSubstr("cannot take the kernels 'words' (" + std::string(right_block().file)));
  api = whole;
  api.CompileProgram = [](nvrtc::program, int, const char* const*) -> nvrtc::result { return 7; };
  EXPECT_THAT(refused(errc::device_failed, target),
              AllOf(HasSubstr("cannot compile the kernels 'words'"), HasSubstr("NVRTC_ERROR_OF_THE_STUB (7)"),
                    HasSubstr("does not say why"), HasSubstr("libnvrtc-builtins")));
  api = whole;
  api.GetPTX = [](nvrtc::program, char*) -> nvrtc::result { return 4; };
  EXPECT_THAT(refused(errc::device_failed, target), HasSubstr("cannot get what was compiled of"));
  api.GetPTXSize = [](nvrtc::program, std::size_t* size) -> nvrtc::result { return *size = 0, nvrtc::success; };
  EXPECT_THAT(refused(errc::device_failed, target), HasSubstr("NVRTC made nothing of"));
  api = whole;
  api.GetProgramLogSize = [](nvrtc::program, std::size_t*) -> nvrtc::result { return 4; };
  EXPECT_THAT(message_of(errc::invalid_data, [&] { compile_cuda(api, text_for_cuda(broken_block()), target); }),
              HasSubstr("does not say why"));
}

// NVRTC itself --------------------------------------------------------------------------------------------------------

class nvrtc_library : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    const auto found = opened(nvrtc_api::usual_libraries(), &why);
    if (!found) GTEST_SKIP() << why;
    api = *found;
  }
  cuda_code oldest() const { return {.compute_capability = api.architectures.empty() ? 75 : api.architectures[0]}; }
  nvrtc_api api;
};

std::vector<block_in_file> all_blocks() {
  std::vector<block_in_file> all;
  std::istringstream files{TERN_KERNEL_FILES};
  for (std::string file; std::getline(files, file, ':');)
    for (block_in_file& block : blocks_in(file)) all.push_back(std::move(block));
  return all;
}

class nvrtc_kernels : public nvrtc_library, public testing::WithParamInterface<block_in_file> {};
INSTANTIATE_TEST_SUITE_P(of, nvrtc_kernels, testing::ValuesIn(all_blocks()),
                         [](const auto& one) { return one.param.name; });

TEST_P(nvrtc_kernels, become_ptx) {
  EXPECT_THAT(GetParam().kernels, Not(testing::IsEmpty()));
  for (const bool fused : {false, true}) {
    const std::string ptx = compile_cuda(api, text_for_cuda(GetParam().as_source(), fused), oldest()).code;
    for (const std::string& kernel : GetParam().kernels)
      EXPECT_THAT(ptx, HasSubstr(std::string(".entry tern_") + (fused ? "fused_" : "kernel_") + kernel + "("));
  }
}

TEST_F(nvrtc_library, names_the_users_file_and_line) {
  EXPECT_THAT(message_of(errc::invalid_data, [&] { compile_cuda(api, text_for_cuda(broken_block()), oldest()); }),
              AllOf(HasSubstr("/some/where/broken.hpp(5)"), HasSubstr("dxx"), Not(HasSubstr("fetch_add"))));
  EXPECT_THAT(message_of(errc::invalid_argument,
                         [&] {
                           const std::vector<std::string> more{"--nonsense"};
                           compile_cuda(api, text_for_cuda(right_block()), oldest(), {}, more);
                         }),
              HasSubstr("--nonsense"));
}

// A function without TERN_FN, and quickly compiled.
const source_block& plain_block() {
  static const source_block& block =
      block_of("plain", "\nTERN_KERNELS_BEGIN(plain)\nstatic int next(int i) { return i + 1; }\n"
                        "TERN_KERNEL(right, TERN_GLOBAL int* p) {\n"
                        "  TERN_REGION { p[item.x] = next(item.x); };\n}\n"
                        "TERN_KERNELS_END(plain)\n");
  return block;
}

TEST_F(nvrtc_library, takes_functions_without_a_word_of_the_dialects) {
  EXPECT_THAT(compile_cuda(api, text_for_cuda(plain_block()), oldest()).code, HasSubstr(".entry tern_kernel_right("));
}

TEST_F(nvrtc_library, makes_machine_code) {
  cuda_code target = oldest();
  target.cubin = true;
  if (!api.GetCUBIN) GTEST_SKIP() << "NVRTC " << api.version() << " makes none";
  EXPECT_THAT(compile_cuda(api, text_for_cuda(plain_block()), target).code, StartsWith("\177ELF"));
}

TEST_F(nvrtc_library, is_used_by_several_threads_and_leaves_signals_alone) {
  const auto handlers = [] {
    std::array<void (*)(int), 32> all{};
    for (int s = 1; s < 32; ++s) {
      struct sigaction now {};
      if (::sigaction(s, nullptr, &now) == 0) all[static_cast<std::size_t>(s)] = now.sa_handler;
    }
    return all;
  };
  const auto before = handlers();
  std::array<std::string, 3> made;
  std::vector<std::thread> threads;
  for (std::string& one : made)
    threads.emplace_back([&] { one = compile_cuda(api, text_for_cuda(plain_block()), oldest()).code; });
  for (std::thread& one : threads) one.join();
  EXPECT_THAT(made[0], HasSubstr(".entry tern_kernel_right("));
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(made[0], made[2]);
  EXPECT_EQ(handlers(), before);
}

} // namespace
} // namespace tern::hetero::detail

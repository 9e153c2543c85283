// SPDX-License-Identifier: Apache-2.0
#include "tools/tern/kernels/kernel_compilers.hpp"
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/device/cuda/cuda_device.hpp>
#include <tern/hetero/device/cuda/nvrtc.hpp>
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/kernel/compiler_log.hpp>
#include <tern/hetero/kernel/compiler_process.hpp>
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::tool {
namespace {

using namespace hetero::detail;

/// The driver of a device, as programs use it.
class opencl_driver final : public kernel_compiler {
public:
  explicit opencl_driver(std::unique_ptr<device> d) : device_(std::move(d)) {}
  std::string text() const override { return device_->info().driver + " (" + device_->info().name + ")"; }
  void compile(const hetero::source_block& block) override { static_cast<opencl_device&>(*device_).check(block); }

private:
  std::unique_ptr<device> device_; // open_opencl makes opencl_devices
};

class nvrtc_library final : public kernel_compiler {
public:
  explicit nvrtc_library(nvrtc_api api) : api_(std::move(api)) {
    // What most devices have; else the oldest there is.
    constexpr int usual = 75;
    const auto& all = api_.architectures;
    capability_ = all.empty() || std::find(all.begin(), all.end(), usual) != all.end() ? usual : all.front();
  }
  std::string text() const override {
    return "NVRTC " + api_.version() + " (compute capability " + std::to_string(capability_ / 10) + "." +
           std::to_string(capability_ % 10) + ")";
  }
  void compile(const hetero::source_block& block) override {
    compile_cuda(api_, text_for_cuda(block), {.compute_capability = capability_, .cubin = false});
  }

private:
  nvrtc_api api_;
  int capability_ = 0;
};

class clang_program final : public kernel_compiler {
public:
  clang_program(std::string path, language l) : path_(std::move(path)), language_(l) {
    version_ = version_of_program(path_);
    if (const std::size_t at = version_.find("clang version "); at != version_.npos) version_.erase(0, at + 14);
    version_ = "clang " + version_.substr(0, version_.find_first_of(" ("));
  }
  std::string text() const override { return version_; }
  void compile(const hetero::source_block& block) override {
    const work_folder folder;
    const auto source = folder.path / "source", said = folder.path / "said";
    std::ofstream(source, std::ios::binary) << device_source(block, language_);
    std::vector<std::string> words{path_, "-fno-color-diagnostics"};
    if (language_ == language::opencl)
      words.insert(words.end(), {"-x", "cl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "--target=spir64",
                                 "-fsyntax-only", "-"});
    else
      words.insert(words.end(), {"-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_75", "-nocudainc",
                                 "-nocudalib", "-std=c++17", "-Wno-unknown-cuda-version", "-include",
                                 "__clang_cuda_builtin_vars.h", "-S", "-o", "/dev/null", "-"});
    const int code = run_program(words, said, source);
    if (code == 0) return;
    const bool ended = code != 126 && code != 127;
    throw error(ended ? errc::invalid_data : errc::device_failed,
                "the kernels '" + std::string(block.name) + "' (" + block.file + ") do not compile for " +
                    (language_ == language::opencl ? "OpenCL" : "CUDA") + " (" + version_ + "):\n" +
                    shown_log(contents_of(said)),
                ended ? "the lines named are that file's; docs/concepts/kernels.md says what a kernel may contain"
                      : "");
  }

private:
  const std::string path_;
  const language language_;
  std::string version_;
};

std::optional<std::string> find_clang() {
  for (const char* name : {"clang-19", "clang"})
    if (const auto path = look_for_program(name)) return path->string();
  return {};
}

/// Clang in the place of what programs use; or why there is nothing.
void use_clang(compilers_of_kind& kind, language l, const std::vector<std::string>& notes) {
  if (const auto clang = find_clang()) {
    kind.all.push_back(std::make_unique<clang_program>(*clang, l));
    return;
  }
  for (const std::string& note : notes) kind.why_none += note + "; ";
  kind.why_none += "clang is not in PATH";
}

} // namespace

std::vector<compilers_of_kind> find_kernel_compilers(const options& opts) {
  std::vector<compilers_of_kind> kinds(2);
  kinds[0].kind = "opencl";
  std::vector<std::string> notes, drivers;
  for (auto& d : open_opencl(opts, 1, false, notes)) {
    const std::string driver = d->info().driver + d->info().name;
    if (std::find(drivers.begin(), drivers.end(), driver) != drivers.end()) continue;
    drivers.push_back(driver);
    kinds[0].all.push_back(std::make_unique<opencl_driver>(std::move(d)));
  }
  if (kinds[0].all.empty()) use_clang(kinds[0], language::opencl, notes);

  kinds[1].kind = "cuda";
  notes.clear();
  if (auto nvrtc = nvrtc_api::open(nvrtc_libraries(opts), notes))
    kinds[1].all.push_back(std::make_unique<nvrtc_library>(std::move(*nvrtc)));
  else
    use_clang(kinds[1], language::cuda_clang, notes);
  return kinds;
}

} // namespace tern::tool

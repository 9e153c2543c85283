// SPDX-License-Identifier: Apache-2.0
// Kernels are compiled for CUDA's devices, loaded, and kept.
#include <algorithm>
#include <sstream>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/hetero/device/cuda/cuda_device.hpp>
#include <tern/hetero/kernel/compiler_log.hpp>
#include <tern/hetero/kernel/prelude.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {
namespace {

// A program that is a task's own text.
cuda_text text_of_source(const kernel_code& code) {
  return {std::string(code.text), std::string(code.name) + ".cu", "the CUDA source of '" + std::string(code.name) + "'",
          "the lines named are those of the text that cuda_source was given"};
}

std::vector<std::string> words(const char* options) {
  std::istringstream in(options);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

std::string quoted(const kernel_code& code) { return "'" + std::string(code.name) + "'"; }

/// What it is part of, for errors.
std::string called(const kernel_code& code) {
  switch (code.form) {
  case code_form::dialect:
    return "the kernels '" + std::string(code.source().name) + "' (" + code.source().file + ")";
  case code_form::cuda_cpp:
    return "the CUDA source of '" + std::string(code.name) + "'";
  default:
    return "the CUDA module of '" + std::string(code.name) + "'";
  }
}

} // namespace

cuda_programs::cuda_programs(cuda_target& target, const nvrtc_api& nvrtc, kernel_cache cache, bool contract)
    : target_(target), nvrtc_(nvrtc), cache_(std::move(cache)), contract_(contract) {}

cuda_programs::~cuda_programs() {
  for (const auto* all : {&modules_, &fused_modules_})
    for (const auto& [where, m] : *all)
      if (m) target_.api.ModuleUnload(m);
}

cu::module cuda_programs::load_image(const std::string& image, cu::result& r, std::string& log) const {
  cu::module made = nullptr;
  r = target_.with_free_memory([&] {
    log.assign(8192, '\0');
    int options[] = {cu::jit_error_log, cu::jit_error_log_bytes};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
    return target_.api.ModuleLoadDataEx(&made, image.c_str(), 2, options, values);
  });
  return r == cu::success ? made : nullptr;
}

cu::module cuda_programs::load(const kernel_code& code, bool fused) {
  const std::string what = called(code);
  cu::result r = cu::success;
  std::string log;
  const auto refuse = [&] {
    std::string hint;
    if (r == cu::unsupported_ptx_version) hint = "NVRTC is newer than the driver: install a newer driver, or its NVRTC";
    if (r == cu::no_binary_for_gpu)
      hint = "the module has no code for compute capability " + std::to_string(target_.capability / 10) + "." +
             std::to_string(target_.capability % 10);
    target_.fail(r, "load " + what + (log[0] ? " (" + shown_log(log) + ")" : ""), std::move(hint));
  };
  if (code.form == code_form::cuda_module) {
    const cu::module m = load_image(std::string(code.text), r, log);
    if (!m) refuse();
    return m;
  }
  const cuda_code target = best_code(nvrtc_, target_.capability);
  if (target.compute_capability == 0)
    throw error(errc::unsupported,
                "NVRTC " + nvrtc_.version() + " does not compile for " + target_.title() +
                    ", whose compute capability is " + std::to_string(target_.capability / 10) + "." +
                    std::to_string(target_.capability % 10),
                "install an older CUDA, or its package cuda-nvrtc, and say in CUDA_HOME where it is");
  const bool dialect = code.form == code_form::dialect;
  const trace::region bar(trace::on() ? "compile " + std::string(dialect ? code.source().name : code.name)
                                      : std::string());
  const cuda_text text = dialect ? text_for_cuda(code.source(), fused) : text_of_source(code);
  std::vector<std::string> more = words(code.options);
  if (dialect && !contract_) more.emplace_back("--fmad=false");
  for (;;) {
    const cuda_program program = compile_cuda(nvrtc_, text, target, cache_, more);
    ++(program.from_cache ? from_cache_ : compiled_);
    if (const cu::module m = load_image(program.code, r, log)) return m;
    if (!program.from_cache) refuse();
    cache_.remove(program.key); // the driver refuses it, and knows why: once more from the source
  }
}

cuda_kernel& cuda_programs::add(const kernel_code& code) {
  const void* const where = code.form == code_form::dialect ? static_cast<const void*>(&code.source()) : &code;
  auto at = modules_.find(where);
  if (at == modules_.end()) at = modules_.emplace(where, load(code, false)).first;
  return kernels_.emplace(&code, find(at->second, code, entry_name(code))).first->second;
}

cuda_kernel cuda_programs::find(cu::module in, const kernel_code& code, const std::string& called_there) {
  const cuda_api& api = target_.api;
  const std::string name = quoted(code);
  cuda_kernel k;
  cu::result r = api.ModuleGetFunction(&k.handle, in, called_there.c_str());
  if (r != cu::success)
    target_.fail(r, "find the kernel " + name + " in " + called(code),
                 code.form == code_form::dialect ? "" : "is it declared extern \"C\" __global__ void?");
  if ((r = api.FuncGetAttribute(&k.max_items, cu::function_max_threads, k.handle)) != cu::success ||
      (r = api.FuncGetAttribute(&k.shared_bytes, cu::function_shared_bytes, k.handle)) != cu::success ||
      (r = api.FuncGetAttribute(&k.dynamic_bytes, cu::function_max_dynamic_shared, k.handle)) != cu::success)
    target_.fail(r, "say what the kernel " + name + " needs");
  k.max_items = std::min(k.max_items, target_.info.max_group_items);
  if (api.FuncGetParamInfo) {
    k.knows_sizes = true;
    std::size_t offset = 0, size = 0;
    while ((r = api.FuncGetParamInfo(k.handle, k.sizes.size(), &offset, &size)) == cu::success) k.sizes.push_back(size);
    if (r != cu::invalid_value) // which says that there are no more
      target_.fail(r, "say which parameters the kernel " + name + " has");
  }
  return k;
}

bool cuda_programs::can_fuse() const noexcept {
  // What the fused kernels need: parameters that can be indexed (__grid_constant__).
  constexpr int least = 70, major = 11, minor = 7;
  return target_.capability >= least && std::pair(nvrtc_.major, nvrtc_.minor) >= std::pair(major, minor);
}

cuda_kernel* cuda_programs::fused(const kernel_code& code) {
  const auto known = fused_.find(&code);
  if (known != fused_.end()) return known->second.there ? &known->second.code : nullptr;
  fused_kernel& made = fused_[&code];
  const void* const where = &code.source();
  auto at = fused_modules_.find(where);
  try {
    if (at == fused_modules_.end()) {
      at = fused_modules_.emplace(where, nullptr).first; // it is tried once
      at->second = load(code, true);
    }
    if (!at->second) return nullptr;
    made.code = find(at->second, code, fused_name(code));
    made.there = true;
  } catch (const error& e) {
    if (e.code() == errc::device_lost) throw;
    log_info("the tasks of the kernel " + quoted(code) + " are launched one by one: " + e.what());
    return nullptr;
  }
  return &made.code;
}

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
// Kernels are compiled for CUDA's devices, loaded, and kept.
#include <algorithm>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/hetero/device/cuda/cuda_device.hpp>
#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/kernel/compiler_log.hpp>
#include <tern/hetero/kernel/prelude.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {
namespace {

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
  cu::result r = cu::success;
  std::string log;
  cu::module made = nullptr;
  if (code.form == code_form::cuda_module) {
    on_thread_stack([&] {
      target_.enter_elsewhere();
      made = load_image(std::string(code.text), r, log);
    });
  } else { // whose compiler needs a thread's stack
    const trace::region bar(
        trace::on() ? "compile " + std::string(code.form == code_form::dialect ? code.source().name : code.name)
                    : std::string());
    on_thread_stack([&] {
      target_.enter_elsewhere();
      made = (fused ? compiles_fused() : ways_.compiles()) ? compile(code, fused, r, log)
                                                           : find_compiled(code, fused, r, log);
    });
  }
  if (made) return made;
  std::string hint;
  if (r == cu::unsupported_ptx_version) hint = "NVRTC is newer than the driver: install a newer driver, or its NVRTC";
  if (r == cu::no_binary_for_gpu)
    hint = "the module has no code for compute capability " + std::to_string(target_.capability / 10) + "." +
           std::to_string(target_.capability % 10);
  target_.fail(r, "load " + called(code) + (log[0] ? " (" + shown_log(log) + ")" : ""), std::move(hint));
}

cu::module cuda_programs::compile(const kernel_code& code, bool fused, cu::result& r, std::string& log) {
  const cuda_text text = cuda_ways::text_of(code, fused);
  const std::vector<std::string> options = ways_.options_of(code);
  for (;;) {
    cuda_program program;
    try {
      program = ways_.compile(text, options);
    } catch (const error& e) { // not the kernels' fault: NVRTC is not whole, say
      const made_code* const made = e.code() == errc::device_failed ? ways_.made(code, fused) : nullptr;
      if (!made) throw;
      log_warning(std::string(e.what()) + "; the PTX that the program was built with takes its place");
      ++from_program_;
      return load_image(std::string(made->image), r, log);
    }
    ++(program.from_cache ? from_cache_ : compiled_);
    if (const cu::module m = load_image(program.code, r, log)) return m;
    if (!program.from_cache) return nullptr;
    ways_.cache().remove(program.key); // the driver refuses it, and knows why: once more from the source
  }
}

cu::module cuda_programs::find_compiled(const kernel_code& code, bool fused, cu::result& r, std::string& log) {
  if (const auto program = ways_.cached(cuda_ways::text_of(code, fused), ways_.options_of(code))) {
    if (const cu::module m = load_image(program->code, r, log)) {
      ++from_cache_;
      return m;
    }
    ways_.cache().remove(program->key);
  }
  if (const made_code* const made = ways_.made(code, fused)) {
    ++from_program_;
    return load_image(std::string(made->image), r, log);
  }
  if (r != cu::success) return nullptr; // the driver refuses what is there
  if (fused)
    throw error(errc::unsupported, "neither NVRTC 11.7 or later, nor an earlier run, nor the program has " +
                                       called(code) + " as ones that are several at a time");
  throw error(errc::unsupported, target_.title() + " cannot run '" + code.name + "': " + ways_.why_not(code));
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
  if (code.form == code_form::dialect) {
    const auto bytes_of = [&](const std::string& symbol) {
      cu::pointer at = 0;
      std::size_t bytes = 0;
      return api.ModuleGetGlobal(&at, &bytes, in, symbol.c_str()) == cu::success ? bytes : 0;
    };
    std::size_t wanted = bytes_of(large_symbol(code));
    if (wanted == 0) wanted = bytes_of(largest_symbol);
    k.large_bytes = wanted == 0 ? 0 : (wanted - 1) * 16;
  }
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
  constexpr int least = 70; // parameters that can be indexed, and the PTX of programs
  return target_.capability >= least;
}

bool cuda_programs::compiles_fused() const noexcept {
  constexpr int major = 11, minor = 7; // which knows __grid_constant__: else each item would copy the table
  const nvrtc_api& nvrtc = ways_.nvrtc();
  return ways_.compiles() && std::pair(nvrtc.major, nvrtc.minor) >= std::pair(major, minor);
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

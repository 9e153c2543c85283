// SPDX-License-Identifier: Apache-2.0
// Kernels are compiled for OpenCL devices, and kept.
#include <algorithm>
#include <span>
#include <utility>

#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/kernel/compiler_log.hpp>
#include <tern/hetero/kernel/prelude.hpp>
#include <tern/hetero/kernel/signal_guard.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {
namespace {

constexpr const char* compiler_options = "-cl-std=CL1.2";

// Released on the way out, unless it was taken.
struct owned_program {
  ~owned_program() {
    if (handle) api.ReleaseProgram(handle);
  }
  cl::program take() { return std::exchange(handle, nullptr); }
  const opencl_api& api;
  cl::program handle;
};

/// What it is part of, for errors.
std::string called(const source_block& block) {
  return "the kernels '" + std::string(block.name) + "' (" + block.file + ")";
}
std::string called(const kernel_code& code) {
  switch (code.form) {
  case code_form::dialect:
    return called(code.source());
  case code_form::opencl_c:
    return "the OpenCL source of '" + std::string(code.name) + "'";
  default:
    break;
  }
  return "the SPIR-V module of '" + std::string(code.name) + "'";
}

} // namespace

opencl_programs::~opencl_programs() {
  for (const auto& [code, k] : kernels_) target_.api.ReleaseKernel(k.handle);
  for (const auto& [code, k] : fused_)
    if (k.code.handle) target_.api.ReleaseKernel(k.code.handle);
  for (const cl::program program : fused_programs_) target_.api.ReleaseProgram(program);
  for (const auto& [block, program] : programs_) target_.api.ReleaseProgram(program);
}

const opencl_kernel& opencl_programs::add(const kernel_code& code) {
  const signal_guard keep;
  const void* const where = code.form == code_form::dialect ? static_cast<const void*>(&code.source()) : &code;
  auto at = programs_.find(where);
  if (at == programs_.end()) at = programs_.emplace(where, build(code)).first;
  return kernels_.emplace(&code, find(at->second, code, entry_name(code))).first->second;
}

opencl_kernel opencl_programs::find(cl::program in, const kernel_code& code, const std::string& called_there) {
  const std::string name = "'" + std::string(code.name) + "'";
  const opencl_api& api = target_.api;
  cl::status s = cl::success;
  opencl_kernel k;
  k.handle = api.CreateKernel(in, called_there.c_str(), &s);
  if (s != cl::success)
    target_.fail(s, "find the kernel " + name + " in " + called(code), false,
                 code.form == code_form::dialect ? ""
                                                 : "its name is the first argument of opencl_source or opencl_spirv");
  std::uint64_t local = 0;
  if ((s = api.GetKernelWorkGroupInfo(k.handle, target_.device, cl::kernel_work_group_size, sizeof k.max_items,
                                      &k.max_items, nullptr)) != cl::success ||
      (s = api.GetKernelWorkGroupInfo(k.handle, target_.device, cl::kernel_local_mem_size, sizeof local, &local,
                                      nullptr)) != cl::success ||
      (s = api.GetKernelInfo(k.handle, cl::kernel_num_args, sizeof k.parameters, &k.parameters, nullptr)) !=
          cl::success) {
    api.ReleaseKernel(k.handle);
    target_.fail(s, "say what the kernel " + name + " needs");
  }
  k.local_bytes = local;
  k.max_items = std::min(k.max_items, static_cast<std::size_t>(target_.info.max_group_items));
  return k;
}

cl::program opencl_programs::build(const kernel_code& code) {
  const bool dialect = code.form == code_form::dialect;
  const trace::region bar(trace::on() ? "compile " + std::string(dialect ? code.source().name : code.name)
                                      : std::string());
  return build(dialect ? text_of_block(code.source())
                       : text_to_build{code.form, called(code), std::string(code.text), code.options});
}

void opencl_programs::check(const source_block& block) {
  const signal_guard keep;
  const owned_program built{target_.api, build(text_of_block(block))};
}

opencl_programs::text_to_build opencl_programs::text_of_block(const source_block& block) const {
  return text_of_source(block, device_source(block, language::opencl));
}

opencl_programs::text_to_build opencl_programs::text_of_source(const source_block& block,
                                                               const std::string& source) const {
  return {code_form::dialect, called(block), (contract_ ? "" : "#pragma OPENCL FP_CONTRACT OFF\n") + source,
          compiler_options};
}

cl::program opencl_programs::build(const text_to_build& text) {
  const std::string key = target_.key + text.options + "\n" + text.source;
  if (const cl::program known = from_binary(key, text.options)) {
    ++from_cache_;
    return known;
  }
  const bool dialect = text.form == code_form::dialect;
  const opencl_api& api = target_.api;
  owned_program program{api, create(text)};
  const cl::status s = api.BuildProgram(program.handle, 1, &target_.device, text.options, nullptr, nullptr);
  if (s == cl::build_program_failure)
    throw error(
        errc::invalid_data,
        text.what + " do" + (dialect ? "" : "es") + " not compile for " + target_.title() + ":\n" +
            log_of(program.handle),
        std::string(dialect ? "the lines named are that file's; docs/concepts/kernels.md says what a kernel may contain"
                            : "the lines named are those of the text that opencl_source was given") +
            (target_.info.doubles ? "" : " (this device has no double)"));
  if (s != cl::success) target_.fail(s, "compile " + text.what);
  ++compiled_;
  keep(key, program.handle);
  return program.take();
}

cl::program opencl_programs::create(const text_to_build& text) const {
  const opencl_api& api = target_.api;
  cl::status s = cl::success;
  cl::program made = nullptr;
  if (text.form == code_form::spirv) {
    if (!target_.takes_spirv)
      throw error(errc::unsupported, target_.title() + " takes no SPIR-V, as " + text.what + " is",
                  "give variants() a kernel of the dialect or an opencl_source, or run it elsewhere");
    made = api.CreateProgramWithIL(target_.context, text.source.data(), text.source.size(), &s);
  } else {
    const char* source = text.source.c_str();
    const std::size_t length = text.source.size();
    made = api.CreateProgramWithSource(target_.context, 1, &source, &length, &s);
  }
  if (s != cl::success) target_.fail(s, "take " + text.what);
  return made;
}

cl::program opencl_programs::from_binary(std::string_view key, const char* options) {
  if (target_.keeps_programs) return nullptr;
  const auto bytes = cache_.find(key);
  if (!bytes) return nullptr;
  const opencl_api& api = target_.api;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes->data());
  const std::size_t size = bytes->size();
  cl::status s = cl::success, of_binary = cl::success;
  owned_program program{api,
                        api.CreateProgramWithBinary(target_.context, 1, &target_.device, &size, &data, &of_binary, &s)};
  if (s == cl::success && of_binary == cl::success)
    s = api.BuildProgram(program.handle, 1, &target_.device, options, nullptr, nullptr);
  if (s == cl::success && of_binary == cl::success) return program.take();
  cache_.remove(key); // the driver refuses it, and knows why
  return nullptr;
}

void opencl_programs::keep(std::string_view key, cl::program program) const {
  if (target_.keeps_programs || !cache_.keeps()) return;
  std::size_t size = 0;
  if (target_.api.GetProgramInfo(program, cl::program_binary_sizes, sizeof size, &size, nullptr) != cl::success ||
      !size)
    return; // a driver need not have binaries
  std::vector<std::byte> bytes(size);
  std::byte* to = bytes.data();
  if (target_.api.GetProgramInfo(program, cl::program_binaries, sizeof to, &to, nullptr) == cl::success)
    cache_.store(key, bytes);
}

std::string opencl_programs::log_of(cl::program program) const {
  std::size_t size = 0;
  std::string log;
  const opencl_api& api = target_.api;
  if (api.GetProgramBuildInfo(program, target_.device, cl::program_build_log, 0, nullptr, &size) == cl::success) {
    log.resize(size);
    if (api.GetProgramBuildInfo(program, target_.device, cl::program_build_log, size, log.data(), nullptr) !=
        cl::success)
      log.clear();
  }
  return shown_log(std::move(log));
}

} // namespace tern::hetero::detail

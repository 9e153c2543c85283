// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/cuda/cuda_ways.hpp>

#include <exception>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include <tern/base/log.hpp>

namespace tern::hetero::detail {
namespace {

cuda_code target_of(const nvrtc_api& nvrtc, int capability) {
  return nvrtc.is_there() ? best_code(nvrtc, capability) : cuda_code{0, false};
}

/// What has one answer: a block's kernels, or a kernel by itself.
const void* unit_of(const kernel_code& code) {
  return code.form == code_form::dialect ? static_cast<const void*>(&code.source()) : &code;
}

std::string title_of(const kernel_code& code) {
  if (code.form != code_form::dialect) return "the CUDA source of '" + std::string(code.name) + "'";
  return "the kernels '" + std::string(code.source().name) + "' (" + code.source().file + ")";
}

} // namespace

cuda_ways::cuda_ways(nvrtc_api nvrtc, std::string why_none, kernel_cache cache, int capability, bool contract)
    : nvrtc_(std::move(nvrtc)), why_none_(std::move(why_none)), cache_(std::move(cache)), capability_(capability),
      contract_(contract), target_(target_of(nvrtc_, capability)) {}

cuda_text cuda_ways::text_of(const kernel_code& code, bool fused) {
  if (code.form == code_form::dialect) return text_for_cuda(code.source(), fused);
  return {std::string(code.text), std::string(code.name) + ".cu", title_of(code),
          "the lines named are those of the text that cuda_source was given"};
}

std::vector<std::string> cuda_ways::options_of(const kernel_code& code) const {
  std::istringstream in(code.options);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  if (code.form == code_form::dialect && !contract_) all.emplace_back("--fmad=false");
  return all;
}

// The cache finds code by the NVRTC that made it. Where there is none, this entry tells which one
// it was: the beginning of that key.
std::string cuda_ways::name_for_any(const cuda_text& text, const std::vector<std::string>& options) const {
  std::string name = "the last NVRTC for compute capability " + std::to_string(capability_) + "\n";
  for (const std::string& one : options) name += one + "\n";
  return name + text.source;
}

cuda_program cuda_ways::compile(const cuda_text& text, const std::vector<std::string>& options) const {
  cuda_program made = compile_cuda(nvrtc_, text, target_, cache_, options);
  if (!made.from_cache && cache_.keeps()) {
    const std::string begin = made.key.substr(0, made.key.size() - text.source.size());
    cache_.store(name_for_any(text, options), std::as_bytes(std::span(begin)));
  }
  return made;
}

std::optional<cuda_program> cuda_ways::cached(const cuda_text& text, const std::vector<std::string>& options) const {
  const auto begin = cache_.find(name_for_any(text, options));
  if (!begin) return {};
  cuda_program found;
  found.key.assign(reinterpret_cast<const char*>(begin->data()), begin->size());
  found.key += text.source;
  const auto code = cache_.find(found.key);
  if (!code) return {};
  found.code.assign(reinterpret_cast<const char*>(code->data()), code->size());
  found.from_cache = true;
  return found;
}

const made_code* cuda_ways::made(const kernel_code& code, bool fused) const {
  if (code.form != code_form::dialect) return nullptr;
  const source_block& block = code.source();
  const found_code found = find_made_code(block.name, hash_of_text(block, fused), capability_, contract_, fused);
  if (!found.code && found.of_another_text) {
    static std::mutex guard;
    static auto& said = *new std::set<std::string>; // never destroyed: runtimes use it
    const std::lock_guard hold(guard);
    if (said.emplace(block.name).second)
      log_warning("the PTX of " + title_of(code) +
                  " in the program was made of another text, or by another version of Tern: it is not used; build the "
                  "program again");
  }
  return found.code;
}

bool cuda_ways::look_for(const kernel_code& code) const {
  if (code.form == code_form::cuda_module || compiles()) return true;
  try {
    if (made(code)) return true;
    return cached(text_of(code, false), options_of(code)).has_value();
  } catch (const std::exception&) { // a file cannot be read: the task is to say so when it runs
    return true;
  }
}

bool cuda_ways::runs(const kernel_code& code) const noexcept {
  try {
    const std::lock_guard hold(lock_);
    const void* const unit = unit_of(code);
    if (const auto found = known_.find(unit); found != known_.end()) return found->second;
    return known_.emplace(unit, look_for(code)).first->second;
  } catch (const std::exception&) { // no memory
    return true;
  }
}

std::string cuda_ways::why_not(const kernel_code& code) const {
  if (runs(code)) return {};
  const bool dialect = code.form == code_form::dialect;
  std::string text = title_of(code) + " cannot be compiled here (" + why_none_ + "), and no earlier run has kept them" +
                     (dialect ? ", and the program has no PTX of them" : "");
  if (dialect) {
    const bool other =
        find_made_code(code.source().name, hash_of_text(code.source()), capability_, contract_).of_another_text;
    if (other) text += " but for another text: build it again";
  }
  text += "; install NVRTC (CUDA's package cuda-nvrtc)";
  return text +
         (dialect ? ", or build the program with tern_device_code(TARGET)" : ", or give it as PTX (tern::cuda_module)");
}

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/cuda/nvrtc.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <tern/base/error.hpp>
#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/device/dynamic_library.hpp>
#include <tern/hetero/kernel/compiler_log.hpp>
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::hetero::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};

void append(std::string& list, std::string_view what, const char* separator) {
  if (!list.empty()) list += separator;
  list += what;
}

std::vector<int> architectures_of(const nvrtc_api& api) {
  int count = 0;
  if (!api.GetNumSupportedArchs || !api.GetSupportedArchs) return {};
  if (api.GetNumSupportedArchs(&count) != nvrtc::success || count <= 0) return {};
  std::vector<int> all(static_cast<std::size_t>(count));
  if (api.GetSupportedArchs(all.data()) != nvrtc::success) return {};
  std::sort(all.begin(), all.end());
  return all;
}

// \param why what is wrong with it is added.
std::optional<nvrtc_api> open_one(const std::string& name, std::string& why) {
  dynamic_library library = dynamic_library::open(name, why);
  if (!library) return {};
  nvrtc_api api;
#define TERN_FIND(name) library.find(api.name, "nvrtc" #name, true)
#define TERN_FIND_LATER(name) library.find(api.name, "nvrtc" #name, false)
  TERN_FIND(Version);
  TERN_FIND(CreateProgram);
  TERN_FIND(CompileProgram);
  TERN_FIND(DestroyProgram);
  TERN_FIND(GetPTXSize);
  TERN_FIND(GetPTX);
  TERN_FIND(GetProgramLogSize);
  TERN_FIND(GetProgramLog);
  TERN_FIND(GetErrorString);
  TERN_FIND_LATER(GetCUBINSize);
  TERN_FIND_LATER(GetCUBIN);
  TERN_FIND_LATER(GetNumSupportedArchs);
  TERN_FIND_LATER(GetSupportedArchs);
#undef TERN_FIND
#undef TERN_FIND_LATER
  const std::string& missing = library.missing();
  if (missing.empty() && api.Version(&api.major, &api.minor) == nvrtc::success) {
    api.architectures = architectures_of(api);
    library.keep();
    return api;
  }
  append(why, name + (missing.empty() ? " does not tell its version" : " lacks " + missing), "; ");
  return {}; // at most its version was asked for
}

std::string capability(int number) { return std::to_string(number / 10) + "." + std::to_string(number % 10); }

// One that can do it, or an error that says what can be done.
void check(const nvrtc_api& api, cuda_code target) {
  const std::string nvrtc = "NVRTC " + api.version();
  if (const auto& all = api.architectures;
      !all.empty() && std::find(all.begin(), all.end(), target.compute_capability) == all.end()) {
    std::string known;
    for (const int one : all) append(known, capability(one), ", ");
    throw error(
        errc::unsupported, nvrtc + " does not compile for compute capability " + capability(target.compute_capability),
        "it does for " + known + ": devices run PTX for any that is not later than theirs; or install another " +
            "version of NVRTC");
  }
  if (target.cubin && (!api.GetCUBINSize || !api.GetCUBIN))
    throw error(errc::unsupported, nvrtc + " makes no machine code", "ask for PTX, or install NVRTC 11.1 or later");
}

std::vector<std::string> options_for(cuda_code target, std::span<const std::string> more) {
  // What has no word of CUDA's (tables, functions without TERN_FN) is for devices: there is nothing
  // else.
  std::vector<std::string> all{std::string("--gpu-architecture=") + (target.cubin ? "sm_" : "compute_") +
                                   std::to_string(target.compute_capability),
                               "--std=c++17", "--device-as-default-execution-space"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// A program of NVRTC's, and what is asked of it.
class compilation {
public:
  compilation(const nvrtc_api& api, const cuda_text& text, int compute_capability)
      : api_(api), text_(text),
        title_("compute capability " + capability(compute_capability) + " (NVRTC " + api.version() + ")") {}
  ~compilation() {
    if (handle_) api_.DestroyProgram(&handle_);
  }
  compilation(const compilation&) = delete;
  compilation& operator=(const compilation&) = delete;

  void create() {
    const nvrtc::result r = api_.CreateProgram(&handle_, text_.source.c_str(), text_.name.c_str(), 0, nullptr, nullptr);
    if (r != nvrtc::success) fail(r, "take");
  }
  void compile(const std::vector<std::string>& options) {
    std::vector<const char*> given;
    for (const std::string& one : options) given.push_back(one.c_str());
    const nvrtc::result r = api_.CompileProgram(handle_, static_cast<int>(given.size()), given.data());
    if (r == nvrtc::compilation)
      throw error(errc::invalid_data, text_.what + " cannot be compiled for " + title_ + ":\n" + log(), text_.hint);
    if (r == nvrtc::invalid_option)
      throw error(errc::invalid_argument, "NVRTC " + api_.version() + " refuses an option:\n" + log(),
                  "give it others, or another version of NVRTC");
    if (r != nvrtc::success) fail(r, "compile", ":\n" + log());
  }
  std::string ptx() const {
    std::string text = read(api_.GetPTXSize, api_.GetPTX);
    text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
    return text;
  }
  std::string cubin() const { return read(api_.GetCUBINSize, api_.GetCUBIN); }

private:
  using get_size = nvrtc::result (*)(nvrtc::program, std::size_t*);
  using get_bytes = nvrtc::result (*)(nvrtc::program, char*);

  [[noreturn]] void fail(nvrtc::result r, const std::string& operation, const std::string& more = {}) const {
    const char* const name = api_.GetErrorString(r);
    const bool memory = r == nvrtc::out_of_memory;
    throw error(memory ? errc::out_of_memory : errc::device_failed,
                "cannot " + operation + " " + text_.what + " for " + title_ + ": " +
                    (name ? name : "an error of NVRTC's") + " (" + std::to_string(r) + ")" + more,
                memory ? "" : "is NVRTC installed whole, with libnvrtc-builtins?");
  }
  std::string read(get_size size_of, get_bytes bytes_of) const {
    std::size_t size = 0;
    nvrtc::result r = size_of(handle_, &size);
    std::string bytes(r == nvrtc::success ? size : 0, '\0');
    if (!bytes.empty()) r = bytes_of(handle_, bytes.data());
    if (r != nvrtc::success) fail(r, "get what was compiled of");
    if (bytes.empty()) throw error(errc::device_failed, "NVRTC made nothing of " + text_.what + " for " + title_);
    return bytes;
  }
  std::string log() const {
    std::size_t size = 0;
    std::string text;
    if (api_.GetProgramLogSize(handle_, &size) == nvrtc::success) {
      text.resize(size);
      if (size && api_.GetProgramLog(handle_, text.data()) != nvrtc::success) text.clear();
    }
    return shown_log(std::move(text));
  }

  const nvrtc_api& api_;
  const cuda_text& text_;
  const std::string title_;
  nvrtc::program handle_ = nullptr;
};

std::string key_of(const nvrtc_api& api, const std::vector<std::string>& options, const std::string& source) {
  std::string key = "nvrtc " + api.version() + "\n";
  for (const std::string& one : options) key += one + "\n";
  return key + source;
}

} // namespace

std::vector<std::string> nvrtc_api::usual_libraries() {
  std::vector<std::string> all(std::begin(names), std::end(names));
  std::vector<fs::path> places;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const folder = std::getenv(variable); folder && *folder) places.emplace_back(folder);
  places.emplace_back("/usr/local/cuda");
  for (const fs::path& place : places)
    for (const char* name : names) {
      const fs::path file = place / "lib64" / name;
      if (std::error_code unknown; fs::exists(file, unknown)) all.push_back(file.string());
    }
  return all;
}

std::optional<nvrtc_api> nvrtc_api::open(name_list libraries, std::vector<std::string>& notes,
                                         const nvrtc_users& users) {
  static auto& all = *new opened_libraries<nvrtc_api>; // never destroyed: runtimes use what it knows
  std::string why;
  std::optional<nvrtc_api> best;
  std::size_t most = 0; // of the devices
  for (const std::string& name : libraries) {
    auto found = all.get(name, [&] { return open_one(name, why); });
    if (!found) continue;
    if (users.driver != 0 && found->major > users.driver / 1000) {
      append(why,
             name + " is of CUDA " + found->version() + ", whose code this driver, for CUDA " +
                 std::to_string(users.driver / 1000) + "." + std::to_string(users.driver % 1000 / 10) +
                 ", does not load",
             "; ");
      continue;
    }
    const auto& known = found->architectures;
    const auto can =
        static_cast<std::size_t>(std::count_if(users.capabilities.begin(), users.capabilities.end(),
                                               [&](int c) { return known.empty() || known.front() <= c; }));
    if (can == users.capabilities.size()) return found;
    if (can == 0)
      append(why, name + " is of CUDA " + found->version() + ", which does not compile for so old devices", "; ");
    if (can > most) best = std::move(found), most = can;
  }
  if (best) return best;
  notes.push_back("kernels cannot be compiled for CUDA: NVRTC cannot be opened (" + why +
                  "); install CUDA, or its package cuda-nvrtc, or say in CUDA_HOME where it is");
  return {};
}

cuda_code best_code(const nvrtc_api& nvrtc, int capability) {
  const auto& all = nvrtc.architectures; // rising
  if (all.empty()) return {capability, nvrtc.GetCUBIN != nullptr};
  const auto after = std::upper_bound(all.begin(), all.end(), capability);
  if (after == all.begin()) return {0, false};
  const int best = *std::prev(after);
  return {best, best == capability && nvrtc.GetCUBIN != nullptr};
}

cuda_text text_for_cuda(const source_block& block, bool fused) {
  return {device_source(block, fused ? language::cuda_fused : language::cuda), block.name,
          "the kernels '" + std::string(block.name) + "' (" + block.file + ")",
          "the lines named are that file's; docs/concepts/kernels.md says what a kernel may contain"};
}

cuda_program compile_cuda(const nvrtc_api& api, const cuda_text& text, cuda_code target, const kernel_cache& cache,
                          std::span<const std::string> more) {
  check(api, target);
  const std::vector<std::string> options = options_for(target, more);
  cuda_program made{{}, key_of(api, options, text.source), false};
  if (const auto known = cache.find(made.key)) {
    made.code.assign(reinterpret_cast<const char*>(known->data()), known->size());
    made.from_cache = true;
    return made;
  }
  compilation program(api, text, target.compute_capability);
  program.create();
  program.compile(options);
  made.code = target.cubin ? program.cubin() : program.ptx();
  cache.store(made.key, std::as_bytes(std::span(made.code)));
  return made;
}

} // namespace tern::hetero::detail

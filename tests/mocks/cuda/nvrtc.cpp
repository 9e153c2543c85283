// SPDX-License-Identifier: Apache-2.0
// A library like NVRTC 13.0 that compiles CUDA for the host, with the host's compiler, into what
// the mock driver loads. MOCK_COMPILER is that compiler, MOCK_BUILTINS the file builtins.hpp.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tern/hetero/device/cuda/nvrtc.hpp>

#include "image.hpp"
#include "kernel_image.hpp"
#include "kernel_text.hpp"

#define MOCK_EXPORT extern "C" __attribute__((visibility("default")))
#if defined(__SANITIZE_ADDRESS__)
#define MOCK_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOCK_ASAN
#endif
#endif

namespace {

namespace fs = std::filesystem;
namespace nvrtc = tern::hetero::detail::nvrtc;

constexpr nvrtc::result invalid_input = 3, invalid_program = 4, builtin_failure = 7;
constexpr int version = 13000, architectures[] = {75, 80, 86, 89, 90, 100};

struct program {
  std::string source, name, log, ptx, cubin;
};

// A folder that goes with all in it.
class folder {
public:
  folder() {
    const char* const place = std::getenv("TMPDIR");
    std::string made = std::string(place && *place ? place : "/tmp") + "/tern_mock_nvrtc.XXXXXX";
    if (mkdtemp(made.data())) path_ = made;
  }
  ~folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  bool there() const { return !path_.empty(); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
bool write(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  return static_cast<bool>(out.flush());
}

// \return whether it ended well; what it said is added to the log.
bool run(std::vector<std::string> words, const std::string& said, std::string& log) {
  std::vector<char*> list;
  for (std::string& w : words) list.push_back(w.data());
  list.push_back(nullptr);
  // Messages in English, and none of the sanitizers' options for this process.
  std::vector<char*> around;
  for (char** v = environ; *v; ++v)
    if (std::strncmp(*v, "LC_ALL=", 7) != 0 && std::strncmp(*v, "LD_PRELOAD=", 11) != 0) around.push_back(*v);
  char english[] = "LC_ALL=C";
  around.push_back(english);
  around.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, list[0], &files, nullptr, list.data(), around.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed) return log += "cannot run " + words[0] + ": " + std::strerror(failed) + "\n", false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return log += "lost " + words[0] + "\n", false;
  log += read(said);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct options {
  int architecture = 75;
  bool machine_code = false;
  std::vector<std::string> words; ///< for the preprocessor
  std::string macros;             ///< which builtins.hpp must not see: #define lines
};

// \return whether all are known; else the log says which is not.
bool parse(int count, const char* const* given, options& to, std::string& log) {
  static constexpr std::string_view plain[] = {"--std=",
                                               "-std=",
                                               "--fmad=",
                                               "-fmad=",
                                               "--ftz=",
                                               "-ftz=",
                                               "--prec-sqrt=",
                                               "-prec-sqrt=",
                                               "--prec-div=",
                                               "-prec-div=",
                                               "--use_fast_math",
                                               "-use_fast_math",
                                               "--device-as-default-execution-space",
                                               "-default-device",
                                               "--generate-line-info",
                                               "-lineinfo",
                                               "--device-debug",
                                               "-G",
                                               "--maxrregcount=",
                                               "-maxrregcount=",
                                               "--restrict",
                                               "-restrict",
                                               "--extra-device-vectorization",
                                               "--dopt=",
                                               "--relocatable-device-code=",
                                               "-rdc=",
                                               "--disable-warnings",
                                               "-w",
                                               "--diag-suppress=",
                                               "--display-error-number",
                                               "--minimal",
                                               "--split-compile="};
  for (int i = 0; i < count; ++i) {
    const std::string_view one = given[i];
    const auto value_of = [&](std::string_view name) {
      return one.starts_with(name) ? std::string(one.substr(name.size())) : std::string();
    };
    std::string arch = value_of("--gpu-architecture=");
    if (arch.empty()) arch = value_of("-arch=");
    if (!arch.empty()) {
      to.machine_code = arch.starts_with("sm_");
      const std::size_t digits = to.machine_code ? 3 : arch.starts_with("compute_") ? 8 : arch.size();
      to.architecture = std::atoi(arch.c_str() + digits);
      if (std::find(std::begin(architectures), std::end(architectures), to.architecture) == std::end(architectures)) {
        log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
        return false;
      }
      continue;
    }
    // Names may stand behind the option, or be the next.
    const auto named = [&](std::string_view shorter, std::string_view longer) {
      if (one == shorter && i + 1 < count) return std::string(given[++i]);
      const std::string value = value_of(longer);
      return value.empty() ? value_of(shorter) : value;
    };
    if (std::string define = named("-D", "--define-macro="); !define.empty()) {
      const std::size_t equals = define.find('=');
      if (equals != define.npos) define[equals] = ' ';
      to.macros += "#define " + define + (equals == define.npos ? " 1\n" : "\n");
      continue;
    }
    if (const std::string undefine = named("-U", "--undefine-macro="); !undefine.empty()) {
      to.macros += "#undef " + undefine + "\n";
      continue;
    }
    if (const std::string place = named("-I", "--include-path="); !place.empty()) {
      to.words.push_back("-I" + place);
      continue;
    }
    if (std::none_of(std::begin(plain), std::end(plain), [&](std::string_view p) {
          return p.ends_with('=') ? one.starts_with(p) && one.size() > p.size() : one == p;
        })) {
      log = "nvrtc: error: unrecognized option " + std::string(one) + " found\n";
      return false;
    }
  }
  return true;
}

// As ptxas, which makes machine code. PTX is looked at when it is loaded.
bool uses_too_much(const std::string& library, std::string& log) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return false;
  bool any = false;
  if (const auto* const table = static_cast<const tern_mock_image*>(dlsym(opened, "tern_mock_image_table")))
    for (const tern_mock_kernel* k = table->kernels; k->name; ++k) {
      std::size_t bytes = 0;
      for (const tern_mock_shared* v = table->shared; v != table->shared_end; ++v)
        if (v->kernel && std::strcmp(v->kernel, k->name) == 0) bytes += v->bytes;
      if (bytes <= mock::usual_shared) continue;
      log += "ptxas error   : " + mock::too_much_shared(k->name, bytes) + "\n";
      any = true;
    }
  dlclose(opened);
  return any;
}

nvrtc::result compile(program& p, const options& how) {
  const folder place;
  if (!place.there() || !write(place / "kernels.cu", how.macros + "# 1 \"" + p.name + "\"\n" + p.source + "\n")) {
    p.log = "no place for temporary files\n";
    return builtin_failure;
  }
  const std::string said = place / "said";
  std::vector<std::string> words{MOCK_COMPILER,
                                 "-E",
                                 "-x",
                                 "c++",
                                 "-std=c++17",
                                 "-w",
                                 "-include",
                                 MOCK_BUILTINS,
                                 "-fdiagnostics-color=never",
                                 "-D__CUDA_ARCH__=" + std::to_string(how.architecture * 10)};
  words.insert(words.end(), how.words.begin(), how.words.end());
  words.insert(words.end(), {place / "kernels.cu", "-o", place / "kernels.ii"});
  if (!run(words, said, p.log)) return nvrtc::compilation;
  const mock::kernel_text text = mock::make_host_text(read(place / "kernels.ii"));
  if (!write(place / "host.ii", text.text)) return builtin_failure;
  // They are called by threads that have no more than an item's stack: nothing may look at it.
  words = {MOCK_COMPILER,
           "-x",
           "c++-cpp-output",
           "-std=c++17",
           "-O1",
           "-g0",
           "-s",
           "-fPIC",
           "-shared",
           "-w",
           "-fvisibility=hidden",
           "-ffp-contract=off",
           "-fno-strict-aliasing",
           "-fno-exceptions",
           "-fno-rtti",
           "-fdiagnostics-color=never",
           "-fno-stack-protector"};
#ifdef __clang__
  words.emplace_back("-fno-caret-diagnostics");
#else
  words.emplace_back("-fno-diagnostics-show-caret");
#endif
#ifdef MOCK_ASAN
  words.emplace_back("-fsanitize=address");
#ifdef __clang__
  words.emplace_back("-fsanitize-address-use-after-return=never");
#endif
#endif
  words.insert(words.end(), {place / "host.ii", "-o", place / "kernels.so", "-lm"});
  if (!run(words, said, p.log)) return nvrtc::compilation;
  const std::string library = read(place / "kernels.so");
  if (library.size() < mock::head || library.size() > mock::most_bytes ||
      mock::elf_bytes(library.data()) != library.size()) {
    p.log += "the library that was made has an unexpected form\n";
    return builtin_failure;
  }
  if (how.machine_code && uses_too_much(place / "kernels.so", p.log)) return nvrtc::compilation;
  std::string entries;
  for (const std::string& k : text.kernels) entries += ".visible .entry " + k + "(\n";
  p.ptx = mock::make_ptx(library, how.architecture, version, entries) + '\0';
  if (how.machine_code) p.cubin = mock::make_cubin(library, how.architecture);
  return 0;
}

// The handle is the address, as NVRTC's is.
program* of(nvrtc::program handle) { return reinterpret_cast<program*>(handle); }

nvrtc::result size_of(const std::string& what, std::size_t* size) { return *size = what.size(), 0; }
nvrtc::result copy(const std::string& what, char* to) {
  std::memcpy(to, what.data(), what.size());
  return 0;
}

} // namespace

MOCK_EXPORT nvrtc::result nvrtcVersion(int* major, int* minor) {
  *major = version / 1000;
  *minor = version % 1000 / 10;
  return 0;
}

MOCK_EXPORT nvrtc::result nvrtcCreateProgram(nvrtc::program* made, const char* source, const char* name, int headers,
                                             const char* const*, const char* const*) {
  if (!made || !source || headers != 0) return invalid_input;
  auto* const p = new program;
  p->source = source;
  p->name = name ? name : "default_program";
  *made = reinterpret_cast<nvrtc::program>(p);
  return 0;
}

MOCK_EXPORT nvrtc::result nvrtcDestroyProgram(nvrtc::program* p) {
  if (!p || !*p) return invalid_program;
  delete of(*p);
  *p = nullptr;
  return 0;
}

MOCK_EXPORT nvrtc::result nvrtcCompileProgram(nvrtc::program handle, int count, const char* const* given) {
  if (!handle) return invalid_program;
  program& p = *of(handle);
  p.log.clear();
  p.ptx.clear();
  p.cubin.clear();
  options how;
  const nvrtc::result r = parse(count, given, how, p.log) ? compile(p, how) : nvrtc::invalid_option;
  p.log += '\0'; // as NVRTC has it
  return r;
}

MOCK_EXPORT nvrtc::result nvrtcGetPTXSize(nvrtc::program p, std::size_t* size) { return size_of(of(p)->ptx, size); }
MOCK_EXPORT nvrtc::result nvrtcGetPTX(nvrtc::program p, char* to) { return copy(of(p)->ptx, to); }
MOCK_EXPORT nvrtc::result nvrtcGetCUBINSize(nvrtc::program p, std::size_t* size) { return size_of(of(p)->cubin, size); }
MOCK_EXPORT nvrtc::result nvrtcGetCUBIN(nvrtc::program p, char* to) { return copy(of(p)->cubin, to); }
MOCK_EXPORT nvrtc::result nvrtcGetProgramLogSize(nvrtc::program p, std::size_t* size) {
  return size_of(of(p)->log, size);
}
MOCK_EXPORT nvrtc::result nvrtcGetProgramLog(nvrtc::program p, char* to) { return copy(of(p)->log, to); }

MOCK_EXPORT const char* nvrtcGetErrorString(nvrtc::result r) {
  static constexpr const char* names[] = {"NVRTC_SUCCESS",
                                          "NVRTC_ERROR_OUT_OF_MEMORY",
                                          "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                          "NVRTC_ERROR_INVALID_INPUT",
                                          "NVRTC_ERROR_INVALID_PROGRAM",
                                          "NVRTC_ERROR_INVALID_OPTION",
                                          "NVRTC_ERROR_COMPILATION",
                                          "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
  return r >= 0 && r < static_cast<int>(std::size(names)) ? names[r] : "NVRTC_ERROR unknown";
}

MOCK_EXPORT nvrtc::result nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(architectures));
  return 0;
}
MOCK_EXPORT nvrtc::result nvrtcGetSupportedArchs(int* to) {
  std::copy(std::begin(architectures), std::end(architectures), to);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A library like NVRTC, for tests: it makes something that looks like PTX of what it is given, and
// notes what that was. Kernels with the word `dxx` do not compile, and the option --nonsense is
// refused. With TERN_NVRTC_IS_OLD it is 11.0, which had no machine code and did not tell its
// architectures.
#include "tests/hetero/support/nvrtc_stub.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <tern/hetero/device/cuda/nvrtc.hpp>

// The types are those that callers have: sanitizers compare them.
struct tern::hetero::detail::nvrtc::opaque_program {
  std::string log, ptx, cubin;
};

namespace {

using program = tern::hetero::detail::nvrtc::opaque_program;

tern::hetero::detail::nvrtc_stub_state& state() {
  static tern::hetero::detail::nvrtc_stub_state one;
  return one;
}

int copy(const std::string& from, char* to) {
  std::memcpy(to, from.data(), from.size());
  return 0;
}

// As NVRTC has it: with the null at its end.
std::string with_null(std::string text) {
  text += '\0';
  return text;
}

} // namespace

extern "C" {

tern::hetero::detail::nvrtc_stub_state* tern_nvrtc_stub() { return &state(); }

int nvrtcVersion(int* major, int* minor) {
#ifdef TERN_NVRTC_IS_OLD
  *major = 11, *minor = 0;
#else
  *major = 12, *minor = 6;
#endif
  return 0;
}

int nvrtcCreateProgram(program** made, const char* source, const char* name, int, const char* const*,
                       const char* const*) {
  state().source = source;
  state().name = name;
  ++state().alive;
  *made = new program;
  return 0;
}

int nvrtcDestroyProgram(program** p) {
  --state().alive;
  delete *p;
  *p = nullptr;
  return 0;
}

int nvrtcCompileProgram(program* p, int count, const char* const* options) {
  ++state().compiled;
  state().options.assign(options, options + count);
  if (std::find(state().options.begin(), state().options.end(), "--nonsense") != state().options.end()) {
    p->log = with_null("nvrtc: error: unrecognized option --nonsense found\n");
    return 5;
  }
  if (state().source.find("dxx") != std::string::npos) {
    p->log = with_null("/some/where/broken.hpp(5): error: identifier \"dxx\" is undefined\n\n");
    return 6;
  }
  p->ptx = with_null("// PTX for " + state().options.at(0));
  p->cubin = std::string("\x7f\0ELF\0", 6);
  return 0;
}

int nvrtcGetPTXSize(program* p, std::size_t* size) { return *size = p->ptx.size(), 0; }
int nvrtcGetPTX(program* p, char* to) { return copy(p->ptx, to); }
int nvrtcGetProgramLogSize(program* p, std::size_t* size) { return *size = p->log.size(), 0; }
int nvrtcGetProgramLog(program* p, char* to) { return copy(p->log, to); }
const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_OF_THE_STUB"; }

#ifndef TERN_NVRTC_IS_OLD
int nvrtcGetCUBINSize(program* p, std::size_t* size) { return *size = p->cubin.size(), 0; }
int nvrtcGetCUBIN(program* p, char* to) { return copy(p->cubin, to); }
int nvrtcGetNumSupportedArchs(int* count) { return *count = 3, 0; }
int nvrtcGetSupportedArchs(int* to) { return to[0] = 100, to[1] = 75, to[2] = 90, 0; }
#endif
}

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a kernel of the dialect (dialect.hpp) is to the program: a host function for each group,
/// and its source text for devices. The source file embeds itself in the program, so nothing needs
/// to be found when it runs.
///
/// Where that cannot work (a compiler on another machine; `-ffile-prefix-map` without `-I` for the
/// source's folder), compile with `-DTERN_KERNELS_AT_RUN_TIME`: then the file is read when a device
/// first needs it, from where it was compiled or from the folders of the environment variable
/// TERN_KERNEL_PATH (separated by colons).

#include <tern/base/language/compiler.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tern::hetero {

/// The lines of a file between TERN_KERNELS_BEGIN and TERN_KERNELS_END.
struct source_block {
  const char* name;        ///< the block's; in a program there is one block of a name
  const char* file;        ///< as the compiler was given it
  const char *begin, *end; ///< the text of the whole file; null: to be read from it
  int first, last;         ///< lines of the markers, from 1; what lies between them is the block
};

/// \return the block's text, beginning with a `#line` that names its file: what devices' compilers
/// get after the dialect's definitions. \throws error(io) if the file is to be read and cannot be;
/// error(invalid_data) if it has fewer lines than when it was compiled. Thread-safe.
std::string text_of(const source_block& block);

namespace detail {
/// How many groups, and how many items each has, in x, y, z.
struct grid {
  std::array<int, 3> groups{1, 1, 1}, items{1, 1, 1};
  bool automatic = false; ///< the runtime chooses how large the groups are
  constexpr std::int64_t count() const noexcept { return std::int64_t{groups[0]} * groups[1] * groups[2]; }
};

/// What a kernel is written in.
enum class code_form : std::uint8_t {
  dialect,
  opencl_c,
  spirv,
  cuda_cpp,
  cuda_module, ///< PTX, or machine code of NVIDIA's
  function     ///< it stands for a function of the program's (record/function_code.hpp)
};

/// A kernel, whatever its parameters are.
struct kernel_code {
  const char* name;
  const source_block& (*source)();
  std::array<int, 3> fixed_size; ///< of groups, in x, y, z; 0: any
  /// Runs groups [first, last) on the host, one after the other. `values[i]` points to parameter i.
  void (*run)(const void* kernel, const grid& g, std::int64_t first, std::int64_t last, char* dynamic,
              const void* const* values);
  const void* kernel; ///< for `run`
  // Of other forms than the dialect, which have neither `source` nor `run`.
  code_form form = code_form::dialect;
  std::string_view text = {}; ///< or the bytes of a module
  const char* options = "";   ///< for its compiler
  bool cooperative = false;   ///< its groups wait for each other
};
template <class Group, class... Params>
void run_on_host(const void* kernel, const grid& g, std::int64_t first, std::int64_t last, char* dynamic,
                 const void* const* values);
} // namespace detail

/// A kernel: `TERN_KERNEL` defines them. \tparam Group what its body knows of the group. \tparam
/// Params of the kernel: numbers and structs by value, and pointers to objects' elements. Lives as
/// long as the program.
template <class Group, class... Params> struct kernel : detail::kernel_code {
  void (*body)(Group, Params...); ///< runs one group on the host
  constexpr kernel(const char* name_of_it, void (*body_of_it)(Group, Params...), const source_block& (*where)(),
                   std::array<int, 3> size)
      : kernel_code{name_of_it, where, size, &detail::run_on_host<Group, Params...>, this}, body(body_of_it) {}
  kernel(const kernel&) = delete;
  kernel& operator=(const kernel&) = delete;
};

} // namespace tern::hetero

#ifdef TERN_KERNELS_AT_RUN_TIME
#define TERN_KERNELS_BEGIN(block)                                                                                      \
  namespace block {                                                                                                    \
  using namespace ::tern::hetero::dialect;                                                                             \
  inline const ::tern::hetero::source_block& tern_source();                                                            \
  constexpr int tern_first_line = __LINE__;
#define TERN_KERNELS_TEXT_(block) nullptr, nullptr
#else
// The file's text, once in the program however many files include it.
#define TERN_KERNELS_BEGIN(block)                                                                                      \
  __asm__(".pushsection .rodata.tern_text_of_" #block ",\"aG\",@progbits,tern_text_of_" #block ",comdat\n"             \
          ".weak tern_text_of_" #block "\n.hidden tern_text_of_" #block "\ntern_text_of_" #block ":\n"                 \
          ".incbin \"" __FILE__ "\"\n"                                                                                 \
          ".weak tern_end_of_" #block "\n.hidden tern_end_of_" #block "\ntern_end_of_" #block ":\n"                    \
          ".byte 0\n.popsection\n");                                                                                   \
  extern "C" const char tern_text_of_##block[], tern_end_of_##block[];                                                 \
  namespace block {                                                                                                    \
  using namespace ::tern::hetero::dialect;                                                                             \
  inline const ::tern::hetero::source_block& tern_source();                                                            \
  constexpr int tern_first_line = __LINE__;
#define TERN_KERNELS_TEXT_(block) tern_text_of_##block, tern_end_of_##block
#endif
#define TERN_KERNELS_END(block)                                                                                        \
  inline const ::tern::hetero::source_block& tern_source() {                                                           \
    static constexpr int last = __LINE__;                                                                              \
    static const ::tern::hetero::source_block whole{#block, __FILE__, TERN_KERNELS_TEXT_(block), tern_first_line,      \
                                                    last};                                                             \
    return whole;                                                                                                      \
  }                                                                                                                    \
  }

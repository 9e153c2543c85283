// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern kernels ptx`: kernels of source files become PTX when a program is built, by clang and
/// with nothing of NVIDIA's.
#include "tools/tern/commands.hpp"
#include "tools/tern/kernels/kernel_compilers.hpp"
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <tern/base/error.hpp>
#include <tern/hetero/kernel/compiler_log.hpp>
#include <tern/hetero/kernel/compiler_process.hpp>
#include <tern/hetero/kernel/device_code.hpp>
#include <tern/hetero/kernel/kernel_blocks.hpp>
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::tool {
namespace {

using hetero::detail::block_in_file;

constexpr int oldest = 70; // compute capability 7.0: PTX of ISA 6.0, which every later driver loads

struct ptx_options {
  std::vector<std::string> files;
  std::string output, clang;
  bool if_possible = false;
};

/// Clang 14 or later.
struct ptx_clang {
  std::string path;
  int version = 0;
};

std::optional<ptx_clang> find_ptx_clang(const std::string& wanted) {
  std::vector<std::string> names{"clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang"};
  if (!wanted.empty()) names = {wanted};
  for (const std::string& name : names) {
    const auto path = look_for_program(name);
    if (!path) continue;
    const std::string text = hetero::detail::version_of_program(path->string());
    constexpr std::string_view before = "clang version ";
    const std::size_t at = text.find(before);
    const int version = at == text.npos ? 0 : std::atoi(text.c_str() + at + before.size());
    constexpr int least = 14;
    if (version >= least) return ptx_clang{path->string(), version};
    if (!wanted.empty())
      throw failure(name + " is no clang 14 or later: " + (text.empty() ? "it does not say" : text), 2);
  }
  if (!wanted.empty()) throw failure("there is no " + wanted, 2);
  return {};
}

std::vector<std::string> words_for(const ptx_clang& clang, bool contracted, const std::string& to) {
  std::vector<std::string> words{
      clang.path, "-fno-color-diagnostics", "-x", "cuda", "--cuda-device-only",
      "--cuda-gpu-arch=sm_" + std::to_string(oldest), "-nocudainc", "-nocudalib", "-std=c++17", "-O3",
      // As far as NVRTC goes: eight turns of a short loop. Clang's own limit is two.
      "-mllvm", "-unroll-partial-threshold=300", contracted ? "-ffp-contract=fast" : "-ffp-contract=off",
      "-Wno-unknown-cuda-version", "-include", "__clang_cuda_builtin_vars.h", "-S", "-o", to, "-"};
  constexpr int says_isa = 17; // from then on it writes the latest that it knows, unless it is told
  if (clang.version >= says_isa) words.insert(words.begin() + 1, "--cuda-feature=+ptx60");
  return words;
}

/// What a PTX text calls and does not have: names, separated by commas.
std::string missing_in(const std::string& ptx) {
  std::string all;
  constexpr std::string_view mark = ".extern .func";
  for (std::size_t at = ptx.find(mark); at != ptx.npos; at = ptx.find(mark, at + 1)) {
    std::size_t begin = ptx.find(')', at), line = ptx.find('\n', at);
    begin = begin < line ? begin + 1 : at + mark.size(); // behind what it returns
    begin = ptx.find_first_not_of(" \n\t", begin);
    std::string name = ptx.substr(begin, ptx.find_first_of(" \n\t(;", begin) - begin);
    if (name.starts_with("_Z")) { // a C++ function: its own name, without parameters
      char* end = nullptr;
      const unsigned long size = std::strtoul(name.c_str() + 2, &end, 10);
      name = std::string(end).substr(0, size);
    }
    if ((", " + all + ", ").find(", " + name + ", ") == std::string::npos) all += (all.empty() ? "" : ", ") + name;
  }
  return all;
}

/// \return nothing if the block's kernels call what only NVRTC has, which is said. \throws failure
/// if it does not compile.
std::optional<std::string> ptx_of(const block_in_file& block, const ptx_clang& clang, bool contracted, bool fused) {
  using namespace hetero::detail;
  const work_folder folder;
  const auto source = folder.path / "source", said = folder.path / "said", made = folder.path / "ptx";
  std::ofstream(source, std::ios::binary)
      << device_source(block.as_source(), fused ? language::cuda_clang_fused : language::cuda_clang);
  const int code = run_program(words_for(clang, contracted, made.string()), said, source);
  if (code != 0)
    throw failure("the kernels '" + block.name + "' (" + block.file + ") do not compile for CUDA (clang " +
                      std::to_string(clang.version) + "):\n" + shown_log(contents_of(said)),
                  1);
  std::string text = contents_of(made);
  if (const std::string missing = missing_in(text); !missing.empty()) {
    std::fprintf(
        stderr,
        "tern: %s:%d: the kernels '%s' have no PTX in the program, as they call %s, which only NVRTC has: where "
        "it is missing they do not run on CUDA\n",
        block.file.c_str(), block.first, block.name.c_str(), missing.c_str());
    return {};
  }
  return text;
}

/// Of kernels that are several at a time.
/// \return nothing if there are none: that is said, and costs speed alone.
std::optional<std::string> fused_ptx_of(const block_in_file& block, const ptx_clang& clang, bool contracted) {
  try {
    return ptx_of(block, clang, contracted, true);
  } catch (const failure& e) {
    std::fprintf(stderr, "tern: small tasks of these kernels are launched one by one where NVRTC is missing: %s\n",
                 e.what());
    return {};
  }
}

void append_block(std::string& to, const block_in_file& block, const std::string& ptx, bool contracted, bool fused,
                  int number) {
  const auto hash = hetero::detail::hash_of_text(block.as_source(), fused);
  const std::string n = std::to_string(number);
  char text[64];
  std::snprintf(text, sizeof text, "{0x%016" PRIx64 "u, 0x%016" PRIx64 "u}", hash[0], hash[1]);
  to += "constexpr char ptx_" + n + "[] =";
  constexpr std::size_t piece = 16000; // compilers limit the length of one literal
  for (std::size_t at = 0; at < ptx.size(); at += piece) to += "\nR\"tern_ptx(" + ptx.substr(at, piece) + ")tern_ptx\"";
  to += ";\nconst ::tern::hetero::detail::made_code_registration made_" + n + "({\"" + block.name + "\", " + text +
        ", " + std::to_string(oldest) + ", " + (contracted ? "true" : "false") + ", {ptx_" + n + ", sizeof ptx_" + n +
        " - 1}, " + (fused ? "true" : "false") + "});\n";
}

int make(const ptx_options& o) {
  std::vector<block_in_file> blocks;
  for (const std::string& file : o.files) {
    try {
      for (block_in_file& b : hetero::detail::blocks_in(file)) blocks.push_back(std::move(b));
    } catch (const error& e) {
      throw failure(e.message() + (e.hint().empty() ? "" : "; " + e.hint()), e.code() == errc::io ? 2 : 1);
    }
  }
  // PTX is longer than the strings that a compiler must support, and than those some warn of.
  std::string text = "// By tern kernels ptx.\n#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
                     "#include <tern/hetero/kernel/device_code.hpp>\nnamespace {\n";
  const auto clang = blocks.empty() ? std::nullopt : find_ptx_clang(o.clang);
  if (!blocks.empty() && !clang) {
    const std::string why = "kernels get no PTX: there is no clang 14 or later; install clang";
    if (!o.if_possible) throw failure(why, 2);
    std::fprintf(stderr, "tern: %s\n", why.c_str());
  }
  int number = 0;
  for (const block_in_file& block : blocks)
    for (const bool contracted : {true, false}) {
      const auto ptx = clang ? ptx_of(block, *clang, contracted, false) : std::nullopt;
      if (!ptx) break; // it is the same without
      append_block(text, block, *ptx, contracted, false, ++number);
      if (const auto fused = fused_ptx_of(block, *clang, contracted))
        append_block(text, block, *fused, contracted, true, ++number);
    }
  text += "} // namespace\n";
  std::ofstream out(o.output, std::ios::binary);
  out << text;
  if (!out.flush()) throw failure("cannot write " + o.output, 2);
  return 0;
}

} // namespace

void add_kernels_ptx(CLI::App& kernels, int& code) {
  auto o = std::make_shared<ptx_options>();
  auto* sub = kernels.add_subcommand("ptx", "Compile them to PTX by clang, as a C++ file that is part of the program");
  sub->add_option("FILE", o->files, "C++ files with blocks from TERN_KERNELS_BEGIN to TERN_KERNELS_END")->required();
  sub->add_option("-o,--output", o->output, "The file that is written")->required();
  sub->add_option("--clang", o->clang, "The clang, 14 or later; else the latest of clang-14 to clang-19 that is there");
  sub->add_flag("--if-possible", o->if_possible, "Without clang: write a file without PTX, and say so");
  sub->footer("tern_device_code(TARGET) in CMake calls it. Nothing of NVIDIA's is needed.\n"
              "Exit code: 0; 1: a kernel does not compile; 2: no such file, no clang.");
  sub->callback([o, &code] { code = make(*o); });
}

} // namespace tern::tool

// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern kernels check`: what devices' compilers have against the kernels of source files, before a
/// program runs.
#include "tools/tern/commands.hpp"
#include "tools/tern/kernels/kernel_compilers.hpp"
#include "tools/tern/launch/process.hpp"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/hetero/kernel/kernel_blocks.hpp>

namespace tern::tool {
namespace {

struct check_options {
  std::vector<std::string> files;
  bool if_possible = false;
};

using hetero::detail::block_in_file;

/// \return whether all that is there compiles it.
bool check_block(const block_in_file& block, const std::vector<compilers_of_kind>& kinds) {
  std::string names;
  for (const std::string& kernel : block.kernels) names += (names.empty() ? " " : ", ") + kernel;
  std::printf("  %s (lines %d to %d):%s\n", block.name.c_str(), block.first, block.last,
              names.empty() ? " no TERN_KERNEL that begins a line" : names.c_str());
  bool good = true;
  for (const compilers_of_kind& kind : kinds) {
    for (const auto& one : kind.all) {
      std::string wrong;
      try {
        one->compile(block.as_source());
      } catch (const error& e) {
        wrong = e.message() + (e.hint().empty() ? "" : "\n" + e.hint());
      }
      std::printf("    %-7s %-7s %s\n", kind.kind.c_str(), wrong.empty() ? "ok" : "error", one->text().c_str());
      if (wrong.empty()) continue;
      good = false;
      std::fflush(stdout);
      std::fprintf(stderr, "%s\n", wrong.c_str());
    }
    if (kind.all.empty()) std::printf("    %-7s absent  %s\n", kind.kind.c_str(), kind.why_none.c_str());
  }
  return good;
}

int check(const check_options& o) {
  std::vector<std::vector<block_in_file>> files;
  std::string without;
  for (const std::string& file : o.files) {
    try {
      files.push_back(hetero::detail::blocks_in(file));
    } catch (const error& e) {
      throw failure(e.message() + (e.hint().empty() ? "" : "; " + e.hint()), e.code() == errc::io ? 2 : 1);
    }
    if (files.back().empty()) without += (without.empty() ? "" : ", ") + file;
  }
  if (!without.empty() && !o.if_possible)
    throw failure("no kernels in " + without + ": there is no line that begins with TERN_KERNELS_BEGIN", 2);

  int none = 0;
  const options opts = options::parse(none, nullptr);
  std::vector<compilers_of_kind> kinds;
  bool good = true, some = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;
    if (kinds.empty()) kinds = find_kernel_compilers(opts); // it may take a second
    for (const compilers_of_kind& kind : kinds) some = some || !kind.all.empty();
    std::printf("%s\n", o.files[i].c_str());
    for (const block_in_file& block : files[i]) good = check_block(block, kinds) && good;
  }
  std::fflush(stdout);
  if (!good) return 1;
  if (!kinds.empty() && !some) {
    std::fprintf(stderr, "tern: nothing here compiles kernels for devices: install pocl-opencl-icd or clang\n");
    return o.if_possible ? 0 : 2;
  }
  return 0;
}

} // namespace

void add_kernels(CLI::App& app, int& code) {
  auto o = std::make_shared<check_options>();
  auto* kernels = app.add_subcommand("kernels", "Kernels of source files");
  kernels->require_subcommand(1);
  auto* sub = kernels->add_subcommand("check", "Compile them for OpenCL and CUDA, as programs do when they run");
  sub->add_option("FILE", o->files, "C++ files with blocks from TERN_KERNELS_BEGIN to TERN_KERNELS_END")->required();
  sub->add_flag("--if-possible", o->if_possible,
                "No failure: a file without kernels, a machine without compilers for devices");
  sub->footer("OpenCL: each driver that is here, else clang. CUDA: NVRTC, else clang. No GPU is needed.\n"
              "Exit code: 0; 1: a compiler refuses a kernel; 2: no such file, no kernels, nothing to check with.");
  sub->callback([o, &code] { code = check(*o); });
  add_kernels_ptx(*kernels, code);
}

} // namespace tern::tool

// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern trace`: makes a trace of what a job recorded that did not end, and so could not do it
/// itself.
#include "tools/tern/commands.hpp"
#include "tools/tern/launch/process.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include <tern/trace/merge.hpp>

namespace tern::tool {
namespace {

namespace fs = std::filesystem;
constexpr const char* suffix = ".parts";

struct trace_options {
  std::string from, out;
  bool remove = false;
};

int merge_trace(const trace_options& o) {
  std::string folder = o.from, out = o.out;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (!fs::is_directory(folder)) {
    if (!fs::is_directory(folder + suffix)) {
      if (fs::exists(folder))
        throw failure(folder + " is a whole trace, or none: there is no folder " + folder + suffix +
                          " with parts to merge; open it at ui.perfetto.dev",
                      2);
      throw failure("there is neither " + folder + " nor a folder " + folder + suffix + " with the parts of a trace",
                    2);
    }
    folder += suffix;
  }
  if (out.empty()) {
    if (!folder.ends_with(suffix))
      throw failure("say with -o where the trace made of " + folder + " is to be written", 2);
    out = folder.substr(0, folder.size() - std::char_traits<char>::length(suffix));
  }
  const trace::merge_summary done = trace::merge(folder, out);
  std::printf("%s\n%s: open it at ui.perfetto.dev\n", done.text().c_str(), out.c_str());
  if (o.remove) trace::remove_parts(folder);
  return 0;
}

} // namespace

void add_trace(CLI::App& app, int& code) {
  auto o = std::make_shared<trace_options>();
  auto* sub = app.add_subcommand("trace", "Make a trace of what a killed job recorded");
  sub->add_option("FILE", o->from, "The trace, as given to --tern-trace, or the folder FILE.parts")->required();
  sub->add_option("-o,--output", o->out, "Where to write it (default: FILE)");
  sub->add_flag("--remove", o->remove, "Remove the parts when it is written");
  sub->footer("A job that ends properly has done this itself. What is missing is said here and in the trace.");
  sub->callback([o, &code] { code = merge_trace(*o); });
}

} // namespace tern::tool

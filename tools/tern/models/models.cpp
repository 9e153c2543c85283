// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern models`: how long kernels and copies took on this machine, as programs have stored it.
#include "tools/tern/commands.hpp"
#include "tools/tern/launch/process.hpp"
#include "tools/tern/models/models_report.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/hetero/models/model_file.hpp>
#include <tern/hetero/models/model_text.hpp>

namespace tern::tool {
namespace {

using hetero::detail::date_now;
using hetero::detail::model_file;
using hetero::detail::model_set;

struct models_options {
  std::string file, only, plot, pattern;
};

model_file file_of(const models_options& o) {
  if (!o.file.empty()) {
    const std::filesystem::path path = o.file;
    if (path.extension() != ".models")
      throw failure(o.file + " is no file of performance models: these are called HOST.models", 2);
    return model_file(path.has_parent_path() ? path.parent_path() : ".", model_file::access::write,
                      path.stem().string());
  }
  int none = 0;
  const options opts = options::parse(none, nullptr);
  model_file file(opts);
  if (file.how() == model_file::access::none)
    throw failure("there is no file of performance models: TERN_HETERO_MODELS is off, or names no folder and HOME "
                  "is not set; give one by --file",
                  2);
  return file;
}

// \throws failure, with the hint.
template <class F> auto or_failure(F&& f) {
  try {
    return f();
  } catch (const error& e) {
    throw failure(e.message() + (e.hint().empty() ? "" : "; " + e.hint()), 1);
  }
}

std::string names_of(const model_set& all) {
  std::string names, last;
  for (const auto& [key, m] : all.kernels) {
    if (key.kernel.name != last) names += (names.empty() ? "" : ", ") + key.kernel.name;
    last = key.kernel.name;
  }
  return names.empty() ? "there are no kernels" : "there are the kernels " + names;
}

std::size_t count_of(const model_set& all) { return all.kernels.size() + all.links.size() + all.power.size(); }

// What is stored, and matched. \throws failure where nothing is matched.
model_set stored(model_file& file, const std::string& pattern) {
  const model_set all = or_failure([&] { return file.read(date_now()); });
  model_set some = matching(all, pattern);
  if (some.empty() && !all.empty())
    throw failure(
        "no kernel and no device is called \"" + pattern + "\" in " + file.path().string() + ": " + names_of(all), 1);
  return some;
}

int list(const models_options& o) {
  model_file file = file_of(o);
  const model_set models = stored(file, o.only);
  if (models.empty()) {
    std::printf("no performance models in %s: run a program with tasks on devices\n", file.path().c_str());
    return 0;
  }
  if (o.plot.empty())
    std::fputs(table_of(models, date_now()).c_str(), stdout);
  else
    std::printf("%s: %s\n", o.plot.c_str(), plot(models, file.path().string(), o.plot).c_str());
  return 0;
}

int clear(const models_options& o) {
  model_file file = file_of(o);
  const model_set gone = stored(file, o.pattern);
  if (!gone.empty())
    or_failure([&] {
      file.change(
          [&](model_set& all) {
            for (const auto& [key, m] : gone.kernels) all.kernels.erase(key);
            for (const auto& [ends, m] : gone.links) all.links.erase(ends);
            for (const auto& [device, m] : gone.power) all.power.erase(device);
          },
          date_now());
    });
  const std::size_t n = count_of(gone);
  std::printf("%zu %s removed from %s\n", n, n == 1 ? "model was" : "models were", file.path().c_str());
  return 0;
}

int export_all(const models_options& o) {
  model_file file = file_of(o);
  std::printf("%s\n", json_of(stored(file, o.only), date_now()).c_str());
  return 0;
}

} // namespace

void add_models(CLI::App& app, int& code) {
  auto o = std::make_shared<models_options>();
  auto* models = app.add_subcommand("models", "How long kernels and copies take on this machine");
  models->fallthrough();
  models->require_subcommand(0, 1);
  models->add_option("--file", o->file, "Another file than this machine's, HOST.models");
  models->add_option("--only", o->only, "Only models whose kernel or device is called so; * and ? stand for others");
  models->add_option("--plot", o->plot, "Draw times over sizes instead (PNG)");
  auto* clears = models->add_subcommand("clear", "Remove models; programs measure anew");
  clears->add_option("PATTERN", o->pattern, "Only those whose kernel or device is called so (default: all)");
  auto* exports = models->add_subcommand("export", "Write all as one JSON document, with each sample");
  models->footer(
      "Examples:\n"
      "  tern models                           a line for each kernel, size and device\n"
      "  tern models --only 'gemm*' --plot gemm.png\n"
      "  tern models clear axpy                what is known of axpy is forgotten\n"
      "  tern models export > models.json\n"
      "Programs store them in the folder of --tern-hetero-models (TERN_HETERO_MODELS), a file for each host.\n"
      "Exit code: 0; 1: the file cannot be read or written, or nothing is called so; 2: there is no file.");
  models->callback([o, clears, exports, &code] {
    code = clears->parsed() ? clear(*o) : exports->parsed() ? export_all(*o) : list(*o);
  });
}

} // namespace tern::tool

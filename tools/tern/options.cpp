// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern options`: all options of Tern, as each program that links `tern::tern` has them.
#include "tools/tern/commands.hpp"

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include <tern/base/options.hpp>

namespace tern::tool {

void add_options(CLI::App& app, int& code) {
  auto* sub = app.add_subcommand("options", "All options of Tern, and what the environment sets them to");
  auto markdown = std::make_shared<bool>(false);
  sub->add_flag("--markdown", *markdown, "As the table of docs/reference/options.md, without what is set");
  sub->callback([markdown, &code] {
    int none = 0;
    std::fputs((*markdown ? options::help_table() : options::parse(none, nullptr).help()).c_str(), stdout);
    code = 0;
  });
}

} // namespace tern::tool

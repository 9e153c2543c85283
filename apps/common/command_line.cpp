// SPDX-License-Identifier: Apache-2.0
#include "apps/common/command_line.hpp"

#include <sstream>

#include <CLI/CLI.hpp>

namespace apps {

bool parse(CLI::App& app, int argc, const char* const* argv, const char* program, command_line_end& end) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    end.code = app.exit(e, out, err) == 0 ? 0 : 2;
    end.stop = true;
    end.text = out.str() + (err.str().empty() ? "" : std::string(program) + ": " + err.str());
    return false;
  }
}

} // namespace apps

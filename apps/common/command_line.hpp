// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace apps {

/// How reading a command line has ended, if the program is not to go on.
struct command_line_end {
  bool stop = false; ///< help was asked for, or the line was wrong: `text` says so
  int code = 0;
  std::string text;
};

/// Reads the line into what `app` was told of. \return whether the program goes on; else `end` says
/// what it prints, and its exit code: 0 for help, 2 for what is wrong.
bool parse(CLI::App& app, int argc, const char* const* argv, const char* program, command_line_end& end);

} // namespace apps

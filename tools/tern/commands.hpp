// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The subcommands of `tern`. Each adds its options to the parser and, when chosen, leaves its exit
/// code in `code`.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tern::tool {

/// \param program what stands behind `--` on the command line: the program to run and its
/// arguments.
void add_run(CLI::App& app, const std::vector<std::string>& program, int& code);
void add_sim(CLI::App& app, const std::vector<std::string>& program, int& code);
void add_info(CLI::App& app, int& code);
void add_options(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_trace(CLI::App& app, int& code);
void add_replay(CLI::App& app, int& code);
void add_kernels(CLI::App& app, int& code);
void add_models(CLI::App& app, int& code);

/// The program to run and its arguments, which stand behind `--` (`program`) or, without a `--`,
/// after the options of `sub`, a prefix command. \throws failure that shows the `example` if there
/// are none.
std::vector<std::string> program_of(const CLI::App& sub, const std::vector<std::string>& program,
                                    const std::string& example);

} // namespace tern::tool

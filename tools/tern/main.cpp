// SPDX-License-Identifier: Apache-2.0
/// \file
/// The `tern` command.
#include "tools/tern/commands.hpp"
#include "tools/tern/launch/process.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  using namespace tern::tool;
  // What follows -- is the user's program with its own options: the parser must not see it.
  std::vector<std::string> arguments(argv + 1, argv + argc), program;
  if (const auto marker = std::find(arguments.begin(), arguments.end(), "--"); marker != arguments.end()) {
    program.assign(marker + 1, arguments.end());
    arguments.erase(marker, arguments.end());
  }
  int code = 0;
  CLI::App app{"Tern: run programs that use it, and see what it sees"};
  app.name("tern");
  app.set_version_flag("--version", "tern " TERN_VERSION);
  app.require_subcommand(1);
  app.footer("Examples:\n"
             "  tern run -n 4 -- ./app                  four ranks as threads of one process\n"
             "  tern run -n 4 --transport mpi -- ./app  four processes under MPI\n"
             "  tern run --gdb 1 -n 2 -- ./app          with rank 1 under the debugger\n"
             "  tern sim -n 64 --seeds 200 -- ./app     simulated, in 200 orders of events\n"
             "  tern info                               what Tern finds on this machine\n"
             "  tern options                            all options of Tern, and what is set\n"
             "  tern bench                              compare Tern with its rivals\n"
             "  tern trace run.json                     the trace of a job that was killed\n"
             "  tern replay run.rec                     try load-balancing policies on a recorded run\n"
             "  tern kernels check app.cpp              what devices' compilers say of its kernels\n"
             "  tern models                             how long kernels took on this machine's devices\n"
             "`tern SUBCOMMAND --help` tells more.");
  add_run(app, program, code);
  add_sim(app, program, code);
  add_info(app, code);
  add_options(app, code);
  add_bench(app, code);
  add_trace(app, code);
  add_replay(app, code);
  add_kernels(app, code);
  add_models(app, code);
  const auto known =
      app.get_subcommands([&](const CLI::App* sub) { return sub->check_name(arguments.empty() ? "" : arguments[0]); });
  if (!arguments.empty() && !arguments[0].starts_with('-') && known.empty()) {
    std::fprintf(stderr,
                 "tern: there is no subcommand \"%s\"; there are run, sim, info, options, bench, trace, "
                 "replay, kernels and models\n",
                 arguments[0].c_str());
    return 2;
  }
  try {
    std::reverse(arguments.begin(), arguments.end()); // the parser takes them from the back
    app.parse(arguments);
  } catch (const CLI::Success& e) { // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "tern: %s; see tern --help\n", e.what());
    return 2;
  } catch (const failure& e) {
    std::fprintf(stderr, "tern: %s\n", e.what());
    return e.code;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tern: %s\n", e.what());
    return 1;
  }
  return code;
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern run`: starts a program with some ranks, on threads of one process or under an MPI
/// launcher, and sees to its end.
#include "tools/tern/commands.hpp"
#include "tools/tern/launch/launcher.hpp"
#include "tools/tern/launch/process.hpp"
#include "tools/tern/launch/started.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <tern/base/topology.hpp>

namespace tern::tool {
namespace {

constexpr int most_ranks = 100'000;

struct run_options {
  int ranks = 0;
  std::string transport, mpi, bind;
  bool per_socket = false, per_node = false;
  int workers = 0;
  int gdb = -1;
};

/// A program to start.
struct started_program {
  std::vector<std::string> argv;  ///< found, and its arguments
  std::vector<std::string> typed; ///< the same as they were typed
  int ranks;                      ///< 0: as many as the launcher makes
};

/// The command that does the same with `rank` under gdb; negative: it has the word RANK there.
/// \param mpi the one that was used, or empty.
std::string under_gdb(const run_options& o, const started_program& p, const std::string& mpi, int rank) {
  std::vector<std::string> words{"run", "--gdb", rank < 0 ? "RANK" : std::to_string(rank)};
  const auto add = [&](const char* name, const std::string& value) { words.insert(words.end(), {name, value}); };
  if (p.ranks > 0) add("-n", std::to_string(p.ranks));
  if (!mpi.empty()) add("--mpi", mpi);
  if (o.per_socket) words.push_back("--per-socket");
  if (o.per_node) words.push_back("--per-node");
  if (o.workers > 0) add("--workers", std::to_string(o.workers));
  if (!o.bind.empty()) add("--bind", o.bind);
  words.push_back("--");
  words.insert(words.end(), p.typed.begin(), p.typed.end());
  return own_command() + " " + quoted(words);
}

/// Why a signal comes, if one can say so.
std::string reason(int signal) {
  switch (signal) {
  case SIGSEGV:
  case SIGBUS:
  case SIGFPE:
  case SIGILL:
  case SIGABRT:
    return "";
  case SIGKILL:
    return ", from outside or by the kernel when memory ran out (see dmesg)";
  case SIGXCPU:
    return ", for its limit of CPU time (ulimit -t)";
  default:
    return ", from outside";
  }
}
/// For a signal that comes from the program itself: what to type next. \param rank negative: which
/// one is not known.
std::string advice(int signal, int rank, const std::function<std::string(int rank)>& again) {
  if (!reason(signal).empty()) return "";
  return (rank < 0 ? "; to see where, for each RANK that it may be:\n  " : "; to see where:\n  ") + again(rank);
}

/// After the end of a program that ended by itself.
void warn_unless_started(const start_file& mark, const started_program& p, bool mpi) {
  if (mark.started()) return;
  std::string what = "once, without ranks";
  if (mpi)
    what = p.ranks == 1
               ? "as any program does"
               : (p.ranks > 0 ? std::to_string(p.ranks) : "several") + " times, each without knowing of the others";
  std::fprintf(stderr, "tern: warning: %s did not call tern::run, so it ran %s\n", p.typed[0].c_str(), what.c_str());
}

int run_inproc(const run_options& options, const started_program& program) {
  const scratch_folder scratch;
  const start_file mark(scratch, "started");
  job what;
  what.argv = program.argv;
  what.ranks = all_ranks(program.ranks);
  what.environment = {{"TERN_RANKS", std::to_string(program.ranks)},
                      {"TERN_TRANSPORT", options.transport.empty() ? "inproc" : options.transport},
                      {"TERN_STARTED", mark.path()}};
  if (options.workers > 0) what.environment.emplace_back("TERN_WORKERS", std::to_string(options.workers));
  if (!options.bind.empty()) what.environment.emplace_back("TERN_BIND", options.bind);
  if (options.gdb >= 0) {
    std::fprintf(stderr,
                 "tern: all %d ranks are threads of this process; those of rank %d are called \"tern r%d w…\" "
                 "(info threads)\n",
                 program.ranks, options.gdb, options.gdb);
    what.argv.insert(what.argv.begin(), {find_program("gdb").string(), "--args"});
    what.own_group = false; // the debugger wants the terminal and its Ctrl-C
  }
  const outcome end = supervise(what);
  if (end.interrupted_by) return say_interrupted(end, what.ranks);
  if (end.status.signal)
    std::fprintf(stderr, "tern: %s with %s in it %s%s%s\n", program.argv[0].c_str(), what.ranks.c_str(),
                 killed_by(end.status.signal).c_str(), reason(end.status.signal).c_str(),
                 advice(end.status.signal, 0, [&](int rank) { return under_gdb(options, program, "", rank); }).c_str());
  else if (options.gdb < 0)
    warn_unless_started(mark, program, false);
  return end.status.shell_code();
}

const mpi_installation& choose(const std::vector<mpi_installation>& found, const std::string& wanted) {
  for (const auto& one : found)
    if (wanted.empty() ? one.launcher && one.plugin : one.name == wanted) {
      if (!one.launcher)
        throw failure("there is no launcher of " + one.title + " in PATH; install " +
                      (one.name == "openmpi" ? "openmpi-bin" : "mpich") + ", or run without --mpi");
      if (!one.plugin)
        throw failure("this Tern was built without " + one.title + ": there is no libtern_mpi_" + one.name +
                      ".so; install lib" + one.name + "-dev and build again, or set TERN_PLUGIN_DIR");
      return one;
    }
  std::string why;
  for (const auto& one : found)
    why += (why.empty() ? "" : "; ") + one.title + ": " +
           (!one.launcher ? "no launcher in PATH" : "no plug-in libtern_mpi_" + one.name + ".so");
  throw failure("no MPI to run with (" + why +
                "); install openmpi-bin and libopenmpi-dev and build again, or leave "
                "--transport mpi out");
}

/// One line for the whole job, whatever the launcher said. \param again the command that shows a
/// rank under gdb.
/// \return the exit code.
int report(const outcome& end, const job_failure& seen, int ranks, const std::string& launcher,
           const std::function<std::string(int rank)>& again) {
  const std::string who = seen.rank >= 0  ? "rank " + std::to_string(seen.rank)
                          : seen.pid >= 0 ? "a rank (process " + std::to_string(seen.pid) + ")"
                                          : "a rank";
  const std::string rest = "; " + all_ranks(ranks) + " ended";
  if (seen.known && seen.signal) {
    std::fprintf(stderr, "tern: %s %s%s%s%s\n", who.c_str(), killed_by(seen.signal).c_str(),
                 reason(seen.signal).c_str(), rest.c_str(), advice(seen.signal, seen.rank, again).c_str());
    return 128 + seen.signal;
  }
  if (seen.known) {
    const int code = seen.code ? seen.code : end.status.shell_code();
    std::fprintf(stderr, "tern: %s %s exit code %d%s\n", who.c_str(),
                 seen.aborted ? "ended the job with" : "ended with", code, rest.c_str());
    return code ? code : 1;
  }
  if (end.status.signal)
    std::fprintf(stderr, "tern: %s %s%s\n", launcher.c_str(), killed_by(end.status.signal).c_str(), rest.c_str());
  else if (end.status.code)
    std::fprintf(stderr, "tern: the job ended with exit code %d\n", end.status.code);
  return end.status.shell_code();
}

int run_mpi(const run_options& options, const started_program& program, const placement& where) {
  const auto found = find_mpis();
  const auto& mpi = choose(found, options.mpi);
  job_failure seen;
  launcher_noise out(seen), err(seen);
  job what;
  what.ranks = all_ranks(where.ranks);
  // The launcher copies its own environment, so it is set here and named in its command.
  setenv("TERN_TRANSPORT", "mpi", 1);
  if (options.workers > 0) setenv("TERN_WORKERS", std::to_string(options.workers).c_str(), 1);
  if (!options.bind.empty()) setenv("TERN_BIND", options.bind.c_str(), 1);
  what.environment.emplace_back("TERN_RANKS", std::nullopt);
  // A launcher that starts us has marked our environment; this one must not take itself for one of
  // its ranks.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_FD", "PMI_SIZE",
                           "PMIX_RANK", "PMIX_NAMESPACE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"})
    what.environment.emplace_back(name, std::nullopt);
  // Ranks on other machines could not write themselves into our file.
  unsetenv("TERN_STARTED");
  std::optional<scratch_folder> scratch;
  std::optional<start_file> mark;
  if (job_stays_here()) {
    scratch.emplace();
    mark.emplace(*scratch, "started");
    if (const auto path = mark->path()) setenv("TERN_STARTED", path->c_str(), 1);
    if (mpi.name == "openmpi" && scratch->in_memory() && !std::getenv("OMPI_MCA_btl_vader_backing_directory"))
      what.environment.emplace_back("OMPI_MCA_btl_vader_backing_directory", scratch->path());
  }
  what.argv = launcher_command(mpi, where);
  int input[2] = {-1, -1};
  if (options.gdb >= 0) {
    // Launchers give their input to rank 0 or to none. The debugged rank, on this host, takes it
    // from our own pipe.
    const std::string gdb = find_program("gdb").string();
    if (pipe2(input, O_CLOEXEC) != 0) throw failure(std::string("no pipe: ") + std::strerror(errno));
    what.input_copy = input[1];
    const std::string script = "if [ \"${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}\" = " + std::to_string(options.gdb) +
                               " ]; then exec " + gdb +
                               " -ex 'set pagination off' -ex 'set confirm off' --args \"$@\" < /proc/" +
                               std::to_string(getpid()) + "/fd/" + std::to_string(input[0]) + "; else exec \"$@\"; fi";
    what.argv.insert(what.argv.end(), {"/bin/sh", "-c", script, "tern-gdb"});
    std::fprintf(stderr, "tern: rank %d is under gdb (type `run`); Ctrl-C ends the job\n", options.gdb);
  }
  what.argv.insert(what.argv.end(), program.argv.begin(), program.argv.end());
  what.signal_leader_only = true;
  // Hydra writes to its proxy, which has ended if all ranks end at once: so do 4 % of runs of
  // /bin/echo. Ranks inherit that.
  what.survives_closed_pipes = mpi.name == "mpich";
  what.standard_output = &out;
  what.standard_error = &err;
  what.failed = [&] { return seen.known; };
  const outcome end = supervise(what);
  if (input[0] >= 0) close(input[0]);
  std::fflush(stdout);
  if (end.interrupted_by) return say_interrupted(end, what.ranks);
  int code = 0;
  if (end.status.shell_code() != 0 || seen.known) {
    if (mark && seen.rank < 0) seen.rank = mark->rank_of(seen.pid); // MPICH tells the process only
    code = report(end, seen, where.ranks, mpi.launcher->filename().string(),
                  [&](int rank) { return under_gdb(options, program, mpi.name, rank); });
  }
  if (mark && options.gdb < 0 && !seen.signal && !end.status.signal) warn_unless_started(*mark, program, true);
  return code;
}

int run(const run_options& options, const std::vector<std::string>& typed, bool ranks_given) {
  if (ranks_given && (options.ranks < 1 || options.ranks > most_ranks))
    throw failure("-n " + std::to_string(options.ranks) + ": the number of ranks must be from 1 to " +
                      std::to_string(most_ranks),
                  2);
  started_program program{typed, typed, 0};
  program.argv[0] = find_program(typed[0]).string();

  const bool mpi = options.transport == "mpi" || (options.transport.empty() && !options.mpi.empty());
  if (!mpi && !options.mpi.empty()) throw failure("--mpi goes with --transport mpi, not with " + options.transport, 2);
  placement where;
  where.ranks = ranks_given ? options.ranks : 1;
  if (options.per_socket || options.per_node) {
    where.per = options.per_socket ? placement::per_what::socket : placement::per_what::node;
    if (!mpi || job_stays_here()) { // on a cluster the launcher knows how many there are
      const int places = options.per_socket ? describe_machine().packages : 1;
      if (!ranks_given) where.ranks = places;
      if (where.ranks > places)
        throw failure("this machine has " + std::to_string(places) + (options.per_socket ? " socket(s)" : " node") +
                          ", too few for " + std::to_string(where.ranks) + " ranks with " +
                          (options.per_socket ? "--per-socket" : "--per-node"),
                      2);
    } else if (!ranks_given) {
      where.ranks = 0;
    }
  }
  if (options.gdb >= 0 && where.ranks > 0 && options.gdb >= where.ranks)
    throw failure(
        "--gdb " + std::to_string(options.gdb) + ": there are only ranks 0 to " + std::to_string(where.ranks - 1), 2);
  program.ranks = where.ranks;
  return mpi ? run_mpi(options, program, where) : run_inproc(options, program);
}

} // namespace

std::vector<std::string> program_of(const CLI::App& sub, const std::vector<std::string>& program,
                                    const std::string& example) {
  std::vector<std::string> rest = sub.remaining();
  if (!program.empty() && !rest.empty() && rest[0][0] != '-')
    throw failure("\"" + rest[0] + "\" stands before --: the program and its arguments stand behind it", 2);
  rest.insert(rest.end(), program.begin(), program.end());
  if (rest.empty() || rest[0].empty()) throw failure("no program given; for example: " + example, 2);
  if (rest[0][0] == '-')
    throw failure("unknown option " + rest[0] + "; the program and its arguments stand behind --: " + example, 2);
  return rest;
}

void add_run(CLI::App& app, const std::vector<std::string>& program, int& code) {
  auto* sub = app.add_subcommand("run", "Run a program with some ranks");
  auto options = std::make_shared<run_options>();
  auto* ranks = sub->add_option("-n,--ranks", options->ranks, "Number of ranks (1)");
  sub->add_option(
      "--transport", options->transport,
      "inproc: ranks are threads of one process, works everywhere (default); mpi: processes under MPI; or the "
      "name of a transport that the program has");
  sub->add_option("--mpi", options->mpi, "Which MPI, if there are several; implies --transport mpi")
      ->check(CLI::IsMember({"openmpi", "mpich"}));
  auto* socket = sub->add_flag("--per-socket", options->per_socket, "One rank for each processor socket");
  sub->add_flag("--per-node", options->per_node, "One rank for each machine")->excludes(socket);
  sub->add_option("--workers", options->workers, "Worker threads of a rank (as many as it has CPUs)")
      ->check(CLI::Range(1, 4096));
  sub->add_option("--bind", options->bind, "Bind workers to a core each, to NUMA nodes, or not")
      ->check(CLI::IsMember({"core", "numa", "none"}));
  sub->add_option("--gdb", options->gdb, "Run this rank under gdb")->check(CLI::Range(0, most_ranks - 1));
  sub->prefix_command();
  sub->footer(
      "The program and its arguments stand behind --:\n"
      "  tern run -n 4 -- ./app --size 100\n"
      "  tern run -n 4 --transport mpi -- ./app\n"
      "Exit code: the program's; 128 + signal if it was killed. A program that does not call tern::run is told\n"
      "of at its end. Ctrl-C ends all ranks, twice kills them.\n"
      "Input is passed on from files and pipes, not from the terminal.");
  sub->callback([sub, options, ranks, program, &code] {
    code = run(*options, program_of(*sub, program, "tern run -n 4 -- ./app"), ranks->count() > 0);
  });
}

} // namespace tern::tool

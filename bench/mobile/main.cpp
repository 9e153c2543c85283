// SPDX-License-Identifier: Apache-2.0
/// \file
/// Mobile objects beside messages, MPI and a concurrent hash table.
///
///     bench_mobile                  as every benchmark (harness.hpp)
///     bench_mobile --markdown       the table of docs/results/mobile.md

#include "bench/harness/harness.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/jobs.hpp"
#include "bench/harness/series.hpp"

#ifndef BENCH_MOBILE_TERN
#error "define BENCH_MOBILE_TERN, _TBB, _MPI_OPENMPI, _MPI_MPICH as the paths of the programs"
#endif

namespace {

using namespace tern::bench;
using metrics = std::vector<metric>;

/// How ours spins (jobs.hpp), and the suffix of such lines.
struct way {
  std::string suffix;
  spinning how;
};
const way usual{"", spinning::usual}, spins{".spinning", spinning::always};

series alone(int workers, const words& arguments) {
  return series([=] { return run_tern_alone(workers, command_line(BENCH_MOBILE_TERN, arguments)); });
}
series ranks(mpi library, const words& arguments, const way& w) {
  return series([=] { return run_tern_ranks(library, command_line(BENCH_MOBILE_TERN, arguments), w.how); });
}
series raw(mpi library, const std::string& seconds) {
  return series([=] {
    return run_rival_ranks(
        library, {library == mpi::open_mpi ? BENCH_MOBILE_MPI_OPENMPI : BENCH_MOBILE_MPI_MPICH, "rounds", seconds});
  });
}
series raw_reduce(mpi library, const std::string& seconds, const std::string& objects) {
  return series([=] {
    return run_rival_ranks(library, {library == mpi::open_mpi ? BENCH_MOBILE_MPI_OPENMPI : BENCH_MOBILE_MPI_MPICH,
                                     "reduce", seconds, objects});
  });
}
series hash_table(const words& arguments) {
  return series([=] {
    if (std::string(BENCH_MOBILE_TBB).empty()) throw absent("oneTBB: libtbb-dev");
    return run_for_json(command_line(BENCH_MOBILE_TBB, arguments));
  });
}

void add_local(metrics& all, const scale& of) {
  const series both = alone(1, {"local", of("1.2", "0.02")}); // ours and the rival in one program
  all.push_back({.name = "mobile.local",
                 .unit = "ns",
                 .target = 1.3,
                 .rival_name = "a message to oneself",
                 .ours = both["invocation"],
                 .rival = both["send"]});
  all.push_back({.name = "mobile.local.absolute",
                 .unit = "ns",
                 .target = 1,
                 .rival_name = "budget",
                 .ours = both["invocation"],
                 .rival = budget(150)});
  all.push_back({.name = "mobile.local.call",
                 .unit = "ns",
                 .rival_name = "a call of oneself",
                 .ours = both["invocation.call"],
                 .rival = both["call"]});
}

void add_rounds(metrics& all, mpi library, const std::string& prefix, bool judged, const scale& of, const way& w) {
  const std::string seconds = of("0.3", "0.005");
  const series our = ranks(library, {"rounds", seconds}, w), their = raw(library, seconds);
  const auto add = [&](const char* name, const char* size, double target) {
    metric m{.name = prefix + "." + name + size + w.suffix, .unit = "us", .rival_name = "raw MPI"};
    if (judged) m.target = target;
    m.ours = our[name];
    m.rival = their[name];
    all.push_back(std::move(m));
  };
  add("remote", ".64B", 1.7);
  add("migration", ".1MiB", 1.3);
}

void add_lookups(metrics& all, const scale& of) {
  const words rest{of("1000000", "1000"), of("0.6", "0.05")};
  const auto with = [&](const char* kind) {
    words line = rest;
    line.insert(line.begin(), kind);
    return alone(4, line)["lookup"];
  };
  const series their = hash_table(rest);
  const auto add = [&](const char* name, const char* kind) {
    all.push_back({.name = name,
                   .unit = "ns",
                   .target = 0.7,
                   .rival_name = "concurrent_hash_map",
                   .ours = with(kind),
                   .rival = their["lookup"]});
  };
  add("mobile.lookup", "lookup");
  add("mobile.lookup.table", "table");
}

/// Beyond an object's data: of objects that have been made and used, and of those that have moved,
/// and come back.
void add_memory(metrics& all, const scale& of) {
  const auto run = [](const char* kind, const char* objects, const char* what) {
    return [=] {
      const words line{BENCH_MOBILE_TERN, kind, objects};
      const bool two = std::string(kind) == "moved";
      return (two ? run_tern_threads(line, spinning::usual) : run_tern_alone(1, line)).at(what).get<double>();
    };
  };
  const auto add = [&](const char* name, std::function<double()> measurement) {
    all.push_back({.name = name,
                   .unit = "B",
                   .target = 1,
                   .rival_name = "budget",
                   .ours = std::move(measurement),
                   .rival = budget(256),
                   .once = true});
  };
  const char* const many = of("1000000", "10000");
  add("mobile.memory", run("memory", many, "created"));
  add("mobile.memory.used", run("memory", many, "used"));
  const char* const some = of("20000", "2000");
  add("mobile.memory.away", run("moved", some, "away"));
  add("mobile.memory.back", run("moved", some, "back"));
}

void add_many(metrics& all, const scale& of) {
  const series our = ranks(mpi::open_mpi, {"many", of("1000000", "4000"), "1"}, usual),
               their = ranks(mpi::open_mpi, {"many", "1000", of("300", "2")}, usual);
  const auto add = [&](const std::string& name, const char* what, std::optional<double> target) {
    all.push_back({.name = "mobile.million" + name,
                   .unit = "ns",
                   .target = target,
                   .rival_name = "a thousand",
                   .ours = our[what],
                   .rival = their[what]});
  };
  add("", "all", 1.2);
  add(".create", "create", {});
  add(".use", "use", {});
  add(".destroy", "destroy", {});
}

void add_hops(metrics& all) {
  const int most = 8;
  const series hops([=] { return run_for_json({BENCH_MOBILE_TERN, "hops", std::to_string(most)}); });
  const auto add = [&](const std::string& name, const std::string& what, double least, std::optional<double> target) {
    all.push_back({.name = "mobile.hops." + name,
                   .unit = "messages",
                   .target = target,
                   .rival_name = "budget",
                   .ours = hops[what],
                   .rival = budget(least),
                   .once = true});
  };
  for (int k = 1; k <= most; ++k) add(std::to_string(k), std::to_string(k), k + 1, 1);
  add("again", "again", 1, 1);
  add("notes", "notes", 1, {});
}

/// On two ranks, as there are cores for.
void add_arrays(metrics& all, const scale& of) {
  const series elements = alone(1, {"element", of("1.2", "0.02")});
  all.push_back({.name = "array.element",
                 .unit = "ns",
                 .target = 1.02,
                 .rival_name = "a held pointer",
                 .ours = elements["element"],
                 .rival = elements["pointer"]});
  const std::string many = of("100000", "1000");
  const series array = ranks(mpi::open_mpi, {"array", many, of("5", "2")}, usual);
  all.push_back({.name = "array.broadcast",
                 .unit = "ns",
                 .target = 1.3,
                 .rival_name = "local invocations",
                 .ours = array["broadcast"],
                 .rival = array["loop"]});
  all.push_back({.name = "array.reduce",
                 .unit = "ns",
                 .target = 2.0,
                 .rival_name = "sums, MPI_Allreduce",
                 .ours = array["reduce"],
                 .rival = raw_reduce(mpi::open_mpi, of("0.3", "0.005"), many)["reduce"]});
  all.push_back({.name = "array.reduce.held",
                 .unit = "ns",
                 .target = 2.0,
                 .rival_name = "held, allreduce",
                 .ours = array["reduce"],
                 .rival = array["hold"]});
  const series large = ranks(mpi::open_mpi, {"arrays", of("1000000", "4000"), "1"}, usual),
               small = ranks(mpi::open_mpi, {"arrays", of("10000", "1000"), of("30", "2")}, usual);
  const auto add = [&](const std::string& name, const char* what, std::optional<double> target) {
    all.push_back({.name = "array.million" + name,
                   .unit = "ns",
                   .target = target,
                   .rival_name = "ten thousand",
                   .ours = large[what],
                   .rival = small[what]});
  };
  add("", "all", 1.2);
  add(".create", "create", {});
  add(".broadcast", "broadcast", {});
  add(".reduce", "reduce", {});
  add(".destroy", "destroy", {});
  all.push_back({.name = "array.memory",
                 .unit = "B",
                 .target = 1,
                 .rival_name = "budget",
                 .ours = alone(1, {"array_memory", of("1000000", "10000")})["bytes"],
                 .rival = budget(300),
                 .once = true});
}

void add_events(metrics& all, const scale& of) {
  const series both = alone(1, {"events", of("1.2", "0.02")});
  all.push_back({.name = "event.local",
                 .unit = "ns",
                 .target = 1.3,
                 .rival_name = "a local invocation",
                 .ours = both["signal"],
                 .rival = both["invocation"]});
}

void add_together(metrics& all, const scale& of) {
  for (const char* const k : {"2", "8", "26"}) {
    const series here = alone(1, {"together", k, of("0.6", "0.02")});
    all.push_back({.name = std::string("together.local.") + k,
                   .unit = "ns",
                   .target = 1.0,
                   .rival_name = "3 invocations of each",
                   .ours = here["together"],
                   .rival = here["loop"]});
  }
  const series counted([] { return run_for_json({BENCH_MOBILE_TERN, "together_messages", "8"}); });
  all.push_back(
      {.name = "together.local.messages", .unit = "messages", .target = 0, .ours = counted["messages"], .once = true});
  const series apart = ranks(mpi::open_mpi, {"together_remote", of("400", "3")}, usual);
  all.push_back({.name = "together.remote",
                 .unit = "us",
                 .target = 1.2,
                 .rival_name = "two calls, a migration",
                 .ours = apart["together"],
                 .rival = apart["hand"]});
}

void add_protect(metrics& all, const scale& of) {
  const series copies([=] { return run_for_json({BENCH_MOBILE_TERN, "protect", of("1024", "32")}); });
  all.push_back({.name = "protect.cost",
                 .unit = "s",
                 .target = 1.05,
                 .rival_name = "no copies, simulated",
                 .ours = copies["with"],
                 .rival = copies["without"],
                 .once = true});
  all.push_back({.name = "protect.memory",
                 .unit = "B",
                 .target = 2.1,
                 .rival_name = "packed bytes",
                 .ours = copies["kept"],
                 .rival = copies["packed"],
                 .once = true});
  const series death([=] { return run_for_json({BENCH_MOBILE_TERN, "recover", of("256", "16")}); });
  all.push_back({.name = "recover",
                 .unit = "us",
                 .target = 3.0,
                 .rival_name = "a copy, simulated",
                 .ours = death["go_on"],
                 .rival = death["copy"],
                 .once = true});
}

void add_disk(metrics& all, const scale& of) {
  const char* const set = std::getenv("TMPDIR");
  const std::string where = set && *set ? set : "/var/tmp", objects = of("256", "12");
  const series our = alone(2, {"disk", objects, of("2", "1"), std::string("--tern-mobile-memory=") + of("64M", "3M"),
                               "--tern-mobile-directory=" + where});
  const series their([=] {
    nlohmann::json found = run_for_json({BENCH_MOBILE_DISK, where, objects});
    if (found.contains("absent")) throw absent(found["absent"].get<std::string>());
    return found;
  });
  const auto add = [&](const char* what) {
    all.push_back({.name = std::string("mobile.disk.") + what,
                   .unit = "MiB/s",
                   .better = direction::higher,
                   .target = 0.7,
                   .rival_name = "dd, direct",
                   .ours = our[what],
                   .rival = their[what]});
  };
  add("update");
  add("read");
}

void add_checkpoint(metrics& all, const scale& of) {
  const char* const set = std::getenv("TMPDIR");
  const std::string where = set && *set ? set : "/var/tmp", mib = of("1024", "16");
  const series both([=] { // ours and the rival beside each other
    nlohmann::json found = run_for_json({BENCH_MOBILE_CHECKPOINT, BENCH_MOBILE_TERN, where, mib});
    if (found.contains("absent")) throw absent(found["absent"].get<std::string>());
    return found;
  });
  const auto add = [&](const char* what, const char* ours, const char* rival, const char* rival_name) {
    all.push_back({.name = std::string("checkpoint.") + what,
                   .unit = "MiB/s",
                   .better = direction::higher,
                   .target = 0.7,
                   .rival_name = rival_name,
                   .ours = both[ours],
                   .rival = both[rival]});
  };
  add("write", "write", "dd_write", "dd, fsync");
  add("restart", "restart", "dd_read", "dd, direct");
}

metrics all_metrics(const scale& of) {
  metrics all;
  add_local(all, of);
  for (const way& w : {usual, spins}) add_rounds(all, mpi::open_mpi, "mobile", true, of, w);
  add_lookups(all, of);
  add_memory(all, of);
  add_many(all, of);
  add_hops(all);
  add_arrays(all, of);
  add_events(all, of);
  add_together(all, of);
  add_protect(all, of);
  add_disk(all, of);
  add_checkpoint(all, of);
  for (const way& w : {usual, spins}) add_rounds(all, mpi::mpich, "mobile.mpich", false, of, w);
  return all;
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  return run(argc, argv, all_metrics);
}

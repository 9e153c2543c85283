// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks on devices and kernels against StarPU, OpenMP, OpenBLAS and OpenCL (docs/decisions/0030).
/// Each contestant is a child process of its own; what is compared is what those report.
/// `--ablation` tells what each step from the simplest scheduler to the last brings.

#include "bench/harness/harness.hpp"
#include "bench/harness/runner.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#ifndef BENCH_HETERO_TERN
#error "define BENCH_HETERO_TERN, _STARPU, _LIBOMP, … as the paths of the contestants; empty: not built"
#endif

namespace {

using namespace tern::bench;
using contest::comparison;
using contest::rival;
using contest::runners;

// Kernels that take so long that what it costs to start them does not matter.
#define SIMULATED "launch=4ms,latency=20us,bandwidth=1G\nTERN_HETERO_POLICY=locality"
// Kernels that take less than it costs to start them, one launch after the other.
#define SMALL_KERNELS                                                                                                  \
  "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_POLICY=locality\nTERN_HETERO_QUEUES=1\nTERN_HETERO_SIMULATED=1:launch="  \
  "5us,item=1us,latency=1us,"                                                                                          \
  "bandwidth=0"
// Two unlike devices, which threads of their own drive (simulated/placed_cholesky.cpp).
#define UNLIKE                                                                                                         \
  "TERN_HETERO_DEVICES=host,simulated\nTERN_HETERO_QUEUES=1\nTERN_HETERO_THREADS=true\n"                               \
  "TERN_HETERO_SIMULATED=2:launch=0us,item=2us,latency=5us,bandwidth=64M,speed=1,speed=2@0\n"                          \
  "TERN_HETERO_MODELS=read:/nowhere\nTERN_HETERO_POLICY="

// Devices that take no time: what is left is what placing costs.
#define QUICK                                                                                                          \
  "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_MODELS=read:/nowhere\nTERN_HETERO_POLICY=dmda\n"                         \
  "TERN_HETERO_SIMULATED="

const contest::contestant& contestant_named(const std::string& name) {
  static const std::vector<contest::contestant> all{
      {"tern", BENCH_HETERO_TERN, "", ""},
      {"StarPU lws", BENCH_HETERO_STARPU, "libstarpu-dev", "STARPU_SCHED=lws"},
      {"StarPU eager", BENCH_HETERO_STARPU, "libstarpu-dev", "STARPU_SCHED=eager"},
      {"libomp", BENCH_HETERO_LIBOMP, "clang-19 and libomp-19-dev", ""},
      {"libomp turnaround", BENCH_HETERO_LIBOMP, "clang-19 and libomp-19-dev", "KMP_LIBRARY=turnaround"},
      {"libgomp", BENCH_HETERO_LIBGOMP, "g++", ""},
      {"OpenMP loops", BENCH_HETERO_LOOPS, "OpenMP for the compiler", ""},
      {"OpenBLAS", BENCH_HETERO_OPENBLAS, "libopenblas-dev", ""},
      {"OpenCL", BENCH_HETERO_OPENCL, "ocl-icd-opencl-dev and pocl-opencl-icd", ""},
      // The device on which our contestant has PoCL run kernels (hetero-opencl-pocl): one thread on
      // either contestant. PoCL's default would use both CPUs, where ours has a worker left for
      // other tasks.
      {"PoCL basic", BENCH_HETERO_OPENCL, "ocl-icd-opencl-dev and pocl-opencl-icd", "POCL_DEVICES=basic"},
      // The default of OpenCL for a user without settings.
      {"PoCL pthread", BENCH_HETERO_OPENCL, "ocl-icd-opencl-dev and pocl-opencl-icd", "POCL_DEVICES=pthread"},
      {"tern, checked", BENCH_HETERO_TERN, "", "TERN_HETERO_DEVICES=host\nTERN_HETERO_CHECKED=true"},
      {"tern, unchecked", BENCH_HETERO_TERN, "", "TERN_HETERO_DEVICES=host"},
      {"tern, 3 simulated devices", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host,simulated\nTERN_HETERO_SIMULATED=3\nTERN_HETERO_POLICY=locality"},
      {"tern, 4 simulated devices", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_SIMULATED=4:" SIMULATED},
      {"tern, 2 simulated devices", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_SIMULATED=2:" SIMULATED},
      {"tern, 1 device, threads", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_THREADS=true\nTERN_HETERO_SIMULATED=1:" SIMULATED},
      {"tern, 2 devices, threads", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_THREADS=true\nTERN_HETERO_SIMULATED=2:" SIMULATED},
      {"tern, 4 devices, threads", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_THREADS=true\nTERN_HETERO_SIMULATED=4:" SIMULATED},
      // As simulated/simulated_devices.cpp expects: one launch after the other, each of 200 us.
      {"tern, a thread for a device", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host,simulated\nTERN_HETERO_THREADS=true\nTERN_HETERO_QUEUES=1\nTERN_HETERO_AHEAD=0\n"
       "TERN_HETERO_SIMULATED=1:launch=200us,item=0ns,latency=0us,bandwidth=0\nTERN_HETERO_POLICY=locality"},
      {"tern, 1 simulated device", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_SIMULATED=1:" SIMULATED},
      {"tern, host", BENCH_HETERO_TERN, "", "TERN_HETERO_DEVICES=host"},
      {"tern, fused launches", BENCH_HETERO_TERN, "", SMALL_KERNELS ",fuse=64"},
      {"tern, launches apart", BENCH_HETERO_TERN, "", SMALL_KERNELS},
      {"tern, PoCL pthread", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=opencl\nTERN_HETERO_OPENCL_POCL=pthread\nTERN_HETERO_POLICY=locality"},
      // Small kernels of PoCL's, in threads of its own beside one worker, and in the worker.
      {"tern, PoCL pthread, fused", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=opencl\nTERN_HETERO_OPENCL_POCL=pthread\nTERN_HETERO_POLICY=locality\n"
       "TERN_HETERO_OPENCL_FUSE=on"},
      {"tern, PoCL pthread, apart", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=opencl\nTERN_HETERO_OPENCL_POCL=pthread\nTERN_HETERO_POLICY=locality\n"
       "TERN_HETERO_OPENCL_FUSE=off"},
      {"tern, PoCL basic, fused", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=opencl\nTERN_HETERO_POLICY=locality\nTERN_HETERO_OPENCL_FUSE=on"},
      {"tern, PoCL basic, apart", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=opencl\nTERN_HETERO_POLICY=locality\nTERN_HETERO_OPENCL_FUSE=off"},
      {"tern, simulated memory", BENCH_HETERO_TERN, "", "TERN_HETERO_DEVICES=host"},
      {"tern, dmda", BENCH_HETERO_TERN, "", UNLIKE "dmda"},
      {"tern, locality", BENCH_HETERO_TERN, "", UNLIKE "locality"},
      {"tern, host, models and dmda", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host\nTERN_HETERO_MODELS=read:/nowhere\nTERN_HETERO_POLICY=dmda"},
      {"tern, host, locality", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host\nTERN_HETERO_MODELS=off\nTERN_HETERO_POLICY=locality"},
      {"tern, host beside a device", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host,simulated\nTERN_HETERO_SIMULATED=1\nTERN_HETERO_MODELS=read:/nowhere\n"
       "TERN_HETERO_POLICY=dmda"},
      {"tern, host beside a device, locality", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host,simulated\nTERN_HETERO_SIMULATED=1\nTERN_HETERO_MODELS=off\n"
       "TERN_HETERO_POLICY=locality"},
      {"tern, dmda on 8", BENCH_HETERO_TERN, "", QUICK "8:launch=0us,item=0ns,latency=0us,bandwidth=0"},
      {"tern, dmda on 1", BENCH_HETERO_TERN, "", QUICK "1:launch=0us,item=0ns,latency=0us,bandwidth=0"},
      {"tern, eager", BENCH_HETERO_TERN, "", UNLIKE "eager"},
      // A quarter of the lower tiles of a matrix of 4096.
      {"tern, 17 MiB", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host\nTERN_HETERO_HOST_MEMORY=17M\nTERN_HETERO_DISK=/var/tmp"},
      {"StarPU lws, 17 MiB", BENCH_HETERO_STARPU, "libstarpu-dev", "STARPU_SCHED=lws\nSTARPU_LIMIT_CPU_MEM=17"},
      // A quarter of the lower tiles of a matrix of 2048, in buffers.
      {"tern, buffers of 4 MiB", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=opencl\nTERN_HETERO_OPENCL_MEMORY=buffers\nTERN_HETERO_MEMORY=4M"},
      {"StarPU lws, buffers of 4 MiB", BENCH_HETERO_STARPU, "libstarpu-dev",
       "STARPU_SCHED=lws\nSTARPU_LIMIT_OPENCL_MEM=4\nPOCL_DEVICES=basic"},
      {"tern, eager, not ahead", BENCH_HETERO_TERN, "", UNLIKE "eager\nTERN_HETERO_AHEAD=0"},
      {"tern, locality, not ahead", BENCH_HETERO_TERN, "", UNLIKE "locality\nTERN_HETERO_AHEAD=0"},
      {"tern, dmda, not ahead", BENCH_HETERO_TERN, "", UNLIKE "dmda\nTERN_HETERO_AHEAD=0"},
  };
  for (const contest::contestant& s : all)
    if (s.name == name) return s;
  throw std::invalid_argument("no contestant is called " + name);
}

std::vector<metric> metrics(runners& running, const scale& of) {
  const std::vector<rival> starpu{{"StarPU lws", ""}, {"StarPU eager", ""}},
      openmp{{"libomp", ""}, {"libomp turnaround", ""}, {"libgomp", ""}}, loops{{"OpenMP loops", ""}};
  std::vector<metric> list;
  const auto add = [&](comparison c) { list.push_back(contest::compare(running, std::move(c))); };
  const auto n = [&](std::size_t usual, std::size_t tiny) { return of(usual, tiny); };
  constexpr std::size_t million = 1'000'000;

  // Tasks that do nothing.
  add({"hetero.empty.2w", 0.12, "empty", 2, n(million, 5000), starpu});
  add({"hetero.chain.starpu.2w", 0.06, "chain", 2, n(million, 5000), starpu});
  add({"hetero.chain.omp.2w", 1.0, "chain", 2, n(million, 5000), openmp});
  add({"hetero.objects.starpu.2w", 0.08, "objects", 2, n(million, 5000), starpu});
  add({"hetero.objects.omp.2w", 1.0, "objects", 2, n(million, 5000), openmp});

  // Tasks of OpenBLAS.
  add({"hetero.dgemm.openblas.2w", 1.10, "dgemm", 2, n(4096, 1024), {{"OpenBLAS", ""}}});
  add({"hetero.dgemm.starpu.2w", 0.97, "dgemm", 2, n(4096, 1024), starpu});
  add({"hetero.cholesky256.2w", 0.97, "cholesky256", 2, n(8192, 512), starpu});
  add({"hetero.cholesky64.2w", 0.6, "cholesky64", 2, n(8192, 256), starpu});

  // Kernels on the host, as tasks, which is how users run them.
  const std::size_t square = n(1024, 512), cube = n(256, 16), bodies = n(8192, 256), numbers = n(4 * million, 10'000);
  add({"hetero.kernel.dgemm.2w", 1.05, "host_multiply", 2, square, {{"OpenMP loops", "multiply"}}});
  add({"hetero.kernel.dgemm.tiled.2w",
       1.05,
       "host_wide",
       2,
       square,
       {{"OpenMP loops", "tiles16"},
        {"OpenMP loops", "tiles32"},
        {"OpenMP loops", "tiles64"},
        {"OpenMP loops", "tiles32by4"},
        {"OpenMP loops", "tiles64by4"}}});
  add({"hetero.kernel.stencil.2w", 1.05, "host_smooth", 2, cube, {{"OpenMP loops", "smooth"}}});
  add({"hetero.kernel.nbody.2w",
       1.05,
       "host_attract",
       2,
       bodies,
       {{"OpenMP loops", "attract"}, {"OpenMP loops", "attract_many"}}});
  add({"hetero.kernel.reduction.2w", 1.15, "host_add", 2, numbers, {{"OpenMP loops", "add"}}});

  // An OpenCL device.
  add({"hetero.opencl.roundtrip", 0.10, "roundtrip", 2, n(100, 3), starpu});
  add({"hetero.opencl.empty", 0.25, "opencl_empty", 2, n(10'000, 100), {{"OpenCL", "empty"}}});

  // Kernels there. Which form of a kernel PoCL likes cannot be told from its text. Beside one
  // thread, as ours has, what PoCL does by itself: as many as there are CPUs.
  const auto add_pocl = [&](const std::string& name, double target, const std::string& kernel, std::size_t size) {
    const auto by_hand = [&](const std::string& contestant) {
      return std::vector<rival>{{contestant, kernel}, {contestant, kernel + "_barrier"}};
    };
    add({"hetero.pocl." + name, target, "opencl_" + kernel, 2, size, by_hand("PoCL basic")});
    add({"hetero.pocl." + name + ".pthread", {}, "opencl_" + kernel, 2, size, by_hand("PoCL pthread")});
  };
  const std::size_t smaller = n(1024, 256); // whole groups of both
  add_pocl("dgemm", 1.05, "multiply", smaller);
  add_pocl("dgemm.tiled", 1.05, "tiles", smaller);
  add_pocl("stencil", 1.05, "smooth", cube);
  add_pocl("nbody", 1.05, "attract", bodies);
  add_pocl("reduction", 1.15, "add", numbers);

  // Simulated devices. What is copied, in rows of objects, for graphs drawn by lot: the same each
  // time.
  const auto measured = [&](const std::string& name, const std::string& contestant, const std::string& benchmark,
                            std::size_t size, int workers = 2) {
    return
        [&running, name, q = contest::request{contestant, benchmark, workers, size}] { return running.run(name, q); };
  };
  for (const std::string which : {"copies", "copies_views"}) {
    const std::string name = which == "copies" ? "hetero.copies" : "hetero.copies.views",
                      contestant = "tern, 3 simulated devices";
    list.push_back({.name = name,
                    .unit = "rows",
                    .target = 1.0,
                    .rival_name = "least by MSI",
                    .ours = measured(name, contestant, which, 1),
                    .rival = measured(name, contestant, which + "_least", 1)});
  }
  // Kernels with every access checked, which are compiled when the contestant starts.
  for (const auto& [name, benchmark, size] : {std::tuple{"hetero.checked.stencil", "host_smooth", cube},
                                              {"hetero.checked.product", "host_multiply", square}}) {
    const auto timed = [&running, name = std::string(name), benchmark = std::string(benchmark),
                        elements = size](const char* contestant) {
      return [&running, name, q = contest::request{contestant, benchmark, 2, elements}] {
        return running.run(name, q) * 1e3;
      };
    };
    list.push_back({.name = name,
                    .unit = "ms",
                    .target = 4.0,
                    .rival_name = "unchecked",
                    .ours = timed("tern, checked"),
                    .rival = timed("tern, unchecked")});
  }
  list.push_back({.name = "hetero.four",
                  .unit = "s",
                  .target = 1 / 3.8,
                  .rival_name = "tern, 1 simulated device",
                  .ours = measured("hetero.four", "tern, 4 simulated devices", "independent", n(1000, 20)),
                  .rival = measured("hetero.four", "tern, 1 simulated device", "independent", n(1000, 20))});
  // The same with two devices, and where each has a thread of its own.
  const auto several = [&](const std::string& name, double target, const std::string& ours, const std::string& one) {
    list.push_back({.name = name,
                    .unit = "s",
                    .target = target,
                    .rival_name = one,
                    .ours = measured(name, ours, "independent", n(1000, 20)),
                    .rival = measured(name, one, "independent", n(1000, 20))});
  };
  several("hetero.drivers.two", 1 / 1.9, "tern, 2 simulated devices", "tern, 1 simulated device");
  several("hetero.drivers.threads.two", 1 / 1.9, "tern, 2 devices, threads", "tern, 1 device, threads");
  several("hetero.drivers.threads.four", 1 / 3.8, "tern, 4 devices, threads", "tern, 1 device, threads");
  list.push_back(
      {.name = "hetero.drivers.launch",
       .unit = "ms",
       .target = 1.0,
       .ours = measured("hetero.drivers.launch", "tern, a thread for a device", "launches_while_busy", n(500, 20))});
  // Small tasks in one call.
  const auto batch = [&](const std::string& name, double target, const std::string& rival, const std::string& of_ours,
                         const std::string& of_rival, const std::string& benchmark) {
    list.push_back({.name = name,
                    .unit = "s",
                    .target = target,
                    .rival_name = rival,
                    .ours = measured(name, of_ours, "batch", n(100'000, 1000)),
                    .rival = measured(name, of_rival, benchmark, n(100'000, 1000))});
  };
  batch("hetero.batch.submit", 0.5, "one submit each", "tern, host", "tern, host", "batch_one_by_one");
  batch("hetero.batch.fused", 0.25, "launched apart", "tern, fused launches", "tern, launches apart", "batch");
  const auto fused_pocl = [&](const std::string& name, std::optional<double> target, const std::string& where) {
    const auto one = [&](const char* how) { return measured(name, where + how, "batch", n(10'000, 200), 1); };
    list.push_back({.name = name,
                    .unit = "s",
                    .target = target,
                    .rival_name = "launched apart",
                    .ours = one(", fused"),
                    .rival = one(", apart")});
  };
  fused_pocl("hetero.batch.fused.pocl", 0.5, "tern, PoCL pthread");
  fused_pocl("hetero.batch.fused.pocl.basic", {}, "tern, PoCL basic");
  // How well tasks are placed, with what is known of their times.
  const auto placed = [&](const std::string& name, double target, std::size_t tiles, const std::string& rival,
                          const std::string& contestant, const std::string& benchmark) {
    list.push_back({.name = name,
                    .unit = "s",
                    .target = target,
                    .rival_name = rival,
                    .ours = measured(name, "tern, dmda", "placed_cholesky", tiles),
                    .rival = measured(name, contestant, benchmark, tiles)});
  };
  const std::size_t many = n(32, 4);
  const std::string by_time = "hetero.dmda.cholesky.";
  placed(by_time + "16", 1.40, n(16, 3), "least possible", "tern, dmda", "placed_cholesky_bound");
  placed(by_time + "32", 1.15, many, "least possible", "tern, dmda", "placed_cholesky_bound");
  placed(by_time + "32.locality", 0.80, many, "locality", "tern, locality", "placed_cholesky");
  placed(by_time + "32.eager", 0.45, many, "eager", "tern, eager", "placed_cholesky");
  // Launches behind what has not ended, in virtual time.
  const auto queued = [&](const std::string& name, double target, const std::string& benchmark, std::size_t size,
                          const std::string& rival, const std::string& rivals_benchmark) {
    list.push_back({.name = name,
                    .unit = "s",
                    .target = target,
                    .rival_name = rival,
                    .ours = measured(name, "tern", benchmark, size),
                    .rival = measured(name, "tern", rivals_benchmark, size)});
  };
  queued("hetero.ahead.chain", 1.02, "ahead_chain", n(10'000, 200), "kernels and launches", "ahead_chain_least");
  queued("hetero.ahead.reads", 0.70, "ahead_reads", n(1'000, 50), "ahead 0", "ahead_reads_0");
  queued("hetero.ahead.devices", 0.35, "ahead_devices", n(1'000, 50), "ahead 0", "ahead_devices_0");
  queued("hetero.ahead.cholesky", 0.65, "ahead_cholesky", n(8, 4), "ahead 0", "ahead_cholesky_0");
  // A chain of small kernels in a thread of PoCL's own, beside one worker; by hand in one queue.
  list.push_back({.name = "hetero.ahead.pocl",
                  .unit = "s",
                  .target = 1.15,
                  .rival_name = "PoCL pthread",
                  .ours = measured("hetero.ahead.pocl", "tern, PoCL pthread", "opencl_chain", n(10'000, 200), 1),
                  .rival = measured("hetero.ahead.pocl", "PoCL pthread", "chain", n(10'000, 200))});
  // What a device with too little memory copies, and how long that takes. Simulated: the same each
  // time.
  const auto bounded = [&](const std::string& name, std::optional<double> target, const char* unit,
                           const std::string& rival, const std::string& ours, const std::string& theirs) {
    const std::size_t tiles = n(20, 6);
    list.push_back({.name = name,
                    .unit = unit,
                    .target = target,
                    .rival_name = rival,
                    .ours = measured(name, "tern, simulated memory", ours, tiles),
                    .rival = measured(name, "tern, simulated memory", theirs, tiles),
                    .once = true});
  };
  for (const std::string which : {"lu", "product"}) {
    bounded("hetero.memory." + which, 1.10, "tiles", "Belady, same order", "memory_" + which,
            "memory_" + which + "_belady");
    bounded("hetero.memory." + which + ".lru", {}, "tiles", "LRU, same order", "memory_" + which,
            "memory_" + which + "_lru");
  }
  bounded("hetero.memory.time", 1.25, "s", "unlimited", "memory_lu_time", "memory_lu_unlimited");
  // Over four times the host's limit.
  list.push_back({.name = "hetero.disk.stream",
                  .unit = "s",
                  .target = 1.15,
                  .rival_name = "raw transfers",
                  .ours = measured("hetero.disk.stream", "tern, host", "disk_stream", n(64, 2)),
                  .rival = measured("hetero.disk.stream", "tern, host", "disk_stream_raw", n(64, 2))});
  list.push_back(
      {.name = "hetero.memory.starpu.disk",
       .unit = "s",
       .target = 0.8,
       .rival_name = "StarPU lws, unistd_o_direct",
       .ours = measured("hetero.memory.starpu.disk", "tern, 17 MiB", "cholesky256_disk", n(4096, 512)),
       .rival = measured("hetero.memory.starpu.disk", "StarPU lws, 17 MiB", "cholesky256_disk", n(4096, 512))});
  list.push_back(
      {.name = "hetero.memory.starpu",
       .unit = "s",
       .target = 0.8,
       .rival_name = "StarPU lws",
       .ours = measured("hetero.memory.starpu", "tern, buffers of 4 MiB", "cholesky64_opencl", n(2048, 256), 1),
       .rival =
           measured("hetero.memory.starpu", "StarPU lws, buffers of 4 MiB", "cholesky64_opencl", n(2048, 256), 1)});
  // Second and later rounds of a plan.
  const auto planned = [&](const std::string& name, double target, const std::string& rival,
                           const std::string& benchmark) {
    list.push_back({.name = name,
                    .unit = "s",
                    .target = target,
                    .rival_name = rival,
                    .ours = measured(name, "tern, dmda", "placed_cholesky_planned", many),
                    .rival = measured(name, "tern, dmda", benchmark, many)});
  };
  planned("hetero.heft.cholesky", 1.12, "least possible", "placed_cholesky_bound");
  planned("hetero.heft.cholesky.dmda", 1.00, "tern, dmda", "placed_cholesky");
  // What placing costs.
  const auto costs = [&](const std::string& name, std::optional<double> target, std::size_t size,
                         const std::string& benchmark, const std::string& ours, const std::string& rival) {
    const auto nanoseconds = [&running, name, benchmark, size](const std::string& contestant) {
      return
          [&running, name, q = contest::request{contestant, benchmark, 2, size}] { return running.run(name, q) * 1e9; };
    };
    list.push_back({.name = name,
                    .unit = "ns",
                    .target = target,
                    .rival_name = rival,
                    .ours = nanoseconds(ours),
                    .rival = nanoseconds(rival)});
  };
  costs("hetero.models.cost", 1.15, n(1024 * 200, 2048), "placed_host", "tern, host, models and dmda",
        "tern, host, locality");
  costs("hetero.models.cost.choice", {}, n(1024 * 200, 2048), "placed_host", "tern, host beside a device",
        "tern, host beside a device, locality");
  costs("hetero.dmda.lock", 1.3, n(1024 * 100, 2048), "placed_devices", "tern, dmda on 8", "tern, dmda on 1");
  // The same in virtual time, which is not a matter of the machine.
  const auto virtually = [&](const std::string& name, const char* unit, double target, const std::string& ours,
                             const std::string& rival_name, const std::string& rival, int workers, std::size_t size) {
    const auto one = [&](const std::string& benchmark) {
      return [&running, name, q = contest::request{"tern", benchmark, workers, size}] { return running.run(name, q); };
    };
    list.push_back({.name = name,
                    .unit = unit,
                    .target = target,
                    .rival_name = rival_name,
                    .ours = one(ours),
                    .rival = one(rival)});
  };
  list.push_back({.name = "hetero.models.error",
                  .unit = "%",
                  .target = 5.0,
                  .ours = [&running, q = contest::request{"tern", "virtual_error", 1, 1}] {
                    return running.run("hetero.models.error", q);
                  }});
  virtually("hetero.models.follow", "samples", 0.05, "virtual_follow", "StarPU's rule", "virtual_follow_starpu", 1, 1);
  virtually("hetero.steal.skewed", "s", 1.05, "virtual_stolen", "total / 4", "virtual_quarter", 1, n(1000, 20));
  virtually("hetero.energy.mixed", "J", 0.82, "virtual_joules_energy", "dmda", "virtual_joules_dmda", 1, n(2000, 50));
  virtually("hetero.energy.mixed.makespan", "s", 1.10, "virtual_makespan_energy", "dmda", "virtual_makespan_dmda", 1,
            n(2000, 50));
  virtually("hetero.affinity.objects", "bytes", 1.05, "virtual_keys_bytes", "each once", "virtual_keys_bytes_least", 1,
            n(100, 10));
  virtually("hetero.affinity.objects.busiest", "s", 1.10, "virtual_keys_time", "all / 4", "virtual_keys_time_least", 1,
            n(100, 20));
  return list;
}

/// A factorization on two workers and two unlike devices, each line with one thing more than the
/// one above, at six sizes: its time over the least possible (the longest chain, or all work evenly
/// spread).
int ablation(runners& running) {
  struct rung {
    const char *what, *contestant, *benchmark;
  };
  const rung ladder[] = {{"first come, first served (eager)", "tern, eager, not ahead", "placed_cholesky"},
                         {"+ where data are (locality)", "tern, locality, not ahead", "placed_cholesky"},
                         {"+ expected times (dmda)", "tern, dmda, not ahead", "placed_cholesky"},
                         {"+ launches behind others (ahead)", "tern, dmda", "placed_cholesky"},
                         {"+ placed as a whole (planned)", "tern, dmda", "placed_cholesky_planned"}};
  const std::size_t sizes[] = {4, 8, 12, 16, 24, 32};
  constexpr int times = 3; // of which the median counts
  const auto seconds = [&running](const char* contestant, const char* benchmark, std::size_t tiles) {
    std::vector<double> all;
    for (int i = 0; i < times; ++i)
      all.push_back(running.run("--ablation", contest::request{contestant, benchmark, 2, tiles}));
    std::nth_element(all.begin(), all.begin() + times / 2, all.end());
    return all[times / 2];
  };
  std::printf("Cholesky of n x n tiles on two workers and two simulated devices, over the least possible time\n\n%-34s",
              "n");
  for (const std::size_t n : sizes) std::printf("%8zu", n);
  std::printf("\n");
  int code = 0;
  for (const rung& r : ladder) {
    std::printf("%-34s", r.what);
    for (const std::size_t n : sizes) {
      try {
        std::printf("%8.2f", seconds(r.contestant, r.benchmark, n) / seconds("tern, dmda", "placed_cholesky_bound", n));
      } catch (const std::exception& e) {
        std::fprintf(stderr, "bench_hetero --ablation: %s, %zu tiles: %s\n", r.what, n, e.what());
        code = 1;
      }
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  return code;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN); // a contestant that has died is reported, not died of
  runners running(contestant_named);
  return run(argc, argv, [&](const scale& of) { return metrics(running, of); },
             {{"--ablation", "What each step from the simplest scheduler to the last brings",
               [&] { return ablation(running); }}});
}

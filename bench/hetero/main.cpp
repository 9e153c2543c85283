// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks on devices and kernels against StarPU, OpenMP, OpenBLAS and OpenCL (docs/decisions/0030). Each side is a child
/// process of its own; what is compared is what those report.

#include "bench/ask.hpp"
#include "bench/harness.hpp"

#include <csignal>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#ifndef BENCH_HETERO_TERN
#error "define BENCH_HETERO_TERN, _STARPU, _LIBOMP, … as the paths of the sides; empty: not built"
#endif

namespace {

using namespace tern::bench;
using sides::children;
using sides::comparison;
using sides::rival;

// Kernels that take so long that what it costs to start them does not matter.
#define SIMULATED "launch=4ms,latency=20us,bandwidth=1G"

const sides::side& side_named(const std::string& name) {
  static const std::vector<sides::side> all{
      {"tern", BENCH_HETERO_TERN, "", ""},
      {"StarPU lws", BENCH_HETERO_STARPU, "libstarpu-dev", "STARPU_SCHED=lws"},
      {"StarPU eager", BENCH_HETERO_STARPU, "libstarpu-dev", "STARPU_SCHED=eager"},
      {"libomp", BENCH_HETERO_LIBOMP, "clang-19 and libomp-19-dev", ""},
      {"libomp turnaround", BENCH_HETERO_LIBOMP, "clang-19 and libomp-19-dev", "KMP_LIBRARY=turnaround"},
      {"libgomp", BENCH_HETERO_LIBGOMP, "g++", ""},
      {"OpenMP loops", BENCH_HETERO_LOOPS, "OpenMP for the compiler", ""},
      {"OpenBLAS", BENCH_HETERO_OPENBLAS, "libopenblas-dev", ""},
      {"OpenCL", BENCH_HETERO_OPENCL, "ocl-icd-opencl-dev and pocl-opencl-icd", ""},
      // The device on which our side has PoCL run kernels (hetero-opencl-pocl): one thread on either side. PoCL's
      // default would use both CPUs, where ours has a worker left for other tasks.
      {"PoCL basic", BENCH_HETERO_OPENCL, "ocl-icd-opencl-dev and pocl-opencl-icd", "POCL_DEVICES=basic"},
      {"tern, checked", BENCH_HETERO_TERN, "", "TERN_HETERO_DEVICES=host\nTERN_HETERO_CHECKED=true"},
      {"tern, unchecked", BENCH_HETERO_TERN, "", "TERN_HETERO_DEVICES=host"},
      {"tern, 3 simulated devices", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=host,simulated\nTERN_HETERO_SIMULATED=3"},
      {"tern, 4 simulated devices", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_SIMULATED=4:" SIMULATED},
      {"tern, 1 simulated device", BENCH_HETERO_TERN, "",
       "TERN_HETERO_DEVICES=simulated\nTERN_HETERO_SIMULATED=1:" SIMULATED},
  };
  for (const sides::side& s : all)
    if (s.name == name) return s;
  throw std::invalid_argument("no side is called " + name);
}

std::vector<metric> metrics(children& running) {
  const std::vector<rival> starpu{{"StarPU lws", ""}, {"StarPU eager", ""}},
      openmp{{"libomp", ""}, {"libomp turnaround", ""}, {"libgomp", ""}}, loops{{"OpenMP loops", ""}};
  std::vector<metric> list;
  const auto add = [&](comparison c) { list.push_back(sides::compare(running, std::move(c))); };
  constexpr std::size_t million = 1'000'000;

  // Tasks that do nothing.
  add({"hetero.empty.2w", 0.12, "empty", 2, million, starpu});
  add({"hetero.chain.starpu.2w", 0.06, "chain", 2, million, starpu});
  add({"hetero.chain.omp.2w", 1.0, "chain", 2, million, openmp});
  add({"hetero.objects.starpu.2w", 0.08, "objects", 2, million, starpu});
  add({"hetero.objects.omp.2w", 1.0, "objects", 2, million, openmp});

  // Tasks of OpenBLAS.
  add({"hetero.dgemm.openblas.2w", 1.10, "dgemm", 2, 4096, {{"OpenBLAS", ""}}});
  add({"hetero.dgemm.starpu.2w", 0.97, "dgemm", 2, 4096, starpu});
  add({"hetero.cholesky256.2w", 0.97, "cholesky256", 2, 8192, starpu});
  add({"hetero.cholesky64.2w", 0.6, "cholesky64", 2, 8192, starpu});

  // Kernels on the host.
  add({"hetero.kernel.dgemm.2w", 1.05, "multiply", 2, 1024, loops});
  add({"hetero.kernel.dgemm.tiled.2w",
       1.05,
       "tiles",
       2,
       1024,
       {{"OpenMP loops", "tiles16"},
        {"OpenMP loops", "tiles32"},
        {"OpenMP loops", "tiles64"},
        {"OpenMP loops", "tiles32by4"},
        {"OpenMP loops", "tiles64by4"}}});
  add({"hetero.kernel.stencil.2w", 1.05, "smooth", 2, 256, loops});
  add({"hetero.kernel.nbody.2w", 1.05, "attract", 2, 8192, {{"OpenMP loops", ""}, {"OpenMP loops", "attract_many"}}});
  add({"hetero.kernel.reduction.2w", 1.15, "add", 2, 4 * million, loops});

  // An OpenCL device.
  add({"hetero.opencl.roundtrip", 0.10, "roundtrip", 2, 100, starpu});
  add({"hetero.opencl.empty", 0.25, "opencl_empty", 2, 10'000, {{"OpenCL", "empty"}}});

  // Kernels there. Which form of a kernel PoCL likes cannot be told from its text.
  const auto by_hand = [](const std::string& benchmark) {
    return std::vector<rival>{{"PoCL basic", benchmark}, {"PoCL basic", benchmark + "_barrier"}};
  };
  add({"hetero.pocl.dgemm", 1.05, "opencl_multiply", 2, 1024, by_hand("multiply")});
  add({"hetero.pocl.dgemm.tiled", 1.05, "opencl_tiles", 2, 1024, by_hand("tiles")});
  add({"hetero.pocl.stencil", 1.05, "opencl_smooth", 2, 256, by_hand("smooth")});
  add({"hetero.pocl.nbody", 1.05, "opencl_attract", 2, 8192, by_hand("attract")});
  add({"hetero.pocl.reduction", 1.15, "opencl_add", 2, 4 * million, by_hand("add")});

  // Simulated devices. What is copied, in rows of objects, for graphs drawn by lot: the same each time.
  const auto ask = [&](const std::string& name, const std::string& side, const std::string& benchmark,
                       std::size_t size) {
    return [&running, name, q = sides::question{side, benchmark, 2, size}] { return running.ask(name, q); };
  };
  for (const std::string which : {"copies", "copies_views"}) {
    const std::string name = which == "copies" ? "hetero.copies" : "hetero.copies.views",
                      side = "tern, 3 simulated devices";
    list.push_back({.name = name,
                    .unit = "rows",
                    .target = 1.0,
                    .rival_name = "least by MSI",
                    .ours = ask(name, side, which, 1),
                    .rival = ask(name, side, which + "_least", 1)});
  }
  // Kernels with every access checked, which are compiled when the side starts.
  for (const auto& [name, benchmark, size] :
       {std::tuple{"hetero.checked.stencil", "host_smooth", 256}, {"hetero.checked.product", "host_multiply", 1024}}) {
    const auto timed = [&running, name = std::string(name), benchmark = std::string(benchmark),
                        n = static_cast<std::size_t>(size)](const char* side) {
      return [&running, name, q = sides::question{side, benchmark, 2, n}] { return running.ask(name, q) * 1e3; };
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
                  .ours = ask("hetero.four", "tern, 4 simulated devices", "independent", 1000),
                  .rival = ask("hetero.four", "tern, 1 simulated device", "independent", 1000)});
  return list;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN); // a side that has died is reported, not died of
  children running(side_named);
  return run(argc, argv, metrics(running));
}

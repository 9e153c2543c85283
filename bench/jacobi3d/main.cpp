// SPDX-License-Identifier: Apache-2.0
/// \file
/// Jacobi's iteration on a grid, by blocks whose layers travel in messages, beside what a good
/// engineer first writes with MPI, with MPI and OpenMP, OpenCL or CUDA, and with StarPU-MPI. All
/// results are compared with that of plain loops, bit by bit.
///
///     bench_jacobi3d                              as every benchmark (harness.hpp)
///     bench_jacobi3d --page FILE [--pairs N]      all figures of docs/results/jacobi3d/README.md, into that page, and
///                                                 its pictures beside it; 9 pairs a line, unless told
///     bench_jacobi3d --tiny-page FILE             the same with tiny sizes, to see that it works
///
/// BENCH_CUDA_LIBRARIES names other libraries for both sides, as TERN_CUDA_LIBRARIES: with the mock
/// driver the lines of GPUs are tried out, small, where there is none. What is measured then is
/// nothing that CUDA does: names end in `.mock`, and nothing is judged.

#include "bench/harness/harness.hpp"
#include "bench/harness/jobs.hpp"
#include "bench/harness/timing.hpp"
#include "bench/jacobi3d/page.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "apps/jacobi3d/grid/serial.hpp"

#ifndef BENCH_JACOBI3D_TERN
#error "define BENCH_JACOBI3D_X as the paths of the programs"
#endif

namespace {

using namespace tern::bench;

constexpr double alpha = 0.25; // of the rivals, too
const char* const other_libraries = std::getenv("BENCH_CUDA_LIBRARIES");

struct problem {
  std::int64_t n, iterations;
};

/// Seconds that a report says. \throws std::runtime_error unless its result is that of plain loops.
double checked(const nlohmann::json& report, const problem& p) {
  static std::map<std::pair<std::int64_t, std::int64_t>, std::string> known;
  std::string& hash = known[{p.n, p.iterations}];
  if (hash.empty())
    hash = fmt::format("{:016x}", jacobi3d::run_serially<double>({p.n, p.n, p.n}, p.iterations, alpha).hash());
  const auto found = report.at("hash").get<std::string>();
  if (found != hash) throw std::runtime_error("the result is " + found + ", not " + hash + " as of plain loops");
  return report.at("seconds").get<double>();
}

words numbers(const problem& p) { return {std::to_string(p.n), std::to_string(p.iterations)}; }
words with(words a, const words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Ours, as users start it.
words our_line(const problem& p, const std::string& blocks, const words& more) {
  return with({BENCH_JACOBI3D_TERN, "--n", std::to_string(p.n), "--blocks", blocks, "--iterations",
               std::to_string(p.iterations), "--alpha", "0.25", "--norm-every", "0"},
              more);
}
std::function<double()> ours(const problem& p, const std::string& blocks, const words& more = {}) {
  return [=] { return checked(run_tern_ranks(mpi::open_mpi, our_line(p, blocks, more), spinning::usual), p); };
}

std::function<double()> rival(const std::string& program, const std::string& needs, const problem& p,
                              const words& more = {}, const words& before = {}) {
  return [=] {
    if (program.empty()) throw absent(needs);
    return checked(run_rival_ranks(mpi::open_mpi, with(with(before, {program}), with(numbers(p), more))), p);
  };
}
std::function<double()> raw(const problem& p) { return rival(BENCH_JACOBI3D_MPI, "Open MPI", p); }

struct cut {
  const char* a_core;
  const char* blocks; ///< for two ranks
  double target;
};
constexpr cut cuts[] = {{"1", "1,1,2", 1.00}, {"4", "2,2,2", 1.02}, {"32", "4,4,4", 1.15}};

void add_host(std::vector<metric>& all, const problem& p) {
  for (const cut& c : cuts)
    all.push_back({.name = std::string("jacobi3d.host.") + c.a_core,
                   .unit = "s",
                   .target = c.target,
                   .rival_name = "MPI",
                   .ours = ours(p, c.blocks),
                   .rival = raw(p)});
  metric deep{.name = "jacobi3d.host.depth4", .unit = "s", .target = 0.90, .rival_name = "MPI"};
  for (const char* blocks : {"1,1,2", "2,2,2", "2,2,4"})
    deep.best_of.push_back({.name = std::string("jacobi3d.host.depth4.") + blocks,
                            .unit = "s",
                            .target = 0.90,
                            .rival_name = "MPI",
                            .ours = ours(p, blocks, {"--depth", "4"}),
                            .rival = raw(p)});
  all.push_back(std::move(deep));
  const std::string threads = BENCH_JACOBI3D_OPENMP;
  all.push_back({.name = "jacobi3d.host.openmp",
                 .unit = "s",
                 .rival_name = "MPI and OpenMP",
                 .ours = ours(p, cuts[0].blocks),
                 .rival = [=] { // one process, a thread a core
                   if (threads.empty()) throw absent("OpenMP");
                   return checked(run_for_json(with({threads}, numbers(p)), {},
                                               {{"OMP_NUM_THREADS", "2"}, {"OMP_PROC_BIND", "true"}}),
                                  p);
                 }});
  for (const cut& c : cuts) {
    const int slabs = 2 * std::stoi(c.a_core);
    if (p.n < slabs) continue;
    all.push_back({.name = std::string("jacobi3d.starpu.") + c.a_core,
                   .unit = "s",
                   .rival_name = "StarPU-MPI",
                   .ours = ours(p, c.blocks),
                   .rival = rival(BENCH_JACOBI3D_STARPU, "libstarpu-dev", p, {std::to_string(slabs)})});
  }
}

/// PoCL, on which kernels run on the host. Of its two devices the faster one counts, for the rival.
void add_opencl(std::vector<metric>& all, const problem& p) {
  const auto by = [&](const char* device) {
    return rival(BENCH_JACOBI3D_OPENCL, "ocl-icd-opencl-dev and pocl-opencl-icd", p, {},
                 {"/usr/bin/env", std::string("POCL_DEVICES=") + device});
  };
  metric line{.name = "jacobi3d.pocl", .unit = "s", .target = 0.85, .rival_name = "MPI and OpenCL"};
  for (const char* blocks : {"1,1,2", "1,2,2", "2,2,2"})
    line.best_of.push_back(
        {.name = std::string("jacobi3d.pocl.") + blocks,
         .unit = "s",
         .target = 0.85,
         .rival_name = "MPI and OpenCL",
         .ours = ours(p, blocks, {"--on", "opencl"}),
         .rival = [basic = by("basic"), threads = by("pthread")] { return std::min(basic(), threads()); }});
  all.push_back(std::move(line));
}

/// Ranks that share a GPU.
class shared_gpu {
public:
  shared_gpu(const problem& p, int ranks) : p_(p), ranks_(ranks) {}
  /// \throws absent where there is no GPU.
  double by_hand(const problem& p) const {
    const std::string program = BENCH_JACOBI3D_CUDA;
    if (program.empty()) throw absent("Open MPI");
    if (cores().size() < static_cast<std::size_t>(ranks_))
      throw absent("a core a rank, of which there are " + std::to_string(ranks_));
    words line{"/usr/bin/env"};
    for (const auto& [name, value] : libraries()) line.push_back(name + "=" + value);
    if (other_libraries) line.emplace_back("TERN_MOCK_CUDA=quiet"); // its end gives back what it has
    line.push_back(program);
    const auto report = run_rival_ranks(mpi::open_mpi, with(line, numbers(p)), rival_settings::as_ours, shape());
    if (report.contains("absent")) throw absent(report.at("absent").get<std::string>());
    return checked(report, p);
  }
  double by_hand() const { return by_hand(p_); }
  double ours(const std::string& blocks) const {
    by_hand({8, 1}); // is there one?
    return checked(
        run_tern_ranks(mpi::open_mpi, our_line(p_, blocks, {"--on", "cuda"}), spinning::usual, libraries(), shape()),
        p_);
  }

private:
  launch_shape shape() const {
    launch_shape s;
    s.ranks = ranks_;
    return s;
  }
  static environment libraries() {
    if (!other_libraries) return {};
    return {{"TERN_CUDA_LIBRARIES", other_libraries}};
  }
  problem p_;
  int ranks_;
};

void add_gpu(std::vector<metric>& all, const problem& p) {
  const std::map<int, std::vector<std::string>> cuts_of{{2, {"1,1,2", "1,2,2", "2,2,2"}},
                                                        {4, {"1,2,2", "2,2,2", "2,2,4"}}};
  const std::optional<double> target = other_libraries ? std::nullopt : std::optional(0.70);
  for (const auto& [ranks, blocks] : cuts_of) {
    const shared_gpu here(p, ranks);
    metric line{.name = "jacobi3d.gpu." + std::to_string(ranks) + (other_libraries ? ".mock" : ""),
                .unit = "s",
                .target = target,
                .rival_name = "MPI and CUDA"};
    for (const std::string& b : blocks)
      line.best_of.push_back({.name = line.name + "." + b,
                              .unit = "s",
                              .target = target,
                              .rival_name = line.rival_name,
                              .ours = [=] { return here.ours(b); },
                              .rival = [=] { return here.by_hand(); }});
    all.push_back(std::move(line));
  }
}

/// Eight simulated ranks with a simulated device each, in virtual time.
class simulated {
public:
  explicit simulated(const problem& p) : p_(p) {}
  /// Seconds an iteration. \param kernel seconds of a sweep over all of a rank's cells.
  double run(const std::string& blocks, int ahead, double kernel) const {
    // A group of the kernel's has 16 rows.
    const std::int64_t side = p_.n / 2;
    const double items = static_cast<double>(side * ((side + 15) / 16) * side);
    const words devices{"--on",
                        "fake",
                        "--ahead",
                        std::to_string(ahead),
                        "--tern-hetero-models=off",
                        "--tern-hetero-queues=1", // a device has one kernel at a time, whose time is all of it
                        fmt::format("--tern-hetero-simulated=1:bandwidth=10G,latency=2us,launch=0us,item={:.6f}ns",
                                    kernel / items * 1e9)};
    const auto report = run_tern_simulated(8, our_line(p_, blocks, devices));
    return checked(report, p_) / static_cast<double>(p_.iterations);
  }
  /// What an iteration takes if kernels take nothing: the way of the layers from device to device.
  double path() const { return run("2,2,2", 0, 1e-12); }

private:
  problem p_;
};

void add_simulated(std::vector<metric>& all, const problem& p) {
  const simulated here(p);
  const auto kernel = [here] { return here.path() / 0.8; };
  all.push_back({.name = "jacobi3d.sim.overlap",
                 .unit = "us",
                 .target = 0.65,
                 .rival_name = "1 block, ahead 0",
                 .ours =
                     [=] {
                       const double takes = kernel();
                       double best = 0;
                       for (const char* blocks : {"2,2,2", "2,2,4", "2,4,4"}) {
                         const double found = here.run(blocks, 8, takes);
                         if (best == 0 || found < best) best = found;
                       }
                       return best * 1e6;
                     },
                 .rival = [=] { return here.run("2,2,2", 0, kernel()) * 1e6; },
                 .once = true});
}

/// Eight simulated ranks with two simulated devices each, every second rank's four times slower; 64
/// blocks, moved by a policy after every few iterations.
class unlike_nodes {
public:
  explicit unlike_nodes(std::int64_t n) : n_(n) {}
  /// Seconds an iteration, when blocks have found their places.
  double run(const std::string& policy) const { return (all(policy, late) - all(policy, early)) / (late - early); }
  /// If all devices could share all blocks, with nothing between them.
  static double bound() { return block_count * kernel / (ranks / 2 * devices * (1 + 1 / slowness)); }

private:
  static constexpr int ranks = 8, devices = 2, block_count = 64, every = 20;
  static constexpr double kernel = 1e-3, slowness = 4; // seconds of a block on a fast device
  static constexpr std::int64_t early = 3 * every, late = 5 * every;
  double all(const std::string& policy, std::int64_t iterations) const {
    const std::int64_t side = n_ / 4; // of a block; a group of the kernel's has 16 rows
    const double items = static_cast<double>(side * ((side + 15) / 16) * side);
    const std::string fast =
        fmt::format("{}:bandwidth=10G,latency=2us,launch=0us,item={:.6f}ns", devices, kernel / items * 1e9);
    const problem p{n_, iterations};
    const words more{"--on",
                     "fake",
                     "--balance-every",
                     std::to_string(every),
                     "--tern-balance=" + policy,
                     "--tern-hetero-models=off",
                     "--tern-hetero-queues=1",
                     fmt::format("--tern-hetero-simulated={};{},speed={}", fast, fast, 1 / slowness)};
    return checked(run_tern_simulated(ranks, our_line(p, "4,4,4", more)), p);
  }
  const std::int64_t n_;
};

void add_unlike(std::vector<metric>& all, std::int64_t n) {
  const unlike_nodes here(n);
  all.push_back({.name = "jacobi3d.sim.unlike",
                 .unit = "us",
                 .target = 1.10,
                 .rival_name = "bound",
                 .ours = [=] { return here.run("greedy:inside=no") * 1e6; },
                 .rival = [] { return unlike_nodes::bound() * 1e6; },
                 .once = true});
  all.push_back({.name = "jacobi3d.sim.unlike.worker",
                 .unit = "us",
                 .target = 0.6,
                 .rival_name = "by=worker",
                 .ours = [=] { return here.run("greedy:inside=no") * 1e6; },
                 .rival = [=] { return here.run("greedy:inside=no,by=worker") * 1e6; },
                 .once = true});
}

std::vector<metric> all_lines(const scale& of) {
  std::vector<metric> all;
  const problem usual{of(256, 64), of(50, 4)};
  add_host(all, usual);
  add_opencl(all, usual);
  add_simulated(all, {of(256, 32), of(20, 4)});
  add_unlike(all, of(64, 32));
  add_gpu(all, {other_libraries ? 24 : of(768, 24), other_libraries ? 3 : of(50, 3)});
  return all;
}

/// 0 for what is no number of pairs.
int pairs_of(const words& arguments) {
  if (arguments.size() == 2) return arguments[0] == "--tiny-page" ? 1 : 9;
  int pairs = 0;
  if (arguments.size() != 4 || arguments[0] != "--page" || arguments[2] != "--pairs") return 0;
  const std::string& text = arguments[3];
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pairs);
  return error == std::errc() && end == text.data() + text.size() ? pairs : 0;
}

int page(const words& arguments) {
  const int pairs = pairs_of(arguments);
  if (pairs < 1) {
    std::fprintf(stderr, "usage: bench_jacobi3d --page FILE [--pairs N] | --tiny-page FILE\n");
    return 2;
  }
  try {
    const scale of(arguments[0] == "--tiny-page");
    std::vector<metric> lines = all_lines(of);
    if (of.tiny()) lines.resize(1); // bench.tiny.jacobi3d runs all
    write_jacobi3d_page(arguments[1], lines, pairs, of);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_jacobi3d: %s\n", e.what());
    return 1;
  }
}

} // namespace

int main(int argc, char** argv) {
  forget_settings();
  const words arguments(argv + 1, argv + argc);
  if (!arguments.empty() && (arguments[0] == "--page" || arguments[0] == "--tiny-page")) return page(arguments);
  return run(argc, argv, all_lines);
}

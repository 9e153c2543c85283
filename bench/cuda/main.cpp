// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks on a CUDA device against CUDA by hand, with the driver API (docs/decisions/0032). Each
/// contestant is a child process of its own. `--ablation` tells what each of our optimisations
/// brings.
///
/// BENCH_CUDA_LIBRARIES names other libraries for both contestants, as TERN_CUDA_LIBRARIES: with
/// the mock driver all of it is tried out, small, where there is no GPU. What is measured then is
/// nothing that CUDA does: names end in `.mock`, and nothing is judged. BENCH_CUDA_MATHS: the same
/// for cuBLAS and cuSOLVER.

#include "bench/harness/harness.hpp"
#include "bench/harness/runner.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#if !defined(BENCH_CUDA_TERN) || !defined(BENCH_CUDA_RAW) || !defined(BENCH_CUDA_MOCK)
#error                                                                                                                 \
    "define BENCH_CUDA_TERN and BENCH_CUDA_RAW as the paths of the contestants, BENCH_CUDA_MOCK as the mock libraries or empty"
#endif

namespace {

using namespace tern::bench;
using contest::request;
using contest::runners;

const char* const other_libraries = std::getenv("BENCH_CUDA_LIBRARIES");

const std::string by_ptx = "tern by the PTX of clang";
const std::string mock = "tern on the mock driver";
const std::string busy_mock = "tern on a mock driver that goes on by itself";

/// Names of ours begin with "tern"; what follows it says what is switched off, or which devices
/// there are.
const contest::contestant& contestant_named(const std::string& name) {
  static std::map<std::string, contest::contestant> all;
  if (const auto found = all.find(name); found != all.end()) return found->second;
  contest::contestant s{name, name == "raw" ? BENCH_CUDA_RAW : BENCH_CUDA_TERN, "", ""};
  const std::string libraries = name == mock || name == busy_mock ? BENCH_CUDA_MOCK
                                : other_libraries                 ? other_libraries
                                                                  : "";
  if ((name == mock || name == busy_mock) && libraries.empty()) s.path.clear(), s.needs = "googletest, for tests";
  const auto set = [&](const std::string& variable) { s.setting += (s.setting.empty() ? "" : "\n") + variable; };
  if (name == busy_mock) set("TERN_MOCK_CUDA=by-itself");
  if (!libraries.empty()) set("TERN_CUDA_LIBRARIES=" + libraries);
  if (const char* const maths = std::getenv("BENCH_CUDA_MATHS"))
    for (const std::string variable : {"TERN_EXAMPLE_CUBLAS=", "TERN_EXAMPLE_CUSOLVER="}) set(variable + maths);
  if (other_libraries) set("TERN_MOCK_CUDA=devices=2");
  if (name == by_ptx) { // which the program has; nothing that NVRTC has made is found
    set("TERN_CUDA_LIBRARIES=libcuda.so.1:/there/is/no/nvrtc.so");
    set("TERN_HETERO_CACHE=off");
  }
  const std::string without = "tern without ", with = "tern with ";
  if (name.starts_with(without)) set("TERN_CUDA=" + name.substr(without.size()));
  if (name.starts_with(with)) set("TERN_HETERO_DEVICES=" + name.substr(with.size()));
  return all.emplace(name, std::move(s)).first->second;
}

constexpr int workers = 2;
constexpr std::size_t mebi = std::size_t{1} << 20;

class list {
public:
  list(runners& running, const scale& of) : running_(running), of_(of) {}
  std::vector<metric> made;

  /// Ours against `rival`'s, seconds of both times `scale`.
  void add(const std::string& name, std::optional<double> target, const std::string& benchmark, std::size_t size,
           std::size_t small, const std::string& rival, const std::string& as = {}, std::size_t other = 0,
           const std::string& ours = "tern") {
    const request us{ours, benchmark, workers, sized(size, small)},
        them{rival, as.empty() ? benchmark : as, workers, other ? sized(other, small) : us.size};
    made.push_back({.name = called(name),
                    .unit = "ms",
                    .target = judged(target),
                    .rival_name = rival + (as.empty() ? "" : " " + as),
                    .ours = taking(name, us),
                    .rival = taking(name, them)});
  }
  /// The best of several sizes.
  void best(const std::string& name, double target, const std::string& benchmark,
            const std::vector<std::pair<std::size_t, std::size_t>>& sizes, const std::string& rival) {
    metric whole{.name = called(name),
                 .unit = "ms",
                 .target = judged(target),
                 .rival_name = rival + ", best size",
                 .ours = {},
                 .rival = {}};
    for (const auto& [size, small] : sizes) {
      const std::string one = name + "." + std::to_string(size);
      const std::size_t n = sized(size, small);
      whole.best_of.push_back({.name = one,
                               .unit = "ms",
                               .rival_name = rival + ", " + std::to_string(n),
                               .ours = taking(one, {"tern", benchmark, workers, n}),
                               .rival = taking(one, {rival, benchmark, workers, n})});
    }
    made.push_back(std::move(whole));
  }
  /// A number that has no rival: `factor` times what is answered, over `of`.
  void number(const std::string& name, const std::string& unit, std::optional<double> most,
              const std::string& benchmark, std::size_t size, const std::string& contestant, double factor = 1,
              double of = 1, const std::string& of_what = "1") {
    made.push_back(
        {.name = name,
         .unit = unit,
         .target = most,
         .rival_name = of_what,
         .ours = [&running = running_, name, factor,
                  q = request{contestant, benchmark, workers, size}] { return running.run(name, q) * factor; },
         .rival = budget(of)});
  }
  /// Several devices against the better of them by itself.
  void hybrid(const std::string& name, double target, std::size_t size, std::size_t small) {
    const auto on = [&](const std::string& devices) {
      return taking(name, {"tern with " + devices, "hybrid", workers, sized(size, small)});
    };
    const auto better = [gpu = on("cuda0"), host = on("host"), last = 0.0]() mutable {
      const double by_gpu = gpu();
      // The host takes minutes beside a large GPU, and needs not be asked again then.
      if (last < 2 * by_gpu) last = host();
      return std::min(by_gpu, last);
    };
    made.push_back({.name = called(name),
                    .unit = "ms",
                    .target = judged(target),
                    .rival_name = "better of host and cuda0 alone",
                    .ours = on("host,cuda0"),
                    .rival = better});
  }

private:
  std::size_t sized(std::size_t size, std::size_t small) const { return other_libraries ? small : of_(size, small); }
  static std::string called(const std::string& name) { return other_libraries ? name + ".mock" : name; }
  static std::optional<double> judged(std::optional<double> target) { return other_libraries ? std::nullopt : target; }
  std::function<double()> taking(const std::string& name, request q) {
    return [&running = running_, name, q] { return running.run(name, q) * 1e3; };
  }
  runners& running_;
  scale of_;
};

std::vector<metric> metrics(runners& running, const scale& of) {
  list l(running, of);
  // A program that multiplies matrices again and again (docs/results/gpu.md).
  const std::vector<std::pair<std::size_t, std::size_t>> sizes{{64, 16}, {128, 16}, {256, 16}, {512, 16}, {1024, 16}};
  for (const auto& [size, small] : sizes) l.add("cuda.naive." + std::to_string(size), 0.5, "naive", size, small, "raw");
  l.best("cuda.naive.best", 0.25, "naive", sizes, "raw");
  for (const auto& [size, small] : sizes)
    l.add("cuda.skilled." + std::to_string(size), 1.031, "naive", size, small, "raw", "skilled");

  // Tasks that do next to nothing.
  l.add("cuda.empty", 1.5, "empty", 10'000, 20, "raw");
  l.add("cuda.empty.many", 1.5, "many", 100'000, 100, "raw");
  l.add("cuda.graph", 1.10, "graph", 100, 3, "raw");

  // Copies.
  for (const std::string way : {"to", "from", "both"})
    l.add("cuda.copy." + way, 1.031, "copy_" + way, 256 * mebi, 4096, "raw");

  // Kernels against rivals written by hand, and their share of the memory bandwidth. A copy of n
  // numbers moves as many bytes as the stencil on n points, and twice as many as the sum of n.
  const std::size_t points = std::size_t{512} * 512 * 512, numbers = std::size_t{1} << 28;
  l.add("cuda.stencil", 1.05, "smooth", 512, 12, "raw");
  l.add("cuda.reduction", 1.05, "add", numbers, 4096, "raw");
  l.add("cuda.nbody", 1.05, "attract", 65536, 512, "raw");
  l.add("cuda.stencil.bandwidth", 1.176, "smooth", 512, 12, "raw", "copy_within", points * sizeof(double));
  l.add("cuda.reduction.bandwidth", 1.176, "add", numbers, 4096, "raw", "copy_within", numbers * sizeof(double) / 2);

  // NVIDIA's libraries as tasks, and by themselves.
  l.add("cuda.cublas", 1.031, "cublas", 16384, 32, "raw");
  l.add("cuda.cholesky", 1.111, "cholesky", 32768, 48, "raw");

  // Tiles wherever there is time.
  l.hybrid("cuda.hybrid", 1.0, 8192, 32);

  // Kernels by PTX that clang made with the program, against NVRTC's. The mock cannot load it.
  if (!other_libraries) {
    l.add("cuda.ptx.stencil", 1.10, "smooth", 512, 12, "tern", {}, 0, by_ptx);
    l.add("cuda.ptx.reduction", 1.10, "add", numbers, 4096, "tern", {}, 0, by_ptx);
    l.add("cuda.ptx.nbody", 1.10, "attract", 65536, 512, "tern", {}, 0, by_ptx);
  }

  // What needs no GPU.
  if (!other_libraries) {
    for (const std::string block : {"bench_kernels", "cuda_bench_kernels", "cuda_bench_factors"})
      for (const std::string how : {"cold", "cached"})
        l.number("cuda.compile." + block + "." + how, "ms", std::nullopt, "compile_" + how + " " + block, 1, "tern",
                 1e3);
    for (const std::string kind : {"chain", "spread", "fresh"}) {
      const auto most = kind == "fresh" ? std::nullopt : std::optional(4.0);
      l.number("cuda.calls." + kind, "calls", most, "calls_" + kind, of(1000, 100), mock);
      l.number("cuda.queries." + kind, "questions", std::nullopt, "queries_" + kind, of(1000, 100), mock);
    }
    // Measured when there was an event after each launch: 3 calls, and 1 question, as each was over
    // when it was asked for.
    const std::string each = "an event for each launch";
    l.number("cuda.ahead.calls", "calls", 0.5, "others_chain", of(10'000, 100), busy_mock, 1, 3, each);
    l.number("cuda.ahead.questions", "questions", 0.15, "queries_chain", of(10'000, 100), busy_mock, 1, 1, each);
  }
  return l.made;
}

struct program {
  const char* what;
  const char* benchmark;
  std::size_t size, small;
};

/// A bar for each of `without`, as long as the time.
void bars(runners& running, const program& p, const std::vector<std::string>& without) {
  std::vector<double> times;
  for (const std::string& one : without) {
    const request q{one.empty() ? "tern" : "tern without " + one, p.benchmark, workers,
                    other_libraries ? p.small : p.size};
    std::vector<double> some;
    running.run(p.what + one, q); // warm-up
    for (int i = 0; i < 5; ++i) some.push_back(running.run(p.what + one, q));
    times.push_back(quantile(some, 0.5));
  }
  const double most = *std::max_element(times.begin(), times.end());
  for (std::size_t i = 0; i < times.size(); ++i) {
    constexpr double longest = 40;
    std::string bar;
    for (double length = 0; length < times[i] / most * longest; ++length) bar += "█";
    const std::string name = i == 0 ? "all there is" : i + 1 == times.size() ? "none of these" : without[i];
    std::printf("  %-14s %10.3f ms %6.2f  %s\n", name.c_str(), times[i] * 1e3, times[i] / times[0], bar.c_str());
  }
}

/// What is slower without.
int ablation(runners& running) {
  const program programs[] = {{"100 products of 256 x 256", "naive", 256, 16},
                              {"100 products of 1024 x 1024", "naive", 1024, 16},
                              {"256 MiB each way at once", "copy_both", 256 * mebi, 4096},
                              {"100 kernels recorded, 100 times", "graph", 100, 3},
                              {"10,000 small equal tasks", "small", 10'000, 200},
                              {"16 MiB to the next GPU and back, 50 times", "peers", 16 * mebi, 4096}};
  const std::vector<std::string> each{"no-pinned", "no-pool", "one-stream", "no-graphs",
                                      "no-peers",  "no-fuse", "no-ahead"};
  std::vector<std::string> without{""};
  std::string all;
  for (const std::string& one : each) {
    without.push_back(one);
    all += (all.empty() ? "" : ",") + one;
  }
  without.push_back(all);
  if (other_libraries) std::printf("On %s: these are no figures of a GPU's.\n\n", other_libraries);
  int code = 0;
  for (const program& p : programs) {
    std::printf("%s\n", p.what);
    try {
      bars(running, p, without);
    } catch (const absent& e) {
      std::printf("  absent: %s\n", e.what());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench_cuda --ablation: %s: %s\n", p.what, e.what());
      code = 1;
    }
    std::fflush(stdout);
  }
  return code;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN); // a contestant that has died is reported, not died of
  runners running(contestant_named);
  return run(argc, argv, [&](const scale& of) { return metrics(running, of); },
             {{"--ablation", "What each of our optimisations brings", [&] { return ablation(running); }}});
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tern's contestant whose tasks are those of one node.
///
///     bench_grain_tasks CARRIER SECONDS PROBLEM…      two workers
///
/// CARRIER: hetero, graph, built or coroutines.

#include <stdexcept>

#include <tern/base/options.hpp>
#include <tern/task/scheduler.hpp>

#include "bench/grain/slots.hpp"
#include "bench/grain/tasks.hpp"

namespace {

using namespace tern::bench::grain;

constexpr int workers = 2;

run_grid carrier(const std::string& name, const problem& p) {
  if (name == "hetero") return by_hetero_tasks(p);
  if (name == "graph") return by_graph(p);
  if (name == "built") return by_built_graph(p);
  if (name == "coroutines") return by_coroutines(p);
  throw std::invalid_argument("no carrier is called " + name);
}

} // namespace

int main(int argc, char** argv) {
  return guarded("bench_grain_tasks", [&] {
    const tern::options opts = tern::options::parse(argc, argv); // also from the environment
    const request asked = request_of(argc, argv);
    tern::scheduler all({.workers = workers, .opts = &opts});
    all.run([&] { measure_problems(asked, workers, [&](const problem& p) { return carrier(asked.carrier, p); }); });
  });
}

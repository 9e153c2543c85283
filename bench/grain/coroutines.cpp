// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include <tern/task/coro.hpp>

#include "bench/grain/slots.hpp"
#include "bench/grain/tasks.hpp"
#include "bench/harness/timing.hpp"

namespace tern::bench::grain {
namespace {

using row = std::vector<shared_future<void>>;

coro<void> one_task(slots& outputs, int step, int column, long iterations, row inputs) {
  for (const auto& one : inputs) co_await one;
  outputs.run(step, column, iterations);
}

double run_coroutines(const problem& p, slots& outputs, int steps, long iterations) {
  outputs.prepare(steps);
  const double taken = timed(1, [&](long) {
    std::vector<row> made; // all are awaited, also those that nothing depends on
    for (int step = 0; step < steps; ++step) {
      row now;
      for (int column = 0; column < p.width(); ++column) {
        row inputs;
        for (const int from : p.plan.dependences(step, column))
          inputs.push_back(made.back()[static_cast<std::size_t>(from)]);
        now.push_back(spawn(one_task(outputs, step, column, iterations, std::move(inputs))).share());
      }
      made.push_back(std::move(now));
    }
    for (const row& step : made)
      for (const auto& task : step) task.get();
  });
  outputs.check(steps);
  return taken;
}

} // namespace

run_grid by_coroutines(const problem& p) {
  auto outputs = std::make_shared<slots>(p);
  return [&p, outputs](int steps, long iterations) { return run_coroutines(p, *outputs, steps, iterations); };
}

} // namespace tern::bench::grain

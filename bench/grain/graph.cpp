// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include <tern/task/task_graph.hpp>

#include "bench/grain/slots.hpp"
#include "bench/grain/tasks.hpp"
#include "bench/harness/timing.hpp"

namespace tern::bench::grain {
namespace {

class graph_grid {
public:
  graph_grid(const problem& p, bool prebuilt) : p_(p), prebuilt_(prebuilt), outputs_(p) {}

  double run(int steps, long iterations) {
    outputs_.prepare(steps);
    iterations_ = iterations;
    if (prebuilt_ && built_steps_ != steps) build(steps);
    const double taken = timed(1, [&](long) {
      if (!prebuilt_) build(steps);
      graph_->run();
    });
    outputs_.check(steps);
    return taken;
  }

private:
  void build(int steps) {
    graph_ = std::make_unique<task_graph>();
    built_steps_ = steps;
    std::vector<task_graph::node> before, now;
    for (int step = 0; step < steps; ++step) {
      now.clear();
      for (int column = 0; column < p_.width(); ++column) {
        now.push_back(graph_->add([this, step, column] { outputs_.run(step, column, iterations_); }));
        for (const int from : p_.plan.dependences(step, column))
          graph_->precede(before[static_cast<std::size_t>(from)], now.back());
      }
      before.swap(now);
    }
  }

  const problem& p_;
  const bool prebuilt_;
  slots outputs_;
  std::unique_ptr<task_graph> graph_;
  int built_steps_ = 0;
  long iterations_ = 0;
};

run_grid graph_of(const problem& p, bool prebuilt) {
  auto all = std::make_shared<graph_grid>(p, prebuilt);
  return [all](int steps, long iterations) { return all->run(steps, iterations); };
}

} // namespace

run_grid by_graph(const problem& p) { return graph_of(p, true); }
run_grid by_built_graph(const problem& p) { return graph_of(p, false); }

} // namespace tern::bench::grain

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival: a flow graph of oneTBB, with a node for each task.
///
///     bench_grain_tbb graph SECONDS PROBLEM…      built before the clock runs
///     bench_grain_tbb built SECONDS PROBLEM…      built each time

#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include "bench/grain/slots.hpp"
#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::grain;

constexpr int threads = 2;

class flow {
public:
  flow(const problem& p, slots& outputs, int steps, const long& iterations) {
    for (int step = 0; step < steps; ++step)
      for (int column = 0; column < p.width(); ++column) {
        const auto needed = p.plan.dependences(step, column);
        nodes_.emplace_back(graph_, [&outputs, &iterations, step, column](const tbb::flow::continue_msg& m) {
          outputs.run(step, column, iterations);
          return m;
        });
        if (needed.empty()) sources_.push_back(&nodes_.back());
        for (const int from : needed)
          tbb::flow::make_edge(nodes_[static_cast<std::size_t>((step - 1) * p.width() + from)], nodes_.back());
      }
  }
  void run() {
    for (node* one : sources_) one->try_put(tbb::flow::continue_msg());
    graph_.wait_for_all();
  }

private:
  using node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  tbb::flow::graph graph_;
  std::deque<node> nodes_; // do not move
  std::vector<node*> sources_;
};

/// A flow graph of as many steps as are asked for.
class flow_grid {
public:
  flow_grid(const problem& p, bool prebuilt) : p_(p), prebuilt_(prebuilt), outputs_(p) {}

  double run(int steps, long iterations) {
    outputs_.prepare(steps);
    iterations_ = iterations;
    if (prebuilt_ && built_steps_ != steps) build(steps);
    const double taken = timed(1, [&](long) {
      if (!prebuilt_) build(steps);
      built_->run();
    });
    outputs_.check(steps);
    return taken;
  }

private:
  void build(int steps) {
    built_ = std::make_unique<flow>(p_, outputs_, steps, iterations_);
    built_steps_ = steps;
  }

  const problem& p_;
  const bool prebuilt_;
  slots outputs_;
  std::unique_ptr<flow> built_;
  int built_steps_ = 0;
  long iterations_ = 0;
};

void measure_all(const request& asked) {
  const bool prebuilt = asked.carrier == "graph";
  if (!prebuilt && asked.carrier != "built") throw std::invalid_argument("no carrier is called " + asked.carrier);
  measure_problems(asked, threads, [prebuilt](const problem& p) -> run_grid {
    auto all = std::make_shared<flow_grid>(p, prebuilt);
    return [all](int steps, long iterations) { return all->run(steps, iterations); };
  });
}

} // namespace

int main(int argc, char** argv) {
  return guarded("bench_grain_tbb", [&] {
    const request asked = request_of(argc, argv);
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    tbb::task_arena arena(threads);
    arena.execute([&] { measure_all(asked); });
  });
}

// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival: tasks on data in StarPU. Two outputs for each column, a handle for each, written in
/// turn. StarPU binds a worker to each core; the main thread submits, step by step. The
/// environment's STARPU_SCHED says by which scheduler. Data is registered before the clock starts.
///
///     bench_grain_starpu data SECONDS PROBLEM…        two workers

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <starpu.h>

#include "bench/grain/slots.hpp"
#include "bench/harness/timing.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::grain;

constexpr int threads = 2;
constexpr std::size_t most_inputs = STARPU_NMAXBUFS - 1; // of a task, beside its output

void must(int code, const char* what) {
  if (code != 0) throw std::runtime_error(std::string(what) + ": error " + std::to_string(code) + " of StarPU");
}

/// StarPU runs from here to the end of this object: its idle workers would disturb what measures
/// the peak.
class starpu_runtime {
public:
  starpu_runtime() {
    starpu_conf conf;
    must(starpu_conf_init(&conf), "starpu_conf_init");
    conf.ncpus = threads;
    conf.ncuda = 0;
    conf.nopencl = 0;
    must(starpu_init(&conf), "starpu_init");
  }
  ~starpu_runtime() { starpu_shutdown(); }
  starpu_runtime(const starpu_runtime&) = delete;
  starpu_runtime& operator=(const starpu_runtime&) = delete;
};

class data_grid {
public:
  explicit data_grid(const problem& p) : p_(p), outputs_(p) {
    for (int step = 1; step <= p.plan.period(); ++step)
      for (int column = 0; column < p.width(); ++column)
        if (p.plan.dependences(step, column).size() > most_inputs)
          throw std::invalid_argument(p.name + ": tasks have at most " + std::to_string(most_inputs) +
                                      " inputs with StarPU");
    starpu_codelet_init(&codelet_);
    codelet_.cpu_funcs[0] = [](void**, void* argument) {
      const task& one = *static_cast<const task*>(argument);
      one.of->outputs_.run_kept(one.step, one.column, one.of->iterations_);
    };
    codelet_.nbuffers = STARPU_VARIABLE_NBUFFERS;
  }

  double run(int steps, long iterations) {
    iterations_ = iterations;
    outputs_.prepare(2);
    tasks_.clear();
    for (int step = 0; step < steps; ++step)
      for (int column = 0; column < p_.width(); ++column) tasks_.push_back({this, step, column});
    for (int step = 0; step < 2; ++step) {
      auto& row = handles_[static_cast<std::size_t>(step)];
      row.resize(static_cast<std::size_t>(p_.width()));
      for (int column = 0; column < p_.width(); ++column)
        starpu_vector_data_register(&row[static_cast<std::size_t>(column)], STARPU_MAIN_RAM,
                                    reinterpret_cast<std::uintptr_t>(outputs_.at(step, column).data()),
                                    static_cast<std::uint32_t>(p_.bytes), 1);
    }
    const double taken = timed(1, [&](long) {
      for (task& one : tasks_) submit(one);
      must(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
    });
    for (auto& row : handles_)
      for (starpu_data_handle_t one : row) starpu_data_unregister(one);
    outputs_.check(steps);
    return taken;
  }

private:
  struct task {
    data_grid* of;
    int step, column;
  };

  starpu_data_handle_t handle(int step, int column) const {
    return handles_[static_cast<std::size_t>(step) % 2][static_cast<std::size_t>(column)];
  }
  void submit(task& one) {
    starpu_task* const t = starpu_task_create();
    t->cl = &codelet_;
    t->cl_arg = &one;
    t->cl_arg_size = sizeof one;
    int i = 0;
    const auto add = [&](starpu_data_handle_t data, starpu_data_access_mode mode) {
      t->handles[i] = data;
      t->modes[i++] = mode;
    };
    add(handle(one.step, one.column), STARPU_W);
    for (const int from : p_.plan.dependences(one.step, one.column)) add(handle(one.step - 1, from), STARPU_R);
    t->nbuffers = i;
    must(starpu_task_submit(t), "starpu_task_submit");
  }

  const problem& p_;
  starpu_runtime runtime_;
  slots outputs_;
  starpu_codelet codelet_;
  std::vector<task> tasks_; // what StarPU's point to
  std::array<std::vector<starpu_data_handle_t>, 2> handles_;
  long iterations_ = 0;
};

} // namespace

int main(int argc, char** argv) {
  return guarded("bench_grain_starpu", [&] {
    const request asked = request_of(argc, argv);
    if (asked.carrier != "data") throw std::invalid_argument("no carrier is called " + asked.carrier);
    setenv("STARPU_HOME", BENCH_GRAIN_STARPU_HOME, 0); // not the user's
    setenv("STARPU_SILENT", "1", 0);
    measure_problems(asked, threads, [](const problem& p) -> run_grid {
      auto all = std::make_shared<data_grid>(p);
      return [all](int steps, long iterations) { return all->run(steps, iterations); };
    });
  });
}

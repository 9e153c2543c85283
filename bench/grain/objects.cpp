// SPDX-License-Identifier: Apache-2.0
/// \file
/// Grids of tasks carried by mobile objects, one for each column: each task is an invocation, or
/// the last of the invocations that bring its inputs.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sim.hpp>

#include "bench/grain/tern.hpp"
#include "bench/harness/timing.hpp"

namespace tern::bench::grain {
namespace {

/// What each rank knows of all columns.
struct everyone;

/// Does the tasks of a column in order.
class cell {
public:
  cell() = default;
  explicit cell(int column) : column_(column) {}
  template <class A> void serialize(A& ar) { ar(column_, steps_, next_, iterations_, tasks_, inputs_, ahead_); }

  void prepare(std::int32_t steps, std::int64_t iterations);
  /// The next task, which needs no inputs.
  void go();
  /// For the task of that step, from another column.
  void input(std::int32_t step, std::int32_t from, const block& data);
  std::pair<std::int64_t, std::int64_t> counts() const { return {tasks_, inputs_}; }

private:
  /// What has come for a task that has not run.
  struct gathered {
    std::int32_t step = -1, missing = 0;
    std::vector<block> inputs;
  };

  // What a rank knows is asked for once in an invocation.
  void take(const problem& p, int step, int from, const block& data);
  gathered& of(const problem& p, int step) {
    if (step - next_ >= static_cast<int>(ahead_.size())) [[unlikely]]
      make_space(step);
    gathered& one = ahead_[place_for(step)];
    if (one.step != step) begin(p, one, step);
    return one;
  }
  std::size_t place_for(int step) const { return static_cast<std::size_t>(step) & (ahead_.size() - 1); }
  void make_space(int step);
  void begin(const problem& p, gathered& one, int step) const;
  void run_next(const everyone& known);
  void run_ready(const everyone& known);

  std::int32_t column_ = 0, steps_ = 0, next_ = 0;
  std::int64_t iterations_ = 0, tasks_ = 0, inputs_ = 0;
  std::vector<gathered> ahead_; // of `next_` and some steps after it, by the last bits of the step
};

/// Virtual seconds of an iteration in simulations: so many that policies see long invocations.
constexpr double virtual_iteration = 1e-7;

struct everyone {
  std::unique_ptr<problem> what;
  bool simulated = false;
  std::vector<mobile_ptr<cell>> cells;
};
rank_local<everyone> all;

/// Rank 0's.
struct {
  std::atomic<int> columns_left{0};
  promise<void>* done = nullptr;
} whole;

void column_has_finished() {
  if (--whole.columns_left == 0) whole.done->set_value();
}

void cell::prepare(std::int32_t steps, std::int64_t iterations) {
  steps_ = steps;
  iterations_ = iterations;
  next_ = 0;
  tasks_ = inputs_ = 0;
  ahead_.assign(4, {});
}

void cell::go() {
  const everyone& known = *all;
  run_next(known);
  run_ready(known);
}

void cell::input(std::int32_t step, std::int32_t from, const block& data) {
  const everyone& known = *all;
  take(*known.what, step, from, data);
  run_ready(known);
}

// A column may be far ahead of one that needs it, if it does not itself need that one.
void cell::make_space(int step) {
  std::size_t size = ahead_.size();
  while (step - next_ >= static_cast<int>(size)) size *= 2;
  std::vector<gathered> before = std::exchange(ahead_, std::vector<gathered>(size));
  for (gathered& one : before)
    if (one.step >= next_) ahead_[place_for(one.step)] = std::move(one);
}

void cell::begin(const problem& p, gathered& one, int step) const {
  const std::size_t wanted = p.plan.dependences(step, column_).size();
  one.step = step;
  one.missing = static_cast<std::int32_t>(wanted);
  one.inputs.resize(wanted);
}

void cell::take(const problem& p, int step, int from, const block& data) {
  const auto wanted = p.plan.dependences(step, column_);
  const std::size_t place = place_of(wanted, from);
  if (place == wanted.size())
    throw std::runtime_error("column " + std::to_string(from) +
                             " has sent an output that no task of this column needs");
  gathered& one = of(p, step);
  one.inputs[place] = data;
  --one.missing;
}

void cell::run_next(const everyone& known) {
  const problem& p = *known.what;
  const int step = next_;
  block output;
  {
    const gathered& mine = of(p, step);
    const auto needed = p.plan.dependences(step, column_);
    inputs_ += static_cast<std::int64_t>(
        run_task(p, step, column_, iterations_, std::as_writable_bytes(std::span(output)), [&](int from) {
          const std::size_t i = place_of(needed, from);
          return i < needed.size() ? std::as_bytes(std::span(mine.inputs[i])) : std::span<const std::byte>();
        }));
  }
  if (known.simulated) sim::charge(static_cast<double>(p.iterations(step, column_, iterations_)) * virtual_iteration);
  ++tasks_;
  ++next_;
  if (next_ == steps_) {
    send<&column_has_finished>(0);
    return;
  }
  for (const int to : p.plan.dependents(step, column_)) {
    if (to == column_)
      take(p, next_, column_, output);
    else
      send<&cell::input>(known.cells[static_cast<std::size_t>(to)], next_, column_, output);
  }
  if (p.plan.dependences(next_, column_).empty()) // a task is an invocation
    send<&cell::go>(known.cells[static_cast<std::size_t>(column_)]);
}

void cell::run_ready(const everyone& known) {
  const auto may_run = [&] {
    if (next_ == steps_) return false;
    const gathered& one = of(*known.what, next_);
    return one.missing == 0 && !one.inputs.empty(); // without inputs it begins by `go`, which is under way
  };
  while (may_run()) run_next(known);
}

void know(const std::string& problem_name, const std::vector<mobile_ptr<cell>>& cells) {
  all->what = std::make_unique<problem>(problem_name);
  all->cells = cells;
  all->simulated = sim::active();
}

/// Objects of one problem, for as long as it is measured.
class cells {
public:
  explicit cells(const problem& p) : problem_(p) {
    if (p.bytes != least_bytes) throw std::invalid_argument(p.name + ": objects have the smallest outputs only");
    for (int column = 0; column < p.width(); ++column)
      made_.push_back(create_on<cell>(column * size() / p.width(), column).get());
    for (int rank = 0; rank < size(); ++rank) call<&know>(rank, p.name, made_).get();
  }
  ~cells() {
    for (const auto& one : made_) destroy(one).get();
  }
  cells(const cells&) = delete;
  cells& operator=(const cells&) = delete;

  double run(int steps, long iterations) {
    for (const auto& one : made_) call<&cell::prepare>(one, steps, iterations).get();
    promise<void> done;
    auto end = done.get_future();
    whole.columns_left = problem_.width();
    whole.done = &done;
    const double taken = timed(1, [&](long) {
      for (const auto& one : made_) send<&cell::go>(one);
      end.get();
    });
    long tasks = 0, inputs = 0;
    for (const auto& one : made_) {
      const auto [did, had] = call<&cell::counts>(one).get();
      tasks += did;
      inputs += had;
    }
    check_run(problem_, steps, tasks, inputs);
    return taken;
  }

private:
  const problem& problem_;
  std::vector<mobile_ptr<cell>> made_;
};

} // namespace

run_grid by_objects(const problem& p) {
  auto objects = std::make_shared<cells>(p);
  return [objects](int steps, long iterations) { return objects->run(steps, iterations); };
}

} // namespace tern::bench::grain

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Grids of tasks carried by mobile objects, one for each column: each task is an invocation, or
/// the last of the invocations that bring its inputs.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sim.hpp>

#include "bench/grain/tern.hpp"
#include "bench/harness/timing.hpp"

namespace tern::bench::grain {
namespace {

/// A large output. Columns of one rank that need it share its memory.
using large = shared_buffer<std::byte>;

std::span<const std::byte> bytes_of(const block& output) { return std::as_bytes(std::span(output)); }
std::span<const std::byte> bytes_of(const large& output) { return output; }

/// \param fill writes all bytes of the output.
template <class Output, class Fill> Output make_output(const problem& p, Fill&& fill) {
  if constexpr (std::is_same_v<Output, block>) {
    block made;
    fill(std::as_writable_bytes(std::span(made)));
    return made;
  } else {
    buffer<std::byte> made(p.bytes);
    fill(std::span(made.data(), made.size()));
    return large(std::move(made));
  }
}

/// What each rank knows of all columns.
template <class Output> struct everyone;

/// Does the tasks of a column in order. \tparam Output block or large.
template <class Output> class cell {
public:
  cell() = default;
  explicit cell(int column) : column_(column) {}
  template <class A> void serialize(A& ar) { ar(column_, steps_, next_, iterations_, tasks_, inputs_, ahead_); }

  void prepare(std::int32_t steps, std::int64_t iterations);
  /// The next task, which needs no inputs.
  void go();
  /// For the task of that step, from another column.
  void input(std::int32_t step, std::int32_t from, Output data);
  std::pair<std::int64_t, std::int64_t> counts() const { return {tasks_, inputs_}; }

private:
  /// What has come for a task that has not run.
  struct gathered {
    std::int32_t step = -1, missing = 0;
    std::vector<Output> inputs;
  };

  // What a rank knows is asked for once in an invocation.
  void take(const problem& p, int step, int from, Output data);
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
  void run_next(const everyone<Output>& known);
  void run_ready(const everyone<Output>& known);

  std::int32_t column_ = 0, steps_ = 0, next_ = 0;
  std::int64_t iterations_ = 0, tasks_ = 0, inputs_ = 0;
  std::vector<gathered> ahead_; // of `next_` and some steps after it, by the last bits of the step
};

/// Virtual seconds of an iteration in simulations: so many that policies see long invocations.
constexpr double virtual_iteration = 1e-7;

template <class Output> struct everyone {
  std::unique_ptr<problem> what;
  bool simulated = false;
  std::vector<mobile_ptr<cell<Output>>> cells;
};
template <class Output> rank_local<everyone<Output>> all;

/// Rank 0's.
struct {
  std::atomic<int> columns_left{0};
  promise<void>* done = nullptr;
} whole;

void column_has_finished() {
  if (--whole.columns_left == 0) whole.done->set_value();
}

template <class Output> void cell<Output>::prepare(std::int32_t steps, std::int64_t iterations) {
  steps_ = steps;
  iterations_ = iterations;
  next_ = 0;
  tasks_ = inputs_ = 0;
  ahead_.assign(4, {});
}

template <class Output> void cell<Output>::go() {
  const everyone<Output>& known = *all<Output>;
  run_next(known);
  run_ready(known);
}

template <class Output> void cell<Output>::input(std::int32_t step, std::int32_t from, Output data) {
  const everyone<Output>& known = *all<Output>;
  take(*known.what, step, from, std::move(data));
  run_ready(known);
}

// A column may be far ahead of one that needs it, if it does not itself need that one.
template <class Output> void cell<Output>::make_space(int step) {
  std::size_t size = ahead_.size();
  while (step - next_ >= static_cast<int>(size)) size *= 2;
  std::vector<gathered> before = std::exchange(ahead_, std::vector<gathered>(size));
  for (gathered& one : before)
    if (one.step >= next_) ahead_[place_for(one.step)] = std::move(one);
}

template <class Output> void cell<Output>::begin(const problem& p, gathered& one, int step) const {
  const std::size_t wanted = p.plan.dependences(step, column_).size();
  one.step = step;
  one.missing = static_cast<std::int32_t>(wanted);
  one.inputs.resize(wanted);
}

template <class Output> void cell<Output>::take(const problem& p, int step, int from, Output data) {
  const auto wanted = p.plan.dependences(step, column_);
  const std::size_t place = place_of(wanted, from);
  if (place == wanted.size())
    throw std::runtime_error("column " + std::to_string(from) +
                             " has sent an output that no task of this column needs");
  gathered& one = of(p, step);
  one.inputs[place] = std::move(data);
  --one.missing;
}

template <class Output> void cell<Output>::run_next(const everyone<Output>& known) {
  const problem& p = *known.what;
  const int step = next_;
  const auto run = [&](std::span<std::byte> output) {
    gathered& mine = of(p, step);
    const auto needed = p.plan.dependences(step, column_);
    inputs_ += static_cast<std::int64_t>(run_task(p, step, column_, iterations_, output, [&](int from) {
      const std::size_t i = place_of(needed, from);
      return i < needed.size() ? bytes_of(mine.inputs[i]) : std::span<const std::byte>();
    }));
    if constexpr (!std::is_same_v<Output, block>)
      for (Output& one : mine.inputs) one = {};
  };
  const auto output = make_output<Output>(p, run);
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
      send<&cell<Output>::input>(known.cells[static_cast<std::size_t>(to)], next_, column_, output);
  }
  if (p.plan.dependences(next_, column_).empty()) // a task is an invocation
    send<&cell<Output>::go>(known.cells[static_cast<std::size_t>(column_)]);
}

template <class Output> void cell<Output>::run_ready(const everyone<Output>& known) {
  const auto may_run = [&] {
    if (next_ == steps_) return false;
    const gathered& one = of(*known.what, next_);
    return one.missing == 0 && !one.inputs.empty(); // without inputs it begins by `go`, which is under way
  };
  while (may_run()) run_next(known);
}

template <class Output> void know(const std::string& problem_name, const std::vector<mobile_ptr<cell<Output>>>& cells) {
  all<Output>->what = std::make_unique<problem>(problem_name);
  all<Output>->cells = cells;
  all<Output>->simulated = sim::active();
}

/// Objects of one problem, for as long as it is measured.
template <class Output> class cells {
public:
  explicit cells(const problem& p) : problem_(p) {
    for (int column = 0; column < p.width(); ++column)
      made_.push_back(create_on<cell<Output>>(column * size() / p.width(), column).get());
    for (int rank = 0; rank < size(); ++rank) call<&know<Output>>(rank, p.name, made_).get();
  }
  ~cells() {
    for (const auto& one : made_) destroy(one).get();
  }
  cells(const cells&) = delete;
  cells& operator=(const cells&) = delete;

  double run(int steps, long iterations) {
    for (const auto& one : made_) call<&cell<Output>::prepare>(one, steps, iterations).get();
    promise<void> done;
    auto end = done.get_future();
    whole.columns_left = problem_.width();
    whole.done = &done;
    const double taken = timed(1, [&](long) {
      for (const auto& one : made_) send<&cell<Output>::go>(one);
      end.get();
    });
    long tasks = 0, inputs = 0;
    for (const auto& one : made_) {
      const auto [did, had] = call<&cell<Output>::counts>(one).get();
      tasks += did;
      inputs += had;
    }
    check_run(problem_, steps, tasks, inputs);
    return taken;
  }

private:
  const problem& problem_;
  std::vector<mobile_ptr<cell<Output>>> made_;
};

} // namespace

run_grid by_objects(const problem& p) {
  const auto with = [](auto objects) -> run_grid {
    return [objects](int steps, long iterations) { return objects->run(steps, iterations); };
  };
  if (p.bytes == least_bytes) return with(std::make_shared<cells<block>>(p));
  return with(std::make_shared<cells<large>>(p));
}

} // namespace tern::bench::grain

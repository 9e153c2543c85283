// SPDX-License-Identifier: Apache-2.0
/// \file
/// Grids of tasks carried by messages: each rank has a block of columns. A handler takes an output
/// of another rank in, and runs all tasks that can run then.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tern/net/buffer.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/future.hpp>

#include "bench/grain/tern.hpp"
#include "bench/harness/timing.hpp"

namespace tern::bench::grain {
namespace {

/// A large output: one of this rank, or one that has come.
struct large {
  shared_buffer<std::byte> data;
  int users = 0; // tasks of this rank that have not run
};

/// What a rank knows of the run. One fiber at a time runs tasks; where a send lets others run, they
/// only add to `ready_`.
class columns {
public:
  void set_problem(const std::string& name) {
    problem_ = std::make_unique<problem>(name);
    first_ = first_of(rank());
    last_ = first_of(rank() + 1);
    targets_.clear();
    for (int step = 0; step < plan().period(); ++step)
      for (int column = 0; column < plan().width(); ++column) targets_.push_back(targets_of(step, column));
  }

  void prepare(int steps, long iterations) {
    steps_ = steps;
    iterations_ = iterations;
    tasks_left_ = static_cast<long>(last_ - first_) * steps;
    inputs_ = 0;
    const auto all = static_cast<std::size_t>(steps) * static_cast<std::size_t>(plan().width());
    missing_.resize(all);
    for (int column = first_; column < last_; ++column)
      for (int step = 0; step < steps; ++step)
        missing_[at(step, column)] = static_cast<std::uint16_t>(plan().dependences(step, column).size());
    if (is_small()) {
      small_.assign(all, block{});
    } else {
      large_.clear();
      large_.resize(all);
    }
  }

  /// The first step, and what no task must come before.
  void begin() {
    for (int column = first_; column < last_; ++column) ready_.push_back({0, column});
    run_ready();
  }

  void arrived(int step, int column, const block& data) {
    small_[at(step, column)] = data;
    deliver(step, targets(step, column));
    run_ready();
  }
  void arrived(int step, int column, shared_buffer<std::byte> data) {
    large& one = large_[at(step, column)];
    one.data = std::move(data);
    const target_list& to = targets(step, column);
    one.users = static_cast<int>(to.here.size());
    deliver(step, to);
    run_ready();
  }

  const problem& what() const { return *problem_; }
  long inputs() const { return inputs_; }
  long tasks() const { return static_cast<long>(last_ - first_) * steps_ - tasks_left_; }

private:
  struct task {
    int step, column;
  };
  /// Which tasks need an output.
  struct target_list {
    std::vector<int> here, ranks;    // columns of this rank, and other ranks
    bool next_needs_nothing = false; // the task of that column in the next step
  };

  const grid& plan() const { return problem_->plan; }
  bool is_small() const { return problem_->bytes == least_bytes; }
  int first_of(int rank) const { return static_cast<int>(static_cast<long>(rank) * plan().width() / size()); }
  int owner(int column) const {
    int rank = 0;
    while (column >= first_of(rank + 1)) ++rank;
    return rank;
  }
  // Tasks run about step by step, so what they touch lies in that order.
  std::size_t at(int step, int column) const {
    return static_cast<std::size_t>(step) * static_cast<std::size_t>(plan().width()) + static_cast<std::size_t>(column);
  }
  target_list targets_of(int step, int column) const {
    target_list made;
    made.next_needs_nothing = plan().dependences(step + 1, column).empty();
    for (const int to : plan().dependents(step, column)) {
      const int rank = owner(to);
      if (rank == tern::rank())
        made.here.push_back(to);
      else if (made.ranks.empty() || made.ranks.back() != rank) // ascending
        made.ranks.push_back(rank);
    }
    return made;
  }
  const target_list& targets(int step, int column) const {
    const int phase = plan().period() == 1 ? 0 : step % plan().period();
    return targets_[static_cast<std::size_t>(phase * plan().width() + column)];
  }

  /// An output is there: counts for the tasks of this rank that need it.
  void deliver(int step, const target_list& targets) {
    if (step + 1 == steps_) return;
    for (const int to : targets.here)
      if (--missing_[at(step + 1, to)] == 0) ready_.push_back({step + 1, to});
  }

  void run_ready();
  void run(task t);
  void run_small(task t, const target_list& to);
  void run_large(task t, const target_list& to);

  std::unique_ptr<problem> problem_;
  int first_ = 0, last_ = 0, steps_ = 0;
  long iterations_ = 0, tasks_left_ = 0, inputs_ = 0;
  std::vector<target_list> targets_;   // of each step of a period and column
  std::vector<std::uint16_t> missing_; // inputs of each task
  std::vector<block> small_;           // outputs
  std::vector<large> large_;
  std::vector<task> ready_;
  std::size_t next_ = 0; // of `ready_`
  bool running_ = false;
};

rank_local<columns> local;

/// Rank 0's.
struct {
  int ranks_left = 0;
  promise<void>* done = nullptr;
} whole;

void rank_has_finished() {
  if (--whole.ranks_left == 0) whole.done->set_value();
}
void take_small(std::int32_t step, std::int32_t column, const block& data) { local->arrived(step, column, data); }
void take_large(std::int32_t step, std::int32_t column, shared_buffer<std::byte> data) {
  local->arrived(step, column, std::move(data));
}

void columns::run_ready() {
  if (running_) return;
  running_ = true;
  while (next_ < ready_.size()) {
    run(ready_[next_++]);
    if (next_ == ready_.size()) {
      ready_.clear();
      next_ = 0;
    }
  }
  running_ = false;
}

void columns::run(task t) {
  const target_list& to = targets(t.step, t.column);
  is_small() ? run_small(t, to) : run_large(t, to);
  if (t.step + 1 < steps_) {
    deliver(t.step, to);
    if (to.next_needs_nothing) ready_.push_back({t.step + 1, t.column});
  }
  if (--tasks_left_ == 0) send<&rank_has_finished>(0);
}

void columns::run_small(task t, const target_list& to) {
  block& mine = small_[at(t.step, t.column)];
  inputs_ +=
      static_cast<long>(run_task(*problem_, t.step, t.column, iterations_, std::as_writable_bytes(std::span(mine)),
                                 [&](int from) { return std::as_bytes(std::span(small_[at(t.step - 1, from)])); }));
  if (t.step + 1 == steps_) return;
  for (const int rank : to.ranks) send<&take_small>(rank, t.step, t.column, mine);
}

void columns::run_large(task t, const target_list& to) {
  buffer<std::byte> made(problem_->bytes);
  inputs_ += static_cast<long>(
      run_task(*problem_, t.step, t.column, iterations_, std::span(made.data(), made.size()),
               [&](int from) { return std::span<const std::byte>(large_[at(t.step - 1, from)].data); }));
  for (const int from : plan().dependences(t.step, t.column))
    if (large& one = large_[at(t.step - 1, from)]; --one.users == 0) one = {};
  if (t.step + 1 == steps_) return;
  const shared_buffer mine(std::move(made));
  for (const int rank : to.ranks) send<&take_large>(rank, t.step, t.column, mine);
  if (to.here.empty()) return;
  large& output = large_[at(t.step, t.column)];
  output.data = mine;
  output.users = static_cast<int>(to.here.size());
}

void set_problem(const std::string& name) { local->set_problem(name); }
void prepare(std::int32_t steps, std::int64_t iterations) { local->prepare(steps, iterations); }
void begin() { local->begin(); }
std::pair<std::int64_t, std::int64_t> counts() { return {local->tasks(), local->inputs()}; }

double run_once(const problem& p, int steps, long iterations) {
  for (int rank = 0; rank < size(); ++rank) call<&prepare>(rank, steps, iterations).get();
  promise<void> done;
  auto end = done.get_future();
  whole = {size(), &done};
  const double taken = timed(1, [&](long) {
    for (int rank = size() - 1; rank >= 0; --rank) send<&begin>(rank);
    end.get();
  });
  std::pair<std::int64_t, std::int64_t> sum;
  for (int rank = 0; rank < size(); ++rank) {
    const auto [tasks, inputs] = call<&counts>(rank).get();
    sum.first += tasks;
    sum.second += inputs;
  }
  check_run(p, steps, sum.first, sum.second);
  return taken;
}

} // namespace

run_grid by_messages(const problem& p) {
  for (int rank = 0; rank < size(); ++rank) call<&set_problem>(rank, p.name).get();
  return [&p](int steps, long iterations) { return run_once(p, steps, iterations); };
}

} // namespace tern::bench::grain

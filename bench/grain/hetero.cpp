// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>

#include "bench/grain/slots.hpp"
#include "bench/grain/tasks.hpp"
#include "bench/harness/timing.hpp"

namespace tern::bench::grain {
namespace {

template <std::size_t> using input_pointer = const stamp*;

class hetero_grid {
public:
  explicit hetero_grid(const problem& p) : p_(p), done_(p) {
    for (auto& one : outputs_)
      for (int column = 0; column < p.width(); ++column) one.emplace_back(elements(), stamp());
    for (int step = 1; step <= p.plan.period(); ++step)
      for (int column = 0; column < p.width(); ++column)
        if (p.plan.dependences(step, column).size() > most_hetero_inputs)
          throw std::invalid_argument(p.name + ": tasks of hetero objects have at most " +
                                      std::to_string(most_hetero_inputs) + " inputs here");
  }

  double run(int steps, long iterations) {
    for (auto& one : outputs_)
      for (auto& object : one) {
        auto all = object.host(access_mode::write).get();
        std::fill(all.begin(), all.end(), stamp());
      }
    done_.clear();
    const double taken = timed(1, [&](long) {
      for (int step = 0; step < steps; ++step)
        for (int column = 0; column < p_.width(); ++column) submit_one(step, column, iterations);
      wait_all();
    });
    done_.check(steps);
    return taken;
  }

private:
  std::int64_t elements() const { return static_cast<std::int64_t>(p_.bytes / sizeof(stamp)); }
  const hetero_object<stamp>& output(int step, int column) const {
    return outputs_[static_cast<std::size_t>(step) % 2][static_cast<std::size_t>(column)];
  }

  /// The number of inputs is that of the task's arguments, which the compiler has to know.
  template <std::size_t N = 0> void submit_one(int step, int column, long iterations) {
    if constexpr (N <= most_hetero_inputs) {
      if (p_.plan.dependences(step, column).size() == N)
        submit_with(step, column, iterations, std::make_index_sequence<N>());
      else
        submit_one<N + 1>(step, column, iterations);
    }
  }
  template <std::size_t... I> void submit_with(int step, int column, long iterations, std::index_sequence<I...>) {
    const auto needed = p_.plan.dependences(step, column);
    submit(
        [this, step, column, iterations, needed](stamp* out, input_pointer<I>... in) {
          const std::array<const stamp*, sizeof...(I)> inputs{in...};
          const auto n = static_cast<std::size_t>(elements());
          done_.of(column).add(
              run_task(p_, step, column, iterations, std::as_writable_bytes(std::span(out, n)), [&](int from) {
                const std::size_t i = place_of(needed, from);
                return i < needed.size() ? std::as_bytes(std::span(inputs[i], n)) : std::span<const std::byte>();
              }));
        },
        write(output(step, column)), read(output(step - 1, needed[I]))...);
  }

  const problem& p_;
  std::array<std::vector<hetero_object<stamp>>, 2> outputs_;
  tallies done_;
};

} // namespace

run_grid by_hetero_tasks(const problem& p) {
  auto all = std::make_shared<hetero_grid>(p);
  return [all](int steps, long iterations) { return all->run(steps, iterations); };
}

} // namespace tern::bench::grain

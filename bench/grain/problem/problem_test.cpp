// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/problem.hpp"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

using namespace tern::bench::grain;

namespace {

/// Runs tasks one after the other. Each column goes as far ahead as the plan allows before the next
/// one's turn, from the last column to the first: what a missing dependence leads to.
void run_ahead(const problem& p, int steps) {
  const auto width = static_cast<std::size_t>(p.width()), all = width * static_cast<std::size_t>(steps);
  const auto at = [&](int step, int column) {
    return static_cast<std::size_t>(step) * width + static_cast<std::size_t>(column);
  };
  std::vector<block> outputs(all, block{});
  std::vector<bool> done(all);
  tally counted;
  for (long before = -1; counted.tasks() < static_cast<long>(all);) {
    for (int column = p.width() - 1; column >= 0; --column)
      for (int step = 0; step < steps; ++step) {
        if (done[at(step, column)]) continue;
        const auto needed = p.plan.dependences(step, column);
        bool ready = true;
        for (const int from : needed) ready = ready && done[at(step - 1, from)];
        if (!ready) break;
        counted.add(run_task(p, step, column, 1, std::as_writable_bytes(std::span(outputs[at(step, column)])),
                             [&](int from) { return std::as_bytes(std::span(outputs[at(step - 1, from)])); }));
        done[at(step, column)] = true;
      }
    ASSERT_NE(before, counted.tasks()) << "nothing can run";
    before = counted.tasks();
  }
  check_run(p, steps, counted.tasks(), counted.inputs());
}

TEST(problem, each_pattern_runs_and_all_its_inputs_are_right) {
  for (const char* const name : {"trivial.16", "stencil.16", "stencil.2", "fft.16", "tree.16", "blocks4.16",
                                 "nearest5.16", "spread5.16", "random5.16", "stencil.1"})
    EXPECT_NO_FATAL_FAILURE(run_ahead(problem(name), 20)) << name;
}

TEST(problem, a_missing_dependence_is_found) {
  for (const char* const name : {"stencil.16.broken", "fft.16.broken"}) try {
      run_ahead(problem(name), 20);
      ADD_FAILURE() << name;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find("the task of column 8 in step 1 needs the output of column"),
                std::string::npos)
          << e.what();
    }
}

TEST(problem, an_input_of_another_task_is_found) {
  std::vector<std::byte> output(2 * page_bytes);
  write_output(output, {3, 5});
  EXPECT_NO_THROW(check_input(output, {3, 5}, {4, 6}));
  EXPECT_THROW(check_input(output, {3, 4}, {4, 6}), std::runtime_error);
  try {
    check_input(output, {2, 5}, {3, 6});
    ADD_FAILURE();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "the task of column 6 in step 3 needs the output of column 5 in step 2, and byte 0 of what "
                           "it got is of column 5 in step 3");
  }
  EXPECT_THROW(check_input({}, {3, 5}, {4, 6}), std::runtime_error);
  write_output(std::span(output).subspan(page_bytes), {4, 5}); // the second page is newer
  EXPECT_THROW(check_input(output, {3, 5}, {4, 6}), std::runtime_error);
}

TEST(problem, a_run_that_lacks_a_task_is_found) {
  const problem p("stencil.4");
  const auto inputs = static_cast<long>(p.truth.inputs(3));
  EXPECT_NO_THROW(check_run(p, 3, 12, inputs));
  EXPECT_THROW(check_run(p, 3, 11, inputs), std::runtime_error);
  EXPECT_THROW(check_run(p, 3, 12, inputs - 1), std::runtime_error);
}

TEST(problem, names_say_what_is_measured) {
  const problem usual("nearest3.16");
  EXPECT_EQ(usual.width(), 16);
  EXPECT_EQ(usual.truth.dependences(1, 8).size(), 3u);
  EXPECT_EQ(usual.bytes, 16u);
  EXPECT_EQ(usual.microseconds, 0);
  EXPECT_EQ(problem("fft.16.64KiB").bytes, 65536u);
  EXPECT_EQ(problem("fft.16.512B").bytes, 512u);
  EXPECT_EQ(problem("fft.16.19us").microseconds, 19);
  EXPECT_EQ(problem("fft.16.memory").work, kernel::memory);
  for (const char* const name : {"", "stencil", "sten.16", "stencil.x", "stencil.16.20", "stencil.16.3memory",
                                 "stencil.16.20B", "stencil.16.0B", "trivial.16.broken"})
    EXPECT_THROW(problem{name}, std::invalid_argument) << name;
}

TEST(problem, imbalance_keeps_the_mean) {
  const problem stays("stencil.16.stays"), fresh("stencil.16.fresh");
  long sum_stays = 0, sum_fresh = 0, first_rank = 0;
  for (int step = 0; step < 256; ++step)
    for (int column = 0; column < 16; ++column) {
      sum_stays += stays.iterations(step, column, 1000);
      sum_fresh += fresh.iterations(step, column, 1000);
      first_rank += column < 8 ? stays.iterations(step, column, 1000) : 0;
      EXPECT_EQ(stays.iterations(step, column, 1000), stays.iterations(0, column, 1000));
    }
  EXPECT_NEAR(static_cast<double>(sum_stays) / 4096, 1000, 1);
  EXPECT_NEAR(static_cast<double>(sum_fresh) / 4096, 1000, 30);
  EXPECT_NEAR(static_cast<double>(first_rank) / static_cast<double>(sum_stays), 0.25, 0.01);
  EXPECT_NE(fresh.iterations(1, 1, 100000), fresh.iterations(2, 1, 100000));
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
// Under every policy random graphs do what their tasks do in order, the same in each run of a seed;
// also where models are wrong, and then not much later than under a policy without models.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/hetero/support/placed.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero {
namespace {

using namespace placed;

/// Tasks that add one of two objects to the other, or a number to one, drawn by lot.
class random_tasks {
public:
  /// \param keys of tasks; 0: none has one.
  random_tasks(std::uint64_t seed, std::size_t most, std::size_t keys = 0) {
    std::mt19937_64 dice(seed);
    const std::size_t n = 2 + dice() % 6;
    for (std::size_t i = 0; i < n; ++i) objects_.emplace_back(extents<2>{rows, columns}, 0u);
    expected_.assign(n, 0);
    for (std::size_t k = 1 + dice() % most; k > 0; --k)
      all_.push_back({dice() % n, static_cast<unsigned>(1 + dice() % 9), static_cast<int>(dice() % 3) - 1,
                      dice() % 8 == 0, keys > 0 && dice() % 4 != 0 ? std::optional(dice() % keys) : std::nullopt});
  }
  void submit() {
    for (const one& t : all_) {
      hetero_task task(graph_kernels::add, tern::items(columns, rows), columns, rows, t.by, pitch(objects_[t.to]),
                       read_write(objects_[t.to]));
      if (t.key) task.affinity(*t.key);
      task.priority(t.priority).submit();
      expected_[t.to] += t.by;
      if (t.looks) {
        EXPECT_EQ(objects_[t.to].host(access_mode::read).get()(0, 0), expected_[t.to]);
      }
    }
  }
  void check() const {
    for (std::size_t i = 0; i < objects_.size(); ++i)
      EXPECT_EQ(objects_[i].host(access_mode::read).get()(0, 0), expected_[i]);
  }

private:
  struct one {
    std::size_t to;
    unsigned by;
    int priority;
    bool looks; ///< on the host, before others come
    std::optional<std::uint64_t> key;
  };
  std::vector<object> objects_;
  std::vector<one> all_;
  std::vector<unsigned> expected_;
};

options unlike_devices(std::uint64_t seed, const std::string& policy) {
  const std::string frugal = ",power=10,idle-power=1";
  options opts = devices(1 + static_cast<int>(seed % 3), (seed % 2 == 0 ? ",speed=1,speed=5@0" : "") + frugal, policy,
                         seed % 4 == 0 ? "50M" : "0");
  if (seed % 5 < 3) opts.set(hetero_devices, "host,simulated");
  opts.set(hetero_host_power, seed % 2 == 0 ? "20,5" : "");
  return opts;
}

class each_policy : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(policies, each_policy,
                         testing::Values("locality", "eager", "round-robin", "random", "dmda", "steal", "energy",
                                         "auto"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(each_policy, does_random_graphs_right_and_repeatably) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds(), 1000);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const options opts = unlike_devices(seed, GetParam());
    const auto once = [&] {
      return simulate(
          opts,
          [seed] {
            random_tasks tasks(seed, 40);
            tasks.submit();
            wait_all();
            tasks.check();
          },
          seed);
    };
    const std::uint64_t first = once();
    if (seed % 10 == 0) {
      EXPECT_EQ(first, once());
    }
  }
}

TEST_P(each_policy, does_random_graphs_with_keys_right_and_repeatably) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds(), 1000);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    options opts = unlike_devices(seed, GetParam());
    if (seed % 3 == 0) opts.set(hetero_simulated, opts[hetero_simulated] + ",memory=4k"); // four objects
    const auto once = [&] {
      return simulate(
          opts,
          [seed] {
            {
              random_tasks tasks(seed, 40, 1 + seed % 4);
              tasks.submit();
              wait_all();
              tasks.check();
            }
            expect_nothing_left();
          },
          seed);
    };
    const std::uint64_t first = once();
    if (seed % 10 == 0) {
      EXPECT_EQ(first, once());
    }
  }
}

// Each model is ten times too large or too small, by lot.
void spoil_models(std::uint64_t seed) {
  detail::performance_models& models = detail::runtime::here("the test").sampler().models();
  std::mt19937_64 dice(seed);
  for (const auto& [key, model] : models.all().kernels) {
    const double wrong = model.times.median() * (dice() % 2 == 0 ? 10 : 0.1);
    detail::kernel_model* const m = models.model_of(key, model.size);
    for (std::size_t i = 0; i < detail::sample_history::capacity; ++i) models.record(*m, wrong);
  }
}

class each_policy_by_time : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(policies, each_policy_by_time, testing::Values("dmda", "steal", "energy:slack=0.1"),
                         [](const auto& one) {
                           return std::string(one.param).substr(0, 5) == "energ" ? "energy" : one.param;
                         });

TEST_P(each_policy_by_time, is_right_and_not_much_later_where_models_are_wrong) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds() / 10, 100);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto makespan = [seed](const std::string& policy) {
      double taken = 0;
      simulate(
          devices(2, ",speed=1,speed=2@1,power=10", policy),
          [&] {
            for (const char* d : {"simulated0", "simulated1"}) warm(d);
            spoil_models(seed);
            for (const char* d : {"simulated0", "simulated1"}) warm(d); // expectations are what they have learned
            spoil_models(seed * 7);
            std::vector<object> all;
            for (int i = 0; i < 100; ++i) all.emplace_back(extents<2>{rows, columns}, 0u);
            const double begin = now();
            for (int round = 0; round < 2; ++round)
              for (const object& o : all) {
                hetero_task t = adding(o);
                t.submit();
              }
            wait_all();
            taken = now() - begin;
            for (const object& o : all) EXPECT_EQ(o.host(access_mode::read).get()(0, 0), 2u);
          },
          seed);
      return taken;
    };
    // `energy` may leave all to the slower of two devices, if it takes the other one to need ten
    // times as much: nothing runs there that would teach it better.
    const double factor = std::string(GetParam()).starts_with("energy") ? 3 : 2;
    EXPECT_LE(makespan(GetParam()), factor * makespan("locality"));
  }
}

} // namespace
} // namespace tern::hetero

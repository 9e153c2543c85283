// SPDX-License-Identifier: Apache-2.0
/// \file
/// What policies make of tasks whose times are fixed, in a simulation: devices take what their
/// words say. Each measurement is of another seed; the machine's load does not matter.

#include "bench/hetero/tern.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/hetero/affinity.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/models/estimate/sample_history.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/sim.hpp>

namespace tern::bench::hetero {

namespace {

double virtual_seconds() { return std::chrono::duration<double>(fiber_clock::now().time_since_epoch()).count(); }

/// Runs `f` in a simulation, with one queue for each device. \return what it returns.
double in_simulation(int workers, const std::string& devices, const std::string& simulated, const std::string& policy,
                     const std::function<double()>& f) {
  static std::uint64_t seed = 0;
  options opts;
  opts.set(tern::hetero::hetero_devices, devices);
  opts.set(tern::hetero::hetero_simulated, simulated);
  opts.set(tern::hetero::hetero_policy, policy);
  opts.set(tern::hetero::hetero_queues, 1);
  sim::simulation world({.seed = ++seed});
  scheduler s({.workers = workers, .simulation = &world, .opts = &opts});
  double result = 0;
  s.run([&] { result = f(); });
  return result;
}

using tern::hetero_object;
using tern::hetero_task;
using tern::hetero::dialect::group_context;

constexpr double item_seconds = 2e-6; // at speed 1
constexpr std::size_t bytes = 4096;   // of each object

void add_one(group_context, unsigned char* x) { x[0] = static_cast<unsigned char>(x[0] + 1); }
constexpr tern::hetero::kernel add_one_kernel{"add_one", &add_one, nullptr, {0, 0, 0}};

class independent_tasks {
public:
  explicit independent_tasks(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) objects_.emplace_back(tern::extents<1>{bytes}, static_cast<unsigned char>(0));
  }
  /// Each size and each copy a few times there.
  void warm(const char* device, const std::vector<int>& sizes) {
    hetero_object<unsigned char> x(tern::extents<1>{bytes}, static_cast<unsigned char>(0));
    for (const int items : sizes)
      for (int i = 0; i < 5; ++i) {
        static_cast<void>(x.host(tern::access_mode::read_write).get());
        hetero_task t(add_one_kernel, tern::items(items).group(items), tern::read_write(x));
        t.on(device).submit();
        tern::wait_all();
      }
  }
  void prefetch(const char* device) {
    for (auto& o : objects_) o.prefetch(device);
    tern::wait_all();
  }
  /// \return seconds.
  double run(const std::vector<int>& sizes) {
    const double begin = virtual_seconds();
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      const int items = sizes[i % sizes.size()];
      tern::submit(add_one_kernel, tern::items(items).group(items), tern::read_write(objects_[i]));
    }
    tern::wait_all();
    const double taken = virtual_seconds() - begin;
    for (auto& o : objects_)
      if (o.host(tern::access_mode::read).get()[0] != 1) throw std::runtime_error("a task has left no trace");
    return taken;
  }

private:
  std::vector<hetero_object<unsigned char>> objects_;
};

// Tasks of unlike lengths on four like devices, of which one has all of the data.
const std::vector<int> lengths{100, 200, 400, 800, 1000};

measurement stolen(const job& j) {
  return [n = j.size] {
    return in_simulation(1, "simulated", "4:launch=0us,item=2us,latency=5us,bandwidth=8G", "steal", [n] {
      independent_tasks all(n);
      for (const char* d : {"simulated0", "simulated1", "simulated2", "simulated3"}) all.warm(d, lengths);
      all.prefetch("simulated0");
      return all.run(lengths);
    });
  };
}
double quarter_of_all(std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += lengths[i % lengths.size()] * item_seconds;
  return sum / 4;
}

// Equal tasks for a processor of 100 W and one of 300 W that is 20 times as fast. Both are
// simulated: a simulation has no thread that would drive a device while all workers compute.
measurement frugal(const job& j) {
  const bool joules = j.benchmark.starts_with("virtual_joules");
  const std::string policy = j.benchmark.ends_with("_energy") ? "energy:slack=0.1" : "dmda";
  return [n = j.size, joules, policy] {
    return in_simulation(
        1, "simulated", "2:launch=0us,item=2us,latency=5us,bandwidth=8G,power=100,power=300@1,speed=1,speed=20@1",
        policy, [=] {
          constexpr int items = 500;
          independent_tasks all(n);
          all.warm("simulated0", {items});
          all.warm("simulated1", {items});
          const auto count = [] { return tern::hetero::count().devices; };
          const auto before = count();
          const double taken = all.run({items});
          const auto after = count();
          const auto ran = [&](std::size_t d) { return static_cast<double>(after[d].tasks - before[d].tasks); };
          constexpr double slow = items * item_seconds;
          return joules ? ran(1) * slow * 100 + ran(2) * slow / 20 * 300 : taken;
        });
  };
}

// Keys, each with an object of its own and tasks of its own length, on four like devices.
class keyed_objects {
public:
  keyed_objects(std::size_t keys, int steps) : steps_(steps) {
    for (std::size_t i = 0; i < keys; ++i) objects_.push_back(made());
  }
  /// Bytes copied between the host and the devices, either way; or seconds. By Tern, or at least.
  double run(bool copied, bool at_least) {
    if (at_least) return copied ? static_cast<double>(objects_.size() * large_bytes) : quarter();
    for (const char* d : {"simulated0", "simulated1", "simulated2", "simulated3"}) warm(d);
    const auto copies = [] {
      const auto s = tern::hetero::count();
      return static_cast<double>(s.bytes_to_devices + s.bytes_from_devices);
    };
    const double before = copies(), begin = virtual_seconds();
    for (int step = 0; step < steps_; ++step) {
      for (std::size_t k = 0; k < objects_.size(); ++k) {
        const tern::affinity_scope in(k);
        submit(objects_[k], lengths[k % lengths.size()]);
      }
      tern::wait_all();
    }
    const double result = copied ? copies() - before : virtual_seconds() - begin;
    for (auto& o : objects_)
      if (o.host(tern::access_mode::read).get()[0] != steps_) throw std::runtime_error("a task has left no trace");
    return result;
  }

private:
  static constexpr std::size_t large_bytes = 256 * 1024;
  static hetero_object<unsigned char> made() {
    return hetero_object<unsigned char>(tern::extents<1>{large_bytes}, static_cast<unsigned char>(0));
  }
  static void submit(const hetero_object<unsigned char>& o, int items) {
    tern::submit(add_one_kernel, tern::items(items).group(items), tern::read_write(o));
  }
  static void warm(const char* device) {
    const hetero_object<unsigned char> x = made();
    for (const int items : lengths)
      for (int i = 0; i < 5; ++i) {
        static_cast<void>(x.host(tern::access_mode::read_write).get());
        hetero_task t(add_one_kernel, tern::items(items).group(items), tern::read_write(x));
        t.on(device).submit();
        tern::wait_all();
      }
  }
  double quarter() const {
    double sum = 0;
    for (std::size_t k = 0; k < objects_.size(); ++k) sum += lengths[k % lengths.size()] * item_seconds;
    return steps_ * sum / 4;
  }
  std::vector<hetero_object<unsigned char>> objects_;
  const int steps_;
};

measurement keyed(const job& j) {
  const bool copied = j.benchmark.starts_with("virtual_keys_bytes"), at_least = j.benchmark.ends_with("_least");
  return [n = j.size, copied, at_least] {
    return in_simulation(1, "simulated", "4:launch=0us,item=2us,latency=5us,bandwidth=8G,noise=0.05", "dmda", [=] {
      constexpr int steps = 50;
      return keyed_objects(n, steps).run(copied, at_least);
    });
  };
}

// Models --------------------------------------------------------------------------------------------------------------

/// Times of a kernel: noise of 5 %, one in a hundred a hundred times as long, the first 50 times;
/// all twice as long from a moment on.
class noisy_times {
public:
  explicit noisy_times(std::uint64_t seed) : dice_(seed) {}
  double next() {
    const double noise = std::normal_distribution<>(1, 0.05)(dice_);
    const bool outlier = std::uniform_real_distribution<>(0, 1)(dice_) < 0.01;
    return truth_ * std::max(noise, 0.1) * (outlier ? 100 : 1) * (std::exchange(first_, false) ? 50 : 1);
  }
  void double_them() { truth_ *= 2; }
  double truth() const { return truth_; }

private:
  std::mt19937_64 dice_;
  double truth_ = 1e5;
  bool first_ = true;
};

/// A model as StarPU's: the mean; times that differ by more than half do not count, and once they
/// are as many as those that do, all is forgotten (perfmodel_history.c of 1.3).
class mean_with_gate {
public:
  void add(double x) {
    if (count_ > 0 && (x > 1.5 * mean() || mean() > 1.5 * x)) {
      if (++errors_ >= count_) sum_ = count_ = errors_ = 0;
      return;
    }
    sum_ += x;
    ++count_;
  }
  double mean() const { return count_ > 0 ? sum_ / count_ : 0; }

private:
  double sum_ = 0, count_ = 0, errors_ = 0;
};

constexpr int sequences = 2000;

/// \return how wrong the estimate is after 20 samples, of 99 in a hundred sequences.
double error_after_20() {
  std::vector<double> errors;
  for (std::uint64_t seed = 1; seed <= sequences; ++seed) {
    noisy_times times(seed);
    tern::hetero::detail::sample_history model;
    times.next(); // the first does not count (performance_models)
    for (int i = 0; i < 20; ++i) model.add(times.next());
    errors.push_back(std::abs(model.median() / times.truth() - 1));
  }
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() * 99 / 100];
}

/// \return samples until an estimate follows when all times have doubled, in the median.
template <class Model, class Estimate> double samples_to_follow(bool skips_first, Estimate&& estimate) {
  std::vector<double> needed;
  for (std::uint64_t seed = 1; seed <= sequences / 10; ++seed) {
    noisy_times times(seed);
    Model model;
    if (skips_first) times.next();
    for (int i = 0; i < 200; ++i) model.add(times.next());
    times.double_them();
    int n = 0;
    while (n < 10'000 && std::abs(estimate(model) / times.truth() - 1) > 0.1) {
      model.add(times.next());
      ++n;
    }
    needed.push_back(n);
  }
  std::sort(needed.begin(), needed.end());
  return needed[needed.size() / 2];
}

measurement models(const job& j) {
  using tern::hetero::detail::sample_history;
  if (j.benchmark == "virtual_error") return [] { return error_after_20() * 100; };
  if (j.benchmark == "virtual_follow")
    return [] { return samples_to_follow<sample_history>(true, [](const sample_history& m) { return m.median(); }); };
  if (j.benchmark == "virtual_follow_starpu")
    return [] { return samples_to_follow<mean_with_gate>(false, [](const mean_with_gate& m) { return m.mean(); }); };
  return {};
}

} // namespace

measurement virtual_time(const job& j) {
  if (auto m = models(j)) return m;
  if (j.benchmark == "virtual_stolen") return stolen(j);
  if (j.benchmark.starts_with("virtual_keys")) return keyed(j);
  if (j.benchmark == "virtual_quarter") return [n = j.size] { return quarter_of_all(n); };
  if (j.benchmark.starts_with("virtual_joules") || j.benchmark.starts_with("virtual_makespan")) return frugal(j);
  unknown(j);
}

} // namespace tern::bench::hetero

// SPDX-License-Identifier: Apache-2.0
// Random graphs of tasks on several devices do what the same tasks do one after the other.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/cuda.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include "tests/task/support/executors.hpp"
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/models/model_file.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero {
namespace {

using numbers = std::vector<unsigned>;
using graph_kernels::stir;
using testing::HasSubstr;

struct area {
  int y0, y1, x0, x1;
  int rows() const { return y1 - y0; }
  int columns() const { return x1 - x0; }
};

/// What a world is to meet.
struct conditions {
  bool errors = false;  ///< tasks fail on purpose, and are cancelled
  bool kernels = false; ///< most tasks, so that few wait for the host
  int devices = 0;      ///< of `kind`, of which most tasks name one
  bool faults = false;  ///< of devices: what can be read is right, and errors say what it was
  std::string kind = "simulated";
};

/// The same arrays twice: as objects, and as what they are to be after each task in turn.
class world {
public:
  static constexpr int most = 24;
  world(std::uint64_t seed, const conditions& met) : generator_(seed), met_(met) {
    const int n = 1 + pick(4);
    for (int i = 0; i < n; ++i) {
      array a{1 + pick(most), 1 + pick(most), {}, {}, {}};
      a.object.emplace(hetero_object<unsigned, 2>({a.rows, a.columns}, 7u));
      a.object->name("object " + std::to_string(i));
      a.expected.assign(static_cast<std::size_t>(a.rows * a.columns), 7u);
      a.broken.assign(a.expected.size(), false);
      if (pick(2) == 0) a.object->tiles({1 + pick(a.rows), 1 + pick(a.columns)});
      arrays_.push_back(std::move(a));
    }
  }

  void step() {
    if (met_.kernels && pick(5) != 0) return pick(6) == 0 ? fill() : mix();
    switch (pick(met_.errors ? 13 : 11)) {
    case 0:
      return host_change();
    case 1:
      return look();
    case 2:
      return fill();
    case 3:
      return reduce_into();
    case 4:
      return commute_with();
    case 5:
      return place();
    case 6:
      return on_host();
    case 11:
      return fail();
    case 12:
      return cancel();
    default:
      return mix();
    }
  }

  void end() {
    try {
      wait_all();
    } catch (const error& e) {
      if (!met_.errors) told(e);
    }
    for (std::size_t i = 0; i < arrays_.size(); ++i) compare(i, all(i));
  }
  int faults_told() const noexcept { return told_; }

private:
  struct array {
    int rows, columns;
    std::optional<hetero_object<unsigned, 2>> object;
    numbers expected;
    std::vector<bool> broken; // by a task that failed
    unsigned& at(int y, int x) { return expected[static_cast<std::size_t>(y * columns + x)]; }
  };

  int pick(int n) { return static_cast<int>(generator_() % static_cast<unsigned>(n)); }
  unsigned number() { return static_cast<unsigned>(generator_()); }
  std::size_t some() { return static_cast<std::size_t>(pick(static_cast<int>(arrays_.size()))); }
  area all(std::size_t i) { return {0, arrays_[i].rows, 0, arrays_[i].columns}; }
  area part(std::size_t i) {
    if (pick(3) == 0) return all(i);
    const array& a = arrays_[i];
    const int y0 = pick(a.rows), x0 = pick(a.columns);
    return {y0, y0 + 1 + pick(a.rows - y0), x0, x0 + 1 + pick(a.columns - x0)};
  }
  hetero_view<unsigned, 2> view(std::size_t i, const area& r) {
    return arrays_[i].object->part({r.y0, r.x0}, {r.y1, r.x1});
  }
  bool is_broken(std::size_t i, const area& r) {
    for (int y = r.y0; y < r.y1; ++y)
      for (int x = r.x0; x < r.x1; ++x)
        if (arrays_[i].broken[static_cast<std::size_t>(y * arrays_[i].columns + x)]) return true;
    return false;
  }
  void set_broken(std::size_t i, const area& r, bool to) {
    for (int y = r.y0; y < r.y1; ++y)
      for (int x = r.x0; x < r.x1; ++x) arrays_[i].broken[static_cast<std::size_t>(y * arrays_[i].columns + x)] = to;
  }
  static tern::items over(const area& r) { return tern::items(r.columns(), r.rows()).group(8, 4); }
  void send(hetero_task t) {
    if (pick(4) == 0) t.priority(pick(5));
    if (met_.devices > 0 && pick(3) != 0) t.on(named(pick(met_.devices)));
    t.submit();
  }

  void mix() {
    const std::size_t i = some(), k = some();
    area from = part(i), to = part(k);
    const int rows = std::min(from.rows(), to.rows()), columns = std::min(from.columns(), to.columns());
    from.y1 = from.y0 + rows, from.x1 = from.x0 + columns;
    to.y1 = to.y0 + rows, to.x1 = to.x0 + columns;
    if (i == k && from.y0 < to.y1 && to.y0 < from.y1 && from.x0 < to.x1 && to.x0 < from.x1) return; // overlap
    const unsigned a = number();
    const auto x = view(i, from), y = view(k, to);
    send(hetero_task(graph_kernels::mix, over(to), columns, rows, a, pitch(x), read(x), pitch(y), read_write(y)));
    if (is_broken(i, from) || is_broken(k, to)) return set_broken(k, to, true);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        unsigned& v = arrays_[k].at(to.y0 + r, to.x0 + c);
        v = stir(v, arrays_[i].at(from.y0 + r, from.x0 + c) + a);
      }
  }

  void fill() {
    const std::size_t k = some();
    const area to = part(k);
    const unsigned a = number();
    const auto y = view(k, to);
    send(hetero_task(graph_kernels::fill, over(to), to.columns(), to.rows(), a, pitch(y), write(y)));
    set_broken(k, to, false);
    for (int r = 0; r < to.rows(); ++r)
      for (int c = 0; c < to.columns(); ++c)
        arrays_[k].at(to.y0 + r, to.x0 + c) = stir(a, static_cast<unsigned>(r * 1000 + c));
  }

  void added(std::size_t k, const area& to, unsigned a) {
    if (is_broken(k, to)) return set_broken(k, to, true);
    for (int r = 0; r < to.rows(); ++r)
      for (int c = 0; c < to.columns(); ++c)
        arrays_[k].at(to.y0 + r, to.x0 + c) += a * static_cast<unsigned>(c + 3 * r + 1);
  }

  void reduce_into() {
    const std::size_t k = some();
    const area to = part(k);
    const auto y = view(k, to);
    for (int n = 1 + pick(6); n > 0; --n) {
      const unsigned a = number();
      if (pick(2) == 0)
        submit(graph_kernels::add, over(to), to.columns(), to.rows(), a, to.columns(),
               reduce(y, std::plus<unsigned>(), 0u));
      else
        submit(
            [a](host_view<unsigned, 2> v) {
              for (int r = 0; r < v.extent(0); ++r)
                for (int c = 0; c < v.extent(1); ++c) v(r, c) += a * static_cast<unsigned>(c + 3 * r + 1);
            },
            reduce(y, std::plus<unsigned>(), 0u));
      added(k, to, a);
    }
  }

  void commute_with() {
    const std::size_t k = some();
    for (int n = 1 + pick(6); n > 0; --n) {
      const area to = part(k);
      const unsigned a = number();
      const auto y = view(k, to);
      send(hetero_task(graph_kernels::add, over(to), to.columns(), to.rows(), a, pitch(y), commute(y)));
      added(k, to, a);
    }
  }

  void on_host() {
    const std::size_t k = some();
    const area to = part(k);
    const unsigned a = number();
    const bool slow = pick(4) == 0;
    submit(
        [a, slow](host_view<unsigned, 2> v) {
          if (slow) this_fiber::yield();
          for (int r = 0; r < v.extent(0); ++r)
            for (int c = 0; c < v.extent(1); ++c) v(r, c) += a * static_cast<unsigned>(c + 3 * r + 1);
        },
        read_write(view(k, to)));
    added(k, to, a);
  }

  void write_on_host() {
    const std::size_t k = some();
    const area to = part(k);
    const unsigned a = number();
    const auto set = [a](auto&& v) {
      for (int r = 0; r < v.extent(0); ++r)
        for (int c = 0; c < v.extent(1); ++c) v(r, c) = stir(a, static_cast<unsigned>(r * 100 + c));
    };
    if (pick(2) == 0)
      submit([set](host_view<unsigned, 2> v) { set(v); }, write(view(k, to)));
    else
      set(view(k, to).host(access_mode::write).get());
    set_broken(k, to, false);
    for (int r = 0; r < to.rows(); ++r)
      for (int c = 0; c < to.columns(); ++c)
        arrays_[k].at(to.y0 + r, to.x0 + c) = stir(a, static_cast<unsigned>(r * 100 + c));
  }

  void host_change() {
    const std::size_t k = some();
    const area to = part(k);
    const unsigned a = number();
    auto later = view(k, to).host(access_mode::read_write);
    try {
      auto v = later.get();
      for (int r = 0; r < to.rows(); ++r)
        for (int c = 0; c < to.columns(); ++c) v(r, c) += a * static_cast<unsigned>(c + 3 * r + 1);
    } catch (const error& e) {
      if (!is_broken(k, to)) told(e);
    }
    added(k, to, a);
  }

  void look() {
    const std::size_t k = some();
    compare(k, part(k));
  }

  void compare(std::size_t k, const area& r) {
    std::vector<unsigned> seen(static_cast<std::size_t>(r.rows() * r.columns()));
    const bool broken = is_broken(k, r);
    try {
      if (pick(2) == 0) {
        view(k, r).copy_to(seen.data()).get();
      } else {
        auto v = view(k, r).host(access_mode::read).get();
        for (int y = 0; y < r.rows(); ++y)
          std::copy_n(&v(y, 0), r.columns(), &seen[static_cast<std::size_t>(y * r.columns())]);
      }
      EXPECT_FALSE(broken);
      for (int y = 0; y < r.rows() && !broken; ++y)
        for (int x = 0; x < r.columns(); ++x)
          ASSERT_EQ(seen[static_cast<std::size_t>(y * r.columns() + x)], arrays_[k].at(r.y0 + y, r.x0 + x))
              << arrays_[k].object->text() << " at " << r.y0 + y << ", " << r.x0 + x;
    } catch (const error& e) {
      if (!broken) told(e);
    }
  }

  // A device did not do what it should: each error that follows from it says so.
  void told(const error& e) {
    ++told_;
    EXPECT_TRUE(met_.faults) << e.what();
    EXPECT_THAT(e.what(), testing::AnyOf(HasSubstr("it was to: fail-"), HasSubstr("CUDA_ERROR"), HasSubstr("lost"),
                                         HasSubstr("no room left")));
  }

  void place() {
    const std::size_t k = some();
    const std::vector<std::string> there = devices_there();
    const std::string& d = there[static_cast<std::size_t>(pick(static_cast<int>(there.size())))];
    const area r = part(k);
    if (pick(2) == 0)
      view(k, r).prefetch(d);
    else
      view(k, r).drop(d);
  }
  // A machine may have fewer devices than the mock driver.
  std::string named(int device) const {
    const auto all = devices_there();
    const auto there =
        std::count_if(all.begin(), all.end(), [&](const std::string& id) { return id.starts_with(met_.kind); });
    return met_.kind + std::to_string(device % std::max<std::int64_t>(there, 1));
  }
  static std::vector<std::string> devices_there() {
    std::vector<std::string> ids;
    for (const auto& d : count().devices) ids.push_back(d.id);
    return ids;
  }

  void fail() {
    const std::size_t k = some();
    const area to = part(k);
    submit(
        [](host_view<unsigned, 2> v) {
          v(0, 0) = 0;
          throw error(errc::io, "on purpose");
        },
        read_write(view(k, to)));
    set_broken(k, to, true);
  }

  void cancel() {
    const std::size_t k = some();
    const area to = part(k);
    const unsigned a = number();
    const auto y = view(k, to);
    hetero_task t(graph_kernels::add, over(to), to.columns(), to.rows(), a, pitch(y), read_write(y));
    t.submit();
    if (pick(2) == 0) this_fiber::yield();
    if (t.cancel())
      set_broken(k, to, true);
    else
      added(k, to, a);
  }

  std::mt19937_64 generator_;
  const conditions met_;
  std::vector<array> arrays_;
  int told_ = 0;
};

const int depths[] = {64, 0, 8, 1};
const char* const policies[] = {"locality", "eager", "round-robin", "random", "dmda", "steal", "energy", "auto"};

options options_of(std::uint64_t seed, const std::string& devices, options opts = {}) {
  opts.set(hetero_devices, devices);
  if (devices.find("simulated") != std::string::npos)
    opts.set(hetero_simulated, std::to_string(1 + seed % 3) + ":bandwidth=0,latency=" + std::to_string(seed % 5) +
                                   "us,launch=" + std::to_string(seed / 5 % 4) + "us" +
                                   (seed % 3 == 0 ? ",memory=6k" : "") + (seed % 2 == 0 ? ",fuse=8" : "") +
                                   (seed / 2 % 3 == 0 ? "" : ",notice=20us,waits=1us"));
  opts.set(hetero_ahead, depths[seed / 3 % std::size(depths)]);
  opts.set(hetero_models, "read:none"); // nothing is stored
  opts.set(hetero_policy, policies[seed % std::size(policies)]);
  return opts;
}

/// Behind what had not ended.
struct queued_so_far {
  std::uint64_t launches = 0, copies = 0;
  bool possible = false; ///< the last device takes such
};

/// \return how many errors told of a device's fault
int run_graph(std::uint64_t seed, scheduler& s, conditions met = {}, queued_so_far* queued = nullptr) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  met.errors = seed % 2 == 1;
  int told = 0;
  EXPECT_EQ(s.run([&] {
    {
      world w(seed, met);
      std::mt19937_64 dice(seed);
      for (int n = 10 + static_cast<int>(dice() % 60); n > 0 && !testing::Test::HasFailure(); --n) w.step();
      w.end();
      told = w.faults_told();
    }
    if (queued) {
      queued->launches += count().launched_behind;
      queued->copies += count().copied_behind;
      const detail::device_table& all = detail::runtime::here("the test").devices();
      queued->possible = all.queue(all.count() - 1)->of().launches_behind();
    }
    expect_nothing_left();
  }),
            0u);
  return told;
}

TEST(graph, of_tasks_is_as_in_order_on_threads) {
  const auto seeds = std::min<std::uint64_t>(std::max(test_support::seeds(), test_support::seeds_of_devices()), 1000);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    options opts = options_of(seed, seed % 3 == 0 ? "simulated" : "host,simulated");
    opts.set(hetero_threads, seed / 2 % 2 == 1);
    scheduler s({.workers = 1 + static_cast<int>(seed % 3), .opts = &opts});
    run_graph(seed, s);
  }
}

TEST(graph, of_tasks_is_as_in_order_in_simulations) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds(), 1000);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    const options opts = options_of(seed, seed % 3 == 0 ? "simulated" : "host,simulated");
    sim::settings settings;
    settings.seed = seed;
    sim::simulation world(settings);
    scheduler s({.workers = 1 + static_cast<int>(seed % 4), .simulation = &world, .opts = &opts});
    run_graph(seed, s);
  }
}

// Nothing but devices that show ends late, so that many tasks are behind others.
TEST(graph, of_queued_launches_is_as_in_order) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds(), 2000);
  queued_so_far queued;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    options opts = options_of(seed, "simulated");
    const std::string fault =
        seed % 4 == 0 ? ",fail-kernel=" + std::to_string(1 + seed / 4 % 20) + (seed % 3 == 0 ? ",skip=false" : "") : "";
    opts.set(hetero_simulated, std::to_string(1 + seed % 2) + ":bandwidth=1G,latency=" + std::to_string(seed % 5) +
                                   "us,launch=3us,item=10ns,notice=20us,waits=1us" +
                                   (seed % 5 == 0 ? ",memory=8k" : "") + fault);
    opts.set(hetero_ahead, depths[seed / 5 % 4 == 1 ? 0 : seed / 5 % 4]);
    opts.set(hetero_queues, 1 + static_cast<int>(seed % 4));
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 1 + static_cast<int>(seed % 2), .simulation = &world, .opts = &opts});
    run_graph(seed, s, {.kernels = true, .faults = seed % 4 == 0}, &queued);
  }
  EXPECT_GT(queued.launches, seeds * 4); // else little has been tested
  EXPECT_GT(queued.copies, seeds / 2);
}

// From one device to the other, by way of the host or straight.
TEST(graph, of_tasks_that_name_devices_is_as_in_order) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds(), 2000);
  queued_so_far queued;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    options opts = options_of(seed, seed % 5 == 0 ? "host,simulated" : "simulated");
    const char* const words[] = {",fail-kernel=", ",fail-kernel=", ",fail-copy=", ",lose="};
    const std::string fault = seed % 4 == 0 ? words[seed / 4 % 4] + std::to_string(1 + seed / 16 % 20) : "";
    const int devices = 2 + static_cast<int>(seed % 2);
    opts.set(hetero_simulated, std::to_string(devices) + ":bandwidth=1G,latency=" + std::to_string(seed % 5) +
                                   "us,launch=3us,item=10ns,notice=20us,waits=1us" +
                                   (seed / 2 % 5 == 0 ? ",memory=8k" : "") + (seed % 7 == 0 ? ",fuse=8" : "") +
                                   (seed % 3 == 0 ? ",peer-bandwidth=2G" : "") + fault);
    opts.set(hetero_ahead, depths[seed / 5 % 4]);
    opts.set(hetero_queues, 1 + static_cast<int>(seed / 3 % 4));
    sim::simulation world({.seed = seed});
    scheduler s({.workers = 1 + static_cast<int>(seed % 2), .simulation = &world, .opts = &opts});
    run_graph(seed, s, {.kernels = true, .devices = devices, .faults = seed % 4 == 0}, &queued);
  }
  EXPECT_GT(queued.launches, seeds);
  EXPECT_GT(queued.copies, seeds);
}

TEST(graph, of_tasks_is_as_in_order_on_cuda) {
  const std::uint64_t seeds = test_support::seeds_of_devices();
  const char* const without[] = {"", "no-pinned", "no-pool", "one-stream", "no-pinned,no-pool,one-stream"};
  queued_so_far queued;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    const mock_cuda driver("devices=" + std::to_string(1 + seed % 3) + ",seed=" + std::to_string(seed) +
                           ",delay=" + std::to_string(seed % 5) + "us");
    options opts = cuda_options(seed % 4 == 0 ? "64K" : "", without[seed % 5]);
    opts.set(hetero_devices, seed % 3 == 0 ? "cuda" : "host,cuda");
    opts.set(hetero_policy, policies[seed % std::size(policies)]);
    opts.set(hetero_threads, seed / 2 % 2 == 1);
    opts.set(hetero_ahead, depths[seed / 3 % std::size(depths)]);
    scheduler s({.workers = 1 + static_cast<int>(seed % 3), .opts = &opts});
    const bool named = seed % 2 == 0; // they go from one to the other
    run_graph(
        seed, s,
        {.kernels = named || seed % 3 == 0, .devices = named ? 1 + static_cast<int>(seed % 3) : 0, .kind = "cuda"},
        &queued);
  }
}

// Each graph twice: what the first run has learned is wrong by a factor of ten for the second.
TEST(graph, of_tasks_is_as_in_order_where_models_are_wrong) {
  const std::uint64_t seeds = std::min<std::uint64_t>(test_support::seeds() / 10, 100);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    const test::temporary folder;
    options opts = options_of(seed, "host,simulated");
    opts.set(hetero_policy, "dmda");
    opts.set(hetero_models, folder.path.string());
    for (int run = 0; run < 2; ++run) {
      {
        scheduler s({.workers = 1 + static_cast<int>(seed % 3), .opts = &opts});
        run_graph(seed, s);
      }
      detail::model_file(opts).change(
          [n = 0](detail::model_set& all) mutable {
            for (auto& [key, model] : all.kernels) {
              detail::sample_history wrong;
              for (const float x : model.times.samples()) wrong.add(n % 2 == 0 ? x * 10 : x / 10);
              model.times = wrong;
              ++n;
            }
          },
          detail::date_now());
    }
  }
}

// On devices that fail at some moment.

TEST(graph_faults, leave_what_is_right_or_an_error_on_threads_and_in_simulations) {
  const auto seeds = std::min<std::uint64_t>(std::max(test_support::seeds(), test_support::seeds_of_devices()), 1000);
  const char* const words[] = {"fail-kernel=", "fail-copy=", "fail-allocation=", "lose="};
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    options opts = options_of(seed, seed % 3 == 0 ? "simulated" : "host,simulated");
    const std::string word = words[seed / 2 % 4];
    const std::string fault = word + std::to_string(1 + seed / 8 % 20) + (word == "lose=" || seed % 5 == 0 ? "@0" : "");
    SCOPED_TRACE(fault);
    opts.set(hetero_simulated, opts[hetero_simulated] + "," + fault);
    sim::simulation world({.seed = seed});
    const bool simulated = seed / 3 % 2 == 0;
    opts.set(hetero_threads, !simulated && seed % 4 == 1);
    scheduler s({.workers = 1 + static_cast<int>(seed % 3), .simulation = simulated ? &world : nullptr, .opts = &opts});
    failed += run_graph(seed, s, {.faults = true}) > 0;
  }
  EXPECT_GT(failed, static_cast<int>(seeds / 5)); // else little has been tested
}

TEST(graph_faults, leave_what_is_right_or_an_error_on_cuda) {
  const std::uint64_t seeds = test_support::seeds_of_devices();
  const char* const words[] = {"fail-launch=", "fail-copy=", "fault-kernel=", "lose=", "fail-alloc="};
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    const std::string word = words[seed / 2 % 5];
    const std::string fault = word + std::to_string(1 + seed / 10 % (word == "fail-alloc=" ? 2 : 20));
    SCOPED_TRACE(fault);
    const mock_cuda driver("devices=" + std::to_string(1 + seed % 3) + ",seed=" + std::to_string(seed) + "," + fault);
    options opts = cuda_options(seed % 4 == 0 ? "64K" : "", seed % 7 == 0 ? "no-pool" : "");
    opts.set(hetero_devices, seed % 3 == 0 ? "cuda" : "host,cuda");
    opts.set(hetero_policy, policies[seed % std::size(policies)]);
    opts.set(hetero_threads, seed / 2 % 2 == 1);
    scheduler s({.workers = 1 + static_cast<int>(seed % 3), .opts = &opts});
    failed += run_graph(seed, s, {.faults = true}) > 0;
  }
  EXPECT_GT(failed, static_cast<int>(seeds / 5));
}

// On OpenCL, and on all kinds at once.

struct place {
  const char *name, *devices, *opencl_memory;
};
class graph_with_opencl : public testing::TestWithParam<place> {};
INSTANTIATE_TEST_SUITE_P(on, graph_with_opencl,
                         testing::Values(place{"opencl", "host,opencl", "auto"},
                                         place{"opencl_buffers", "host,opencl", "buffers"},
                                         place{"all", "host,simulated,opencl,cuda", "auto"},
                                         place{"all_buffers", "host,simulated,opencl,cuda", "buffers"}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(graph_with_opencl, of_tasks_is_as_in_order) {
  if (!there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  const std::uint64_t seeds = std::clamp<std::uint64_t>(test_support::seeds() / 20, 4, 60);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    const mock_cuda driver("seed=" + std::to_string(seed));
    options opts = options_of(seed, GetParam().devices, cuda_options());
    opts.set(detail::hetero_opencl_memory, GetParam().opencl_memory);
    opts.set(hetero_threads, seed / 2 % 2 == 1);
    scheduler s({.workers = 1 + static_cast<int>(seed % 3), .opts = &opts});
    run_graph(seed, s);
  }
}

// Where kernels run in threads of the driver's, there are launches and copies behind them.
TEST(graph, of_tasks_is_as_in_order_on_opencl_with_threads) {
  if (!there_is_opencl()) GTEST_SKIP() << "no OpenCL device";
  const std::uint64_t seeds = std::clamp<std::uint64_t>(test_support::seeds() / 20, 4, 60);
  queued_so_far queued;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    options opts = options_of(seed, seed % 3 == 0 ? "host,opencl" : "opencl");
    opts.set(detail::hetero_opencl_pocl, "pthread");
    opts.set(detail::hetero_opencl_memory, "buffers");
    opts.set(hetero_threads, seed / 2 % 2 == 1);
    scheduler s({.workers = 1 + static_cast<int>(seed % 3), .opts = &opts});
    run_graph(seed, s, {.kernels = true}, &queued);
  }
  EXPECT_EQ(queued.launches > 0, queued.possible); // what the driver has read from the environment before stays
  EXPECT_EQ(queued.copies > 0, queued.possible);
}

TEST(graph, of_tasks_is_as_in_order_on_the_host_alone) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    const options opts = options_of(seed, "host");
    scheduler s({.workers = 1 + static_cast<int>(seed % 3), .opts = &opts});
    run_graph(seed, s);
  }
}

} // namespace
} // namespace tern::hetero

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where the fewest bytes are missing; among those where the fewest tasks are. A device that has
/// nothing to do takes from one that has too much.
///
/// A task with a key goes to its key's home, and leaves it as affinity_table says. When it would
/// end is expected from what it takes, as far as models know that, as if all tasks of a device took
/// as long. Where they do not, it stays.
#include <tern/hetero/schedule/policies/affinity_table.hpp>
#include <tern/hetero/schedule/policies/by_device.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero::detail {
namespace {

class locality final : public by_device {
public:
  const char* name() const noexcept override { return "locality"; }
  bool follow(ready_task t, int device, std::span<const device_load> devices) override {
    const auto key = t.affinity();
    const auto home = key ? home_of(t, *key, devices) : std::nullopt;
    if (!home) return policy::follow(t, device, devices);
    if (*home != static_cast<std::size_t>(device) || t.bytes_missing(device) > 0) return false;
    came(t, *key, *home);
    keys_.went(*key, *home);
    return true;
  }
  void ended(ready_task t, int, std::span<const device_load>) override {
    if (const auto key = t.affinity()) keys_.ended(*key);
  }

protected:
  int choose(const ready_task& t, std::span<const device_load> devices) override {
    if (const auto key = t.affinity())
      if (const auto home = home_of(t, *key, devices)) return by_key(t, *key, *home, devices);
    int best = -1;
    std::int64_t missing = 0;
    std::size_t tasks = 0;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (!usable(t, devices, d)) continue;
      const std::int64_t m = t.bytes_missing(static_cast<int>(d));
      const std::size_t n = tasks_at(d, devices);
      if (best >= 0 && (m > missing || (m == missing && n >= tasks))) continue;
      best = static_cast<int>(d);
      missing = m;
      tasks = n;
    }
    return best;
  }
  std::optional<ready_task> steal(std::size_t d, std::span<const device_load> devices) override {
    std::size_t looks = 0; // at tasks with a key, of which each costs much
    for (std::size_t v = 0; v < queues_.size(); ++v)
      if (v != d && devices[v].free_slots <= 0)
        if (auto t = queues_[v].take_for(static_cast<int>(d), [&](const ready_task& x) {
              const auto key = x.affinity();
              if (!key || keys_.home(*key) != v) return true;
              return ++looks <= looks_most && may_leave(x, *key, v, d, devices);
            }))
          return t;
    return std::nullopt;
  }
  void given(const ready_task& t, std::size_t d) override {
    if (const auto key = t.affinity())
      if (const auto home = keys_.home(*key); home && t.may_run_on(static_cast<int>(*home))) keys_.went(*key, d);
  }

private:
  static constexpr std::size_t looks_most = 16;

  std::size_t tasks_at(std::size_t d, std::span<const device_load> devices) const {
    return static_cast<std::size_t>(devices[d].tasks) + (d < queues_.size() ? queues_[d].size() : 0);
  }
  static int units(std::size_t d, std::span<const device_load> devices) {
    return d == 0 ? devices[d].info->compute_units : 1;
  }

  /// Where the task's key is at home, from now on if it is a new one. \return nothing if the task
  /// cannot run there.
  std::optional<std::size_t> home_of(const ready_task& t, std::uint64_t key, std::span<const device_load> devices) {
    times_.resize(devices.size());
    t.expected_times(times_);
    auto home = keys_.home(key, devices);
    if (!home) {
      choices_.clear();
      for (std::size_t d = 0; d < devices.size(); ++d)
        if (usable(t, devices, d))
          choices_.push_back({d, times_[d], t.bytes_missing(static_cast<int>(d)), units(d, devices)});
      if (choices_.empty()) return std::nullopt;
      home = keys_.settle(key, choices_);
    }
    return usable(t, devices, *home) ? home : std::nullopt;
  }
  /// \pre home_of.
  void came(const ready_task& t, std::uint64_t key, std::size_t home) {
    t.find_data(data_);
    keys_.came(key, times_[home], data_);
  }

  /// Seconds until the task would end there. \pre its time is known. \param waits in a queue there
  /// already.
  double until_end(const ready_task& t, std::size_t d, std::size_t home, bool waits,
                   std::span<const device_load> devices) const {
    const std::int64_t missing = t.bytes_missing(static_cast<int>(d));
    const double before = static_cast<double>(tasks_at(d, devices) - (waits ? 1 : 0)) / units(d, devices);
    return times_[d] * (1 + before) + (missing > 0 ? seconds_of_copy(t, d == home ? 0 : home, d, missing) : 0);
  }

  /// \pre home_of.
  int by_key(const ready_task& t, std::uint64_t key, std::size_t home, std::span<const device_load> devices) {
    std::size_t best = home;
    if (times_[home] >= 0) {
      const double at_home = until_end(t, home, home, false, devices);
      double least = at_home;
      for (std::size_t d = 0; d < devices.size(); ++d) {
        if (d == home || !usable(t, devices, d) || times_[d] < 0) continue;
        const double end = until_end(t, d, home, false, devices);
        if (end >= least) continue;
        best = d;
        least = end;
      }
      if (best != home && !keys_.may_leave(t, key, {home, at_home, times_[home]}, {best, least, times_[best]}, 0))
        best = home;
    }
    came(t, key, home);
    return static_cast<int>(best);
  }

  /// May it leave its home, in whose queue it is, for a device that has nothing to do?
  bool may_leave(const ready_task& t, std::uint64_t key, std::size_t home, std::size_t d,
                 std::span<const device_load> devices) {
    times_.resize(devices.size());
    t.expected_times(times_);
    return times_[home] >= 0 && times_[d] >= 0 &&
           keys_.may_leave(t, key, {home, until_end(t, home, home, true, devices), times_[home]},
                           {d, until_end(t, d, home, false, devices), times_[d]}, 0);
  }

  affinity_table keys_;
  // For their memory.
  std::vector<double> times_;
  std::vector<read_data> data_;
  std::vector<affinity_table::choice> choices_;
};

} // namespace

extern const policy_entry locality_policy;
constinit const policy_entry locality_policy{
    "locality", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<locality>(); }};

} // namespace tern::hetero::detail

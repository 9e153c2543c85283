// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The models of what tasks do, found and fed while they run. Internal.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/hetero/data/device_table.hpp>
#include <tern/hetero/models/performance_models.hpp>
#include <tern/hetero/power/power_meter.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// A kernel at one size on one device of this runtime. Any thread.
class sampled_kernel {
public:
  struct key {
    const kernel_code* code;
    std::uint64_t size;
    std::uint8_t device;
    bool operator==(const key&) const = default;
  };
  explicit sampled_kernel(const key& of) noexcept : of_(of) {}
  const key& of() const noexcept { return of_; }

private:
  friend class task_sampler;
  const key of_;
  // Set before others see it:
  kernel_model* model_ = nullptr; ///< null: there is none
  model_key named_;
  std::uint64_t bytes_ = 0; ///< of its size class
  bool costly_ = false;     ///< the device measures on request
  // Relaxed: they decide only which samples are taken, and how old an expectation is.
  std::atomic<std::uint32_t> every_{1}, passed_{0}, asked_{0}, taken_{0};
  std::atomic<double> expected_{0};    ///< nanoseconds; 0: not known
  std::atomic<bool> by_itself_{false}; ///< from its own samples
  std::atomic<bool> alone_{false};     ///< its time was taken when nothing else ran
};

/// While a kernel is well known and brief, only one in `brief_every` of its times is taken: two
/// readings of the clock and a sample cost as much as a small kernel. Where measuring costs the
/// device something, that is so for each kernel of which `costly_first` times were taken, whether
/// they counted or not.
///
/// Threads: any.
class task_sampler {
public:
  static constexpr std::int64_t brief = 20'000; ///< nanoseconds
  static constexpr std::uint32_t brief_every = 16;
  static constexpr std::size_t costly_first = 8;

  /// \param simulated as `performance_models`.
  task_sampler(const options& opts, bool simulated, const device_table& devices);
  task_sampler(const task_sampler&) = delete;
  task_sampler& operator=(const task_sampler&) = delete;

  /// A policy weighs energy: counters are looked for when devices are added, unless this is a
  /// simulation. \param powercap the folder of the host's.
  void measure_power(const std::string& powercap) {
    if (on() && !is_simulation_) powercap_ = powercap;
  }
  /// When devices have been added to the table, the host among them, before any task runs on one.
  /// What is known of their power goes to the models.
  void add_devices();
  /// Equal for devices whose times are taken to be the same.
  const std::string& model_of_device(std::size_t device) const noexcept { return device_models_[device]; }

  bool on() const noexcept { return models_.on(); }
  performance_models& models() noexcept { return models_; }

  /// What a kernel of the task's is, at the device for which the task has been acquired, if its
  /// time is to be taken now. Costs a hash of its uses and a look-up without a lock. \return null:
  /// it is not.
  sampled_kernel* to_sample(task_record& t, const kernel_code& code, const grid& shape) noexcept;
  /// The kernel has run, and not failed. \param beside others of the device were under way, which
  /// made it slower: it counts until the kernel has run alone.
  void ran(sampled_kernel& kernel, std::int64_t nanoseconds, bool beside = false) noexcept;
  /// A copy between the host and a device is over, and has not failed. \param way to or from the
  /// device; others are not taken. \param both_ways a copy went the other way meanwhile.
  void copied(std::size_t device, direction way, std::uint64_t bytes, std::int64_t nanoseconds,
              bool both_ways) noexcept;

  /// Has some device a counter?
  bool measures_power() const noexcept {
    return std::any_of(meters_.begin(), meters_.end(), [](const auto& m) { return m != nullptr; });
  }
  /// The device's counter, and the host's, are looked at if there are, and if it is time to. The
  /// device's worker. \param now nanoseconds. \param busy see `power_meter::look`.
  void meter(std::size_t device, std::int64_t now, double busy) noexcept;

  /// Is it worth while to measure copies to and from the device before any are needed? It tells
  /// times and has memory of its own, no earlier run has measured them, and later ones will find
  /// them.
  bool knows_no_link(std::size_t device) noexcept;

  // What policies ask (policy.hpp), of tasks that have not begun; in seconds. -----------------------------------------
  std::optional<double> expected_time(task_record& t, std::size_t device) noexcept;
  /// The same of all devices; below 0: not known.
  void expected_times(task_record& t, std::vector<double>& into) noexcept;
  std::optional<double> expected_copy(std::size_t from, std::size_t to, std::uint64_t bytes) noexcept;
  std::optional<double> expected_joules(std::size_t device, double seconds) noexcept;
  /// In watts.
  std::optional<double> idle_watts(std::size_t device) noexcept;
  /// \return 0: the task has no model there.
  std::uint64_t size_class_of(task_record& t, std::size_t device) noexcept;

private:
  /// After so many questions an expectation that is not from own samples is looked up again.
  static constexpr std::uint32_t ask_again = 64;
  struct hash {
    std::size_t operator()(const sampled_kernel::key& k) const noexcept { return k.size ^ k.device; }
  };
  void add_meter(std::size_t device);
  void look_at(std::size_t device, std::int64_t now, double busy) noexcept;
  /// \return null: there is none.
  sampled_kernel* known(const sampled_kernel::key& which, task_record& t, const grid& shape) noexcept;
  sampled_kernel* find(const sampled_kernel::key& which, task_record& t, const grid& shape);
  static bool is_turn_of(sampled_kernel& k) noexcept;
  /// Decides whether the task's time is taken if it runs on the host, so that no look-up is needed
  /// then.
  static void count_host_task(task_record& t, sampled_kernel& k) noexcept;
  /// \return 0: not known.
  double nanoseconds_of(sampled_kernel& k) noexcept;
  /// Its kernel there, if its times are measured.
  kernel_at measured(task_record& t, std::size_t device) const noexcept;
  std::optional<double> link(std::size_t from, std::size_t to, std::uint64_t bytes);

  const std::string simulated_; // the words of simulated devices
  const bool is_simulation_;
  const std::optional<device_power> host_power_;
  const device_table& devices_;
  performance_models models_;
  std::array<std::string, 64> device_models_; // of those that have been added
  std::size_t devices_known_ = 0;
  std::optional<std::string> powercap_;                     // nothing: power is not measured
  std::array<std::unique_ptr<power_meter>, 64> meters_;     // by device; null: it has none
  std::mutex host_meter_guard_;                             // of that of the host; before that of the models
  std::array<std::atomic<sampled_kernel*>, 1024> recent_{}; // by hash; of `known_`, whose objects stay
  std::mutex guard_;                                        // of the next; before that of the models
  std::unordered_map<sampled_kernel::key, sampled_kernel, hash> known_; // address: looked up only
  struct copy_time {                                                    // of copies between two memories
    std::uint64_t bytes = 0;
    std::size_t from = 0, to = 0;
    std::uint32_t asked = 0;
    std::optional<double> seconds;
  };
  std::mutex copies_guard_; // of the next; before that of the models
  std::array<copy_time, 64> copy_times_{};
};

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The models of what tasks do, found and fed while they run. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include <tern/base/options.hpp>
#include <tern/hetero/data/device_table.hpp>
#include <tern/hetero/models/performance_models.hpp>
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
  kernel_model* model_ = nullptr; ///< null: there is none; set before others see it
  // Relaxed: they decide only which samples are taken.
  std::atomic<std::uint32_t> every_{1}, passed_{0};
};

/// While a kernel is well known and brief, only one in `brief_every` of its times is taken: two
/// readings of the clock and a sample cost as much as a small kernel.
///
/// Threads: any.
class task_sampler {
public:
  static constexpr std::int64_t brief = 20'000; ///< nanoseconds
  static constexpr std::uint32_t brief_every = 16;

  /// \param simulated as `performance_models`.
  task_sampler(const options& opts, bool simulated, const device_table& devices);
  task_sampler(const task_sampler&) = delete;
  task_sampler& operator=(const task_sampler&) = delete;

  bool on() const noexcept { return models_.on(); }
  performance_models& models() noexcept { return models_; }

  /// What a kernel of the task's is, at the device for which the task has been acquired, if its
  /// time is to be taken now. Costs a hash of its uses and a look-up without a lock. \return null:
  /// it is not.
  sampled_kernel* to_sample(task_record& t, const kernel_code& code, const grid& shape) noexcept;
  /// The kernel has run, and not failed.
  void ran(sampled_kernel& kernel, std::int64_t nanoseconds) noexcept;
  /// A copy between the host and a device is over, and has not failed. \param way to or from the
  /// device; others are not taken. \param both_ways a copy went the other way meanwhile.
  void copied(std::size_t device, direction way, std::uint64_t bytes, std::int64_t nanoseconds,
              bool both_ways) noexcept;

private:
  struct hash {
    std::size_t operator()(const sampled_kernel::key& k) const noexcept { return k.size ^ k.device; }
  };
  sampled_kernel* find(const sampled_kernel::key& which, task_record& t, const grid& shape);
  std::string model_of_device(std::size_t device) const;

  const std::string simulated_; // the words of simulated devices
  const device_table& devices_;
  performance_models models_;
  std::array<std::atomic<sampled_kernel*>, 1024> recent_{};             // by hash; of `known_`, whose objects stay
  std::mutex guard_;                                                    // of the next; before that of the models
  std::unordered_map<sampled_kernel::key, sampled_kernel, hash> known_; // address: looked up only
};

} // namespace tern::hetero::detail

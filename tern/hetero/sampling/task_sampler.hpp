// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The models of what tasks do, found and fed while they run. Internal.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include <tern/base/options.hpp>
#include <tern/hetero/data/device_table.hpp>
#include <tern/hetero/models/performance_models.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {

/// Threads: any.
class task_sampler {
public:
  /// \param simulated as `performance_models`.
  task_sampler(const options& opts, bool simulated, const device_table& devices);
  task_sampler(const task_sampler&) = delete;
  task_sampler& operator=(const task_sampler&) = delete;

  bool on() const noexcept { return models_.on(); }
  performance_models& models() noexcept { return models_; }

  /// The model of a kernel of the task's, at the device for which the task has been acquired. Costs
  /// a hash of its uses and a look-up. \return null: there is none.
  kernel_model* model_of(task_record& t, const kernel_code& code, const grid& shape) noexcept;
  /// The kernel has run, and not failed.
  void ran(kernel_model& model, std::int64_t nanoseconds) noexcept {
    models_.record(model, static_cast<double>(nanoseconds));
  }
  /// A copy between the host and a device is over, and has not failed. \param way to or from the
  /// device; others are not taken. \param both_ways a copy went the other way meanwhile.
  void copied(std::size_t device, direction way, std::uint64_t bytes, std::int64_t nanoseconds,
              bool both_ways) noexcept;

private:
  struct key {
    const kernel_code* code;
    std::uint64_t size;
    std::uint8_t device;
    bool operator==(const key&) const = default;
  };
  struct hash {
    std::size_t operator()(const key& k) const noexcept { return k.size ^ k.device; }
  };
  kernel_model* find(const key& which, std::span<const sized_use> uses, const grid& shape);
  std::string model_of_device(std::size_t device) const;

  const std::string simulated_; // the words of simulated devices
  const device_table& devices_;
  performance_models models_;
  std::mutex guard_;                                   // of the next; before that of the models
  std::unordered_map<key, kernel_model*, hash> known_; // address: looked up only
};

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the policies share. Internal.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <tern/hetero/policy.hpp>

namespace tern::hetero::detail {

/// Device `d` is there, and the task may run on it.
bool usable(const ready_task& t, std::span<const device_load> devices, std::size_t d);
/// There is a device on which the task may run.
bool anywhere(const ready_task& t, std::span<const device_load> devices);
/// Numbers of devices with a free slot, those with the fewest tasks first.
void by_load(std::span<const device_load> devices, std::vector<std::size_t>& order);

/// A queue for each device, into which a task is put at once.
class by_device : public policy {
public:
  void push(ready_task t, std::span<const device_load> devices) final;
  std::optional<placement> pop(std::span<const device_load> devices) final;

protected:
  /// \return -1 if it may run nowhere.
  virtual int choose(const ready_task& t, std::span<const device_load> devices) = 0;
  /// For device `d`, which has a free slot and nothing of its own.
  virtual std::optional<ready_task> steal(std::size_t, std::span<const device_load>) { return std::nullopt; }
  /// It is given to that device.
  virtual void given(const ready_task&, std::size_t /*d*/) {}
  std::vector<ready_queue> queues_;

private:
  std::optional<ready_task> take(std::size_t d);
  placement give(const ready_task& t, std::size_t d) {
    given(t, d);
    return {t, static_cast<int>(d)};
  }
  ready_queue unplaceable_;
  std::vector<std::size_t> order_;
};

} // namespace tern::hetero::detail

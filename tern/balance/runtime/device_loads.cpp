// SPDX-License-Identifier: Apache-2.0
/// \file
/// What objects take of devices, and what a policy sees of that.
#include <tern/balance/runtime/balancer.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>

#include <tern/balance/device_counter.hpp>

namespace tern::balance::detail {
namespace {

constexpr double device_forgetting = 0.98; // of the work by which the pace is known, with each invocation

// release, and acquire below: what it is made of
constinit std::atomic<const device_counter*> the_counter{nullptr};

} // namespace

void count_devices_by(const device_counter& c) noexcept { the_counter.store(&c, std::memory_order_release); }
const device_counter* counter_of_devices() noexcept { return the_counter.load(std::memory_order_acquire); }

int balancer::devices() const noexcept {
  const device_counter* const c = counter_of_devices();
  return c ? c->devices(node_) : 0;
}

// Load is work, so that it is the same wherever the object goes. Work
// without an amount counts as much as this rank's devices do in the same time.
double balancer::charged(object_id object, double seconds, double amount) noexcept {
  if (recorder_) recorder_->charged(object, seconds);
  const std::lock_guard hold(guard_);
  if (amount > 0) {
    device_seconds_ = device_forgetting * device_seconds_ + seconds;
    device_amount_ = device_forgetting * device_amount_ + amount;
  }
  // relaxed: of policies' interest alone
  const double pace = device_amount_ > 0 ? device_seconds_ / device_amount_ : 1;
  device_pace_.store(pace, std::memory_order_relaxed);
  const double load = seconds / pace;
  if (!phased_) return load;
  carried& h = histories_[object.bits];
  h.id = object;
  h.device += static_cast<float>(load);
  return load;
}

// Nothing is looked at where nothing was ever charged.
double balancer::device_load() const noexcept {
  if (device_pace() <= 0) return 0;
  double known = round_device_load_.load(std::memory_order_relaxed);
  if (in_round_.load(std::memory_order_relaxed) && known >= 0) return known;
  known = 0;
  for (const object_info& o : objects()) known += o.device;
  if (in_round_.load(std::memory_order_relaxed)) round_device_load_.store(known, std::memory_order_relaxed);
  return known;
}

double balancer::cost(object_id object) const {
  const device_counter* const c = counter_of_devices();
  if (!c) return objects_.cost_of_moving(object);
  double all = 0;
  const double resident = c->resident([&] { all = objects_.cost_of_moving(object); });
  return all + resident;
}

} // namespace tern::balance::detail

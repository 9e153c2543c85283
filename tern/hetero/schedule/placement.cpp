// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/schedule/placement.hpp>

#include <bit>
#include <mutex>
#include <optional>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/record/failure.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

namespace {
constexpr int tasks_per_worker = 4; // that the host gets from a policy at once
}

void task_placement::start(host_queue& host, std::unique_ptr<policy> how, int workers) {
  host_ = &host;
  policy_ = std::move(how);
  loads_.push_back({.info = &devices_.info(0), .free_slots = workers * tasks_per_worker});
  tasks_of_.resize(1);
}

void task_placement::add_devices(bool host_runs, const task_sampler& sampler) {
  const std::lock_guard hold(lock_);
  loads_.reserve(devices_.count());
  tasks_of_.resize(devices_.count());
  device_kinds kinds = 0;
  for (std::size_t d = 1; d < devices_.count(); ++d) {
    std::size_t like = 0; // the first of its model
    while (like < d && sampler.model_of_device(like) != sampler.model_of_device(d)) ++like;
    loads_.push_back({.info = &devices_.info(d),
                      .free_slots = devices_.queue(d)->of().streams() * 2,
                      .model = static_cast<int>(like)});
    kinds |= kinds_of(devices_.info(d).kind);
  }
  host_runs_.store(host_runs, std::memory_order_relaxed);
  kinds_beside_host_.store(kinds, std::memory_order_relaxed);
}

bool task_placement::allowed(const task_record& t, int device) const noexcept {
  const auto d = static_cast<std::size_t>(device);
  return (t.kinds & kinds_of(devices_.info(d).kind)) != 0 && ((t.device_mask >> d & 1) != 0 || free_of_plan(t)) &&
         (d != 0 || host_runs_.load(std::memory_order_relaxed) ||
          (t.kinds & kinds_beside_host_.load(std::memory_order_relaxed)) == 0); // functions may run nowhere else
}

bool task_placement::free_of_plan(const task_record& t) const noexcept {
  return (t.flags & task_record::planned) != 0 &&
         lost_[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(t.device_mask)))].load(
             std::memory_order_relaxed); // a task that comes too late for it is placed again
}

template <class F> void task_placement::dispatch_after(F&& change) noexcept {
  for (bool changed = false;; changed = true) {
    std::optional<placement> next;
    {
      const std::lock_guard hold(lock_);
      if (!changed) change();
      next = policy_->pop(loads_);
      if (!next) return;
      --waiting_;
      check(*next);
      if (next->device >= 0) {
        device_load& l = loads_[static_cast<std::size_t>(next->device)];
        ++l.tasks;
        --l.free_slots;
      }
    }
    task_record* const t = next->task.inside();
    if (next->device < 0) {
      fail_unplaceable(t);
      continue;
    }
    t->device = static_cast<std::uint8_t>(next->device);
    if (device_queue* const d = devices_.queue(t->device))
      d->arrive(t);
    else
      host_->arrive(t);
  }
}

// Under the lock.
void task_placement::check(placement& next) const noexcept {
  if (next.device < 0 ||
      (next.device < static_cast<int>(loads_.size()) && !loads_[static_cast<std::size_t>(next.device)].lost &&
       allowed(*next.task.inside(), next.device)))
    return;
  fail(next.task.inside(),
       std::make_exception_ptr(error(errc::invalid_state,
                                     std::string("the policy '") + policy_->name() + "' gave task '" +
                                         next.task.inside()->text_name() + "' to device " +
                                         std::to_string(next.device) + ", where it cannot run or which is not there",
                                     "ready_task::may_run_on says where it can")));
  next.device = -1;
}

void task_placement::place(task_record* t) noexcept {
  sampler_of(*t).models().load(); // a policy that asks for times must not read a file under the lock
  dispatch_after([&] {
    policy_->push(ready_task(t), loads_);
    ++waiting_;
  });
}

void task_placement::task_left(task_record* t) noexcept {
  const std::uint8_t d = t->device;
  dispatch_after([&] {
    --loads_[d].tasks;
    if (d != 0) ++loads_[d].free_slots;
    ++tasks_of_[d];
    policy_->ended(ready_task(t), d, loads_);
  });
}

void task_placement::add_slots(std::uint8_t d, int tasks) noexcept {
  if (tasks > 0) return dispatch_after([&] { loads_[d].free_slots += tasks; });
  const std::lock_guard hold(lock_);
  loads_[d].free_slots += tasks;
}

void task_placement::begun_on_host() noexcept {
  dispatch_after([&] { ++loads_[0].free_slots; });
}

void task_placement::on_device_lost(std::uint8_t d) noexcept {
  dispatch_after([&] {
    loads_[d].lost = true;
    lost_[d].store(true, std::memory_order_relaxed);
  });
}

void task_placement::fail_unplaceable(task_record* t) noexcept {
  std::string there;
  {
    const std::lock_guard hold(lock_);
    for (std::size_t d = 0; d < loads_.size(); ++d)
      there += (d == 0 ? "" : ", ") + devices_.info(d).id + (loads_[d].lost ? " (lost)" : "");
  }
  std::string wanted;
  for (unsigned k = 0; k < device_kinds_most; ++k)
    if (t->kinds >> k & 1) wanted += (wanted.empty() ? "" : ", ") + std::string(name_of(static_cast<device_kind>(k)));
  t->flags &= static_cast<std::uint16_t>(~task_record::placed);
  fail(t, std::make_exception_ptr(
              error(errc::not_found,
                    std::string("task '") + t->text_name() + "' can run on " + wanted + ", and there is no such device",
                    "there are: " + there + "; see the options hetero-devices and hetero-simulated, and `on`")));
  host_->arrive(t);
}

void task_placement::add_to(statistics& s) const {
  const std::lock_guard hold(lock_);
  for (std::size_t d = 0; d < loads_.size(); ++d) {
    const device_queue* const q = devices_.queue(d);
    s.devices.push_back({devices_.info(d).id, tasks_of_[d], q ? q->bytes_held() : 0});
  }
}

std::string task_placement::describe(std::chrono::milliseconds limit) const {
  const auto hold = tern::detail::try_within(lock_, limit);
  if (!hold) return "    (devices: another thread holds the lock on how much they have to do)\n";
  if (waiting_ == 0) return {};
  return "    " + std::to_string(waiting_) + (waiting_ == 1 ? " task waits" : " tasks wait") +
         " for a device that has room, under the policy '" + policy_->name() + "'\n";
}

} // namespace tern::hetero::detail

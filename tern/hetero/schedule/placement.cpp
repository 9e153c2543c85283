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
  losses_.resize(1);
}

void task_placement::add_devices(bool host_runs, const task_sampler& sampler) {
  const std::lock_guard hold(lock_);
  loads_.reserve(devices_.count());
  tasks_of_.resize(devices_.count());
  losses_.resize(devices_.count());
  device_kinds kinds = 0;
  std::uint64_t selective = 0;
  for (std::size_t d = 1; d < devices_.count(); ++d) {
    std::size_t like = 0; // the first of its model
    while (like < d && sampler.model_of_device(like) != sampler.model_of_device(d)) ++like;
    loads_.push_back({.info = &devices_.info(d),
                      .free_slots = devices_.queue(d)->of().streams() * 2,
                      .model = static_cast<int>(like)});
    kinds |= kinds_of(devices_.info(d).kind);
    if (devices_.queue(d)->of().is_selective()) selective |= std::uint64_t{1} << d;
  }
  selective_.store(selective, std::memory_order_relaxed);
  host_runs_.store(host_runs, std::memory_order_relaxed);
  kinds_beside_host_.store(kinds, std::memory_order_relaxed);
}

bool task_placement::allowed(const task_record& t, int device) const noexcept {
  const auto d = static_cast<std::size_t>(device);
  return (t.kinds & kinds_of(devices_.info(d).kind)) != 0 && ((t.device_mask >> d & 1) != 0 || free_of_plan(t)) &&
         (d != 0 || host_runs_.load(std::memory_order_relaxed) ||
          (t.kinds & kinds_beside_host_.load(std::memory_order_relaxed)) == 0) && // functions may run nowhere else
         ((selective_.load(std::memory_order_relaxed) >> d & 1) == 0 || runs_on(const_cast<task_record&>(t), d));
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

// The task's kernels are only looked at.
bool task_placement::runs_on(task_record& t, std::size_t device) const noexcept {
  const hetero::detail::device& d = devices_.queue(device)->of();
  return all_kernels(t, d.info().kind, [&d](const kernel_code& code) { return d.runs(code); });
}

std::string task_placement::what_is_missing(task_record& t) const {
  std::string all;
  for (std::size_t n = 1; n < devices_.count(); ++n) {
    const hetero::detail::device& d = devices_.queue(n)->of();
    if ((t.kinds & kinds_of(d.info().kind)) == 0 || (t.device_mask >> n & 1) == 0) continue;
    all_kernels(t, d.info().kind, [&](const kernel_code& code) {
      if (d.runs(code)) return true;
      all += (all.empty() ? "" : "; ") + d.info().id + " cannot run '" + code.name + "': " + d.why_not(code);
      return false;
    });
  }
  return all;
}

void task_placement::place(std::span<task_record* const> tasks) noexcept {
  sampler_of(*tasks.front()).models().load(); // a policy that asks for times must not read a file under the lock
  if (const std::uint64_t selective = selective_.load(std::memory_order_relaxed)) [[unlikely]] // nor where it can run
    for (std::size_t d = 1; d < devices_.count(); ++d)
      for (task_record* const t : tasks)
        if (selective >> d & 1 && (t->kinds & kinds_of(devices_.info(d).kind)) != 0) runs_on(*t, d);
  for (task_record* const t : tasks) copies_of(*t).upcoming().ready(*t);
  dispatch_after([&] {
    for (task_record* const t : tasks) policy_->push(ready_task(t), loads_);
    waiting_ += tasks.size();
  });
}

void task_placement::task_left(task_record* t) noexcept {
  constexpr auto room = task_record::hidden | task_record::pins; // what only keeps memory
  const std::uint8_t d = t->device;
  dispatch_after([&] {
    --loads_[d].tasks;
    if (d != 0 && !(t->flags & task_record::behind)) ++loads_[d].free_slots;
    if ((t->flags & room) != room) ++tasks_of_[d];
    policy_->ended(ready_task(t), d, loads_);
  });
}

bool task_placement::follow(task_record* t, std::uint8_t d) noexcept {
  sampler_of(*t).models().load(); // as in `place`
  const std::lock_guard hold(lock_);
  if (loads_[d].lost || !allowed(*t, d) || !policy_->follow(ready_task(t), d, loads_)) return false;
  ++loads_[d].tasks;
  return true;
}

void task_placement::does_not_follow(task_record* t, std::uint8_t d) noexcept {
  const std::lock_guard hold(lock_);
  --loads_[d].tasks;
  policy_->ended(ready_task(t), d, loads_);
}

void task_placement::add_slots(std::uint8_t d, int tasks) noexcept {
  if (tasks > 0) return dispatch_after([&] { loads_[d].free_slots += tasks; });
  const std::lock_guard hold(lock_);
  loads_[d].free_slots += tasks;
}

void task_placement::begun_on_host() noexcept {
  dispatch_after([&] { ++loads_[0].free_slots; });
}

void task_placement::on_device_lost(std::uint8_t d, const std::string& why) noexcept {
  std::string kept = why; // not allocated under the lock
  dispatch_after([&] {
    loads_[d].lost = true;
    losses_[d].swap(kept);
    lost_[d].store(true, std::memory_order_relaxed);
  });
}

void task_placement::fail_unplaceable(task_record* t) noexcept {
  std::string there, losses;
  {
    const std::lock_guard hold(lock_);
    for (std::size_t d = 0; d < loads_.size(); ++d) {
      there += (d == 0 ? "" : ", ") + devices_.info(d).id + (loads_[d].lost ? " (lost)" : "");
      if (allowed(*t, static_cast<int>(d)) && loads_[d].lost) losses += "; " + losses_[d];
    }
  }
  std::string wanted;
  for (unsigned k = 0; k < device_kinds_most; ++k)
    if (t->kinds >> k & 1) wanted += (wanted.empty() ? "" : ", ") + std::string(name_of(static_cast<device_kind>(k)));
  t->flags &= static_cast<std::uint16_t>(~task_record::placed);
  if (const std::string missing = what_is_missing(*t); !missing.empty())
    fail(t, std::make_exception_ptr(error(errc::unsupported, std::string("task '") + t->text_name() +
                                                                 "' has no place to run: " + missing)));
  else
    fail(t, std::make_exception_ptr(error(
                errc::not_found,
                std::string("task '") + t->text_name() + "' can run on " + wanted + ", and there is no such device",
                "there are: " + there + losses + "; see the options hetero-devices and hetero-simulated, and `on`")));
  host_->arrive(t);
}

void task_placement::add_to(statistics& s) const {
  s.launched_behind = behind_.load(std::memory_order_relaxed);
  s.launched_together = together_.load(std::memory_order_relaxed);
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

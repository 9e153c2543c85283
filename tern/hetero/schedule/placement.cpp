// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that several devices could run, between being ready and arriving at one.
#include <mutex>
#include <optional>

#include <tern/base/error.hpp>
#include <tern/hetero/device/device_worker.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {

bool runtime::allowed(const task_record& t, int device) const noexcept {
  const auto d = static_cast<std::size_t>(device);
  return (t.kinds & kinds_of(infos_[d].kind)) != 0 && (t.device_mask >> d & 1) != 0 &&
         (d != 0 || host_runs_ || (t.kinds & kinds_beside_host_) == 0); // functions may have no other place
}

void runtime::place(task_record* t) noexcept {
  {
    const std::lock_guard hold(policy_lock_);
    policy_->push(ready_task(t), loads_);
    ++at_policy_;
  }
  dispatch();
}

void runtime::left(std::uint8_t d) noexcept {
  {
    const std::lock_guard hold(policy_lock_);
    --loads_[d].tasks;
    if (d != 0) ++loads_[d].free_slots;
    ++tasks_of_[d];
  }
  dispatch();
}

void runtime::add_slots(std::uint8_t d, int tasks) noexcept {
  {
    const std::lock_guard hold(policy_lock_);
    loads_[d].free_slots += tasks;
  }
  if (tasks > 0) dispatch();
}

void runtime::begun_on_host() noexcept {
  {
    const std::lock_guard hold(policy_lock_);
    ++loads_[0].free_slots;
  }
  dispatch();
}

void runtime::lose(std::uint8_t d) noexcept {
  {
    const std::lock_guard hold(policy_lock_);
    loads_[d].lost = true;
  }
  dispatch();
}

void runtime::dispatch() noexcept {
  for (;;) {
    std::optional<placement> next;
    {
      const std::lock_guard hold(policy_lock_);
      next = policy_->pop(loads_);
      if (!next) return;
      --at_policy_;
      if (next->device >= static_cast<int>(loads_.size()) ||
          (next->device >= 0 && (loads_[static_cast<std::size_t>(next->device)].lost ||
                                 !allowed(*next->task.inside(), next->device)))) [[unlikely]] {
        fail(next->task.inside(),
             std::make_exception_ptr(error(
                 errc::invalid_state,
                 std::string("the policy '") + policy_->name() + "' gave task '" + next->task.inside()->text_name() +
                     "' to device " + std::to_string(next->device) + ", where it cannot run or which is not there",
                 "ready_task::may_run_on says where it can")));
        next->device = -1;
      }
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
    if (device_worker* const d = worker_of(t->device))
      d->arrive(t);
    else if (acquire_on_host(t))
      push_to_host(t);
  }
}

void runtime::fail_unplaceable(task_record* t) noexcept {
  std::string there;
  {
    const std::lock_guard hold(policy_lock_);
    for (std::size_t d = 0; d < infos_.size(); ++d)
      there += (d == 0 ? "" : ", ") + infos_[d].id + (loads_[d].lost ? " (lost)" : "");
  }
  std::string wanted;
  for (int k = 0; k < 4; ++k)
    if (t->kinds >> k & 1) wanted += (wanted.empty() ? "" : ", ") + std::string(name_of(static_cast<device_kind>(k)));
  t->flags &= static_cast<std::uint16_t>(~task_record::placed);
  fail(t, std::make_exception_ptr(
              error(errc::not_found,
                    std::string("task '") + t->text_name() + "' can run on " + wanted + ", and there is no such device",
                    "there are: " + there + "; see the options hetero-devices and hetero-simulated, and `on`")));
  push_to_host(t);
}

} // namespace tern::hetero::detail

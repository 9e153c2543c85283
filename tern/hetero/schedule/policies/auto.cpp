// SPDX-License-Identifier: Apache-2.0
/// \file
/// The default: `locality` while too little is known of what tasks take, then `dmda`.
///
/// It changes once, when tasks whose time was known on their device when they were given to it make
/// 80 % of the time that tasks have had there, of 32 tasks that have ended or more, and there are
/// two devices to choose from. Time counts half when 32 more tasks have ended. The change is said
/// once in the log. Tasks that wait then stay where they were put. Functions of the host that no
/// policy places do not count.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <tern/base/log.hpp>
#include <tern/hetero/schedule/policies/by_time.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>
#include <tern/task/sim.hpp>

namespace tern::hetero::detail {

extern const policy_entry dmda_policy, locality_policy;

namespace {

class by_what_is_known final : public policy {
public:
  by_what_is_known() : by_bytes_(locality_policy.make(1)) {
    policy_parameters none("dmda", "");
    by_time_.reset(static_cast<by_time*>(dmda_policy.make_with(1, none).release()));
  }
  const char* name() const noexcept override { return changed_ ? "auto (dmda)" : "auto (locality)"; }

  void push(ready_task t, std::span<const device_load> devices) override {
    if (changed_) return by_time_->push(t, devices);
    by_time_->know(devices); // before a device has been given anything
    by_bytes_->push(t, devices);
    ++waiting_;
  }

  std::optional<placement> pop(std::span<const device_load> devices) override {
    if (waiting_ > 0) {
      if (std::optional<placement> next = by_bytes_->pop(devices)) {
        --waiting_;
        if (next->device >= 0) begins(next->task, next->device);
        return next;
      }
    }
    return changed_ ? by_time_->pop(devices) : std::nullopt;
  }

  bool follow(ready_task t, int device, std::span<const device_load> devices) override {
    if (changed_) return by_time_->follow(t, device, devices);
    if (!by_bytes_->follow(t, device, devices)) return false;
    begins(t, device);
    return true;
  }

  void ended(ready_task t, int device, std::span<const device_load> devices) override {
    const bool known = t.note() == given_known;
    if (!known && t.note() != given_unknown) return by_time_->ended(t, device, devices);
    pass(t.now());
    --(known ? known_ : unknown_).tasks;
    if (changed_ || ++ended_ < least_tasks) return;
    if (known_.seconds >= least_share * (known_.seconds + unknown_.seconds) &&
        2 <= std::count_if(devices.begin(), devices.end(), [](const device_load& l) { return !l.lost; }))
      return change();
    // The first tasks wait until devices are opened and kernels compiled, which takes longer than
    // thousands of tasks do.
    if (ended_ % least_tasks == 0) known_.seconds /= 2, unknown_.seconds /= 2;
  }

private:
  static constexpr int least_tasks = 32;
  static constexpr double least_share = 0.8;
  // As a task's note; `by_time` has none of these.
  static constexpr float given_known = -16, given_unknown = -17;
  struct kind_of_task {
    int tasks = 0;      ///< at devices
    double seconds = 0; ///< that such have had there, all of them together
  };

  void begins(ready_task t, int device) {
    pass(t.now());
    const bool known = t.expected_time(device).has_value();
    t.set_note(known ? given_known : given_unknown);
    ++(known ? known_ : unknown_).tasks;
  }

  void pass(double now) {
    for (kind_of_task* const k : {&known_, &unknown_}) k->seconds += k->tasks * std::max(0.0, now - since_);
    since_ = now;
  }

  void change() {
    changed_ = true;
    const double all = known_.seconds + unknown_.seconds;
    const auto percent = static_cast<int>(all > 0 ? 100 * known_.seconds / all : 100);
    const sim::outside_world here; // a log blocks no more than for a moment
    log_info("policy auto: from now on dmda places tasks, as " + std::to_string(percent) +
             " % of their time was in kernels with models; --tern-hetero-policy=locality keeps it as it was");
  }

  const std::unique_ptr<policy> by_bytes_;
  std::unique_ptr<by_time> by_time_;
  bool changed_ = false;
  std::size_t waiting_ = 0; // with `by_bytes_`
  kind_of_task known_, unknown_;
  double since_ = 0;
  int ended_ = 0;
};

} // namespace

extern const policy_entry auto_policy;
constinit const policy_entry auto_policy{
    "auto", [](std::uint64_t) -> std::unique_ptr<policy> { return std::make_unique<by_what_is_known>(); }};

} // namespace tern::hetero::detail

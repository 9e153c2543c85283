// SPDX-License-Identifier: Apache-2.0
/// \file
/// When a policy is told that its rank is idle, or that time has passed, and whether it acts at
/// all.
#include <tern/balance/runtime/balancer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>

#include <tern/base/log.hpp>

namespace tern::balance::detail {
namespace {

constexpr double first_periods = 16; // the first is so many times shorter than the later ones

constexpr int idle_calls = 8;                  // while a rank stays idle, each after twice the time
constexpr double between_idle_calls = 1. / 64; // of the period; a rank may be idle after each task
constexpr double clock_step = 1e-8;            // a timer may come early by so much

// A window has so many ends of long invocations for each worker, and lasts for this part of the
// period at least.
constexpr std::uint32_t ends_in_window = 64;
constexpr double least_window = 0.1;

} // namespace

// Idleness ------------------------------------------------------------------------------------------------------------

// A worker has nothing to do, or will in a moment.
void balancer::look_for_idle() noexcept {
  if (ready_.load(std::memory_order_seq_cst) > 0 || !on_.load(std::memory_order_relaxed) ||
      idle_told_.exchange(true, std::memory_order_relaxed))
    return;
  const double at = now();
  bool tell = false;
  {
    const std::lock_guard hold(guard_);
    idle_.began = at;
    idle_.calls = 0;
    tell = acts() && at >= next_idle_call();
    if (tell) idle_.said = at;
  }
  if (tell)
    happen_in_fiber({.is = event::kind::call, .call = [this] { idles(); }});
  else
    arm_idle();
}

// Not told again by `look_for_idle` before something begins here; but this rank may have been the
// first to have nothing.
void balancer::idles() {
  if (!idle_told_.load(std::memory_order_relaxed) || !on_.load(std::memory_order_relaxed)) return;
  happen({.is = event::kind::trigger, .why = trigger::idle});
  {
    const std::lock_guard hold(guard_);
    ++idle_.calls;
    idle_.said = now();
  }
  arm_idle();
}

// Under the lock. A policy that stands aside is not told before the rank has been idle for a
// period.
double balancer::next_idle_call() const noexcept {
  if (idle_.calls == 0 && acts()) return std::max(idle_.began, idle_.said + between_idle_calls * period_);
  return idle_.began + period_ * (std::exp2(std::max(idle_.calls, 1)) - 1);
}

void balancer::arm_idle() {
  double due = 0;
  {
    const std::lock_guard hold(guard_);
    due = next_idle_call();
    if (idle_.calls > idle_calls || idle_.alarm <= due) return;
    idle_.alarm = due;
  }
  set_alarm(due - now(), [this, due] { idle_rings(due); });
}

void balancer::idle_rings(double due) {
  bool early = false;
  {
    const std::lock_guard hold(guard_);
    if (idle_.alarm == due) idle_.alarm = never;
    if (!idle_told_.load(std::memory_order_relaxed) || !on_.load(std::memory_order_relaxed)) return;
    early = now() + clock_step < next_idle_call(); // it has been busy since the alarm was set
  }
  if (early) return arm_idle();
  if (!wake_policy()) idles(); // else nothing has begun for a whole period, and it is told so anew
}

// Time ----------------------------------------------------------------------------------------------------------------

// As long as something waits for a worker; sooner at first, when it has just come. Not for what
// only runs, which may wait for what never comes: then nothing may keep a simulation from finding
// that out.
void balancer::arm_period() {
  if (!on_.load(std::memory_order_relaxed) || !acts() || ready_.load(std::memory_order_relaxed) <= 0 ||
      period_set_.exchange(true, std::memory_order_relaxed))
    return;
  next_period(period_ / first_periods);
}

void balancer::next_period(double seconds) {
  set_alarm(seconds, [this, seconds] {
    if (!on_.load(std::memory_order_relaxed) || !acts() || ready_.load(std::memory_order_relaxed) <= 0)
      return period_set_.store(false, std::memory_order_relaxed);
    happen({.is = event::kind::trigger, .why = trigger::period});
    next_period(std::min(2 * seconds, period_));
  });
}

// Whether it acts -----------------------------------------------------------------------------------------------------

// Under the lock, as the next two.
void balancer::begin_trial() noexcept {
  trial_.start();
  follow_trial(now());
  window_.least = never;
  window_.most = -1;
  idle_.said = -never;
  gives_.store(false, std::memory_order_relaxed);
}

void balancer::follow_trial(double at) noexcept {
  window_ = {.began = at};
  const bool acts_now = trial_.acts();
  if (acts_.exchange(acts_now, std::memory_order_relaxed) == acts_now) return;
  objects_.hold_back(acts_now);
  if (acts_now) {
    ++counted_.resumptions;
    aside_seconds_ += at - aside_since_;
  } else {
    ++counted_.asides;
    aside_since_ = at;
  }
}

// A long invocation has ended. \return whether the policy acts now and did not, or the other way
// round.
bool balancer::end_window(double at, double seconds) noexcept {
  ++window_.ends;
  window_.useful += seconds;
  const double lasted = at - window_.began;
  const auto slots = static_cast<std::uint32_t>(std::max(workers(), 1));
  if (window_.ends < ends_in_window * slots || lasted < least_window * period_) return false;
  const policy_trial::window w{window_.useful / (lasted * slots), window_.came, window_.went,
                               window_.most < 0 ? -1 : window_.least, window_.most};
  if (w.went == 0) gives_.store(false, std::memory_order_relaxed);
  const bool judged =
      may_stand_aside_ && enabled_.load(std::memory_order_relaxed) && on_.load(std::memory_order_relaxed);
  const bool changed = judged && trial_.end_window(w);
  follow_trial(at);
  return changed;
}

// \return whether it stood aside.
bool balancer::wake_policy() noexcept {
  {
    const std::lock_guard hold(guard_);
    if (!trial_.wake()) return false;
    follow_trial(now());
  }
  tell_whether_it_acts();
  return true;
}

// Others have work to do for these parts of their workers' time. Where one has much less than this
// rank, the policy could win something. \return whether it acts from now on.
bool balancer::hears_shares(const message_head& head) noexcept {
  if (head.least < 0) return false;
  const std::lock_guard hold(guard_);
  window_.least = std::min<double>(window_.least, head.least);
  window_.most = std::max<double>(window_.most, head.most);
  if (acts() || head.least >= policy_trial::worse * trial_.recent() || !trial_.wake()) return false;
  follow_trial(now());
  return true;
}

void balancer::tell_shares(message_head& head) const noexcept {
  const double at = now();
  const std::lock_guard hold(guard_);
  double own = trial_.recent();
  if (const double lasted = at - window_.began; lasted >= period_)
    own = window_.useful / (lasted * std::max(workers(), 1));
  if (own < 0) return;
  head.least = static_cast<float>(std::min(own, window_.least));
  head.most = static_cast<float>(std::max(own, window_.most));
}

void balancer::tell_whether_it_acts() noexcept {
  std::string text;
  {
    const std::lock_guard hold(guard_);
    char share[64];
    std::snprintf(share, sizeof share, "%.0f %% of the workers' time", 100 * std::max(trial_.recent(), 0.0));
    text = "balancing policy '" + named_ + "' " + (acts() ? "acts again" : "stands aside") + " on rank " +
           std::to_string(node_.rank()) + ", where long invocations took " + share;
  }
  log_info(text);
  if (!acts()) return;
  happen({.is = event::kind::trigger, .why = trigger::start});
  arm_period();
  idle_told_.store(false, std::memory_order_relaxed);
  look_for_idle();
}

bool balancer::has_takers() const noexcept {
  if (gives_.load(std::memory_order_relaxed)) return true;
  // The worker that asks delivers messages.
  return workers() > 1 && ready_.load(std::memory_order_relaxed) <= 0 &&
         running_.load(std::memory_order_relaxed) < workers() - 1;
}

// Reports -------------------------------------------------------------------------------------------------------------

std::string balancer::describe() {
  if (!on_.load(std::memory_order_relaxed) || acts()) return {};
  return "  the balancing policy stands aside, since it brought no gain\n";
}

net::stats_table balancer::statistics() {
  const double at = now();
  const std::lock_guard hold(guard_);
  net::stats_table t;
  if (named_.empty()) return t;
  t.of = "balancing policy";
  t.columns = {{"calls"}, {"messages"}, {"moves"}, {"stayed"}, {"asides"}, {"s aside", 3}};
  const double aside = aside_seconds_ + (acts() ? 0 : at - aside_since_);
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  t.rows.push_back({named_,
                    {number(counted_.calls), number(counted_.messages), number(counted_.moves), number(counted_.stayed),
                     number(counted_.asides), aside}});
  return t;
}

} // namespace tern::balance::detail

// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/plan/planned_tasks.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/hetero/graph/dependencies.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/hetero/plan/graph_of_tasks.hpp>
#include <tern/hetero/planned.hpp>

namespace tern::hetero::detail {
namespace {

double seconds_now() noexcept { return static_cast<double>(tern::detail::clock_now()) * 1e-9; }

/// A round under way: notes when the last of the tasks that none follows has ended. Deletes itself
/// then.
class round_under_way {
public:
  round_under_way(std::shared_ptr<plan_memo> memo, round_times::way how, std::size_t last_tasks)
      : memo_(std::move(memo)), shape_(memo_->shape), how_(how), begun_(seconds_now()), hooks_(last_tasks),
        left_(last_tasks + 1) {}

  /// By the submitter. \param n which of the last tasks.
  void watch(task_record* t, std::size_t n) noexcept {
    hooks_[n].fire = [](completion_hook& h, task_record&) noexcept { static_cast<hook&>(h).round->over(1); };
    hooks_[n].round = this;
    if (!dependencies::hook(t, hooks_[n])) over(1);
  }
  /// So many will end no more, or have ended. The last call deletes.
  void over(std::size_t n) noexcept {
    if (left_.fetch_sub(n, std::memory_order_acq_rel) != n) return;
    if (complete_.load(std::memory_order_relaxed)) memo_->times.ended(shape_, how_, begun_, seconds_now());
    delete this;
  }
  void set_complete() noexcept { complete_.store(true, std::memory_order_relaxed); } // before the submitter's `over`

private:
  ~round_under_way() = default;
  struct hook : completion_hook {
    hook() noexcept : completion_hook{nullptr} {}
    round_under_way* round = nullptr;
  };
  const std::shared_ptr<plan_memo> memo_;
  const std::uint64_t shape_;
  const round_times::way how_;
  const double begun_;
  std::vector<hook> hooks_;
  std::atomic<std::size_t> left_;
  std::atomic<bool> complete_{false}; ///< all have been submitted
};

/// Which tasks no other follows.
std::vector<std::uint32_t> last_tasks(const heft_problem& p) {
  std::vector<bool> followed(p.tasks.size(), false);
  for (const heft_problem::task& t : p.tasks)
    for (const std::uint32_t b : t.before) followed[b] = true;
  std::vector<std::uint32_t> all;
  for (std::uint32_t n = 0; n < followed.size(); ++n)
    if (!followed[n]) all.push_back(n);
  return all;
}

} // namespace

// Times of rounds -----------------------------------------------------------------------------------------------------

void round_times::restart(std::uint64_t shape) noexcept {
  const std::lock_guard hold(lock_);
  shape_ = shape;
  seconds_ = {-1, -1};
  since_ = 0;
}

bool round_times::stale() const noexcept {
  const std::lock_guard hold(lock_);
  return stale_;
}

round_times::way round_times::next() noexcept {
  const std::lock_guard hold(lock_);
  stale_ = false;
  if (seconds_[by_policy] < 0) return by_policy;
  if (seconds_[by_plan] < 0) return by_plan;
  const way better = seconds_[by_plan] <= seconds_[by_policy] ? by_plan : by_policy;
  if (++since_ < compared_every) return better;
  since_ = 0;
  stale_ = better == by_policy;
  return better == by_plan ? by_policy : by_plan;
}

void round_times::ended(std::uint64_t shape, way how, double begun, double now) noexcept {
  const std::lock_guard hold(lock_);
  const double since = std::max(begun, last_end_);
  last_end_ = now;
  if (shape == shape_) seconds_[how] = std::max(now - since, 0.0);
}

// Collecting ----------------------------------------------------------------------------------------------------------

planned_collector::planned_collector(runtime& home, std::shared_ptr<plan_memo> memo)
    : collector(home, "planned::submit", memo->name), memo_(std::move(memo)) {}

std::optional<task_plan> planned_collector::make_plan() const {
  heft_problem p = graph_of_tasks(tasks_);
  if (const std::int64_t unknown = add_expected(home_, tasks_, p); unknown >= 0) {
    task_record& t = *tasks_[static_cast<std::size_t>(unknown)];
    bool will_be = false;
    for (std::size_t d = 0; d < home_.devices().count(); ++d)
      will_be =
          will_be || (home_.placement().allowed(t, static_cast<int>(d)) && home_.sampler().size_class_of(t, d) != 0);
    if (!will_be && !std::exchange(memo_->said, true))
      log_info(std::string("planned '") + memo_->name + "': no plan, as the time of task '" + t.text_name() +
               "' is measured on no device; tasks go by the policy");
    return std::nullopt;
  }
  const heft_schedule s = make_heft_schedule(p);
  task_plan plan{s.device, {}, s.seconds};
  constexpr double levels = 100;
  const double longest = s.rank.empty() ? 0 : *std::max_element(s.rank.begin(), s.rank.end());
  for (const double rank : s.rank)
    plan.priority.push_back(1 + static_cast<int>(longest > 0 ? levels * rank / longest : 0));
  return plan;
}

void planned_collector::submit() {
  end();
  if (tasks_.empty()) return;
  plan_memo& m = *memo_;
  device_kinds kinds = 0;
  for (const task_record* t : tasks_) kinds |= t->kinds;
  home_.look_for_devices(kinds);
  home_.sampler().models().load();
  for (task_record* t : tasks_) t->home = &home_; // what is expected of them is asked before they are submitted
  const std::uint64_t shape = shape_of_round(tasks_);
  if (shape != m.shape) {
    m.last = last_tasks(graph_of_tasks(tasks_));
    m.shape = shape;
    m.plan.reset();
    m.times.restart(shape);
  }
  round_times::way how = m.times.next();
  if (how == round_times::by_plan && (!m.plan || m.times.stale())) {
    m.plan = make_plan();
    if (!m.plan) how = round_times::by_policy;
  }
  const std::vector<std::uint32_t>& last = m.last;
  auto* const round = new round_under_way(memo_, how, last.size());
  std::size_t watched = 0;
  try {
    for (; submitted() < tasks_.size();) {
      const std::size_t n = submitted();
      task_record* const t = tasks_[n];
      if (how == round_times::by_plan) follow_plan(*t, m.plan->device[n], m.plan->priority[n]);
      const bool watches = watched < last.size() && last[watched] == n;
      if (watches) t->references.fetch_add(1, std::memory_order_relaxed); // it may be over when `submit` returns
      try {
        submit_next();
      } catch (...) {
        if (watches) t->references.fetch_sub(1, std::memory_order_relaxed);
        throw;
      }
      if (!watches) continue;
      round->watch(t, watched++);
      unreference(t);
    }
  } catch (...) {
    round->over(last.size() - watched + 1);
    throw;
  }
  round->set_complete();
  round->over(1);
}

void planned_collector::follow_plan(task_record& t, std::uint8_t device, int priority) const noexcept {
  if (!home_.placement().allowed(t, device)) return; // the policy places it
  t.device_mask = std::int64_t{1} << device;
  t.priority = priority;
  t.flags |= task_record::planned | task_record::extended;
}

// The user's side -----------------------------------------------------------------------------------------------------

planning::planning(std::shared_ptr<plan_memo> of)
    : made_(std::make_unique<planned_collector>(runtime::here("tern::planned::submit"), std::move(of))) {}
planning::~planning() = default;
void planning::submit() { made_->submit(); }

} // namespace tern::hetero::detail

namespace tern {

planned::planned(const char* name) : memo_(std::make_shared<hetero::detail::plan_memo>()) { memo_->name = name; }

} // namespace tern

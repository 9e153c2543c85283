// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/graph/runtime.hpp>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/hetero/checked/checked.hpp>
#include <tern/hetero/device/device_list.hpp>
#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/graph/task_arguments.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/memory/pinned_memory.hpp>
#include <tern/hetero/paging/host_limit.hpp>
#include <tern/hetero/policy.hpp>
#include <tern/hetero/submission/task_key.hpp>

namespace tern::hetero {

statistics count() {
  detail::runtime& r = detail::runtime::here("tern::hetero::count");
  r.look_for_devices();
  return r.counts();
}

namespace detail {

using tern::detail::worker;

// What rooms below know of the runtime of a task.
void free_record(task_record* t) noexcept { t->home->records().free(t); }
const task_placement& placement_of(const task_record& t) noexcept {
  return static_cast<const runtime*>(t.home)->placement();
}
coherence& copies_of(const task_record& t) noexcept { return t.home->copies(); }
task_sampler& sampler_of(const task_record& t) noexcept { return t.home->sampler(); }

// Its life ------------------------------------------------------------------------------------------------------------

runtime::runtime(tern::detail::scheduler_core& core)
    : records_(core), opts_(own_devices(core.cfg.opts ? *core.cfg.opts : options(), core.cfg.trace_rank)),
      checked_(opts_[hetero_checked] ? std::make_unique<checked_kernels>(opts_) : nullptr),
      sampler_(opts_, core.executor != nullptr, devices_), order_(records_), outstanding_(records_),
      window_(outstanding_, opts_[hetero_window], core.cfg.workers, core.executor != nullptr), copies_(*this, devices_),
      placement_(devices_), reductions_(*this), execution_(records_, outstanding_, copies_, devices_, placement_),
      devices_(host_info(core.cfg.workers)) {
  std::unique_ptr<policy> how = make_policy(opts_[hetero_policy]);
  if (how->weighs_energy()) sampler_.measure_power(opts_[hetero_powercap]);
  if (const auto limit = host_limit_of(with_sharers(opts_, core.cfg.sharers), core.executor != nullptr)) {
    pager_ = std::make_unique<host_pager>(copies_, core, *limit);
    copies_.limit_host(*pager_, limit->limit);
  }
  sampler_.add_devices();
  placement_.start(execution_, std::move(how), core.cfg.workers);
  const bool at_once = looks_at_once(opts_, core.executor != nullptr);
  copies_.memory().use(at_once ? find_all_devices() : memory_to_pin(opts_));
  runners_ = static_cast<std::size_t>(core.cfg.workers) + (at_once ? devices_.count() - 1 : 1);
}

runtime::~runtime() = default;

std::shared_ptr<pinned_memory> runtime::find_all_devices() {
  tern::detail::scheduler_core& of = core();
  std::vector<device_note> notes;
  found_devices f =
      find_devices(opts_, of.cfg.workers, of.executor != nullptr, notes, copies_.memory().pinned(), of.cfg.sharers);
  for (const device_note& note : notes) log_debug(note.text);
  std::vector<std::unique_ptr<device_queue>> queues(f.infos.size());
  for (std::size_t d = 0; d < queues.size(); ++d)
    if (f.devices[d])
      queues[d] = make_device_worker(*this, static_cast<std::uint8_t>(d), std::move(f.devices[d]),
                                     opts_[hetero_threads] && !of.executor);
  std::int64_t least = INT64_MAX;
  for (const auto& q : queues)
    if (q && !q->of().info().shares_host_memory)
      least = std::min(least, static_cast<std::int64_t>(q->of().memory_limit()));
  devices_.add(std::move(f.infos), std::move(queues));
  copies_.set_least_memory(least);
  sampler_.add_devices();
  placement_.add_devices(f.host_runs, sampler_);
  devices_found_.store(true, std::memory_order_release); // pairs with `look_for_devices`
  return std::move(f.pinned);
}

void runtime::find_devices_once() {
  call_once(finding_devices_, [this] {
    // What objects have their memory from was settled before the first of them.
    if (!devices_found_.load(std::memory_order_acquire)) static_cast<void>(find_all_devices());
  });
}

std::size_t runtime::device_named(std::string_view id) {
  if (id != devices_.info(0).id) look_for_devices();
  return devices_.number_of(id);
}

runtime& runtime::here(const char* what) {
  tern::detail::worker_base* const w = tern::detail::this_worker_base();
  if (!w)
    throw error(errc::invalid_state, std::string(what) + " was called on a thread that is no worker",
                "call it from inside tern::run or scheduler::run");
  tern::detail::scheduler_core& core = *w->home;
  if (auto* const r = core.extension.get()) [[likely]]
    return static_cast<runtime&>(*r);
  // Devices may be looked for, which may take a second: others wait, as fibers.
  return static_cast<runtime&>(core.extension.get_or_make(
      [](tern::detail::scheduler_core& home) -> tern::detail::scheduler_extension* { return new runtime(home); },
      core));
}

void runtime::ends() noexcept {
  bool left_fibers = false;
  core().fibers.each_left([&](const tern::detail::fiber&) { left_fibers = true; });
  execution_.end(left_fibers);
  outstanding_.drop_waiters();
  devices_.each_queue([](device_queue& q) { q.end_thread(); });
  sampler_.models().store();
  if (const std::uint64_t left = outstanding_.count(); left > 0)
    log_warning(std::to_string(left) + (left == 1 ? " task" : " tasks") +
                " on heterogeneous objects had not run when the program ended: something that they wait for never came"
                " (an access to an object that was not released?)");
  if (const std::size_t unseen = outstanding_.drop_failures(); unseen > 0)
    log_warning(std::to_string(unseen) + (unseen == 1 ? " task" : " tasks") +
                " on heterogeneous objects failed, and the program did not look: call wait_all, or a task's wait");
  release();
}

void runtime::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

int runtime::at_work() const noexcept {
  int all = 0;
  devices_.each_queue([&](const device_queue& q) { all += q.at_work(); });
  return all;
}

bool runtime::in_device_worker() const noexcept {
  bool here = false;
  devices_.each_queue([&](const device_queue& q) { here = here || q.is_here(); });
  return here;
}

statistics runtime::counts() const {
  statistics s;
  const worker_parts& all = parts();
  for (std::size_t i = 0; i < all.size(); ++i) {
    s.submitted += all[i].submitted.load(std::memory_order_relaxed);
    s.completed += all[i].completed.load(std::memory_order_relaxed);
  }
  copies_.add_to(s);
  placement_.add_to(s);
  if (pager_) pager_->add_to(s);
  if (const auto& pinned = copies_.memory().pinned()) {
    s.locked_bytes = static_cast<std::int64_t>(pinned->bytes_locked());
    s.not_locked_bytes = static_cast<std::int64_t>(pinned->bytes_not_locked());
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(all.workers()); ++i)
    s.devices[0].tasks += all[i].on_host.load(std::memory_order_relaxed);
  return s;
}

// Tasks ---------------------------------------------------------------------------------------------------------------

void runtime::submit(task_record* t) {
  bool wide = false;
  if (give_place(t, wide)) execution_.make_ready(t, false);
  window_after(1, wide);
}

namespace {
/// To disk, if the host's memory is limited.
bool uses_what_goes(task_record& t) noexcept {
  for (std::size_t i = 0; i < t.use_count; ++i)
    if (t.use_at(i).object->paged) return true;
  return false;
}
} // namespace

bool runtime::give_place(task_record* t, bool& wide) {
  look_for_devices(t->kinds);
  bool reduces = false, large = false;
  for (std::size_t i = 0; i < t->use_count; ++i) {
    const use& u = t->use_at(i);
    if (&u.object->home != this)
      throw error(errc::invalid_argument,
                  std::string("task '") + t->text_name() + "' uses " + u.object->text() +
                      ", which belongs to another scheduler or rank",
                  "objects are used where they were made; send the data");
    reduces = reduces || u.how == reducing_access ||
              (u.object->reducing.load(std::memory_order_acquire) && !(t->flags & task_record::of_reduction));
    large = large || u.object->is_large(u.part);
  }
  t->home = this;
  std::unique_lock<mutex> reduction; // until this task has its place in the order
  if (reduces) [[unlikely]]
    reduction = reductions_.settle(t);
  worker_parts& all = records_.parts();
  const worker* const w = tern::detail::this_worker(); // that may have taken time
  const bool mine = all.is_mine(w);
  t->state.store(task_record::waiting, std::memory_order_relaxed);
  if (mine && (w->causal || (w->running && (w->running->frame || w->running->task)))) [[unlikely]]
    count_in_context(*t, w->causal);
  if (!(t->flags & task_record::hidden) && placement_.chooses_for(*t))
    t->flags |= task_record::placed | task_record::extended;
  const bool placed = (t->flags & task_record::placed) != 0;
  if (placed && !t->has_key()) set_key_of_scope(*t);
  if (placed || (pager_ && uses_what_goes(*t))) copies_.note_uses(*t);
  wide = wide || large || placed;
  outstanding_tasks::count_submitted(all[static_cast<std::size_t>(mine ? w->index : all.workers())], mine);

  task_record* gates = order_.enter(t);
  if (reduction.owns_lock()) reduction.unlock();
  while (gates) {
    task_record* const g = gates;
    gates = std::exchange(g->next, nullptr);
    g->state.store(task_record::waiting, std::memory_order_relaxed);
    g->device = 0;
    outstanding_tasks::count_submitted(all.here(), mine);
    execution_.submitted_after(g, g->links());
  }
  if (const std::int32_t links = t->links(); links != 0) {
    const std::uint8_t before = std::exchange(t->device, std::uint8_t{0});
    execution_.submitted_after(t, links);
    if (before != 0) [[unlikely]]
      devices_.queue(before)->look_for_successors();
    return false;
  }
  t->pending.store(0, std::memory_order_relaxed); // no other thread knows it
  return true;
}

void runtime::request(task_record* t, bool at_once) {
  try {
    if (collected(t)) return;
    if (!at_once) return submit(t);
    bool wide = false;
    if (give_place(t, wide)) execution_.begin_here(t);
    window_after(1, wide);
  } catch (...) {
    t->failure = std::current_exception(); // for the request that waits for its end
    unmake_task(t);
    throw;
  }
}

void runtime::wait_all() {
  if (const task_record* const t = task_execution::task_here(); t && t->home == this)
    throw error(errc::invalid_state,
                std::string("wait_all in task '") + t->text_name() + "' would wait for that task, for ever",
                "call it where tasks are submitted; in a task, wait() for those that it needs");
  if (outstanding_.count() > 0) outstanding_.wait();
  outstanding_.rethrow_failure();
}

void runtime::wait(task_record* t) {
  struct waiting final : completion_hook {
    waiting() noexcept
        : completion_hook{[](completion_hook& h, task_record&) noexcept {
            const std::unique_ptr<waiting> self(static_cast<waiting*>(&h));
            self->over.set_value();
          }} {}
    promise<void> over;
  };
  t->marks.fetch_or(task_record::failure_seen, std::memory_order_relaxed);
  if (!t->is_done()) {
    if (task_execution::task_here() == t)
      throw error(errc::invalid_state, std::string("task '") + t->text_name() + "' would wait for itself, for ever",
                  "wait for it from elsewhere");
    auto h = std::make_unique<waiting>(); // in the task's list: that may be followed when this stack is gone
    future<void> over = h->over.get_future();
    if (dependencies::hook(t, *h)) {
      static_cast<void>(h.release()); // it deletes itself
      over.wait();
    }
  }
  if (t->has_failed()) std::rethrow_exception(t->failure);
}

void runtime::abandon(object_state* o) noexcept {
  bool used = false;
  {
    const std::lock_guard hold(o->lock);
    o->each(o->all, [&](fragment& f) {
      const auto left = [](const task_list& l) {
        return std::any_of(l.begin(), l.end(), [](const task_record* t) { return !t->is_done(); });
      };
      used = used || left(f.writers) || left(f.readers);
    });
  }
  if (!used) return copies_.destroy(o);
  if (parts().ended()) return; // what uses it will not run any more; it goes with the program
  task_record* const t = records_.allocate();
  t->work = &last_task;
  t->flags = task_record::hidden | task_record::order_only;
  records_.add_use(t) = {o, o->all, access_mode::write, 0, true, true, false, false, 0, nullptr};
  submit(t);
}

} // namespace detail
} // namespace tern::hetero

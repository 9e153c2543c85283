// SPDX-License-Identifier: Apache-2.0
/// \file
/// Access on the host: a task that ends when the user says so.
#include <mutex>
#include <new>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/access/access_note.hpp>
#include <tern/hetero/graph/runtime.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

namespace {

void watch(const worker_parts& all, access_note& note) noexcept {
  worker_part& p = all.here();
  note.part = &p;
  const std::lock_guard hold(p.accesses_lock);
  note.next = p.accesses;
  if (note.next) note.next->previous = &note;
  p.accesses = &note;
}

// While its lock is held, an access in the list cannot end: reports rely on that.
void forget(const worker_parts& all, access_note& note) noexcept {
  const std::lock_guard hold(note.part->accesses_lock);
  if (all.ended(std::memory_order_relaxed)) return; // others in the list may have gone without leaving it
  (note.previous ? note.previous->next : note.part->accesses) = note.next;
  if (note.next) note.next->previous = note.previous;
}

} // namespace

const work_type host_access_work{
    kinds_of(device_kind::host),
    [](task_record& t) {
      const use& u = t.use_at(0);
      access_note& note = t.work_as<access_note>();
      access_request* const request = std::exchange(note.request, nullptr);
      note.granted.store(tern::detail::ticks(), std::memory_order_relaxed);
      request->granted(&t, place_on_host(*u.object, u.part)); // which may release it, and so end the task, at once
    },
    [](task_record& t) noexcept {
      access_note& note = t.work_as<access_note>();
      forget(t.home->parts(), note);
      if (note.request) note.request->refused(t.failure);
    },
    nullptr, [](const task_record&) noexcept -> const char* { return "host access"; }};

namespace {
task_record* make_access(object_state* o, const box& part, access_mode how, access_request* request,
                         const std::source_location& where) {
  static_assert(task_record::fits<access_note>);
  runtime& r = o->home;
  task_record* const t = r.records().allocate();
  auto& note = *::new (static_cast<void*>(t->closure)) access_note;
  note.request = request;
  note.task = t;
  note.where = where;
  note.how = how;
  note.asked = tern::detail::ticks();
  if (const tern::detail::worker* const w = tern::detail::this_worker(); w && w->running)
    note.fiber = w->running->id.load(std::memory_order_relaxed);
  t->home = &r;
  t->work = &host_access_work;
  t->kinds = host_access_work.kinds;
  t->flags = task_record::hidden | task_record::waits_release;
  r.records().add_use(t) = {o,      part,           how,
                            0,      part == o->all, true,
                            false,  false,          static_cast<std::int32_t>(o->host_layout.pitch / o->element),
                            nullptr};
  watch(r.records().parts(), note);
  return t;
}
} // namespace

void request_access(object_state* o, const box& part, access_mode how, access_request* request,
                    const std::source_location& where, bool at_once) {
  o->home.request(make_access(o, part, how, request, where), at_once);
}

void request_access_anywhere(object_state* o, const box& part, access_mode how, access_request* request,
                             const std::source_location& where) {
  runtime& r = o->home;
  task_record* const t = make_access(o, part, how, request, where);
  bool wide = false;
  if (!r.give_place(t, wide)) return;
  task_record* const ready = r.execution().make_ready(t, true);
  if (!ready) return;
  if (ready->sound())
    host_access_work.run(*ready); // it ends when it is released: no fiber runs it meanwhile
  else
    r.execution().push_to_host(ready);
}

void release_access(task_record* t) noexcept { t->home->execution().release_access(t); }

} // namespace tern::hetero::detail

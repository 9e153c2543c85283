// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/pieces.hpp>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {
namespace {

/// The closure of a record that is no task of the graph: its transfers name it, and at last it
/// tells, as a tasklet if need be.
struct moving {
  piece_request* tells;
  std::atomic<int> left{1}; // transfers under way, and the thread that begins them
  std::atomic<bool> bad{false};
  std::exception_ptr failed{}; // by the thread that sets `bad`, before it counts `left` down
};

const work_type moving_work{kinds_of(device_kind::host), nullptr, nullptr, nullptr,
                            [](const task_record&) noexcept -> const char* { return "piece of data"; }};

tern::detail::worker_base* tell(tern::detail::tasklet* x) noexcept {
  auto* const t = static_cast<task_record*>(x);
  auto& m = t->work_as<moving>();
  piece_request* const tells = m.tells;
  const std::exception_ptr failed = std::move(m.failed);
  record_pool& records = t->home->records();
  m.~moving();
  records.unreference(t);
  tells->over(failed);
  return tern::detail::this_worker_base();
}

void moved(task_record* t, std::exception_ptr failed) noexcept {
  auto& m = t->work_as<moving>();
  if (failed && !m.bad.exchange(true, std::memory_order_relaxed)) m.failed = std::move(failed);
  // acq_rel: the last thread sees what the others have copied, and why they have not.
  if (m.left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const tern::detail::worker* const w = tern::detail::this_worker();
  if (t->home->parts().is_mine(w) && w->running)
    tell(t); // a device's worker that is a fiber
  else
    t->home->execution().push_to_host(t, &tell);
}

task_record* new_moving(object_state& o, const box& part, piece_request& tells) {
  static_assert(task_record::fits<moving>);
  runtime& r = o.home;
  task_record* const t = r.records().allocate();
  ::new (static_cast<void*>(t->closure)) moving{&tells};
  t->home = &r;
  t->work = &moving_work;
  t->kinds = moving_work.kinds;
  t->flags = task_record::hidden;
  r.records().add_use(t) = {&o, part, access_mode::read, 0, part == o.all, true, false, false, 0, nullptr};
  return t;
}

/// Under the object's lock. \param device instance that is not the host's
transfer* new_copy(task_record& t, const box& part, std::uint8_t from, std::uint8_t to, std::byte* outside) {
  object_state& o = *t.use_at(0).object;
  instance& x = o.instances[to != 0 ? to : from];
  transfer* const c = o.copies.transfers().make();
  c->object = &o;
  c->part = part;
  c->from = from;
  c->to = to;
  c->device = x.space;
  c->out_of = &t;
  c->outside = outside;
  c->copied = moved;
  ++x.users;
  t.work_as<moving>().left.fetch_add(1, std::memory_order_relaxed); // the caller holds another
  return c;
}

} // namespace

void copy_piece_out(object_state& o, const box& part, std::byte* to, piece_request& tells) noexcept {
  task_record* const t = new_moving(o, part, tells);
  std::vector<box> here;
  transfer_chain begun;
  std::exception_ptr failed;
  try {
    const std::lock_guard hold(o.lock);
    o.each(part, [&](fragment& f) {
      const box both = f.where.common(part);
      if (f.valid & bit(0)) {
        here.push_back(both);
      } else if (f.valid == 0) { // its device has been lost since
        failed = not_written_error(*t, o, both, f.lost);
      } else {
        std::uint8_t from = 1;
        while (!(f.valid >> from & 1)) ++from;
        begun.push(new_copy(*t, both, from, 0, to));
      }
    });
  } catch (...) {
    failed = std::current_exception();
  }
  begun.take_each([&](transfer* x) { o.copies.start(x); });
  const layout packed = layout::packed(part, o.element);
  for (const box& b : here)
    copy_part(b, o.host.load(std::memory_order_acquire) + o.host_layout.offset(o.all, b), o.host_layout,
              to + packed.offset(part, b), packed);
  moved(t, std::move(failed));
}

void copy_piece_in(object_state& o, std::uint8_t instance, const box& part, const std::byte* from,
                   piece_request& tells) noexcept {
  task_record* const t = new_moving(o, part, tells);
  transfer* x = nullptr;
  std::exception_ptr failed;
  try {
    const std::lock_guard hold(o.lock);
    if (!o.instances[instance].exists)
      throw error(errc::device_lost, o.text(part) + " was to land on a device, which has been lost",
                  "send it again: another device, or the host, will have it");
    x = new_copy(*t, part, 0, instance, const_cast<std::byte*>(from)); // it is only read
  } catch (...) {
    failed = std::current_exception();
  }
  if (x) o.copies.start(x);
  moved(t, std::move(failed));
}

} // namespace tern::hetero::detail

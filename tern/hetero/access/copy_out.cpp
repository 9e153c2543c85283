// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects are copied to the user's memory.
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/access/copying_out.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {
namespace {

/// The closure of such a task. It reads its part, so no other task writes that before it completes.
struct copying {
  std::byte* to;
  copy_out_request* request; // null: it has been answered
  std::atomic<int> left{1};  // copies under way, and the thread that begins them
  std::atomic<bool> bad{false};
  bool early = false;          // all copies were begun before its turn came, and are over by then
  std::exception_ptr failed{}; // by the thread that sets `bad`, before it counts `left` down
};

void copy_box(const object_state& o, const box& whole, const box& part, std::byte* to) {
  const layout packed = layout::packed(whole, o.element);
  copy_part(part, o.host.load(std::memory_order_acquire) + o.host_layout.offset(o.all, part), o.host_layout,
            to + packed.offset(whole, part), packed);
}

void copied_out(task_record* t, std::exception_ptr failed) noexcept {
  copying& c = t->work_as<copying>();
  if (failed && !c.bad.exchange(true, std::memory_order_relaxed)) c.failed = std::move(failed);
  // acq_rel: the last thread sees what the others have copied, and why they have not.
  if (c.left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  copy_out_request* const request = std::exchange(c.request, nullptr);
  const std::exception_ptr why = std::move(c.failed);
  t->home->execution().release_access(t);
  request->over(why);
}

/// Of those that the task waits for.
void copied_early(task_record* t, std::exception_ptr failed) noexcept {
  copying& c = t->work_as<copying>();
  if (failed && !c.bad.exchange(true, std::memory_order_relaxed)) c.failed = std::move(failed);
  t->home->copies().client().release_dependency(t);
}

transfer* piece_to_copy(task_record& t, const box& part, std::uint8_t from, decltype(transfer::copied) copied) {
  object_state& o = *t.use_at(0).object;
  transfer* const x = o.copies.transfers().make();
  x->object = &o;
  x->part = part;
  x->from = from;
  x->device = o.instances[from].space;
  x->out_of = &t;
  x->outside = t.work_as<copying>().to;
  x->copied = copied;
  return x;
}

/// Under the object's lock: one copy instead of many, if one instance has all.
void join_pieces(std::vector<transfer*>& all, object_state& o, const box& part, std::int64_t elements) {
  if (all.size() < 2 || elements != part.size()) return;
  for (const transfer* x : all)
    if (x->from != all.front()->from) return;
  all.front()->part = part;
  for (std::size_t i = 1; i < all.size(); ++i) o.copies.transfers().free(all[i]);
  all.resize(1);
}

/// Holds the object's block in the host's memory, if that is limited and anything of the part is
/// valid there.
class host_hold {
public:
  host_hold(object_state& o, const box& part) : of_(o) {
    if (!o.paged) return;
    bool any = false;
    {
      const std::lock_guard hold(o.lock);
      o.each(part, [&](const fragment& f) { any = any || (f.valid & 1) != 0; });
    }
    if (!any) return;
    o.copies.paging()->hold(o);
    holds_ = true;
  }
  ~host_hold() {
    if (holds_) of_.copies.paging()->let_go(of_);
  }
  host_hold(const host_hold&) = delete;
  host_hold& operator=(const host_hold&) = delete;

private:
  object_state& of_;
  bool holds_ = false;
};

/// Begins to copy what a task reads to the user's memory; whichever copy is the last to end
/// completes the task.
void begin_copies(task_record* t) noexcept {
  copying& c = t->work_as<copying>();
  if (c.early) return copied_out(t, nullptr);
  object_state& o = *t->use_at(0).object;
  const box part = t->use_at(0).part; // the task is not to be looked at once it may be complete
  std::vector<box> here;
  std::vector<transfer*> begun;
  std::exception_ptr failed;
  std::optional<host_hold> in_memory; // until what is there has been copied
  try {
    in_memory.emplace(o, part);
    const std::lock_guard hold(o.lock);
    bool there = true, lost = false;
    std::int64_t elements = 0;
    o.each(part, [&](fragment& f) {
      there = there && f.valid != 0;
      lost = lost || f.lost;
      if (f.valid & 1) {
        here.push_back(f.where);
        return;
      }
      if (!there) return;
      std::uint8_t from = 1;
      while (!(f.valid >> from & 1)) ++from;
      elements += f.where.size();
      begun.push_back(piece_to_copy(*t, f.where, from, copied_out));
    });
    if (there)
      join_pieces(begun, o, part, elements);
    else
      failed = not_written_error(*t, o, part, lost);
    if (!failed)
      for (const transfer* x : begun) ++o.instances[x->from].users;
  } catch (...) {
    failed = std::current_exception();
  }
  if (failed) {
    for (transfer* x : begun) o.copies.transfers().free(x);
    in_memory.reset();
    return copied_out(t, failed);
  }
  c.left.fetch_add(static_cast<int>(begun.size()), std::memory_order_relaxed);
  for (transfer* x : begun) o.copies.start(x);
  for (const box& b : here) copy_box(o, part, b, c.to);
  in_memory.reset(); // the object may end with the task
  copied_out(t, nullptr);
}

const work_type copy_out_work{kinds_of(device_kind::host), [](task_record& t) { begin_copies(&t); },
                              [](task_record& t) noexcept { // it was not run
                                if (copy_out_request* const request = t.work_as<copying>().request)
                                  request->over(t.failure);
                                t.work_as<copying>().~copying();
                              },
                              nullptr, [](const task_record&) noexcept -> const char* { return "copy_to"; }};

} // namespace

bool is_copy_out(const task_record& t) noexcept { return t.work == &copy_out_work; }

void copy_out_behind(task_record& t, std::uint8_t d, transfer_chain& behind) noexcept {
  copying& c = t.work_as<copying>();
  object_state& o = *t.use_at(0).object;
  const box& part = t.use_at(0).part;
  const std::uint8_t space = o.copies.devices().space_of(d);
  if (c.early || o.paged || space == 0) return;
  std::vector<transfer*> begun;
  const std::lock_guard hold(o.lock);
  std::int64_t elements = 0;
  try {
    bool there = true; // and nowhere else
    o.each(part, [&](fragment& f) {
      std::size_t from = 1;
      while (from < o.instances.size() &&
             !((f.valid & bit(from)) && o.instances[from].exists && o.instances[from].space == space))
        ++from;
      there = there && !(f.valid & 1) && from < o.instances.size();
      if (!there) return;
      elements += f.where.size();
      begun.reserve(begun.size() + 1);
      begun.push_back(piece_to_copy(t, f.where, static_cast<std::uint8_t>(from), copied_early));
    });
    c.early = there;
  } catch (...) { // no memory: all is copied when its turn comes
  }
  if (!c.early) {
    for (transfer* x : begun) o.copies.transfers().free(x);
    return;
  }
  join_pieces(begun, o, part, elements);
  for (transfer* x : begun) {
    ++o.instances[x->from].users;
    t.pending.fetch_add(1, std::memory_order_relaxed); // the caller holds others of them
    behind.push(x);
  }
}

void check_destination(const object_state& o, const box& part, const void* to) {
  if (!to)
    throw error(errc::invalid_argument, o.text(part) + " was to be copied to null", "give it memory of the program's");
}

void copy_out(object_state* o, const box& part, std::byte* to, copy_out_request* request) {
  static_assert(task_record::fits<copying>);
  runtime& r = o->home;
  task_record* const t = r.records().allocate();
  ::new (static_cast<void*>(t->closure)) copying{to, request};
  t->home = &r;
  t->work = &copy_out_work;
  t->kinds = copy_out_work.kinds;
  t->flags = task_record::hidden | task_record::waits_release | task_record::order_only;
  r.records().add_use(t) = {o, part, access_mode::read, 0, part == o->all, true, false, false, 0, nullptr};
  r.request(t);
}

} // namespace tern::hetero::detail

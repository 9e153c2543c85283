// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects are copied to the user's memory.
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {
namespace {

/// The closure of such a task. It reads its part, so no other task writes that before it completes.
struct copying {
  std::byte* to;
  copy_out_request* request; // null: it has been answered
  std::atomic<int> left{1};  // copies under way, and the thread that begins them
  std::atomic<bool> bad{false};
  std::exception_ptr failed{}; // by the thread that sets `bad`, before it counts `left` down
};

void copy_box(const object_state& o, const box& whole, const box& part, std::byte* to) {
  const layout packed = layout::packed(whole, o.element);
  const std::byte* const from = o.host.load(std::memory_order_acquire) + o.host_layout.offset(o.all, part);
  to += packed.offset(whole, part);
  const auto row = static_cast<std::size_t>(part.extent(2)) * o.element;
  for (std::size_t z = 0; z < static_cast<std::size_t>(part.extent(0)); ++z)
    for (std::size_t y = 0; y < static_cast<std::size_t>(part.extent(1)); ++y)
      std::memcpy(to + z * packed.slice + y * packed.pitch, from + z * o.host_layout.slice + y * o.host_layout.pitch,
                  row);
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
      transfer* const x = o.copies.transfers().make();
      begun.push_back(x);
      x->object = &o;
      x->part = f.where;
      x->from = from;
      x->device = o.instances[from].space;
      x->out_of = t;
      x->outside = c.to;
      x->copied = copied_out;
    });
    if (!there) {
      failed = not_written_error(*t, o, part, lost);
    } else if (begun.size() > 1 && elements == part.size()) { // one copy instead of many, if one instance has all
      bool same = true;
      for (const transfer* x : begun) same = same && x->from == begun.front()->from;
      if (same) {
        begun.front()->part = part;
        for (std::size_t i = 1; i < begun.size(); ++i) o.copies.transfers().free(begun[i]);
        begun.erase(begun.begin() + 1, begun.end());
      }
    }
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

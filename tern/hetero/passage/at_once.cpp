// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/passage/at_once.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {
namespace {

/// Owns memory that was an object's.
class memory_owner final : public byte_lender {
public:
  explicit memory_owner(coherence& from) noexcept : from_(from) { from_.client().add_reference(); }
  void take_back(std::byte* data) noexcept override {
    from_.memory().free(data);
    from_.client().release(); // and perhaps the runtime, with its memory
    delete this;
  }

private:
  coherence& from_;
};

bool is_callers(const object_state& o) noexcept {
  const worker_parts& all = o.home.parts();
  const tern::detail::worker* const w = tern::detail::this_worker();
  // relaxed: if the caller collects, it was this worker that wrote it.
  return all.is_mine(w) && !all[static_cast<std::size_t>(w->index)].collects.load(std::memory_order_relaxed);
}

bool all_ended_well(const task_list& l) noexcept {
  return std::all_of(l.begin(), l.end(), [](const task_record* t) { return t->is_done() && !t->has_failed(); });
}

/// Under the lock.
bool leaves_at_once(object_state& o, const box& part) noexcept {
  if (o.paged || o.reducing.load(std::memory_order_acquire)) return false;
  bool so = true;
  o.each(part, [&](const fragment& f) { so = so && (f.valid & bit(0)) && all_ended_well(f.writers); });
  return so;
}

} // namespace

bool can_leave_at_once(object_state& o, const box& part) noexcept {
  if (!is_callers(o)) return false;
  const std::lock_guard hold(o.lock);
  return leaves_at_once(o, part);
}

bool copy_at_once(object_state& o, const box& part, std::byte* to) noexcept {
  if (!is_callers(o)) return false;
  const std::lock_guard hold(o.lock);
  if (!leaves_at_once(o, part)) return false;
  copy_part(part, o.host.load(std::memory_order_relaxed) + o.host_layout.offset(o.all, part), o.host_layout, to,
            layout::packed(part, o.element));
  return true;
}

byte_buffer give_at_once(object_state& o, const box& part) {
  if (!is_callers(o) || !may_be_given(o, part)) return {};
  {
    const std::lock_guard hold(o.lock); // no other thread uses it but the last tasks that have
    if (!leaves_at_once(o, part) || !o.on_host.load(std::memory_order_relaxed)) return {};
    bool read = true;
    o.each(o.all, [&](const fragment& f) {
      read = read && std::all_of(f.readers.begin(), f.readers.end(), [](const task_record* t) { return t->is_done(); });
    });
    if (!read) return {};
  }
  return take_memory_of(o);
}

bool may_be_given(const object_state& o, const box& part) noexcept {
  return part == o.all && o.handles.load(std::memory_order_acquire) == 1 && !o.adopted && !o.paged && !o.other;
}

byte_buffer take_memory_of(object_state& o) {
  // What came from elsewhere itself has an owner. (No other thread uses the object.)
  memory_owner* const owner = o.landed.empty() ? new memory_owner(o.copies) : nullptr;
  const std::lock_guard hold(o.lock);
  std::byte* const memory = o.host.exchange(nullptr, std::memory_order_acq_rel);
  o.each(o.all, [&](fragment& f) { o.set_valid(f, 0); });
  o.update_on_host();
  return owner ? byte_buffer::borrow(memory, o.instances[0].bytes, *owner) : std::move(o.landed);
}

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber/locals.hpp>

#include <atomic>
#include <utility>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/task/fiber/worker_head.hpp>

namespace tern::detail {

std::size_t new_local_key() noexcept {
  static std::atomic<std::size_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

namespace {
local_table& this_table() {
  if (fiber* const f = running_fiber()) {
    if (!f->locals) f->locals = new local_table;
    return *f->locals;
  }
  static thread_local local_table of_thread; // no fiber runs, so nothing switches while its address is in use
  return of_thread;
}
} // namespace

local_slot& local(std::size_t key) {
  local_table& t = this_table();
  if (t.slots.size() <= key) t.slots.resize(key + 1);
  return t.slots[key];
}

void local_slot::set(void* v, void (*d)(void*) noexcept) noexcept {
  value = v;
  destroy = d;
  made = ++this_table().made;
}

void local_table::clear() noexcept {
  for (;;) {
    local_slot* newest = nullptr;
    for (auto& s : slots)
      if (s.value && (!newest || s.made > newest->made)) newest = &s;
    if (!newest) return;
    newest->destroy(std::exchange(newest->value, nullptr));
  }
}

void destroy_locals(fiber& f) noexcept {
  f.locals->clear();
  delete std::exchange(f.locals, nullptr);
}

} // namespace tern::detail

// SPDX-License-Identifier: Apache-2.0
#include <tern/task/detail/fiber.hpp>

#include <cstdint>
#include <utility>

#include <tern/task/detail/core.hpp>
#include <tern/task/detail/sanitizer.hpp>

namespace tern::detail {
worker_head no_worker;
}
constinit thread_local tern::detail::worker_head* tern_this_worker = &tern::detail::no_worker;

namespace tern::detail {
namespace {

namespace ctx = boost::context::detail;

// Copies the calling thread's exception record out or in. __cxa_get_globals is declared pure, so this must not be
// inlined into a function that switches.
[[gnu::noinline]] void swap_exceptions(exception_state& out, const exception_state& in) noexcept {
  auto* globals = reinterpret_cast<exception_state*>(abi::__cxa_get_globals());
  out = *globals;
  *globals = in;
}

void finished(fiber* f, void*) { f->home->finished(f); }

// Runs on the fiber's own stack, from its first entry to its end.
TERN_UNRECORDED void entry(ctx::transfer_t from) {
  auto* w = static_cast<worker*>(from.data);
  asan::finish_switch(nullptr, &w->own_stack_low, &w->own_stack_size);
  w->context = from.fctx;
  fiber* self = w->running;
  self->body();
  self->body.reset(); // what the closure owns goes while the fiber still counts as running
  w = this_worker();  // the body may have moved to another worker
  w->after = finished;
  w->after_argument = nullptr;
  asan::start_switch(nullptr, w->own_stack_low, w->own_stack_size);
  tsan::switch_to(w->tsan_fiber);
  ctx::jump_fcontext(w->context, nullptr);
  __builtin_unreachable();
}

} // namespace

#ifndef TERN_THIS_WORKER_IN_HEADER
worker_head* this_worker_head() noexcept { return tern_this_worker; }
#endif
void set_this_worker(worker* w) noexcept { tern_this_worker = w ? w : &no_worker; }

void prepare(fiber& f, stack_pool& pool) {
  f.memory = pool.take();
  f.context = ctx::make_fcontext(f.memory.top(), f.memory.size, entry);
}

void enter(worker& w, fiber& f) noexcept {
  w.running = &f;
  w.stack_low = reinterpret_cast<std::uintptr_t>(f.memory.low);
  w.stack_size = f.memory.size;
  exception_state mine;
  swap_exceptions(mine, f.exceptions);
  asan::start_switch(&w.fake_stack, f.memory.low, f.memory.size);
  tsan::switch_to(f.memory.tsan_fiber);
  const ctx::transfer_t back = ctx::jump_fcontext(f.context, &w);
  asan::finish_switch(w.fake_stack, nullptr, nullptr);
  f.context = back.fctx;
  swap_exceptions(f.exceptions, mine);
  w.running = nullptr;
  w.stack_size = 0;
  // From here on `f` may be entered by another worker or be gone.
  std::exchange(w.after, nullptr)(&f, w.after_argument);
}

void leave(void (*after)(fiber*, void*), void* argument) noexcept {
  worker* w = this_worker();
  fiber* self = w->running;
  w->after = after;
  w->after_argument = argument;
  asan::start_switch(&self->fake_stack, w->own_stack_low, w->own_stack_size);
  tsan::switch_to(w->tsan_fiber);
  const ctx::transfer_t from = ctx::jump_fcontext(w->context, nullptr);
  w = static_cast<worker*>(from.data); // not this_worker(): the same value, without the call
  asan::finish_switch(self->fake_stack, &w->own_stack_low, &w->own_stack_size);
  w->context = from.fctx;
}

} // namespace tern::detail

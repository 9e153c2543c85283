// SPDX-License-Identifier: Apache-2.0
/// \file
/// Leaving one stack and entering another.
#include <tern/task/worker/switching.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <cxxabi.h>
#include <new>
#include <thread>
#include <utility>

#include <pthread.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <tern/task/fiber/fiber_trace.hpp>
#include <tern/task/fiber/locals.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/fiber/ticks.hpp>
#include <tern/task/worker/worker.hpp>

namespace tern::detail {
namespace {

// Both words at once. What the C++ runtime has is aligned to 8 bytes only.
struct both_words {
  std::uint64_t word[2];
};
static_assert(sizeof(exception_state) == sizeof(both_words));
[[gnu::always_inline]] inline void exchange_exceptions(exception_state& from, void* globals,
                                                       const exception_state& to) noexcept {
#if defined(__SSE2__)
  const __m128i mine = _mm_loadu_si128(static_cast<const __m128i*>(globals));
  _mm_storeu_si128(static_cast<__m128i*>(globals), _mm_load_si128(reinterpret_cast<const __m128i*>(&to)));
  _mm_store_si128(reinterpret_cast<__m128i*>(&from), mine);
#else
  std::memcpy(&from, globals, sizeof from);
  std::memcpy(globals, &to, sizeof to);
#endif
}

// The calling thread's, which is one.
[[gnu::always_inline]] inline worker* this_workers_self() noexcept { return static_cast<worker*>(this_worker_head()); }

// Always inlined, as all that surrounds a switch is: what it returns to must belong to the stack
// that it returns on.
[[gnu::always_inline]] inline void arrive(worker* w) noexcept {
  w->queue.end_rotation(); // if one was begun
  if (w->after) std::exchange(w->after, nullptr)(w->left_fiber, w->after_argument);
}

// All of a switch but the jump.
[[gnu::always_inline]] inline void depart(worker& w, stack_context& from, stack_context& to, bool for_ever) noexcept {
  exchange_exceptions(from.exceptions, w.exceptions, to.exceptions);
  from.error_number = std::exchange(*w.error_number, to.error_number);
  asan::start_switch(for_ever ? nullptr : &from.fake_stack, to.low, to.size);
  tsan::switch_to(to.tsan_fiber);
}

[[gnu::always_inline]] inline void switch_to(worker& w, stack_context& from, stack_context& to,
                                             bool for_ever) noexcept {
  depart(w, from, to, for_ever);
  switch_stack(from.at, to.at);
  asan::finish_switch(from.fake_stack, nullptr, nullptr);
}

// What is to be done when `self` leaves its stack for `to`, for fibers that need something: few do.
[[gnu::noinline]] void run_leave_hooks(fiber& self, fiber* to, bool for_ever) noexcept {
  if ((self.leave_flags & leave_flags::canary) != 0) check_canary(self);
  if ((self.leave_flags & leave_flags::timed) != 0) self.ran += ticks() - self.runs_since;
  if ((self.leave_flags & leave_flags::hooked) != 0)
    for (leave_hook* h = self.hooks; h; h = h->outer) h->left(*h);
  self.leave_flags &= static_cast<std::uint8_t>(~leave_flags::watched); // that is all its watcher wants to know
  if ((self.leave_flags & leave_flags::traced) == 0) return;
  trace_leaves(self, for_ever);
  if (to) trace_enters(*to);
}

// The worker runs `to` from now on; null: itself.
[[gnu::always_inline]] inline stack_context& hand_over(worker& w, fiber& self, fiber* to, bool for_ever) noexcept {
  if (self.leave_flags != 0) [[unlikely]]
    run_leave_hooks(self, to, for_ever);
  w.left_fiber = &self;
  w.running = to;
  if (!to) {
    w.causal = nullptr;
    w.stack_size = 0;
    return w.root;
  }
  w.stack_low = reinterpret_cast<std::uintptr_t>(to->low); // address: for `on_stack`
  w.stack_size = to->size;
  w.causal = to->causal;
  if ((to->leave_flags & leave_flags::timed) != 0) [[unlikely]]
    to->runs_since = ticks();
  return *to;
}

[[gnu::always_inline]] inline void go(worker& w, fiber& self, fiber* to, bool for_ever) noexcept {
  switch_to(w, self, hand_over(w, self, to, for_ever), for_ever);
}

// What goes on when the running fiber leaves; null: the worker, which looks further.
[[gnu::always_inline]] inline fiber* next_fiber(worker& w) noexcept {
  if (--w.switch_budget <= 0 || w.queue.owes()) return nullptr; // the worker gives away some of the others first
  fiber* const hint = std::exchange(w.next_hint, nullptr);
  if (hint && w.queue.unlink(hint)) return hint; // it may be anything by now, but memory of a fiber it is
  if (w.queue.has_public(run_queue::soon) || w.queue.has_bound(run_queue::soon)) return nullptr; // they are older
  return w.queue.pop_fiber(run_queue::soon);
}

// acquire: the joiner has left its stack. The thread sanitizer does not see what `entry` does
// itself.
TERN_RECORDED std::uintptr_t joiner_of(const fiber& f) noexcept { return f.joiner.load(std::memory_order_acquire); }

// Runs on the fiber's own stack, from its first entry to its end.
TERN_UNRECORDED void entry() {
  worker* w = this_worker();
  fiber* const self = w->running;
  asan::finish_switch(nullptr, nullptr, nullptr);
  arrive(w);
  self->body(self->closure, self);
  if (self->locals) destroy_locals(*self);
  if (self->heap_closure) {
    ::operator delete(self->closure);
    self->heap_closure = false;
  }
  if (self->causal) [[unlikely]]
    std::exchange(self->causal, nullptr)->release();
  w = this_worker(); // the body may have moved to another worker
  w->fibers_ended.store(w->fibers_ended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::uintptr_t joiner = joiner_of(*self);
  auto* to = reinterpret_cast<fiber*>(joiner);
  if (joiner > fiber::done && (joiner & fiber::thread_bit) == 0 && w->switch_budget > 1 && to->home == w->home &&
      (to->worker < 0 || to->worker == w->index)) {
    --w->switch_budget;
    self->joiner.store(fiber::done, std::memory_order_relaxed); // it reads this on this thread
  } else {
    w->after = fiber_ended;
    w->after_argument = nullptr;
    to = next_fiber(*w);
  }
  go(*w, *self, to, true);
  __builtin_unreachable();
}

} // namespace

void set_this_worker(worker* w) noexcept { tern_this_worker = w ? w : &no_worker; }

void enter_thread(worker& w) noexcept {
  set_this_worker(&w);
  w.exceptions = reinterpret_cast<exception_state*>(abi::__cxa_get_globals());
  w.error_number = &errno;
  w.thread = static_cast<int>(gettid());
  w.root.tsan_fiber = tsan::current_fiber();
#ifdef TERN_ASAN
  pthread_attr_t a;
  void* low = nullptr;
  if (pthread_getattr_np(pthread_self(), &a) == 0) {
    pthread_attr_getstack(&a, &low, &w.root.size);
    pthread_attr_destroy(&a);
  }
  w.root.low = static_cast<std::byte*>(low);
#endif
}

void prepare(fiber& f, std::byte* top) noexcept {
  asan::forget(f.low, f.size); // the last one's frames never returned
  inherit_control_words(f.at);
  prepare_stack<entry>(f.at, top, static_cast<std::size_t>(top - f.low));
}

void enter(worker& w, fiber& f) noexcept {
  w.running = &f;
  w.stack_low = reinterpret_cast<std::uintptr_t>(f.low); // address: for `on_stack`
  w.stack_size = f.size;
  w.causal = f.causal;
  if ((f.leave_flags & leave_flags::timed) != 0) [[unlikely]]
    f.runs_since = ticks();
  switch_to(w, w.root, f, false);
  // The fiber that comes back need not be `f`. From here on it may be entered by another worker or
  // be gone.
  arrive(&w);
}

void leave(void (*after)(fiber*, void*), void* argument) noexcept {
  worker* w = this_worker();
  w->after = after;
  w->after_argument = argument;
  go(*w, *w->running, next_fiber(*w), false);
  arrive(this_workers_self());
}

void leave_to(fiber* to, void (*after)(fiber*, void*), void* argument) noexcept {
  worker* w = this_worker();
  w->after = after;
  w->after_argument = argument;
  go(*w, *w->running, to, false);
  arrive(this_workers_self());
}

namespace {

[[gnu::noinline]] pending_switch yield_slowly() noexcept {
  if (const worker* const w = this_worker(); w && w->running)
    leave_to(nullptr, fiber_yielded, nullptr);
  else
    std::this_thread::yield();
  return {};
}

} // namespace

pending_switch begin_yield() noexcept {
  worker* const w = this_worker();
  // Straight to the next one, if nothing comes before it on this worker. What others may have
  // brought is looked at when the budget is used up.
  if (!w || !w->running || --w->switch_budget <= 0 || !w->nothing_else() || w->running->worker >= 0) [[unlikely]]
    return yield_slowly();
  fiber& self = *w->running;
  fiber* const to = w->queue.begin_rotation(&self);
  if (!to) return yield_slowly();
#if defined(TERN_BOOST_CONTEXT) || defined(TERN_ASAN) || defined(TERN_TSAN)
  go(*w, self, to, false);
  arrive(this_workers_self());
  return {};
#else
  depart(*w, self, hand_over(*w, self, to, false), false);
  meet_control_words(self.at, to->at);
  return {&self.at.sp, to->at.sp};
#endif
}

void end_yield() noexcept { arrive(this_workers_self()); }

} // namespace tern::detail

// SPDX-License-Identifier: Apache-2.0
#include <tern/task/scheduler/fiber_supply.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/fiber/fiber_trace.hpp>
#include <tern/task/fiber/locals.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/wait/suspension.hpp>
#include <tern/task/worker/switching.hpp>

namespace tern::detail {
namespace {

[[noreturn]] void uncaught(const fiber& f) noexcept {
  std::string what = "something that is no std::exception";
  try {
    std::rethrow_exception(f.failed);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
  }
  log_error("fiber " + f.called() + ", made at " + f.made.file_name() + ":" + std::to_string(f.made.line()) +
            ", let an exception escape and is not joined: " + what);
  std::terminate();
}

} // namespace

fiber_supply::fiber_supply(scheduler_core& core, std::size_t stack_bytes, stack_guard guard)
    : core_(core), stride_(static_cast<std::uint64_t>(core.cfg.workers) + 1),
      own_stacks_(core.executor ? nullptr : std::make_unique<stack_pool>(&core, stack_bytes, guard)),
      stacks(core.executor ? core.executor->stacks(stack_bytes, guard) : *own_stacks_) {}

std::uint8_t fiber_supply::check_options(const fiber_options& options, const std::source_location& made) const {
  if (options.worker < -1 || options.worker >= core_.cfg.workers)
    throw error(errc::invalid_argument,
                "a fiber was to run on worker " + std::to_string(options.worker) + ", but there are " +
                    std::to_string(core_.cfg.workers),
                "give a worker from 0 to " + std::to_string(core_.cfg.workers - 1) + ", or -1 for any", made);
  return options.stack_bytes == 0 ? std::uint8_t{0} : stacks.class_of(options.stack_bytes);
}

unstarted_fiber fiber_supply::make(std::size_t bytes, std::size_t alignment, const fiber_options& options,
                                   const std::source_location& made) {
  worker* w = this_worker();
  if (w && w->home != &core_) w = nullptr;
  const bool usual = options.worker == -1 && options.stack_bytes == 0;
  const std::uint8_t stack_class = usual ? std::uint8_t{0} : check_options(options, made);
  fiber* f = core_.executor ? take_simulated(stack_class) : take_stack(w, stack_class);
  f->body = nullptr;
  f->joiner.store(fiber::alone, std::memory_order_relaxed);
  f->level = static_cast<std::uint8_t>(options.priority);
  f->worker = static_cast<std::int16_t>(options.worker);
  f->exceptions = {};
  f->causal = nullptr;
  f->error_number = 0;
  f->fake_stack = nullptr;
  f->made = made;
  f->name[0] = 0;
  if (!options.name.empty()) {
    const std::size_t n = std::min(options.name.size(), sizeof f->name - 1);
    std::memcpy(f->name, options.name.data(), n);
    f->name[n] = 0;
    tsan::name_fiber(f->tsan_fiber, f->name);
  }
  std::byte* top = f->top();
  if (bytes > f->size / 8 || alignment > alignof(fiber)) { // large ones would eat up the stack
    f->closure = nullptr;
    void* p = nullptr;
    if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) p = ::operator new(bytes, std::nothrow);
    if (!p) {
      recycle(f);
      if (alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
        throw error(errc::unsupported, "a fiber's body is aligned to " + std::to_string(alignment) + " bytes",
                    "keep what needs such an alignment on the heap", made);
      throw std::bad_alloc();
    }
    f->closure = p;
    f->heap_closure = true;
  } else {
    top -= (bytes + alignof(fiber) - 1) / alignof(fiber) * alignof(fiber);
    f->closure = top;
  }
  prepare(*f, top);
  f->id.store(new_id(w), std::memory_order_relaxed);
  return {f, f->closure};
}

// Runners that have nothing to do give theirs up when there is no memory.
fiber* fiber_supply::take_stack(worker* w, std::uint8_t stack_class) {
  for (;;) {
    try {
      if (w && stack_class == 0 && w->pool) {
        fiber* f = w->pool;
        w->pool = static_cast<fiber*>(f->next);
        --w->pool_count;
        return f;
      }
      return stacks.take(stack_class);
    } catch (const error&) {
      fiber* idle = w && stack_class == 0 ? core_.runners.idle(*w) : nullptr;
      if (!idle) throw;
      // It is at rest in its loop, which holds nothing.
      asan::forget(idle->low, idle->size);
      tsan::destroy_fiber(idle->tsan_fiber); // its record of calls would be wrong
      idle->tsan_fiber = tsan::create_fiber();
      idle->runner.store(false, std::memory_order_relaxed);
      trace_forgets(*idle);
      recycle(idle);
    }
  }
}

// Thousands of schedulers take turns on one thread: what the last one has used is warm for the
// next.
fiber* fiber_supply::take_simulated(std::uint8_t stack_class) {
  fiber* f = stack_class == 0 ? stacks.take_here() : stacks.take(stack_class);
  f->home = &core_;
  trace_forgets(*f); // it may not have ended
  f->older = simulated_;
  f->newer = nullptr;
  if (simulated_) simulated_->newer = f;
  simulated_ = f;
  return f;
}

bool fiber_supply::keeps_list() const noexcept { return core_.executor && core_.executor->on_this_thread(); }

void fiber_supply::recycle(fiber* f) noexcept {
  f->id.store(0, std::memory_order_relaxed);
  if (core_.executor) [[unlikely]] {
    (f->newer ? f->newer->older : simulated_) = f->older;
    if (f->older) f->older->newer = f->newer;
    f->next = nullptr;
    f->stack_class == 0 ? stacks.give_here(f) : stacks.give(f);
    return;
  }
  worker* w = this_worker();
  if (!w || w->home != &core_ || f->stack_class != 0) {
    f->next = nullptr;
    stacks.give(f);
    return;
  }
  f->next = w->pool;
  w->pool = f;
  const unsigned most = w->pool_most;
  if (++w->pool_count < most) return;
  // The coldest half is for others; all of it if stacks are scarce.
  if (most < 2) {
    give_stacks(*w);
    return;
  }
  fiber* last = w->pool;
  for (unsigned i = 1; i < most / 2; ++i) last = static_cast<fiber*>(last->next);
  auto* rest = static_cast<fiber*>(last->next);
  last->next = nullptr;
  w->pool_count = most / 2;
  stacks.give(rest);
}

void fiber_supply::give_stacks(worker& w) noexcept {
  stacks.give(std::exchange(w.pool, nullptr));
  w.pool_count = 0;
}

// A free one that another worker keeps counts: that worker will give it back, or run what waits for
// it.
bool fiber_supply::no_stack_comes(std::uint8_t stack_class, bool tasklets_end) {
  bool none = true;
  stacks.each([&](const fiber& f) {
    if (f.id.load(std::memory_order_relaxed) == 0)
      none = none && f.stack_class != stack_class;
    else if (f.home == &core_ || core_.executor) // simulated schedulers share their stacks
      none = none && f.runner.load(std::memory_order_relaxed) &&
             !(tasklets_end && f.group.load(std::memory_order_relaxed));
  });
  return none;
}

void fiber_supply::report_scarce(const std::exception& why) {
  if (scarce_.exchange(true, std::memory_order_relaxed)) return;
  log_warning(std::string("fibers must wait for a stack until another one ends: ") + why.what());
  // From now on no worker keeps any; those that sleep give back what they have when they park
  // again.
  for (auto& w : core_.workers) w->pool_most = 1;
  if (!core_.executor) core_.parking.wake_all();
}

void fiber_supply::launch(fiber* f, fiber_body body) noexcept {
  f->body = body;
  worker* w = this_worker();
  if (w && w->home == &core_) {
    w->fibers_started.store(w->fibers_started.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    f->causal = w->causal;
    if (f->causal) [[unlikely]]
      f->causal->retain();
  } else {
    started_outside_.fetch_add(1, std::memory_order_relaxed);
    f->causal = nullptr; // those of one rank mean nothing to another
  }
  core_.ready(f);
}

void fiber_supply::spawn(unique_function<void()> body, const fiber_options& options, const std::source_location& made) {
  worker* w = this_worker();
  if (w && w->home == &core_ && may_take_stack()) {
    try {
      const unstarted_fiber s = make(sizeof body, alignof(unique_function<void()>), options, made);
      ::new (s.closure) unique_function<void()>(std::move(body));
      s.self->joiner.store(fiber::detached, std::memory_order_relaxed);
      launch(s.self, run_body<unique_function<void()>>);
      return;
    } catch (const error& e) {
      if (e.code() != errc::out_of_memory) throw; // it waits for a stack
    }
  }
  (void)check_options(options, made);
  auto p = std::make_unique<pending_fiber>();
  p->body = std::move(body);
  p->name = options.name;
  p->made = made;
  p->level = static_cast<std::uint8_t>(options.priority);
  p->worker = static_cast<std::int16_t>(options.worker);
  p->stack_bytes = options.stack_bytes;
  if (w && w->home == &core_) {
    w->fibers_started.store(w->fibers_started.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    p->causal = held_context(w->causal);
  } else {
    started_outside_.fetch_add(1, std::memory_order_relaxed);
  }
  core_.ready(p.release());
}

void fiber_supply::finished(fiber* f) noexcept {
  // acq_rel: the joiner's stack may be entered, and it may read what `f` did.
  const std::uintptr_t joiner = f->joiner.exchange(fiber::done, std::memory_order_acq_rel);
  if (joiner == fiber::alone) return; // its handle may be anywhere
  if (joiner == fiber::detached) {
    if (f->failed) uncaught(*f);
    recycle(f);
  } else if ((joiner & fiber::thread_bit) != 0) {
    const scheduler_core::visit here(core_);
    reinterpret_cast<waiter*>(joiner & ~fiber::thread_bit)->wake();
  } else {
    auto* waiting = reinterpret_cast<fiber*>(joiner);
    waiting->home->ready(waiting);
  }
}

void resume(fiber& f) noexcept { f.home->ready(&f); }

void resume_next(fiber& f) noexcept {
  worker* const w = this_worker();
  const bool here = w && w->home == f.home; // once it is awake, its scheduler may come to its end
  __builtin_prefetch(&f, 1);
  f.home->ready(&f);
  if (here) w->next_hint = &f;
}

void fiber_ended(fiber* f, void*) { f->home->fibers.finished(f); }

void detach_fiber(fiber* f) noexcept {
  std::uintptr_t expected = fiber::alone;
  if (f->joiner.compare_exchange_strong(expected, fiber::detached, std::memory_order_acq_rel)) return;
  if (f->failed) uncaught(*f);
  f->home->fibers.recycle(f);
}

std::size_t fiber_supply::live() const noexcept {
  std::uint64_t ended = 0; // read first: a fiber that starts and ends meanwhile must not count as ended only
  for (const auto& w : core_.workers) ended += w->fibers_ended.load(std::memory_order_relaxed);
  const std::uint64_t all = started();
  return all > ended ? all - ended : 0;
}

std::uint64_t fiber_supply::started() const noexcept {
  std::uint64_t all = started_outside_.load(std::memory_order_relaxed);
  for (const auto& w : core_.workers) all += w->fibers_started.load(std::memory_order_relaxed);
  return all;
}

void fiber_supply::return_simulated() noexcept {
  while (fiber* const f = simulated_) { // the stacks are not ours
    f->heap_closure = false;
    f->runner.store(false, std::memory_order_relaxed);
    asan::forget(f->low, f->size);
    recycle(f);
  }
}

void fiber_supply::give_up() noexcept {
  // Closures may own promises that other fibers wait for: waking needs all of them alive.
  std::vector<fiber*> stuck;
  each([&](fiber& f) { stuck.push_back(&f); });
  std::erase_if(stuck, [](const fiber* f) { return f->joiner.load(std::memory_order_relaxed) == fiber::done; });
  // They may own each other's handles, which would wait for them.
  for (fiber* f : stuck) f->joiner.store(fiber::done, std::memory_order_relaxed);
  for (fiber* f : stuck) // their stacks are given up without unwinding, as `run` promises; runners never end
    if (f->body) f->body(f->closure, nullptr);
  for (fiber* f : stuck) {
    if (f->causal) std::exchange(f->causal, nullptr)->release();
    if (f->locals) destroy_locals(*f);
    if (f->heap_closure) ::operator delete(f->closure);
  }
}

} // namespace tern::detail

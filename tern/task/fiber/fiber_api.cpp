// SPDX-License-Identifier: Apache-2.0
/// \file
/// What users do with fibers: make, join, sleep, keep their own variables.
#include <tern/task/fiber.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/fiber/locals.hpp>
#include <tern/task/report/tracing.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern {
namespace detail {
namespace {

// After the joiner has left its stack.
void register_joiner(fiber* joiner, void* target) {
  auto* f = static_cast<fiber*>(target);
  std::uintptr_t expected = fiber::alone;
  // release: who ends `f` enters our stack; acquire: it has ended, and what it did is ours to read.
  // address: says whom to wake
  if (!f->joiner.compare_exchange_strong(expected, reinterpret_cast<std::uintptr_t>(joiner), std::memory_order_acq_rel))
    joiner->home->ready(joiner);
}

void wait_for_end(fiber* f) {
  if (f->joiner.load(std::memory_order_acquire) == fiber::done) return;
  worker* w = this_worker();
  if (w && w->running) {
    fiber* const joiner = w->running;
    joiner->waits_for.store(f, std::memory_order_relaxed);
    joiner->waits_on.store(&f->me, std::memory_order_relaxed);
    // Usually a short wait: the time of the worker's last look around will do, reading the counter takes longer.
    joiner->waits_since.store(w->looked_around, std::memory_order_relaxed);
    joiner->waits.store(wait_kind::join, std::memory_order_release); // as in announce_wait
    // One that stands in our queue goes on in our place.
    if (w->budget > 1 && w->home == f->home && w->box.unlink(f)) {
      --w->budget;
      leave_to(f, register_joiner, f);
    } else {
      leave(register_joiner, f);
    }
    joiner->waits.store(wait_kind::none, std::memory_order_relaxed);
    return;
  }
  waiter self({wait_kind::join, f, &f->me});
  std::uintptr_t expected = fiber::alone;
  // address: says whom to wake
  if (f->joiner.compare_exchange_strong(expected, reinterpret_cast<std::uintptr_t>(&self) | fiber::thread_bit,
                                        std::memory_order_acq_rel))
    self.sleep();
}

[[noreturn]] void uncaught(const fiber& f) noexcept {
  std::string what = "something that is no std::exception";
  try {
    std::rethrow_exception(f.failed);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
  }
  log_error("fiber " + f.called() + ", made at " + f.made.file_name() + ":" + std::to_string(f.made.line()) +
            ", let an exception escape and nobody joins it: " + what);
  std::terminate();
}

[[noreturn]] void throw_not_joinable(const char* what) {
  throw error(errc::invalid_state, std::string(what) + " was called on a fiber that is not joinable",
              "it was joined, detached, moved from, or never started");
}

} // namespace

void scheduler_core::finished(fiber* f) noexcept {
  // acq_rel: the joiner's stack may be entered, and it may read what `f` did.
  const std::uintptr_t joiner = f->joiner.exchange(fiber::done, std::memory_order_acq_rel);
  if (joiner == fiber::alone) return; // its handle may be anywhere
  if (joiner == fiber::detached) {
    if (f->failed) uncaught(*f);
    recycle(f);
  } else if ((joiner & fiber::thread_bit) != 0) {
    const visit here(*this);
    reinterpret_cast<waiter*>(joiner & ~fiber::thread_bit)->wake();
  } else {
    auto* waiting = reinterpret_cast<fiber*>(joiner);
    waiting->home->ready(waiting);
  }
}

void let_go(fiber* f) noexcept {
  std::uintptr_t expected = fiber::alone;
  if (f->joiner.compare_exchange_strong(expected, fiber::detached, std::memory_order_acq_rel)) return;
  if (f->failed) uncaught(*f);
  f->home->recycle(f);
}

seed sow(std::size_t bytes, std::size_t alignment, const fiber_options& options, const std::source_location& made) {
  worker* w = this_worker();
  if (!w) [[unlikely]]
    throw error(errc::invalid_state, "a fiber was started on a thread that is not a worker",
                "start it inside tern::run or scheduler::run, or use scheduler::spawn", made);
  return w->home->sow(bytes, alignment, options, made);
}

void keep_failure(fiber& f) noexcept { f.failed = std::current_exception(); }

void uproot(seed s) noexcept {
  if (std::exchange(s.self->heap_closure, false)) ::operator delete(s.closure);
  s.self->home->recycle(s.self);
}

void launch(fiber* f, fiber_body body) noexcept { f->home->launch(f, body); }

bool may_grow() noexcept {
  // 16 MiB of stacks; depth first, a recursion has far fewer. The thread sanitizer needs milliseconds for each.
  constexpr unsigned many = tsan::enabled ? 128 : 4096;
  const worker* w = this_worker();
  return w && (w->home->engine || w->box.count() + w->box.public_count() < many);
}

void start_now(fiber* f, const scheduler_core* home) noexcept {
  worker* w = this_worker();
  if (w && w->home == home) w->hint = f; // else its memory may be gone
}

const scheduler_core* this_scheduler() noexcept {
  const worker* w = this_worker();
  return w ? w->home : nullptr;
}

void pause_before_look(unsigned round) {
  using namespace std::chrono_literals;
  if (round < 32)
    this_fiber::yield();
  else
    this_fiber::sleep_for(std::min<std::chrono::nanoseconds>(1ms, 50us * (1 + (round - 32) / 4)));
}

// fiber_local --------------------------------------------------------------------------------------------------------

std::size_t new_local_key() noexcept {
  static std::atomic<std::size_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

namespace {
local_table& this_table() {
  worker* w = this_worker();
  if (w && w->running) {
    if (!w->running->locals) w->running->locals = new local_table;
    return *w->running->locals;
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

} // namespace detail

fiber_clock::time_point fiber_clock::now() noexcept { return time_point(duration(detail::clock_now())); }

void fiber::join() {
  if (!self_) detail::throw_not_joinable("join");
  const detail::worker* w = detail::this_worker();
  if (w && w->running == self_) [[unlikely]]
    throw error(errc::deadlock, "fiber " + self_->called() + " joins itself", "it would wait for ever");
  detail::fiber* f = std::exchange(self_, nullptr);
  detail::wait_for_end(f);
  if (!f->failed) [[likely]] {
    f->home->recycle(f);
    return;
  }
  const std::exception_ptr failed = std::exchange(f->failed, nullptr);
  f->home->recycle(f);
  std::rethrow_exception(failed);
}

void fiber::detach() {
  if (!self_) detail::throw_not_joinable("detach");
  detail::let_go(std::exchange(self_, nullptr));
}

std::uint64_t fiber::id() const noexcept { return self_ ? self_->id.load(std::memory_order_relaxed) : 0; }

void fiber::end() noexcept {
  if (!self_) return;
  request_stop();
  const std::string called = self_->called();
  if (reinterpret_cast<std::uintptr_t>(self_) == detail::this_context()) { // address: is it the same one?
    log_error("fiber " + called + " destroyed its own handle: it is detached");
    detail::let_go(std::exchange(self_, nullptr));
    return;
  }
  try {
    join();
  } catch (const std::exception& e) {
    log_error("fiber " + called + ", joined by its handle's destructor, had thrown: " + e.what());
  } catch (...) {
    log_error("fiber " + called + ", joined by its handle's destructor, had thrown");
  }
}

void this_fiber::set_name(std::string_view name) noexcept {
  detail::worker* w = detail::this_worker();
  if (!w || !w->running) return;
  detail::fiber* const f = w->running;
  const std::size_t n = std::min(name.size(), sizeof f->name - 1);
  std::memcpy(f->name, name.data(), n);
  f->name[n] = 0;
  detail::tsan::name_fiber(f->tsan_fiber, f->name);
  f->trace_name = 0;
  if ((f->attention & detail::attention::inside) != 0) [[unlikely]]
    detail::trace_enters(*f);
}

std::string this_fiber::name() {
  const detail::worker* w = detail::this_worker();
  return w && w->running ? std::string(w->running->name) : std::string();
}

std::uint64_t this_fiber::id() noexcept {
  const detail::worker* w = detail::this_worker();
  return w && w->running ? w->running->id.load(std::memory_order_relaxed) : 0;
}

namespace {
detail::wait_result sleep(std::int64_t deadline, const std::stop_token* stop) {
  detail::spin_lock guard;
  detail::waiter_list nobody_else;
  detail::waiter self({detail::wait_kind::sleep});
  guard.lock();
  nobody_else.push(self);
  return self.wait(guard, nobody_else, {deadline, stop});
}
} // namespace

void this_fiber::sleep_for(std::chrono::nanoseconds d) {
  if (d.count() > 0) sleep(detail::deadline_after(d), nullptr);
}

void this_fiber::sleep_until(fiber_clock::time_point t) { sleep(t.time_since_epoch().count(), nullptr); }

bool this_fiber::sleep_for(std::chrono::nanoseconds d, const std::stop_token& stop) {
  return sleep(detail::deadline_after(d), &stop) != detail::wait_result::cancelled;
}

} // namespace tern

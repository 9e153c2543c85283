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
#include <tern/task/fiber/fiber_trace.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern {
namespace detail {
namespace {

// After the joiner has left its stack.
void register_joiner(fiber* joiner, void* target) {
  auto* f = static_cast<fiber*>(target);
  std::uintptr_t expected = fiber::alone;
  // release: the worker that ends `f` enters our stack; acquire: it has ended, and what it did is
  // ours to read.
  // address: says which context to wake
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
    // Usually a short wait: the time of the worker's last look around will do, reading the counter
    // takes longer.
    joiner->waits_since.store(w->last_tick, std::memory_order_relaxed);
    joiner->waits.store(wait_kind::join, std::memory_order_release); // as in announce_wait
    // One that stands in our queue goes on in our place.
    if (w->switch_budget > 1 && w->home == f->home && w->queue.unlink(f)) {
      --w->switch_budget;
      leave_to(f, register_joiner, f);
    } else {
      leave(register_joiner, f);
    }
    joiner->waits.store(wait_kind::none, std::memory_order_relaxed);
    return;
  }
  waiter self({wait_kind::join, f, &f->me});
  std::uintptr_t expected = fiber::alone;
  // address: says which context to wake
  if (f->joiner.compare_exchange_strong(expected, reinterpret_cast<std::uintptr_t>(&self) | fiber::thread_bit,
                                        std::memory_order_acq_rel))
    self.sleep();
}

[[noreturn]] void throw_not_joinable(const char* what) {
  throw error(errc::invalid_state, std::string(what) + " was called on a fiber that is not joinable",
              "it was joined, detached, moved from, or never started");
}

} // namespace

unstarted_fiber make_fiber(std::size_t bytes, std::size_t alignment, const fiber_options& options,
                           const std::source_location& made) {
  worker* w = this_worker();
  if (!w) [[unlikely]]
    throw error(errc::invalid_state, "a fiber was started on a thread that is not a worker",
                "start it inside tern::run or scheduler::run, or use scheduler::spawn", made);
  return w->home->fibers.make(bytes, alignment, options, made);
}

void keep_failure(fiber& f) noexcept { f.failed = std::current_exception(); }

void discard_fiber(unstarted_fiber s) noexcept {
  if (std::exchange(s.self->heap_closure, false)) ::operator delete(s.closure);
  s.self->home->fibers.recycle(s.self);
}

void launch(fiber* f, fiber_body body) noexcept { f->home->fibers.launch(f, body); }

bool may_take_stack() noexcept {
  // 16 MiB of stacks; depth first, a recursion has far fewer. The thread sanitizer needs
  // milliseconds for each.
  constexpr unsigned many = tsan::enabled ? 128 : 4096;
  const worker* w = this_worker();
  return w && (w->home->executor || w->queue.count() + w->queue.public_count() < many);
}

void start_now(fiber* f, const scheduler_core* home) noexcept {
  worker* w = this_worker();
  if (w && w->home == home) w->next_hint = f; // else its memory may be gone
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
    f->home->fibers.recycle(f);
    return;
  }
  const std::exception_ptr failed = std::exchange(f->failed, nullptr);
  f->home->fibers.recycle(f);
  std::rethrow_exception(failed);
}

void fiber::detach() {
  if (!self_) detail::throw_not_joinable("detach");
  detail::detach_fiber(std::exchange(self_, nullptr));
}

std::uint64_t fiber::id() const noexcept { return self_ ? self_->id.load(std::memory_order_relaxed) : 0; }

void fiber::end() noexcept {
  if (!self_) return;
  request_stop();
  const std::string called = self_->called();
  if (reinterpret_cast<std::uintptr_t>(self_) == detail::this_context()) { // address: is it the same one?
    log_error("fiber " + called + " destroyed its own handle: it is detached");
    detail::detach_fiber(std::exchange(self_, nullptr));
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
  if ((f->leave_flags & detail::leave_flags::inside) != 0) [[unlikely]]
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

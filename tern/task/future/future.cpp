// SPDX-License-Identifier: Apache-2.0
#include <tern/task/future.hpp>

#include <mutex>
#include <new>
#include <string>

#include <tern/base/error.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::detail {
namespace {

/// The body of a fiber that makes a state ready. Destroyed without having been called to the end,
/// as by a scheduler that ends while the fiber waits, it breaks the promise.
class start {
public:
  start(future_state_base& state, void (*perform)(future_state_base&) noexcept) noexcept
      : state_(&state), perform_(perform) {}
  start(start&& other) noexcept : state_(std::exchange(other.state_, nullptr)), perform_(other.perform_) {}
  start& operator=(start&&) = delete;
  ~start() {
    if (!state_) return;
    state_->forgo();
    state_->abandon();
    state_->release();
  }
  void operator()() noexcept {
    state_->produced_by(this_context());
    perform_(*state_);
    std::exchange(state_, nullptr)->release();
  }

private:
  future_state_base* state_;
  void (*perform_)(future_state_base&) noexcept;
};

std::string me() { return describe_context(this_context()); }

} // namespace

void ready_queue::push_reversed(ready_hook* chain) noexcept {
  ready_hook* first = nullptr;
  ready_hook* const last = chain;
  while (chain) {
    ready_hook* const next = chain->next;
    chain->next = first;
    first = chain;
    chain = next;
  }
  if (!first) return;
  *end_ = first;
  end_ = &last->next;
}

void ready_queue::run() noexcept {
  while (ready_hook* h = head_) {
    head_ = h->next;
    if (!head_) end_ = &head_;
    h->fire(*h, *this);
  }
}

bool future_state_base::subscribe(ready_hook& h) noexcept {
  if (ready()) return false;
  std::lock_guard hold(guard_);
  // The context that makes it ready sees the mark, or we see that it is ready: both change the same
  // variable.
  if (stage_.fetch_or(is_watched, std::memory_order_acq_rel) & is_ready) return false;
  h.next = hooks_;
  h.link = &hooks_;
  if (hooks_) hooks_->link = &h.next;
  hooks_ = &h;
  return true;
}

bool future_state_base::unsubscribe(ready_hook& h) noexcept {
  std::lock_guard hold(guard_);
  if (!h.link || ready()) return false;
  *h.link = h.next;
  if (h.next) h.next->link = h.link;
  h.link = nullptr;
  return true;
}

void future_state_base::announce(ready_queue& more) noexcept {
  guard_.lock();
  waiter* const chain = waiters_.take();
  ready_hook* const hooks = std::exchange(hooks_, nullptr);
  guard_.unlock();
  if (chain && !chain->next)
    chain->wake_next(); // depth first: else the waiter would stand behind all that has not begun
  else
    waiter_list::wake_all(chain);
  more.push_reversed(hooks);
}

void future_state_base::hurry() const {
  const std::uintptr_t producer = producer_.load(std::memory_order_acquire);
  if (!producer && !(stage_.load(std::memory_order_relaxed) & is_guarded)) [[likely]]
    return;
  if (ready()) return;
  before_wait();
  if (!producer) return;
  if (producer == this_context())
    throw error(errc::deadlock, me() + " waits for its own result",
                "only it could make the future ready, which was made at the place named here", made_);
  start_now(reinterpret_cast<fiber*>(producer), producers_home_.load(std::memory_order_relaxed));
}

wait_result future_state_base::wait_in_list(const wait_limit* limit) {
  if (!limit || limit->deadline == wait_limit::never) hurry(); // a waiter with a time limit lets others go first
  if (!limit) {
    const auto over = [](const void* self) noexcept { return static_cast<const future_state_base*>(self)->ready(); };
    poll_briefly(over, this);
    if (ready()) return wait_result::woken;
  }
  guard_.lock();
  if (stage_.fetch_or(is_watched, std::memory_order_acq_rel) & is_ready) {
    guard_.unlock();
    return wait_result::woken;
  }
  waiter self({wait_kind::future, this, limit ? nullptr : &producer_});
  waiters_.push(self);
  if (!limit) {
    self.wait(guard_);
    return wait_result::woken;
  }
  const wait_result how = self.wait(guard_, waiters_, *limit);
  return ready() ? wait_result::woken : how;
}

void future_state_base::wait(const std::stop_token& stop) {
  if (!stop.stop_possible()) return wait();
  if (wait(wait_limit{wait_limit::never, &stop}) == wait_result::cancelled)
    throw error(errc::cancelled, me() + " was asked to stop while it waited for a future",
                "the future, made at the place named here, can be waited for again", made_);
}

void future_state_base::throw_claimed() const {
  throw error(errc::already_exists, me() + " gave a second value or exception to a promise",
              "set each promise exactly once; this one was made at the place named here", made_);
}

void future_state_base::abandon() noexcept {
  if (claimed() || (stage_.fetch_or(is_claimed, std::memory_order_relaxed) & is_claimed)) return;
  try {
    throw error(errc::broken_promise, "a promise was destroyed in " + me() + " before its value was set",
                "the promise, or the call that stood for it, was made at the place named here", made_);
  } catch (...) {
    store_exception(std::current_exception()); // or that there was no memory for that message
  }
  publish();
}

void future_state_base::dropped() noexcept {
  worker* const w = this_worker();
  if (!w || (stage_.load(std::memory_order_relaxed) & is_seen)) return;
  try {
    std::string text;
    try {
      std::rethrow_exception(exception_);
    } catch (const error& e) {
      if (e.code() == errc::broken_promise || e.code() == errc::cancelled) return; // no function has failed
      text = e.what();
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
      text = "an exception that is no std::exception";
    }
    text += " (the future was made at " + std::string(made_.file_name()) + ":" + std::to_string(made_.line()) + ")";
    scheduler_core& home = *w->home;
    home.dropped.note(text);
    if (home.tell_dropped) home.tell_dropped(home.cfg.context, text);
  } catch (const std::bad_alloc&) { // there are other worries now
  }
}

void begin(future_state_base& state, void (*perform)(future_state_base&) noexcept, scheduler& where,
           const fiber_options& options) {
  start body(state, perform);
  if (scheduler::current() != &where || !may_take_stack()) {
    where.spawn(std::move(body), options, state.made());
    return;
  }
  unstarted_fiber s;
  try {
    s = make_fiber(sizeof(start), alignof(start), options, state.made());
  } catch (const error& e) {
    if (e.code() != errc::out_of_memory) throw;
    where.spawn(std::move(body), options, state.made()); // it waits for a stack
    return;
  }
  ::new (s.closure) start(std::move(body));
  // address: says who it is, as `this_context` does
  state.produced_by(reinterpret_cast<std::uintptr_t>(s.self)); // before it can end
  launch(s.self, run_body<start>);
  detach_fiber(s.self);
}

scheduler& scheduler_for(const char* what, const char* hint, const std::source_location& made) {
  if (scheduler* s = scheduler::current()) return *s;
  throw error(errc::invalid_state, std::string(what) + " was called on a thread that is not a worker", hint, made);
}

void throw_no_state(const char* what) {
  throw error(errc::invalid_state, std::string(what) + " was used without a shared state",
              "it was moved from, its value was already taken, or it was never made by a promise");
}

} // namespace tern::detail

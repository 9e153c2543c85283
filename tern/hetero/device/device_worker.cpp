// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/device_worker.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sys/prctl.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/boundary/own_threads.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {

driver::driver(runtime& r, std::uint8_t number, std::unique_ptr<device> d, bool own_thread)
    : home_(r), number_(number), device_(std::move(d)), fuser_(device_->fuser()), own_thread_(own_thread),
      tracks_(r.core().cfg.trace_rank, number, device_->info().id, device_->streams()) {}
driver::~driver() {
  end_thread();
  if (!lost_) // objects that went last
    for (const block& b : frees_in_) device_->free(b.memory, b.bytes);
}

void driver::end_thread() noexcept {
  if (!thread_.joinable()) return;
  stop_ = true;
  begin_.release();
  thread_.join();
}

// What arrives --------------------------------------------------------------------------------------------------------

void driver::arrive(task_record* t) noexcept {
  {
    const std::lock_guard hold(guard_);
    tasks_in_.push_back(t);
  }
  ring();
}

void driver::arrive(transfer* x) noexcept {
  {
    const std::lock_guard hold(guard_);
    transfers_in_.push_back(x);
  }
  ring();
}

void driver::free_later(memory_handle memory, std::size_t bytes) noexcept {
  bytes_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed); // no object's any more
  const std::lock_guard hold(guard_);
  frees_in_.push_back({memory, bytes}); // nobody is woken for that: who waits for memory looks here before it gives up
}

void driver::ring() noexcept {
  bool start = false, wake = false;
  {
    const std::lock_guard hold(guard_);
    start = !std::exchange(active_, true);
    wake = std::exchange(sleeps_, false);
  }
  if (wake) bell_.release();
  if (!start) return;
  const tern::detail::causal_scope nobodys(nullptr); // it works for all
  home_.core().owner->spawn([this] { own_thread_ ? work_in_thread() : work(); },
                            {.name = home_.info(number_).id, .stack_bytes = device_->stack_needed()});
}

bool driver::take_arrivals() noexcept {
  {
    const std::lock_guard hold(guard_);
    tasks_now_.swap(tasks_in_);
    transfers_now_.swap(transfers_in_);
    frees_now_.swap(frees_in_);
  }
  const bool freed = !frees_now_.empty();
  const bool any = !tasks_now_.empty() || !transfers_now_.empty() || !frees_now_.empty();
  for (const block& b : frees_now_)
    if (!lost_) device_->free(b.memory, b.bytes);
  frees_now_.clear();
  if (freed) tracks_.holds(bytes_held());
  for (transfer* x : transfers_now_) begin(x);
  transfers_now_.clear();
  for (task_record* t : tasks_now_) {
    if (t->flags & task_record::acquired) {
      --preparing_;
      ready_.push_back(t);
    } else {
      waiting_.push_back(t);
    }
  }
  tasks_now_.clear();
  return any;
}

// Tasks ---------------------------------------------------------------------------------------------------------------

bool driver::admit() noexcept {
  bool did = false;
  starved_ = false; // unless it turns out again
  std::size_t n = 0;
  for (; n < waiting_.size(); ++n) {
    task_record* const t = waiting_[n];
    if (lost_) { // elsewhere, if it can
      home_.left(number_);
      home_.place(t);
      did = true;
      continue;
    }
    t->device = number_;
    t->pending.store(1, std::memory_order_relaxed);
    t->flags |= task_record::acquired;
    crowded_ = nullptr;
    const runtime::acquired how = home_.acquire(t, number_);
    if (how == runtime::acquired::lost) {
      went_wrong(std::exchange(found_loss_, nullptr));
      home_.left(number_);
      home_.place(t);
      did = true;
      continue;
    }
    if (how == runtime::acquired::no_memory) { // and room has been made for it, as far as possible
      t->flags &= static_cast<std::uint16_t>(~task_record::acquired);
      const bool busy =
          !ready_.empty() || !gathered_.empty() || !running_.empty() || !moving_.empty() || preparing_ > 0;
      if (!room_.made && !room_.in_use && !busy && room_.larger && !crowded_) make_room_from_its_own(*t);
      // Others may have what would have to go just now: copies between devices, which another driver does.
      if (room_.possible && (room_.made || busy || has_arrivals() || (starved_ = room_.in_use))) {
        did = did || room_.made;
        break; // then again
      }
      runtime::fail(t, std::make_exception_ptr(no_room(*t)));
      claim(t);
      finish(t);
      did = true;
      continue;
    }
    did = true;
    if (!(t->flags & task_record::acquired)) { // failed before it got anything
      claim(t);
      finish(t);
      continue;
    }
    ++preparing_;
    if (t->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      --preparing_;
      ready_.push_back(t);
    }
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
  return did;
}

void driver::claim(task_record* t) noexcept {
  if (!(t->flags & task_record::handled)) return;
  std::uint8_t expected = task_record::waiting;
  if (!t->state.compare_exchange_strong(expected, task_record::begun, std::memory_order_acq_rel))
    runtime::wait_until_told(*t); // it has been cancelled
}

namespace {
/// Of the task's uses from number `first` on, each part once.
std::size_t bytes_of_uses(task_record& t, std::size_t first) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = first; i < t.use_count; ++i) {
    const use& u = t.use_at(i);
    bool again = false;
    for (std::size_t k = 0; k < i; ++k) again = again || (t.use_at(k).object == u.object && t.use_at(k).part == u.part);
    if (!again) bytes += static_cast<std::size_t>(u.part.size()) * u.object->element;
  }
  return bytes;
}
} // namespace

void driver::make_room_for(task_record& t, std::size_t got) noexcept {
  room_ = {};
  room_.possible = bytes_of_uses(t, 0) <= device_->memory_limit();
  if (!room_.possible) return;
  const bool may_save = moving_.empty(); // else what is under way may do
  const runtime::room r =
      crowded_ ? home_.make_slot(*crowded_, t, got) : home_.make_room(number_, t, got, bytes_of_uses(t, got), may_save);
  room_.made = r.made;
  room_.in_use = r.in_use;
  room_.why = r.why;
  for (std::size_t i = 0; i < got && !room_.larger; ++i) {
    const use& u = t.use_at(i);
    const std::lock_guard hold(u.object->lock);
    room_.larger = !(u.object->instances[u.instance].where == u.part);
  }
}

// It fits, but what it has got so far are parts of larger copies: without those it gets copies of the parts alone.
void driver::make_room_from_its_own(task_record& t) noexcept {
  const runtime::room r = home_.make_room(number_, t, 0, bytes_of_uses(t, 0), moving_.empty());
  room_.made = r.made;
  room_.in_use = r.in_use;
  room_.why = r.why;
}

error driver::no_room(task_record& t) {
  if (crowded_)
    return error(errc::unsupported,
                 std::string("task '") + t.text_name() + "' needs one more copy of a part of " + crowded_->text() +
                     ", of which " + std::to_string(instances_most - 1) + " are in use on devices",
                 "use fewer parts of it at once, or several objects");
  std::size_t pinned = 0;
  each_held([&](object_state& o, std::size_t i) { pinned += o.instances[i].pinned ? o.instances[i].bytes : 0; });
  const std::size_t bytes = bytes_of_uses(t, 0);
  const std::string uses =
      std::string("task '") + t.text_name() + "' uses " + std::to_string(bytes) + " bytes on " + home_.info(number_).id;
  if (room_.why) {
    std::string text, hint;
    try {
      std::rethrow_exception(room_.why);
    } catch (const error& e) {
      text = e.message();
      hint = e.hint();
    } catch (const std::exception& e) {
      text = e.what();
    }
    return error(errc::out_of_memory,
                 uses + ", which has no room left for them: what is there cannot be saved: " + text,
                 hint.empty() ? "let its device keep it, and run the task elsewhere" : hint);
  }
  if (pinned == 0 && bytes <= device_->memory_limit()) // others than objects have it, or it is in pieces
    return error(errc::out_of_memory, uses + ", which has no room left for them",
                 "look for what else uses its memory, or run the task on the host (hetero-devices)");
  return error(errc::out_of_memory,
               uses + ", which has room for " + std::to_string(device_->memory_limit()) +
                   (pinned > 0 ? ", of which " + std::to_string(pinned) + " are pinned" : ""),
               std::string("cut it into smaller tasks with views, or run it on the host (hetero-devices)") +
                   (pinned > 0 ? ", or unpin what is not needed there" : ""));
}

void driver::finish(task_record* t) noexcept {
  if (!steps_.empty()) [[unlikely]]
    end_steps(t);
  tracks_.ends(t, !t->sound());
  home_.complete(t, false);
}

void driver::finish(transfer* x, std::exception_ptr failed) noexcept {
  tracks_.ends(x, failed != nullptr);
  if (failed) failed = with_object(*x, failed);
  if (x->unpack && !failed) {
    try {
      x->unpack->unpack(x->staged.data(), x->unpack_to);
    } catch (...) {
      failed = std::current_exception();
    }
  }
  home_.transfer_done(x, failed);
}

// A device does not know whose bytes it copies.
std::exception_ptr driver::with_object(const transfer& x, const std::exception_ptr& why) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    std::string of;
    {
      const std::lock_guard hold(x.object->lock);
      of = x.object->text(x.part);
    }
    if (e.message().find(of) != std::string::npos) return why;
    return std::make_exception_ptr(error(e.code(), "copying " + of + ": " + e.message(), e.hint(), e.place()));
  } catch (...) {
    return why;
  }
}

// Transfers -----------------------------------------------------------------------------------------------------------

void driver::begin(transfer* x) noexcept {
  try {
    if (lost_)
      throw error(errc::device_lost, "a copy of " + x->object->text(x->part) + " would have come from or gone to " +
                                         home_.info(number_).id + ", which was lost");
    copy_request what = home_.describe(*x);
    if (const other_layout* const other = x->object->other_layout_on(home_.info(number_).kind);
        other && is_of_host(what.way)) [[unlikely]] { // all of the object, packed on either side
      x->staged.resize(what.row_bytes * what.rows * what.slices);
      if (what.way == direction::to_device) {
        other->pack(what.host, x->staged.data());
      } else {
        x->unpack = other;
        x->unpack_to = what.host;
      }
      what.host = x->staged.data();
    }
    const int stream = what.way == direction::within ? 2 : what.way == direction::from_device ? 1 : 0;
    tracks_.begins(stream, *x, what);
    x->running = device_->copy(stream, what);
    home_.count_copy(what.way, what.row_bytes * what.rows * what.slices);
    if (x->running == 0) return finish(x, nullptr);
    moving_.push_back(x);
  } catch (...) {
    const std::exception_ptr why = std::current_exception();
    finish(x, why);
    if (is_loss(why)) went_wrong(why);
  }
}

// Their ends ----------------------------------------------------------------------------------------------------------

bool driver::poll() noexcept {
  bool did = false;
  std::exception_ptr loss;
  // What ends may bring more in, at the end of the lists.
  for (std::size_t i = 0; i < moving_.size() && !loss;) {
    transfer* const x = moving_[i];
    std::exception_ptr why;
    try {
      if (!device_->done(x->running)) {
        ++i;
        continue;
      }
    } catch (...) {
      why = std::current_exception();
      if (is_loss(why)) loss = why;
    }
    moving_.erase(moving_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(x, why);
    did = true;
  }
  for (std::size_t i = 0; i < running_.size() && !loss;) {
    task_record* const t = running_[i].task;
    std::exception_ptr why;
    try {
      if (!device_->done(t->running)) {
        ++i;
        continue;
      }
    } catch (...) {
      why = std::current_exception();
      if (is_loss(why)) loss = why;
    }
    launched over = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    end(std::move(over), why);
    did = true;
  }
  if (loss) went_wrong(loss);
  return did;
}

bool driver::is_loss(const std::exception_ptr& why) const noexcept {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    return e.code() == errc::device_lost;
  } catch (...) {
    return false;
  }
}

// The device is gone: what it was at fails, what waits goes elsewhere, what it alone had is lost.
void driver::went_wrong(std::exception_ptr why) noexcept {
  if (std::exchange(lost_, true)) return;
  std::string text;
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& e) {
    text = e.what();
  }
  log_error(home_.info(number_).id + " is lost (" + text + "): what ran there fails, the rest goes on without it");
  home_.lose(number_);
  home_.device_lost(number_);
  for (transfer* x : std::exchange(moving_, {})) finish(x, why);
  for (launched& l : std::exchange(running_, {})) end(std::move(l), why);
}

// The fiber -----------------------------------------------------------------------------------------------------------

void driver::work() noexcept {
  if (tern::detail::worker* const w = tern::detail::this_worker())
    runs_in_.store(static_cast<tern::detail::fiber*>(w->running), std::memory_order_relaxed);
  if (!std::exchange(opened_, true)) {
    try {
      device_->open();
    } catch (...) {
      went_wrong(std::current_exception());
    }
  }
  for (;;) {
    bool did = take_arrivals();
    did = admit() || did;
    did = launch_ready() || did;
    did = poll() || did;
    note_progress(did);
    if (did)
      idle_rounds_ = 0;
    else if (rest_or_end())
      return;
  }
}

// A fiber that waits here has left `active_`'s period to the thread; its successor begins when that is over.
void driver::work_in_thread() noexcept {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { thread_body(); });
    } catch (const std::system_error& e) {
      log_warning(home_.info(number_).id + " gets no thread of its own (" + e.what() + "): the workers drive it");
      return work();
    }
    pthread_setname_np(thread_.native_handle(), home_.info(number_).id.c_str()); // for debuggers; too long a name: none
  }
  std::atomic<int>& working = home_.core().parking.working_outside;
  working.fetch_add(1, std::memory_order_seq_cst);
  begin_.release();
  idle_.acquire();
  working.fetch_sub(1, std::memory_order_seq_cst);
}

void driver::thread_body() noexcept {
  const tern::detail::own_thread listed;
  ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0); // naps of microseconds, as workers (scheduler.cpp)
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  for (;;) {
    begin_.acquire();
    if (stop_) break;
    work();
    idle_.release();
  }
  thread_id_.store({}, std::memory_order_relaxed); // a later thread may get the same one
}

void driver::yield() const noexcept {
  if (own_thread_)
    std::this_thread::yield();
  else
    this_fiber::yield();
}

// Of the fiber only it itself asks with success: while it works it is the one that runs. The same goes for the thread:
// relaxed, as it finds what it has written itself, and nobody else's id is equal to that.
bool driver::is_here() const noexcept {
  const tern::detail::worker* const w = tern::detail::this_worker();
  if (!w) return own_thread_ && thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  tern::detail::fiber* const f = w->running;
  return f && f == runs_in_.load(std::memory_order_relaxed);
}

bool driver::has_arrivals() const noexcept {
  const std::lock_guard hold(guard_);
  return !tasks_in_.empty() || !transfers_in_.empty() || !frees_in_.empty();
}

bool driver::rest_or_end() noexcept {
  if (!ready_.empty() || (!gathered_.empty() && running_.empty())) return false; // a loss on the way
  const bool at_work = !running_.empty() || !moving_.empty() || starved_;
  if (!at_work) { // whatever is left waits for something that arrives
    const std::lock_guard hold(guard_);
    if (!tasks_in_.empty() || !transfers_in_.empty() || (!frees_in_.empty() && !waiting_.empty())) return false;
    runs_in_.store(nullptr, std::memory_order_relaxed); // before another fiber may begin
    active_ = false;
    return true;
  }
  const std::int64_t patience = device_->patience();
  constexpr int yields = 64; // looks, before it sleeps between them
  constexpr std::chrono::microseconds nap{20};
  if (patience == 0 && ++idle_rounds_ < yields) {
    yield();
    return false;
  }
  {
    const std::lock_guard hold(guard_);
    if (!tasks_in_.empty() || !transfers_in_.empty()) return false;
    sleeps_ = true;
  }
  const auto time = patience > 0 ? std::chrono::nanoseconds(patience) : std::chrono::nanoseconds(nap);
  if (!bell_.try_acquire_for(time)) {
    const std::lock_guard hold(guard_);
    if (!std::exchange(sleeps_, false)) idle_rounds_ = 0; // somebody rings just now: the next nap is short
  }
  return false;
}

// Instances -----------------------------------------------------------------------------------------------------------

memory_handle driver::allocate(std::size_t bytes) {
  if (lost_) throw error(errc::device_lost, home_.info(number_).id + " was lost");
  memory_handle memory = nullptr;
  try {
    memory = device_->allocate(bytes);
  } catch (...) {
    if (is_loss(std::current_exception())) found_loss_ = std::current_exception();
    throw;
  }
  if (memory) bytes_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  if (memory) tracks_.holds(bytes_held());
  return memory;
}

void driver::holds(object_state& o, std::size_t instance) {
  const std::lock_guard hold(held_guard_);
  held_.emplace(std::pair(o.number, instance), &o);
}
void driver::held_no_more(object_state& o, std::size_t instance) noexcept {
  const std::lock_guard hold(held_guard_);
  held_.erase({o.number, instance});
}
bool driver::holds_any() const noexcept {
  const std::lock_guard hold(held_guard_);
  return !held_.empty();
}

// An object goes only after it has been taken out of the list, so those in it may be locked while the list is; without
// waiting, since who has locked one may want the list.
std::vector<driver::held> driver::by_age(bool& skipped) noexcept {
  std::vector<held> all;
  {
    const std::lock_guard hold(held_guard_);
    for (const auto& [key, o] : held_)
      if (o->lock.try_lock()) {
        all.push_back({o, o->number, key.second, o->instances[key.second].last_used});
        o->lock.unlock();
      } else {
        skipped = true;
      }
  }
  std::sort(all.begin(), all.end(), [](const held& a, const held& b) { return a.last_used < b.last_used; });
  return all;
}

object_state* driver::lock_held(const held& h, bool& skipped) noexcept {
  const std::lock_guard hold(held_guard_);
  if (!held_.contains({h.number, h.instance})) { // went meanwhile
    skipped = true;
    return nullptr;
  }
  if (h.object->lock.try_lock()) return h.object;
  skipped = true;
  return nullptr;
}

} // namespace tern::hetero::detail

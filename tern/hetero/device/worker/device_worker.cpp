// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/worker/device_worker.hpp>
#include <tern/hetero/device/worker/link_probe.hpp>

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
#include <tern/hetero/record/failure.hpp>
#include <tern/hetero/report/task_text.hpp>
#include <tern/task/boundary/own_threads.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {

std::unique_ptr<device_queue> make_device_worker(runtime& r, std::uint8_t number, std::unique_ptr<device> d,
                                                 bool own_thread) {
  return std::make_unique<device_worker>(r, number, std::move(d), own_thread);
}

device_worker::device_worker(runtime& r, std::uint8_t number, std::unique_ptr<device> d, bool own_thread)
    : home_(r), number_(number), device_(std::move(d)), fuser_(device_->fuser()),
      ahead_(device_->launches_behind() && device_->streams() <= streams_most
                 ? static_cast<std::size_t>(r.opts()[hetero_ahead])
                 : 0),
      own_thread_(own_thread), tracks_(r.core().cfg.trace_rank, number, device_->info().id, device_->streams()) {}
device_worker::~device_worker() {
  end_thread();
  if (!lost_) // objects that went last
    for (const block& b : frees_in_) device_->free(b.memory, b.bytes);
}

void device_worker::end_thread() noexcept {
  if (!thread_.joinable()) return;
  stop_ = true;
  begin_.release();
  thread_.join();
}

// What arrives --------------------------------------------------------------------------------------------------------

void device_worker::arrive(task_record* t) noexcept {
  {
    const std::lock_guard hold(guard_);
    tasks_in_.push_back(t);
  }
  wake();
}

void device_worker::arrive(transfer* x) noexcept {
  {
    const std::lock_guard hold(guard_);
    transfers_in_.push_back(x);
  }
  wake();
}

void device_worker::arrive(handed_task&& t) {
  {
    const std::lock_guard hold(guard_);
    handed_in_.push_back(std::move(t));
    has_new_successors_ = true;
  }
  wake();
}

void device_worker::free_later(memory_handle memory, std::size_t bytes) noexcept {
  bytes_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed); // no object's any more
  const std::lock_guard hold(guard_);
  frees_in_.push_back(
      {memory, bytes}); // the worker is not woken: a task that waits for memory looks here before it fails
}

void device_worker::wake() noexcept {
  bool start = false, wake = false;
  {
    const std::lock_guard hold(guard_);
    start = !std::exchange(active_, true);
    wake = std::exchange(sleeps_, false);
  }
  if (wake) wakeup_.release();
  if (!start) return;
  const tern::detail::causal_scope no_cause(nullptr); // it works for all
  // A thread that is there begins at once: it may be long until a worker has time for the fiber.
  const bool begun = thread_is_there_.load(std::memory_order_acquire); // what its maker did is seen
  if (begun) begin_.release();
  home_.core().owner->spawn([this, begun] { own_thread_ ? work_in_thread(begun) : work(); },
                            {.name = home_.devices().info(number_).id, .stack_bytes = device_->stack_needed()});
}

bool device_worker::take_arrivals() noexcept {
  {
    const std::lock_guard hold(guard_);
    has_new_successors_ = false;
    tasks_now_.swap(tasks_in_);
    transfers_now_.swap(transfers_in_);
    frees_now_.swap(frees_in_);
    handed_.insert(handed_.end(), std::move_iterator(handed_in_.begin()), std::move_iterator(handed_in_.end()));
    handed_in_.clear();
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

void device_worker::finish(task_record* t) noexcept {
  if (t->flags & task_record::given) {
    followers_.ended(t);
    followed_ended(t);
  }
  if (!steps_.empty()) [[unlikely]]
    end_steps(t);
  tracks_.ends(t, !t->sound());
  home_.execution().complete(t, false);
  device_->resume(false); // what follows it may have run here
}

void device_worker::finish(transfer* x, std::exception_ptr failed) noexcept {
  forget_others(x);
  tracks_.ends(x, failed != nullptr);
  if (failed) failed = with_object(*x, failed);
  if (x->unpack && !failed) {
    try {
      x->unpack->unpack(x->staged.data(), x->unpack_to);
    } catch (...) {
      failed = std::current_exception();
    }
  }
  home_.copies().transfer_done(x, failed);
  device_->resume(false);
}

// A device does not know the object that it copies: the name is added here.
std::exception_ptr device_worker::with_object(const transfer& x, const std::exception_ptr& why) noexcept {
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

// \param after launches that it comes behind; those of `x->follows`.
// \param others the same on another device; those of `x->others`, or what comes behind them.
void device_worker::begin(transfer* x, std::span<const ticket> after, std::span<const event_ref> others) noexcept {
  if (x->to == transfer::unsettled && !home_.copies().settle(x, lost_)) return;
  try {
    if (lost_)
      throw error(errc::device_lost, "a copy of " + x->object->text(x->part) + " would have come from or gone to " +
                                         home_.devices().info(number_).id + ", which was lost");
    copy_request what = home_.copies().describe(*x);
    if (const other_layout* const other = x->object->other_layout_on(home_.devices().info(number_).kind);
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
    const int stream = !x->follows.empty()                  ? device_->waiting_stream()
                       : !x->others.empty()                 ? device_->waiting_stream_in()
                       : what.way == direction::within      ? 2
                       : what.way == direction::from_device ? 1
                                                            : 0;
    what.after = after;
    what.after_others = others;
    tracks_.begins(stream, *x, what);
    x->way = what.way;
    x->bytes = what.row_bytes * what.rows * what.slices;
    x->both_ways = std::any_of(moving_.begin(), moving_.end(),
                               [x](const transfer* o) { return o->way != x->way && !o->is_behind(); });
    x->running = device_->copy(stream, what);
    home_.copies().count_copy(what.way, x->bytes);
    if (x->running == 0 && !x->is_behind()) return finish(x, nullptr);
    moving_.push_back(x);
    if (!x->is_behind()) return;
    if (!x->follows.empty()) ++behind_;
    home_.copies().count_copy_behind();
  } catch (...) {
    const std::exception_ptr why = std::current_exception();
    const bool among_followers = x->is_behind(); // whose lists are being gone through
    finish(x, why);
    if (is_loss(why) && among_followers)
      found_loss_ = why;
    else if (is_loss(why))
      handle_loss(why);
  }
}

// Their ends ----------------------------------------------------------------------------------------------------------

bool device_worker::poll() noexcept {
  bool did = false;
  std::exception_ptr loss;
  // What ends may bring more in, at the end of the lists.
  for (std::size_t i = 0; i < moving_.size() && !loss;) {
    transfer* const x = moving_[i];
    std::exception_ptr why;
    bool again = false;
    try {
      if (!may_be_over(x) || !device_->done(x->running)) { // the end of what it follows is seen first
        ++i;
        continue;
      }
      again = x->again;
      why = std::exchange(x->source_failed, nullptr);
      if (device_->measures()) home_.sampler().copied(number_, x->way, x->bytes, device_->took(), x->both_ways);
    } catch (const predecessor_failed&) {
      again = true;
    } catch (...) {
      why = std::current_exception();
      if (is_loss(why)) loss = why;
    }
    moving_.erase(moving_.begin() + static_cast<std::ptrdiff_t>(i));
    if (again && !why) {
      tracks_.ends(x, true);
      x->again = false;
      home_.copies().made_again(*x);
      begin(x);
    } else {
      finish(x, why);
    }
    did = true;
  }
  std::uint64_t waiting_streams = 0; // bits: of which the first operation has not ended
  for (std::size_t i = 0; i < running_.size() && !loss;) {
    task_record* const t = running_[i].task;
    std::exception_ptr why;
    bool again = false;
    try {
      const bool asked = is_asked(running_[i], waiting_streams);
      if (!asked || !device_->done(running_[i].running)) {
        if (asked && ahead_ > 0) waiting_streams |= bit_of(running_[i].stream);
        ++i;
        continue;
      }
      note_took(running_[i]);
      if (sampled_kernel* const s = running_[i].sampled) home_.sampler().ran(*s, device_->took(), running_[i].beside);
    } catch (const predecessor_failed&) {
      again = t->sound(); // else it has failed with that
    } catch (...) {
      why = std::current_exception();
      if (is_loss(why)) loss = why;
    }
    launched over = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    if (again)
      launch_again(std::move(over));
    else
      end(std::move(over), why);
    did = true;
  }
  if (loss) handle_loss(loss);
  return did;
}

bool device_worker::is_loss(const std::exception_ptr& why) const noexcept {
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    return e.code() == errc::device_lost;
  } catch (...) {
    return false;
  }
}

// The device is gone: what it was at fails, what waits goes elsewhere, what it alone had is lost.
void device_worker::handle_loss(std::exception_ptr why) noexcept {
  if (std::exchange(lost_, true)) return;
  std::string text;
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& e) {
    text = e.what();
  }
  log_error(home_.devices().info(number_).id + " is lost (" + text +
            "): what ran there fails, the rest goes on without it");
  home_.placement().on_device_lost(number_, text);
  home_.copies().on_device_lost(number_);
  behind_ = 0;
  for (transfer* x : std::exchange(moving_, {})) finish(x, why);
  std::vector<launched> behind; // what is to be launched again first: those are asked for when that is over
  for (launched& l : std::exchange(running_, {})) {
    // relaxed: it is brought down here
    if (l.task->pending.load(std::memory_order_relaxed) > 0)
      behind.push_back(std::move(l));
    else
      end(std::move(l), why);
  }
  running_ = std::move(behind);
}

// As long as kernels are in its streams, the device is busy.
void device_worker::measure_power() noexcept {
  const std::int64_t now = home_.core().now();
  if (was_busy_) busy_seconds_ += static_cast<double>(now - looked_at_) * 1e-9;
  was_busy_ = !running_.empty();
  looked_at_ = now;
  home_.sampler().meter(number_, now, busy_seconds_);
}

// The fiber -----------------------------------------------------------------------------------------------------------

void device_worker::work() noexcept {
  if (tern::detail::worker* const w = tern::detail::this_worker())
    runs_in_.store(static_cast<tern::detail::fiber*>(w->running), std::memory_order_relaxed);
  device_->resume(true);
  if (!std::exchange(opened_, true)) {
    try {
      device_->open();
      if (home_.sampler().knows_no_link(number_)) {
        const link_probe::sink found = [this](direction way, std::uint64_t bytes, std::int64_t nanoseconds) {
          home_.sampler().copied(number_, way, bytes, nanoseconds, false);
        };
        if (home_.core().executor)
          link_probe::compute(*device_, found);
        else
          link_probe::run(
              *device_, home_.copies().memory(), [this] { return home_.core().now(); }, found);
      }
    } catch (...) {
      handle_loss(std::current_exception());
    }
    measures_power_ = home_.sampler().measures_power();
  }
  for (;;) {
    device_->resume(true);
    bool did = take_arrivals();
    progress_ = progress_ || did;
    did = admit() || did;
    did = launch_ready() || did;
    did = launch_followers() || did;
    did = launch_handed() || did;
    did = poll() || did;
    progress_ = did;
    if (measures_power_) measure_power();
    report_.note(did, {running_.size(), moving_.size(), waiting_.size() + gathered_.size()},
                 did ? 0 : device_->poll_delay(), [this] { return snapshot(); });
    if (did) {
      idle_rounds_ = 0;
      continue;
    }
    home_.sampler().models().store_if_due();
    if (wait_or_finish()) return;
  }
}

// A fiber that waits here has left `active_`'s period to the thread, which may have begun it, or
// more, before: each has a fiber, so that the scheduler does not end meanwhile.
void device_worker::work_in_thread(bool begun) noexcept {
  if (!begun && !thread_.joinable()) {
    try {
      thread_ = std::thread([this] { thread_body(); });
    } catch (const std::system_error& e) {
      log_warning(home_.devices().info(number_).id + " gets no thread of its own (" + e.what() +
                  "): the workers drive it");
      return work();
    }
    pthread_setname_np(thread_.native_handle(),
                       home_.devices().info(number_).id.c_str()); // for debuggers; too long a name: none
  }
  std::atomic<int>& working = home_.core().parking.working_outside;
  working.fetch_add(1, std::memory_order_seq_cst);
  if (!begun) {
    thread_is_there_.store(true, std::memory_order_release);
    begin_.release();
  }
  idle_.acquire();
  working.fetch_sub(1, std::memory_order_seq_cst);
}

void device_worker::thread_body() noexcept {
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

void device_worker::yield() const noexcept {
  if (own_thread_)
    std::this_thread::yield();
  else
    this_fiber::yield();
}

// Of the fiber only it itself asks with success: while it works it is the one that runs. The same
// goes for the thread: relaxed, as it finds what it has written itself, and no other thread's id is
// equal to that.
bool device_worker::is_here() const noexcept {
  const tern::detail::worker* const w = tern::detail::this_worker();
  if (!w) return own_thread_ && thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  tern::detail::fiber* const f = w->running;
  return f && f == runs_in_.load(std::memory_order_relaxed);
}

bool device_worker::has_arrivals() const noexcept {
  const std::lock_guard hold(guard_);
  return !tasks_in_.empty() || !transfers_in_.empty() || !frees_in_.empty() || !handed_in_.empty();
}

bool device_worker::wait_or_finish() noexcept {
  if (!ready_.empty() || (!gathered_.empty() && running_.empty())) return false; // a loss on the way
  const bool at_work = !running_.empty() || !moving_.empty() || !handed_.empty() || starved_;
  if (!at_work) { // whatever is left waits for something that arrives
    const std::lock_guard hold(guard_);
    if (!tasks_in_.empty() || !transfers_in_.empty() || !handed_in_.empty() ||
        (!frees_in_.empty() && !waiting_.empty()))
      return false;
    runs_in_.store(nullptr, std::memory_order_relaxed); // before another fiber may begin
    active_ = false;
    return true;
  }
  const std::int64_t poll_delay = device_->poll_delay();
  constexpr int yields = 64; // looks, before it sleeps between them
  if (poll_delay == 0 && ++idle_rounds_ < yields) {
    if (idle_rounds_ == 1) idle_since_ = home_.core().now();
    yield();
    return false;
  }
  // A nap ends late by half of it: as long as it is a part of what it has waited for already, a
  // kernel's end is seen late by a part of the kernel's time.
  constexpr std::int64_t part = 16, shortest = 2'000, longest = 20'000;
  const std::int64_t nap = std::clamp((home_.core().now() - idle_since_) / part, shortest, longest);
  {
    const std::lock_guard hold(guard_);
    if (!tasks_in_.empty() || !transfers_in_.empty() || has_new_successors_) return false;
    sleeps_ = true;
  }
  const std::chrono::nanoseconds time(poll_delay > 0 ? poll_delay : nap);
  if (!wakeup_.try_acquire_for(time)) {
    const std::lock_guard hold(guard_);
    if (!std::exchange(sleeps_, false)) idle_rounds_ = 0; // it is being woken just now: the next nap is short
  }
  return false;
}

// Instances -----------------------------------------------------------------------------------------------------------

memory_handle device_worker::allocate(std::size_t bytes) {
  if (lost_) throw error(errc::device_lost, home_.devices().info(number_).id + " was lost");
  memory_handle memory = nullptr;
  try {
    memory = device_->allocate(bytes);
  } catch (...) {
    if (is_loss(std::current_exception())) found_loss_ = std::current_exception();
    throw;
  }
  if (memory) bytes_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  if (memory) allocated_ += bytes;
  if (memory) tracks_.holds(bytes_held());
  return memory;
}

// For reports ---------------------------------------------------------------------------------------------------------

// What has an instance, as far as this worker knows.
std::string device_worker::holder_of(const object_state& o, std::size_t instance) const {
  for (const transfer* x : moving_)
    if (!x->is_behind() && x->object == &o && (x->from == instance || x->to == instance)) // else a task is at it
      return x->save ? " (being saved)" : x->to == instance ? " (being copied to it)" : " (being copied from it)";
  const task_record* by = nullptr;
  const auto look = [&](task_record* t) {
    for (std::size_t k = 0; k < t->use_count && !by; ++k)
      if (const use& u = t->use_at(k); u.object == &o && u.instance == instance) by = t;
  };
  for (const launched& l : running_) {
    look(l.task);
    for (task_record* t : l.rest) look(t);
  }
  for (task_record* t : gathered_) look(t);
  for (task_record* t : ready_) look(t);
  return by ? " (used by " + called(*by) + ")" : " (in use)";
}

// In the worker: only it ends what is here.
std::string device_worker::snapshot() noexcept {
  std::string text;
  task_set named;
  std::size_t n = 0;
  for (const launched& l : running_) {
    if (++n > report_lines) break;
    text += "      kernel of " + called(*l.task) +
            (l.rest.empty() ? "" : ", with " + std::to_string(l.rest.size()) + " more in one launch") + "\n" +
            describe_waiting(*l.task, named);
  }
  n = 0;
  for (const transfer* x : moving_) {
    if (++n > report_lines) break;
    const std::unique_lock hold(x->object->lock, std::try_to_lock);
    text += "      copy " + std::string(x->to == 0 ? "from it, of " : "to it, of ") +
            (hold ? x->object->text(x->part) : "an object that another thread has locked") +
            (!x->follows.empty()  ? ", behind " + called(*x->follows.front())
             : !x->others.empty() ? ", behind " + called(*x->others.front().task) + " on another device"
                                  : "") +
            "\n";
  }
  if (!waiting_.empty()) {
    const task_record& t = *waiting_.front();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < t.use_count; ++i) {
      const use& u = const_cast<task_record&>(t).use_at(i);
      bytes += static_cast<std::size_t>(u.part.size()) * u.object->element;
    }
    std::vector<std::string> in_the_way;
    resident_.each([&](object_state& o, std::size_t i) {
      if (const instance& x = o.instances[i]; x.users > 0 || x.pinned > 0)
        in_the_way.push_back(o.text(x.where) + (x.users > 0 ? holder_of(o, i) : " (pinned)"));
    });
    text += "      " + called(t) + " waits for memory: it uses " + std::to_string(bytes) + " bytes there, of " +
            std::to_string(device_->memory_limit()) +
            (in_the_way.empty() ? "" : ", where there is " + joined(in_the_way)) + "\n" + describe_waiting(t, named);
  }
  return text;
}

std::string device_worker::describe(std::chrono::milliseconds limit) {
  return report_.describe(home_.devices().info(number_).id, home_.core(), limit);
}

} // namespace tern::hetero::detail

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks go to the device's streams behind their predecessors there, before these have ended.
#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/device/worker/device_worker.hpp>
#include <tern/hetero/record/failure.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::hetero::detail {

namespace {
/// More than this is not queued, as far as times are known: the tasks could still go elsewhere.
constexpr double enough_seconds = 1e-3;
/// So many equal ones are not kept back, to become one launch.
constexpr std::size_t few_launches = 4;
} // namespace

void device_worker::look_for_successors() noexcept {
  bool wake = false;
  {
    const std::lock_guard hold(guard_);
    if (!active_) return; // what the task followed has ended
    has_new_successors_ = true;
    wake = std::exchange(sleeps_, false);
  }
  if (wake) wakeup_.release();
}

// \return whether it did something.
bool device_worker::launch_followers() noexcept {
  if (ahead_ == 0 || lost_ || followers_.empty()) return false;
  bool did = false;
  std::exception_ptr& loss = found_loss_;
  do { // what is given has successors in its turn
    followers_.look();
    const std::uint64_t before = given_;
    followers_.each_prepared([&](task_record* t, followers::successor& s) {
      if (loss) return;
      s.is = followers::state::decided;
      launch_behind(t, s);
      did = true;
    });
    followers_.each_offered([&](task_record* t, followers::successor& s) {
      if (loss) return;
      s.is = offer(t, s);
      did = did || s.is != followers::state::offered;
    });
    if (given_ == before) break;
  } while (!loss);
  if (loss) handle_loss(std::exchange(found_loss_, nullptr));
  return did;
}

bool device_worker::takes_more_behind() const noexcept {
  if (!waiting_.empty()) return false; // those come first, and need memory
  std::size_t behind = followers_.prepared();
  double seconds = 0;
  for (const launched& l : running_) {
    // relaxed: it is brought down here
    behind += l.task->pending.load(std::memory_order_relaxed) > 0 ? 1 : 0;
    seconds += l.expected;
  }
  return behind < ahead_ && seconds < enough_seconds;
}

// Is it offered beside some that could be in one launch with it? To be launched when the ends of
// all before have been seen costs more than to launch a few one by one.
bool device_worker::has_equals(task_record* t) const noexcept {
  const device_kind kind = home_.devices().info(number_).kind;
  const auto kernel = [kind](task_record* x) {
    return x->work && x->work->kernel ? x->work->kernel(*x, kind) : kernel_at{};
  };
  const kernel_at mine = kernel(t);
  if (!mine.code) return false;
  launch_request what;
  what.code = mine.code;
  what.shape = *mine.shape;
  if (fuser_->fuses(what) <= few_launches) return false;
  std::size_t equal = 0; // with itself
  return followers_.any_offered([&](task_record* x) {
    const kernel_at other = kernel(x);
    return other.code == mine.code && other.shape->groups == mine.shape->groups &&
           other.shape->items == mine.shape->items && ++equal > few_launches;
  });
}

// \pre the task is this worker's alone.
followers::state device_worker::offer(task_record* t, const followers::successor& s) noexcept {
  using state = followers::state;
  constexpr unsigned other_way = task_record::commutes | task_record::order_only | task_record::pins |
                                 task_record::reduces | task_record::acquired | task_record::given;
  // Its worker is another one, since before what it follows was launched again.
  if (t->marks.load(std::memory_order_relaxed) & task_record::across) return state::decided;
  if (!(t->flags & task_record::placed) || !home_.placement().allowed(*t, number_)) {
    bring_home(t, s);
    hand_over(t, s);
    return state::decided;
  }
  if ((t->flags & other_way) || !t->sound() || !t->work || !t->work->describe) return state::decided;
  if (!takes_more_behind()) return state::offered;
  if (fuser_ && has_equals(t)) return state::decided; // when they are ready they may be one launch
  if (!home_.placement().follow(t, number_)) return state::decided;
  t->device = number_;
  t->flags |= task_record::acquired | task_record::behind;
  over_limit_ = nullptr;
  if (home_.copies().acquire_behind(t, number_) == coherence::acquired::no_memory) {
    t->flags &= static_cast<std::uint16_t>(~(task_record::acquired | task_record::behind));
    t->device = 0;
    home_.placement().does_not_follow(t, number_);
    return state::decided;
  }
  ++preparing_;
  home_.copies().upcoming().follows(*t);
  // acquire: copies that were waited for
  if (static_cast<std::size_t>(t->pending.load(std::memory_order_acquire)) != s.given()) return state::prepared;
  launch_behind(t, s);
  return state::decided;
}

// If it cannot be launched it comes back when its predecessors have ended, as it has its data: it
// is completed then, or launched.
void device_worker::launch_behind(task_record* t, const followers::successor& s) noexcept {
  after_.clear();
  for (const followers::place& p : s.after) after_.push_back(p.end);
  launch_behind(t, after_, {}, stream_behind(s));
}

void device_worker::launch_behind(task_record* t, std::span<const ticket> after, std::span<const event_ref> others,
                                  int stream) noexcept {
  claim(t);
  if (!t->sound()) return;
  launched l{t, nullptr, {}};
  bool begun = false;
  try {
    std::array<argument, arguments_most> arguments;
    launch_request what;
    t->work->describe(*t, what, arguments.data());
    what.task = t;
    what.after = after;
    what.after_others = others;
    l.sampled = to_sample(*t, what);
    what.timed = l.sampled != nullptr;
    l.stream = stream;
    mark_last(l.stream, t);
    tracks_.begins(l.stream, *t, 1, [&] { return home_.sampler().expected_time(*t, number_); });
    begun = true;
    will_charge(l, what);
    l.running = put(t, l.stream, what);
  } catch (...) {
    const std::exception_ptr why = std::current_exception();
    fail(t, with_name(*t, why));
    if (begun) tracks_.ends(t, true);
    if (is_loss(why)) found_loss_ = why;
    return;
  }
  --preparing_;
  home_.placement().launched_behind();
  has_begun(std::move(l));
}

// It is in a stream: others may come behind it. \pre its ticket is known.
void device_worker::gave(launched& l) noexcept {
  if (ahead_ == 0) return;
  ++given_;
  last_given_.resize(static_cast<std::size_t>(device_->streams()));
  last_given_[static_cast<std::size_t>(l.stream)] = given_;
  const auto one = [&](task_record* t) {
    const bool first = !(t->flags & task_record::given);
    t->flags |= task_record::given;
    if (!t->sound()) return; // what comes after it would not be done
    if (first) home_.copies().written_when_given(t);
    followers_.given(t, {l.stream, given_, l.running});
  };
  one(l.task);
  for (task_record* t : l.rest) one(t);
  l.expected = home_.sampler().expected_time(*l.task, number_).value_or(0);
}

// What came before it has failed, but it needs nothing of that.
void device_worker::launch_again(launched&& l) noexcept {
  const auto one = [&](task_record* t) {
    t->marks.fetch_or(task_record::repeated, std::memory_order_relaxed); // its end releases it
    followers_.ended(t);
    followed_again(t);
    tracks_.ends(t, true);
    if (!steps_.empty()) end_steps(t);
    ready_.push_back(t);
  };
  one(l.task);
  for (task_record* t : l.rest) one(t);
}

// The first of its stream, as far as it has been asked for, and what it follows has been completed.
bool device_worker::is_asked(const launched& l, std::uint64_t waiting_streams) const noexcept {
  if (ahead_ == 0) return true;
  // acquire: what it follows on other devices
  return !(waiting_streams & bit_of(l.stream)) && l.task->pending.load(std::memory_order_acquire) == 0;
}

// Behind one of its predecessors, if that is the last in its stream.
int device_worker::stream_behind(const followers::successor& s) noexcept {
  const followers::place* last = nullptr;
  for (const followers::place& p : s.after)
    if (last_given_[static_cast<std::size_t>(p.stream)] == p.number && (!last || p.number > last->number)) last = &p;
  return last ? last->stream : next_stream();
}

} // namespace tern::hetero::detail

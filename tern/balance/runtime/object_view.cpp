// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a policy sees of its rank's objects and does to them, and how workers get the next.
#include <tern/balance/runtime/balancer.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/message.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::balance::detail {
namespace {

constexpr double forgetting = 0.98;     // of the work by which the pace is known, with each invocation
constexpr std::uint32_t most_moves = 4; // of an object on which nothing has begun meanwhile

// Since it is last known what an object does, that is what it will.
template <std::size_t N> double expected(const std::array<float, N>& past, bool trend) noexcept {
  if (past[0] < 0) return 0;
  if (!trend || past[1] < 0 || past[2] < 0) return past[0];
  // The slope of a line through the three, but no more than doubling.
  return std::clamp(past[0] + (past[0] - past[2]) / 2, 0.0F, 2 * past[0]);
}

} // namespace

// What waits for workers --------------------------------------------------------------------------------------------

void balancer::ready(object_id object, double load, priority level, bool again) noexcept {
  const ready_object one{object, load, level};
  const int worker = scheduler::current() == &node_.fibers() ? slot_of(scheduler::current_worker()) : -1;
  bool taken = false;
  if (on_.load(std::memory_order_relaxed)) {
    const std::lock_guard hold(queue_guard_);
    if (again && policy_has_.contains(object)) return; // it decides what comes first
    try {
      taken = policy_ && policy_->push(worker, one);
    } catch (...) {
      fails_later(text_of(std::current_exception()));
    }
    if (taken) {
      policy_has_.insert(object);
      refused_.clear();
      policy_count_.store(policy_has_.size(), std::memory_order_relaxed);
      policy_ready_.store(policy_has_.size(), std::memory_order_seq_cst); // before `notify` looks which workers sleep
    }
  }
  if (!taken) {
    int wants = -1;
    if (places_.load(std::memory_order_relaxed)) {
      const std::lock_guard hold(guard_);
      if (const auto at = wants_.find(object.bits); at != wants_.end()) wants = at->second;
    }
    queue_->push(worker, one, wants);
  }
  if (!again) ready_.fetch_add(1, std::memory_order_relaxed);
  node_.fibers().notify();
  if (on_.load(std::memory_order_relaxed) && !period_set_.load(std::memory_order_relaxed)) arm_period();
}

bool balancer::produce(int worker) {
  for (bool in_vain = false;;) {
    object_id next = next_of_policy(slot_of(worker));
    const bool of_policy = static_cast<bool>(next);
    if (!next) next = queue_->pop(slot_of(worker));
    if (!next) {
      if (in_vain) look_for_idle(); // no other event may come to say so
      return false;
    }
    const std::uint32_t ends = ends_.load(std::memory_order_seq_cst);
    const auto found = objects_.begin_next(next);
    if (found == mobile::directory::beginning::unknown) {
      if (of_policy && is_too_strange(next)) return false; // so that this worker can come to it
      continue;
    }
    ready_.fetch_sub(1, std::memory_order_seq_cst);
    if (found == mobile::directory::beginning::begun) {
      // Another worker may have ended it already, and thought that one still waited. seq_cst, all:
      // here and in `ended` each changes one of the two numbers and then reads the other, and one
      // of them must see both changes.
      if (ends_.load(std::memory_order_seq_cst) != ends) look_for_idle();
      return true;
    }
    in_vain = true;
  }
}

// An object may have left since the policy got it; but not so many. \return true: the policy is to
// be ended.
bool balancer::is_too_strange(object_id object) {
  const std::lock_guard hold(queue_guard_); // to the end: the next policy is not to be blamed
  if (++strangers_ <= 1000 + 2 * policy_has_.size()) return false;
  strangers_ = 0;
  fails_later("it gives workers object " + mobile::to_string(object) + " again and again, which does not wait");
  return true;
}

// Of its own queue. If it keeps what it has, it is asked again when it has been called.
object_id balancer::next_of_policy(int worker) {
  if (policy_count_.load(std::memory_order_relaxed) == 0) return {};
  std::unique_lock hold(queue_guard_);
  const auto who = static_cast<std::size_t>(std::max(worker, -1) + 1); // 0: none of those that compute
  if (policy_has_.empty() || (who < refused_.size() && refused_[who])) return {};
  object_id next;
  try {
    if (policy_) next = policy_->pop(worker);
  } catch (...) {
    fails_later(text_of(std::current_exception()));
  }
  if (next) {
    if (policy_has_.erase(next) > 0) strangers_ = 0;
    policy_count_.store(policy_has_.size(), std::memory_order_relaxed);
    policy_ready_.store(policy_has_.size(), std::memory_order_seq_cst);
    return next;
  }
  if (refused_.size() <= who) refused_.resize(who + 1);
  refused_[who] = true;
  policy_ready_.store(0, std::memory_order_seq_cst); // no worker need stay awake for it
  hold.unlock();
  node_.fibers().notify(); // but another that sleeps may get what this one does not
  return {};
}

void balancer::left(object_id object, bool was_ready) noexcept {
  queue_->gone(object);
  if (was_ready) ready_.fetch_sub(1, std::memory_order_relaxed);
  if (places_.load(std::memory_order_relaxed) || keeps_history_.load(std::memory_order_relaxed)) {
    const std::lock_guard hold(guard_);
    wants_.erase(object.bits);     // was said of this rank's workers
    histories_.erase(object.bits); // has gone with it, if it was a policy that moved it
  }
  changed(object);
  look_for_idle(); // it may have been the last
}

void balancer::begun(object_id object, double load) noexcept {
  const int worker = scheduler::current() == &node_.fibers() ? slot_of(scheduler::current_worker()) : -1;
  const double since = now();
  {
    const std::lock_guard hold(guard_);
    runs_.push_back({object, worker, load, since});
  }
  running_.fetch_add(1, std::memory_order_relaxed); // a hint, for `has_takers`
  is_active(since);
  idle_told_.store(false, std::memory_order_relaxed);
  if (worker >= 0) queue_->begun(worker, load);
  if (!keeps_history_.load(std::memory_order_relaxed)) return;
  const std::lock_guard hold(guard_);
  const auto at = histories_.find(object.bits);
  if (at == histories_.end()) return;
  at->second.moves = 0;
  if (!phased_) histories_.erase(at); // what else it knows is of phases
}

void balancer::ended(object_id object, const mobile::type_record& type, const void* instance, double load,
                     double seconds, bool expected) noexcept {
  if (recorder_) {
    const bool on_worker = scheduler::current() == &node_.fibers();
    recorder_->ran(object, type, instance, on_worker ? slot_of(scheduler::current_worker()) : -1, seconds);
  }
  const double at = now();
  is_active(at);
  if (expected)
    running_.fetch_sub(1, std::memory_order_relaxed);
  else
    idle_told_.store(false, std::memory_order_relaxed); // it has begun, too
  ends_.fetch_add(1, std::memory_order_seq_cst);
  look_for_idle();
  bool turns = false;
  {
    const std::lock_guard hold(guard_);
    if (expected) forget_run(object, load);
    note_work(object, load, seconds);
    turns = end_window(at, seconds);
  }
  if (turns) tell_whether_it_acts();
}

// Under the lock, as the next.
void balancer::note_work(object_id object, double load, double seconds) {
  // Of what was done lately, so much time for so much load.
  done_load_ = forgetting * done_load_ + load;
  done_seconds_ = forgetting * done_seconds_ + seconds;
  if (done_load_ > 0 && done_seconds_ > 0) pace_.store(done_seconds_ / done_load_, std::memory_order_relaxed);
  if (!phased_) return;
  carried& h = histories_[object.bits];
  h.id = object;
  h.seconds += static_cast<float>(seconds);
}

void balancer::forget_run(object_id object, double load) noexcept {
  const int worker = scheduler::current() == &node_.fibers() ? slot_of(scheduler::current_worker()) : -1;
  auto run_of = std::find_if(runs_.begin(), runs_.end(),
                             [&](const run& r) { return r.object == object && r.load == load && r.worker == worker; });
  if (run_of == runs_.end()) // it has gone on on another worker
    run_of = std::find_if(runs_.begin(), runs_.end(), [&](const run& r) { return r.object == object; });
  if (run_of != runs_.end()) runs_.erase(run_of);
}

void balancer::changed(object_id object) noexcept {
  round_load_.store(-1, std::memory_order_relaxed);
  round_device_load_.store(-1, std::memory_order_relaxed);
  if (on_.load(std::memory_order_relaxed) && acts()) happen({.is = event::kind::notify, .object = object});
}

// What a policy sees ------------------------------------------------------------------------------------------------

double balancer::load() const noexcept {
  if (!in_round_.load(std::memory_order_relaxed)) {
    const double at = now(), each = pace();
    double left = 0, all = 0;
    const std::lock_guard hold(guard_);
    for (const run& r : runs_) {
      all += r.load;
      left += std::max(0.0, r.load - (at - r.since) / each);
    }
    return std::max(0.0, objects_.load() - all) + left;
  }
  double known = round_load_.load(std::memory_order_relaxed);
  if (known >= 0) return known;
  known = 0;
  for (const object_info& o : objects()) known += o.load;
  round_load_.store(known, std::memory_order_relaxed);
  return known;
}

double balancer::waiting() const noexcept {
  if (in_round_.load(std::memory_order_relaxed)) return load();
  double all = 0;
  const std::lock_guard hold(guard_);
  for (const run& r : runs_) all += r.load;
  return std::max(0.0, objects_.load() - all);
}

std::vector<double> balancer::running() const {
  std::vector<double> left(static_cast<std::size_t>(workers()), 0.0);
  const double at = now(), each = pace();
  const std::lock_guard hold(guard_);
  for (const run& r : runs_)
    if (const auto k = static_cast<std::size_t>(r.worker); k < left.size())
      left[k] += std::max(0.0, r.load - (at - r.since) / each);
  return left;
}

std::size_t balancer::ready() const noexcept {
  if (in_round_.load(std::memory_order_relaxed)) return seen_objects().size();
  return static_cast<std::size_t>(std::max<std::int64_t>(0, ready_.load(std::memory_order_relaxed)));
}

std::vector<object_info> balancer::objects() const {
  const std::vector<mobile::object_load> all = seen_objects();
  const bool round = in_round_.load(std::memory_order_relaxed);
  std::vector<object_info> list;
  list.reserve(all.size());
  const double moment = now(), device_pace = this->device_pace();
  {
    const std::lock_guard hold(guard_);
    for (const mobile::object_load& o : all) {
      object_info one{.id = o.id,
                      .load = o.load,
                      .device = o.device * o.pending + o.draining,
                      .pending = o.pending,
                      .movable = o.idle,
                      .draining = static_cast<float>(o.draining * device_pace)};
      for (const run& r : runs_)
        if (r.object == o.id) one.ran = moment - r.since;
      if (const auto at = histories_.find(o.id.bits); at != histories_.end()) {
        if (round) {
          one.load = expected(at->second.past, trend_);
          one.device = expected(at->second.past_device, trend_);
        }
        one.movable = one.movable && at->second.moves < most_moves;
      } else if (round) {
        one.load = one.device = 0;
      }
      if (one.movable && std::binary_search(unmovable_.begin(), unmovable_.end(), o.id)) one.movable = false;
      list.push_back(one);
    }
  }
  std::sort(list.begin(), list.end(), [](const object_info& a, const object_info& b) {
    return a.load != b.load ? a.load > b.load : a.id < b.id;
  });
  return list;
}

std::vector<contact> balancer::contacts(object_id object) const {
  const auto first = std::lower_bound(contacts_.begin(), contacts_.end(), object,
                                      [](const auto& one, object_id id) { return one.first < id; });
  std::vector<contact> list;
  for (auto at = first; at != contacts_.end() && at->first == object; ++at) list.push_back(at->second);
  return list;
}

/// Is told what has become of an object that was to leave.
class balancer::departure final : public net::pending_reply {
public:
  departure(balancer& b, const carried& w, int to, std::function<void(bool)> f)
      : of_(b), with_(w), to_(to), generation_(b.generation_.load(std::memory_order_relaxed)), done_(std::move(f)) {}
  void value(std::span<const std::byte>) override { of_.departed(with_, to_, generation_, true, std::move(done_), {}); }
  void failed(std::exception_ptr e) override {
    of_.departed(with_, to_, generation_, false, std::move(done_), text_of(e));
  }

private:
  balancer& of_;
  const carried with_;
  const int to_;
  const std::uint32_t generation_; ///< of the policy that wanted it
  std::function<void(bool)> done_;
};

// What it does --------------------------------------------------------------------------------------------------------

void balancer::place(object_id object, int worker) {
  if (worker >= workers())
    throw error(errc::invalid_argument,
                "object " + mobile::to_string(object) + " should run on worker " + std::to_string(worker) + " of " +
                    std::to_string(workers()),
                "workers are numbered from 0; -1 is any");
  const std::lock_guard hold(guard_);
  places_.store(true, std::memory_order_relaxed);
  if (worker < 0)
    wants_.erase(object.bits);
  else
    wants_[object.bits] = worker;
}

void balancer::move(object_id object, int to, std::function<void(bool)> done) {
  to = job_rank(to);
  carried with;
  bool may = to != node_.rank() && enabled_ && !net::detail::abandoned(node_);
  {
    const std::lock_guard hold(guard_);
    if (const auto at = histories_.find(object.bits); at != histories_.end()) with = at->second;
    may = may && with.moves < most_moves && !std::binary_search(unmovable_.begin(), unmovable_.end(), object);
  }
  with.id = object;
  const bool back = with.from == to && with.moves > 0;
  const std::uint32_t moves = with.moves + 1;
  auto who = std::make_unique<departure>(*this, with, to, done);
  const tern::detail::causal_scope nobodys(nullptr);
  if (may) {
    with.moves = moves;
    with.from = node_.rank();
    const auto says_goodbye = [&] { // before it, so that it is known there when it comes
      send_bytes(to, message_head::kind::history, std::as_bytes(std::span(&with, 1)));
      const std::lock_guard hold(guard_);
      histories_.erase(object.bits);
      counted_.most_moves = std::max(counted_.most_moves, moves);
      if (back) ++counted_.returns;
    };
    if (objects_.send_away(object, to, net::reply_ref(who.release()), says_goodbye))
      return gives_.store(true, std::memory_order_relaxed);
  }
  {
    const std::lock_guard hold(guard_);
    ++counted_.stayed;
  }
  if (done)
    happen({.is = event::kind::done,
            .call = [done = std::move(done)] { done(false); },
            .generation = generation_.load(std::memory_order_relaxed)});
}

void balancer::departed(const carried& with, int to, std::uint32_t generation, bool there,
                        std::function<void(bool)> done, const std::string& why) {
  const object_id object = with.id;
  if (there && recorder_) recorder_->moved(object, to);
  is_active(now());
  {
    const std::lock_guard hold(guard_);
    there ? ++counted_.moves : ++counted_.stayed;
    window_.went += there;
    if (!there) {
      histories_[object.bits] = with;
      // Whatever it was will be the same next time, or at least in this phase.
      const auto at = std::lower_bound(unmovable_.begin(), unmovable_.end(), object);
      if (at == unmovable_.end() || *at != object) unmovable_.insert(at, object);
    }
  }
  if (!there)
    log_warning("object " + mobile::to_string(object) + " stays on rank " + std::to_string(node_.rank()) +
                ", as it cannot be moved: " + why);
  if (done)
    happen({.is = event::kind::done,
            .call = [done = std::move(done), there] { done(there); },
            .generation = generation,
            .counted = true});
}

} // namespace tern::balance::detail

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which invocations may run on an object, and when.
#include <tern/mobile/access/admission.hpp>

#include <utility>

#include <tern/mobile/entry/object_trace.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/handler_costs.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/net/message.hpp>
#include <tern/net/node.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile::detail {

admission::admission(rank_objects& objects, object_loads& loads, handler_costs& costs, debugging debug) noexcept
    : objects_(objects), node_(objects.node()), rank_(objects.rank()), debug_(debug), loads_(loads), costs_(costs) {}

inline bool admission::defers(const invocable& what) const noexcept {
  constexpr unsigned both = rank_objects::to_balance | rank_objects::to_defer;
  return (objects_.attends() & both) == both && what.run;
}
expected admission::expects(const net::wire_header& header) const noexcept {
  return (header.flags & flag_work) != 0 ? expected::takes_long : costs_.expects(header.handler);
}
inline bool admission::always_begins_later(const invocable& what, const net::wire_header& header) const noexcept {
  return defers(what) && expects(header) == expected::takes_long;
}
inline bool admission::begins_later(const entry& e, const invocable& what,
                                    const net::wire_header& header) const noexcept {
  return defers(what) && is_expected_long(e, header);
}

// Under the shard's lock.
bool admission::is_expected_long(const entry& e, const net::wire_header& header) const noexcept {
  switch (expects(header)) {
  case expected::quick:
    return false;
  case expected::takes_long:
    return true;
  case expected::by_object:
    break;
  }
  const auto* const b = objects_.balancer();
  return costs_.waits(header.handler, *e.type, e.known().rhythm.place(), b && b->has_takers());
}

// Is what lies behind an invocation in its object's mailbox to be delivered while it runs? Others
// that share run beside it. What waits is counted, if that is of interest.
inline bool admission::lets_mail_in(const invocable& what, const net::wire_header& header) const noexcept {
  if (what.what == action::share) return true;
  const unsigned attended = objects_.attends();
  return (attended & rank_objects::to_loads) != 0 &&
         !((attended & rank_objects::to_balance) != 0 && expects(header) == expected::quick);
}

// The frequent case in one go: the object is here, nothing waits for it, and what runs lets this
// run too.
[[gnu::always_inline]] inline void* admission::admit_at_once(const invocable& what, const net::wire_header& header,
                                                             const address& to, int source, entry*& e) {
  shard& s = objects_.shard_of(to.object);
  const std::lock_guard hold(s.lock);
  e = s.entries.find(to.object);
  if (!e || to.stream != address::no_stream || e->own_open || to.hops() != 0 || e->starting || e->not_begun > 0 ||
      !e->waiting.empty() || !e->admits(what.what)) [[unlikely]]
    return nullptr;
  void* const object =
      !what.type || e->type->self == what.type ? e->object : cast_object(*e->type, e->object, *what.type());
  const unsigned attended = objects_.attends();
  if (!object || (attended != 0 && begins_later(*e, what, header))) [[unlikely]]
    return nullptr;
  if (source == rank_ && e->under_way > 0) --e->under_way;
  e->admit(what.what);
  e->runs += what.what != action::destroy;
  if ((attended & rank_objects::to_loads) && !(attended & rank_objects::to_balance))
      [[unlikely]] // else it is weighed when it turns out to be long
    loads_.weigh_arrival(*e);
  return object;
}

held_access admission::try_hold(object_id id, const type_record& wanted, action how) {
  objects_.check(id);
  tern::detail::activations::settle();
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  entry* const e = s.entries.find(id);
  // After what this rank has sent before.
  if (!e || e->under_way > 0 || e->not_begun > 0 || e->own_open || e->starting || !e->waiting.empty() ||
      !e->admits(how))
    return {};
  void* const object = cast_object(*e->type, e->object, wanted);
  if (object) e->admit(how);
  return {e, object};
}

void admission::end_hold(const held_access& h, action how) {
  finished(static_cast<entry&>(*h.of), how != action::share, true);
}

// May another one run under the access that the last one had?
bool admission::admits_next(entry_front& front, const address& to, int source) {
  entry& e = static_cast<entry&>(front);
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  if (to.stream != address::no_stream || e.own_open || to.hops() != 0 || e.not_begun > 0 || !e.waiting.empty() ||
      e.at != entry::place::here || e.coming > 0 || e.may_leave() || (e.travel && !e.travel->resuming.empty()))
      [[unlikely]]
    return false;
  if (source == rank_ && e.under_way > 0) --e.under_way;
  ++e.runs;
  return true;
}

// The frequent case of `finished` in one go: nothing waits, and nothing is examined.
inline bool admission::finish_at_once(entry& e, bool exclusive) noexcept {
  if (objects_.attends() != 0) [[unlikely]]
    return false;
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  if (!e.waiting.empty() || e.travel) [[unlikely]]
    return false;
  if (exclusive)
    e.exclusive = false;
  else
    --e.sharing;
  return true;
}

void* invocation_series::admit_anew(const address& to, const net::wire_header& header) {
  end();
  entry* e = nullptr;
  check_address(to, admission_.node_.size(), admission_.objects_.homes().count());
  if (admission_.debug_ == debugging::none && admission_.takes_series(header))
    object_ = admission_.admit_at_once(what_, header, to, source_, e);
  of_ = object_ ? e : nullptr;
  lock_ = &admission_.objects_.shard_of(to.object).lock;
  return object_;
}

void invocation_series::end() {
  const bool exclusive = what_.what != action::share;
  auto* const e = static_cast<entry*>(of_);
  if (object_ && !admission_.finish_at_once(*e, exclusive)) [[unlikely]]
    admission_.finish_examined(*e, exclusive, false);
  of_ = nullptr;
  object_ = nullptr;
}

namespace {

std::unique_ptr<invocation> kept(const invocable& what, int source, const net::wire_header& header, const address& to,
                                 net::payload& message) {
  auto one = std::make_unique<invocation>();
  one->what = &what;
  one->source = source;
  one->header = header;
  one->to = to;
  message.settle();
  one->message = std::move(message);
  return one;
}

} // namespace

// \return whether its load was watched.
bool admission::run(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                    const net::wire_header& header, net::payload& message, bool deferred) {
  const running_invocation frame(*this, e, what.what, to.origin());
  if (trace::built && (header.flags & net::flag_traced) != 0) [[unlikely]]
    trace_object(e.id, *e.type);
  if (!objects_.watches()) [[likely]] {
    what.run(here, object, to, header, message);
    return false;
  }
  if ((objects_.attends() & rank_objects::to_balance) && !deferred) {
    const expected how = expects(header);
    if (how == expected::quick && !costs_.measures_next()) {
      what.run(here, object, to, header, message);
      return false;
    }
    if (how != expected::takes_long) return run_measured(here, what, e, object, to, header, message);
  }
  run_watched(here, what, e, object, to, header, message);
  return true;
}

void admission::arrive(net::node& here, const invocable& what, int source, const net::wire_header& header,
                       net::payload& message, bool runs_here) {
  const address to = read_address(message.bytes);
  check_address(to, here.size(), objects_.homes().count());
  entry* e = nullptr;
  const bool at_once = what.run ? debug_ != debugging::reserialize && !always_begins_later(what, header)
                                : runs_here && what.what == action::destroy;
  void* const object = at_once ? admit_at_once(what, header, to, source, e) : nullptr;
  if (object) [[likely]] {
    if (!what.run) return objects_.services().end_object(*e, to.origin(), header.reply);
    if (!runs_here) {
      auto one = kept(what, source, header, to, message);
      {
        const std::lock_guard hold(objects_.shard_of(to.object).lock);
        e->will_begin(*one);
      }
      return start(*e, std::move(one));
    }
    if (!node_.one_thread() && lets_mail_in(what, header)) tern::detail::activations::give_up();
    const bool watched = run(here, what, *e, object, to, header, message, false);
    return finished(*e, what.what != action::share, watched);
  }
  objects_.services().arrive_late(kept(what, source, header, to, message), runs_here);
}

// It cannot run now.
void admission::enqueue(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  // The object's end waits for one that has released its access, which may wait for what it sends
  // to the object now.
  if (invocation* const end = e.unfinished > 0 && !one->ends() ? e.waiting.end() : nullptr) {
    if (end->header.reply != 0) // its caller waits for it
      return then.refusals.push(std::move(one));
    e.waiting.insert(end->before, std::move(one)); // only its own invocations refer to it
    if (objects_.watches()) loads_.weigh_arrival(e);
    return admit_waiting(e, then);
  }
  e.waiting.push_by_priority(std::move(one));
  if (objects_.watches()) loads_.weigh_arrival(e);
  then.changed = e.id;
  admit_waiting(e, then); // also if it was to begin later and need not any more: balancing may have ended just now
}

void admission::accept(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  if (e.starting || !e.waiting.empty() || !e.admits(one->what->what) || begins_later(e, *one->what, one->header))
    return enqueue(e, std::move(one), then);
  if (one->claims()) return grant(e, std::move(one), then);
  e.admit(*one);
  e.starting = true;
  then.start.push(std::move(one));
  if (objects_.watches()) loads_.weigh_arrival(e);
}

void admission::admit_waiting(entry& e, deferred_actions& then) {
  if (objects_.abandoned()) [[unlikely]]
    return give_up(e, then);
  if (e.at == entry::place::stored && (!e.waiting.empty() || e.has_moves())) {
    e.at = entry::place::loading;
    then.loads.push_back(&e);
    return;
  }
  if (e.starting || e.at != entry::place::here || e.coming > 0) return;
  if (e.travel)
    while (tern::detail::waiter* const w = e.travel->resuming.pop_if(
               [&](const tern::detail::waiter& first) { return e.compatible(static_cast<action>(first.data)); })) {
      e.admit(static_cast<action>(w->data));
      then.wake.push(*w);
    }
  if (e.travel && e.unfinished == 0) then.done.append(std::move(e.travel->settling));
  if (e.travel && e.keeps == 0)
    while (tern::detail::waiter* const w = e.travel->drained.pop()) then.wake.push(*w);
  if (e.travel && e.travel->carry) {
    if (!e.confirmed || e.keeps > 0) return;
    e.at = entry::place::leaving;
    then.request = std::move(e.travel->carry);
    return;
  }
  if (e.may_leave()) {
    if (e.running() || e.keeps > 0) return;
    e.at = entry::place::leaving;
    then.request = e.travel->moves.pop();
    return;
  }
  while (!e.waiting.empty() && e.admits(e.waiting.front().what->what)) {
    if (begins_later(e, *e.waiting.front().what, e.waiting.front().header)) return offer(e, then);
    auto one = e.waiting.pop();
    if (one->claims()) {
      grant(e, std::move(one), then);
      continue;
    }
    e.admit(*one);
    then.start.push(std::move(one));
    e.starting = true;
  }
}

void admission::offer(entry& e, deferred_actions& then) noexcept {
  const priority level = e.waiting.front().level();
  const bool again = std::exchange(e.offered, true);
  if (again && level >= e.offered_level) return;
  e.offered_level = level;
  then.ready = e.id;
  then.ready_load = e.known().each;
  then.ready_level = level;
  then.ready_again = again;
}

beginning admission::begin_next(object_id id) {
  deferred_actions then;
  {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(id);
    if (!e || !e->offered) return beginning::unknown;
    e->offered = false;
    // What keeps it from beginning offers it again when that is over.
    if (e->starting || e->waiting.empty() || !e->admits(e->waiting.front().what->what)) return beginning::not_now;
    then.of = e;
    auto one = e->waiting.pop();
    one->deferred = true;
    e->admit(*one);
    e->starting = true;
    then.start.push(std::move(one));
  }
  objects_.perform(then);
  return beginning::begun;
}

void admission::release(entry& e, action how) {
  deferred_actions then(&e);
  {
    const std::lock_guard hold(objects_.shard_of(e.id).lock);
    ++e.unfinished;
    if (how == action::share)
      --e.sharing;
    else
      e.exclusive = false;
    if (invocation* const end = e.waiting.first_end()) refuse_behind(e, *end, then);
    admit_waiting(e, then);
  }
  objects_.perform(then);
}

// The object's end waits now for one that has released its access. What is behind the end must not
// wait for that: it may be a claim whose other objects that invocation needs.
void admission::refuse_behind(entry& e, invocation& end, deferred_actions& then) noexcept {
  invocation_list late = e.waiting.take_behind(&end);
  while (!late.empty()) {
    auto one = late.pop();
    if (one->ends())
      e.waiting.push(std::move(one));
    else if (end.header.reply != 0) // as in `enqueue`
      then.refusals.push(std::move(one));
    else
      e.waiting.insert(end.before, std::move(one));
  }
}

// What has the access may never have begun, or be a claim of a rank that has died.
void admission::give_up(entry& e, deferred_actions& then) {
  then.done.append(std::move(e.waiting));
  if (!e.travel) return;
  travel_state& t = *e.travel;
  while (tern::detail::waiter* const w = t.resuming.pop()) {
    e.admit(static_cast<action>(w->data));
    then.wake.push(*w);
  }
  then.done.append(std::move(t.held));
  then.done.append(std::move(t.after_close));
  then.done.append(std::move(t.moves));
  then.done.append(std::move(t.settling));
  if (t.carry) then.done.push(std::move(t.carry));
  for (auto& [key, one] : t.early) then.done.push(std::move(one));
  t.early.clear();
  if (t.returns) {
    auto one = std::make_unique<invocation>();
    one->what = &close_message; // any: it is only counted
    one->header = t.returns->header;
    one->on = std::move(t.returns->on);
    then.done.push(std::move(one));
    t.returns.reset();
  }
}

void admission::abandon() {
  for (shard& s : objects_.shards()) {
    deferred_actions then;
    {
      const std::lock_guard hold(s.lock);
      for (std::size_t i = 0; i < s.entries.capacity(); ++i)
        if (entry* const e = s.entries.at(i); e && e->at != entry::place::gone) give_up(*e, then);
    }
    objects_.perform(then);
  }
}

void admission::regain(entry& e, action how) noexcept {
  auto& lock = objects_.shard_of(e.id).lock;
  lock.lock();
  if (objects_.abandoned()) [[unlikely]] { // as above
    e.admit(how);
  } else if (!e.starting && (!e.travel || e.travel->resuming.empty()) && e.compatible(how)) {
    e.admit(how);
  } else {
    tern::detail::waiter self({tern::detail::wait_kind::other, &e});
    self.data = static_cast<std::uintptr_t>(how);
    e.travels().resuming.push(self);
    // The fiber that wakes it has admitted it.
    self.wait([](void* l) { static_cast<tern::detail::owner_lock*>(l)->unlock(); }, &lock);
    lock.lock();
  }
  --e.unfinished;
  lock.unlock();
}

void admission::finished(entry& e, bool exclusive, bool watched) {
  if (!finish_at_once(e, exclusive)) [[unlikely]]
    finish_examined(e, exclusive, watched);
}

void admission::finish_examined(entry& e, bool exclusive, bool watched) {
  const unsigned now = objects_.attends(),
                 what = watched ? now
                                : now & ~unsigned{rank_objects::to_loads | rank_objects::to_balance |
                                                  rank_objects::to_contacts | rank_objects::to_defer};
  std::uint64_t bytes = 0;
  if (what != 0) [[unlikely]] {
    if (what & rank_objects::to_loads) loads_.weigh(e, 1);
    if ((what & rank_objects::to_memory) && exclusive) bytes = packed_bytes(*e.type, e.object);
  }
  std::unique_lock hold(objects_.shard_of(e.id).lock);
  if (what != now && e.known().load != 0) [[unlikely]] {
    hold.unlock();
    loads_.weigh(e, 1);
    hold.lock();
  }
  if (exclusive)
    e.exclusive = false;
  else
    --e.sharing;
  if (!e.waiting.empty() || e.travel || what != 0) [[unlikely]]
    finished_late(e, exclusive, watched, bytes, std::move(hold));
}

std::uint64_t admission::packed_bytes(const type_record& type, const void* object) noexcept {
  try {
    return type.bytes ? type.bytes(object) : 0;
  } catch (...) { // a request to move it tells why
    return 0;
  }
}

// As soon as the lock is released, the object may end.
void admission::finished_late(entry& e, bool exclusive, bool watched, std::uint64_t bytes,
                              std::unique_lock<tern::detail::owner_lock> hold) {
  const unsigned what = objects_.attends();
  deferred_actions then(&e);
  if (watched) then.changed = e.id;
  if (what & rank_objects::to_memory) {
    e.used = true;
    if (exclusive) objects_.count_bytes(e, bytes);
  }
  if (what & rank_objects::to_debug_moves) debug_move(e);
  admit_waiting(e, then);
  e.settle();
  const bool may_go = e.is_idle();
  hold.unlock();
  objects_.perform(then);
  if (what & rank_objects::to_memory) objects_.services().memory_changed(may_go);
}

} // namespace tern::mobile::detail

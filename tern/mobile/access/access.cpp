// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that are here: who may run on one, and when.
#include <tern/mobile/directory.hpp>

#include <mutex>

#include <tern/base/error.hpp>
#include <tern/mobile/access/deferred_actions.hpp>
#include <tern/mobile/disk/pager.hpp>
#include <tern/net/message.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile {

// The frequent case in one go: the object is here, nothing waits for it, and what runs lets this run too.
inline void* directory::admit_at_once(const invocable& what, const address& to, int source, entry*& e) {
  shard& s = shard_of(to.object);
  const std::lock_guard hold(s.lock);
  e = s.entries.find(to.object);
  if (!e || to.stream != address::no_stream || e->own_open || to.hops() != 0 || e->starting || e->not_begun > 0 ||
      !e->waiting.empty() || !e->admits(what.what)) [[unlikely]]
    return nullptr;
  void* const object =
      !what.type || e->type->self == what.type ? e->object : cast_object(*e->type, e->object, *what.type());
  if (!object) [[unlikely]]
    return nullptr;
  if (source == rank_ && e->under_way > 0) --e->under_way;
  e->admit(what.what);
  e->runs += what.what != action::destroy;
  if (watches() && !(attends() & to_balance)) [[unlikely]] // else it is quick, and not weighed
    weigh_arrival(*e);
  return object;
}

directory::held directory::try_hold(object_id id, const type_record& wanted, action how) {
  check(id);
  shard& s = shard_of(id);
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

// May another one run under the access that the last one had?
bool directory::admits_next(entry& e, const address& to, int source) {
  const std::lock_guard hold(shard_of(e.id).lock);
  if (to.stream != address::no_stream || e.own_open || to.hops() != 0 || e.not_begun > 0 || !e.waiting.empty() ||
      e.at != entry::place::here || e.coming > 0 || e.may_leave() || (e.travel && !e.travel->resuming.empty()))
      [[unlikely]]
    return false;
  if (source == rank_ && e.under_way > 0) --e.under_way;
  ++e.runs;
  return true;
}

void* directory::series::admit_anew(const address& to, const net::wire_header& header) {
  end();
  detail::check_address(to, directory_.node_.size());
  if (directory_.debug_ == debugging::none && directory_.takes_series(header))
    object_ = directory_.admit_at_once(what_, to, source_, of_);
  if (!object_) of_ = nullptr;
  return object_;
}

void directory::series::end() {
  if (object_) directory_.finished(directory_.node_, *of_, what_.what != action::share, false);
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

void directory::arrive(net::node& here, const invocable& what, int source, const net::wire_header& header,
                       net::payload& message, bool runs_here) {
  const address to = detail::read_address(message.bytes);
  detail::check_address(to, here.size());
  entry* e = nullptr;
  const bool at_once = what.run ? debug_ != debugging::reserialize && !begins_later(what, header)
                                : runs_here && what.what == action::destroy;
  void* const object = at_once ? admit_at_once(what, to, source, e) : nullptr;
  if (object) [[likely]] {
    if (!what.run) return end_object(here, *e, to.origin(), header.reply);
    if (!runs_here) {
      auto one = kept(what, source, header, to, message);
      {
        const std::lock_guard hold(shard_of(to.object).lock);
        e->will_begin(*one);
      }
      return start(here, *e, std::move(one));
    }
    const bool watched = run(here, what, *e, object, to, header, message);
    return finished(here, *e, what.what != action::share, watched);
  }
  arrive_late(here, kept(what, source, header, to, message), runs_here);
}

void directory::arrive_late(net::node& here, std::unique_ptr<invocation> one, bool runs_here) {
  one->on = here.hold_account();
  if (runs_here) here.parked(one->header);
  todo then;
  {
    shard& s = shard_of(one->to.object);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(one->to.object);
    if (e && e->at != entry::place::gone) {
      if (one->to.stream == address::no_stream && one->source == rank_ && e->under_way > 0) --e->under_way;
      then.of = e;
      take_in(*e, std::move(one), then);
    }
  }
  if (one) return lost(here, std::move(one));
  act(here, then);
}

// It cannot run now.
void directory::put_behind(entry& e, std::unique_ptr<invocation> one, todo& then) {
  // The object's end waits for one that has released its access, which may wait for what it sends to the object now.
  if (invocation* const end = e.unfinished > 0 && !one->ends() ? e.waiting.end() : nullptr) {
    if (end->header.reply != 0) // somebody has asked for it
      return then.refusals.push(std::move(one));
    e.waiting.insert(end->before, std::move(one)); // nobody refers to it any more but itself
    if (watches()) weigh_arrival(e);
    return pump(e, then);
  }
  e.waiting.push_by_priority(std::move(one));
  if (watches()) weigh_arrival(e);
  then.changed = e.id;
  pump(e, then); // also if it was to begin later and need not any more: balancing may have ended just now
}

// In the order in which it is to run.
void directory::accept(entry& e, std::unique_ptr<invocation> one, todo& then) {
  switch (one->what->what) {
  case action::share:
  case action::exclude:
  case action::destroy:
    if (!e.starting && e.waiting.empty() && e.admits(one->what->what) && !begins_later(*one->what, one->header)) {
      e.admit(*one);
      e.starting = true;
      then.start.push(std::move(one));
      if (watches()) weigh_arrival(e);
    } else {
      put_behind(e, std::move(one), then);
    }
    return;
  case action::migrate:
  case action::put_out:
    e.travels().moves.push(std::move(one));
    return pump(e, then);
  case action::pin:
  case action::unpin:
    if (one->what->what == action::pin)
      ++e.pins;
    else if (e.pins > 0)
      --e.pins;
    then.done.push(std::move(one));
    return;
  case action::share_out:
    e.extra().credit += detail::credit_in(*one);
    then.done.push(std::move(one));
    return;
  case action::give_back: {
    const std::uint64_t back = detail::credit_in(*one);
    if (back > e.known().credit)
      throw error(errc::invalid_data,
                  "more references to object " + to_string(e.id) + " were given back than there are");
    e.extra().credit -= back;
    if (e.extras->credit > 0) {
      then.done.push(std::move(one));
      return;
    }
    detail::make_destroy(*one); // all who had one have sent what they had to send
    return accept(e, std::move(one), then);
  }
  case action::open: {
    const int from = one->to.origin();
    then.done.push(std::move(one));
    return open_stream(e, from, then);
  }
  case action::close: {
    const int from = one->to.origin();
    std::erase_if(e.travels().streams, [&](const stream_state& s) { return s.rank == from; });
    std::erase(e.travel->told, from); // it forgets
    e.travels().closed.push_back(from);
    if (e.confirmed) tell_closed(e, then);
    then.done.push(std::move(one));
    return;
  }
  case action::skip:
    then.done.push(std::move(one));
    return;
  }
}

// Whatever may go on now.
void directory::pump(entry& e, todo& then) {
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
  if (e.may_leave()) {
    if (e.running()) return;
    e.at = entry::place::leaving;
    then.request = e.travel->moves.pop();
    return;
  }
  while (!e.waiting.empty() && e.admits(e.waiting.front().what->what)) {
    if (begins_later(*e.waiting.front().what, e.waiting.front().header)) return offer(e, then);
    auto one = e.waiting.pop();
    e.admit(*one);
    then.start.push(std::move(one));
    e.starting = true;
  }
}

void directory::act(net::node& here, todo& then) {
  for (auto& [where, what] : then.forwards) detail::forward(here, where, std::move(what));
  if (const object_id id = std::exchange(then.left, {})) forget_left(id);
  while (tern::detail::waiter* const w = then.wake.pop()) w->wake();
  for (entry* const e : then.loads) pager_->want(*e);
  if (const object_id id = std::exchange(then.ready, {}))
    told()->ready(id, then.ready_load, then.ready_level, then.ready_again);
  if (const object_id id = std::exchange(then.changed, {}))
    if (balancer* const b = told()) b->changed(id);
  for (const object_id id : then.opens) detail::post_open(here, id);
  for (const auto& [where, to] : then.closes) detail::post_close(here, where, to);
  for (const auto& [rank, n] : then.notes) detail::post_note(here, rank, n);
  while (!then.done.empty()) {
    const auto one = then.done.pop();
    if (one->header.reply) {
      const tern::detail::causal_scope in(one->on.get());
      net::detail::post_answer(here, one->to.origin(), one->header.reply);
    }
    one->on.reset();
    here.message_done(one->header);
  }
  while (!then.refusals.empty()) {
    const auto one = then.refusals.pop();
    const tern::detail::held_context on = std::move(one->on);
    const tern::detail::causal_scope in(on.get());
    const std::string type = one->what->type ? one->what->type()->name : "";
    answer(here, *one,
           error(errc::not_found, missing(one->to.object, type), "do not use pointers to destroyed objects"));
    here.refused(one->source, one->header, one->what->name());
  }
  if (then.request) {
    auto* const e = then.of;
    const net::wire_header header = then.request->header;
    const int source = then.request->source;
    const tern::detail::causal_scope in(then.request->on.get());
    const std::string& name = then.request->what->name();
    here.run_service(
        [this, &here, e, request = std::move(then.request)]() mutable { depart(here, *e, std::move(request)); }, source,
        header, name);
  }
  // None of them where messages arrive: while one waits, others that it was admitted with must begin.
  if (!then.start.empty()) here.start_none_at_once();
  while (!then.start.empty()) {
    entry& e = *then.of;
    while (!then.start.empty()) {
      auto one = then.start.pop();
      const tern::detail::held_context on = std::move(one->on); // not on that of who has made room
      const tern::detail::causal_scope in(on.get());
      start(here, e, std::move(one));
    }
    todo more(&e);
    {
      shard& s = shard_of(e.id);
      const std::lock_guard hold(s.lock);
      e.starting = false;
      if (e.at == entry::place::gone)
        delete &e; // no longer in the table
      else
        pump(e, more);
    }
    then = std::move(more);
    if (then.request || !then.wake.empty() || then.ready) return act(here, then);
  }
}

void directory::start(net::node& here, entry& e, std::unique_ptr<invocation> one) noexcept {
  const std::string& name = one->what->name();
  const net::wire_header header = one->header;
  const int source = one->source;
  try {
    here.run_handler(
        [this, &here, &e, one = std::move(one)]() mutable {
          {
            const std::lock_guard hold(shard_of(e.id).lock);
            --e.not_begun;
          }
          if (one->what->what == action::destroy) return end_object(here, e, one->to.origin(), one->header.reply);
          const bool exclusive = one->what->what != action::share;
          const type_record& wanted = *one->what->type();
          bool watched = true;
          if (exclusive && debug_ == debugging::reserialize && e.unfinished == 0 && !reserialize(here, e, *one))
            ;
          else if (void* const object = cast_object(*e.type, e.object, wanted))
            watched = run(here, *one->what, e, object, one->to, one->header, one->message);
          else
            answer(here, *one,
                   error(errc::not_found,
                         "object " + to_string(e.id) + " is a " + e.type->name + ", not a " + wanted.name));
          one.reset(); // what it holds goes before the next one sees the object
          finished(here, e, exclusive, watched);
        },
        source, header, name);
  } catch (const std::exception& x) { // memory has run out: the object would stay locked for ever
    here.fatal("cannot start '" + name + "': " + x.what());
  }
}

// \return whether its load was watched.
bool directory::run(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                    const net::wire_header& header, net::payload& message) {
  const running_invocation frame(*this, e, what.what);
  if (trace::built && (header.flags & net::flag_traced) != 0) [[unlikely]]
    trace_object(e.id, *e.type);
  if (!watches()) [[likely]] {
    what.run(here, object, to, header, message);
    return false;
  }
  if ((attends() & to_balance) && is_quick(header)) {
    run_quick(here, what, object, to, header, message);
    return false;
  }
  run_watched(here, what, e, object, to, header, message, frame);
  return true;
}

directory::running_invocation& directory::running(const char* what) {
  auto* const frame = tern::detail::work_frame::here();
  if (!frame)
    throw error(errc::invalid_state, std::string(what) + " was used outside an invocation of a mobile object",
                "use it in the fiber that runs the invocation");
  return static_cast<running_invocation&>(*frame); // there is no other kind
}

void directory::expect_let_in(object_id id, action what, const std::string& name, const std::source_location& made) {
  const auto* const frame = static_cast<const running_invocation*>(tern::detail::work_frame::here());
  if (!frame || frame->is_released() || !frame->is_before(id, what)) return;
  const std::string how = frame->how() == action::share ? "a shared" : "an exclusive";
  throw error(errc::deadlock,
              tern::detail::describe_context(tern::detail::this_context()) + " runs " + how + " invocation of object " +
                  to_string(id) + " (" + frame->type().name + ") and waits for '" + name +
                  "' of the same object, which begins only when that invocation has ended",
              "call the function directly, send it and do not wait, or wait while a tern::release_access lives", made);
}

// As if the invocation had ended, but that the object neither moves nor ends meanwhile.
void directory::release(entry& e, action how) {
  todo then(&e);
  {
    const std::lock_guard hold(shard_of(e.id).lock);
    ++e.unfinished;
    if (how == action::share)
      --e.sharing;
    else
      e.exclusive = false;
    pump(e, then);
  }
  act(node_, then);
}

// Before all that has not begun.
void directory::regain(entry& e, action how) noexcept {
  auto& lock = shard_of(e.id).lock;
  lock.lock();
  if (!e.starting && (!e.travel || e.travel->resuming.empty()) && e.compatible(how)) {
    e.admit(how);
  } else {
    tern::detail::waiter self({tern::detail::wait_kind::other, &e});
    self.data = static_cast<std::uintptr_t>(how);
    e.travels().resuming.push(self);
    // Whoever wakes it has admitted it.
    self.wait([](void* l) { static_cast<tern::detail::owner_lock*>(l)->unlock(); }, &lock);
    lock.lock();
  }
  --e.unfinished;
  lock.unlock();
}

// \param watched its invocation was; else the load is as it was, unless something has counted as it arrived.
void directory::finished(net::node& here, entry& e, bool exclusive, bool watched) {
  const unsigned now = attends(), what = watched ? now : now & ~unsigned{to_loads | to_balance | to_contacts};
  std::uint64_t bytes = 0;
  if (what != 0) [[unlikely]] {
    if (what & to_loads) weigh(e, 1);
    if ((what & to_memory) && exclusive) bytes = packed_bytes(*e.type, e.object);
  }
  std::unique_lock hold(shard_of(e.id).lock);
  if (what != now && e.known().load != 0) [[unlikely]] {
    hold.unlock();
    weigh(e, 1);
    hold.lock();
  }
  if (exclusive)
    e.exclusive = false;
  else
    --e.sharing;
  if (!e.waiting.empty() || e.travel || what != 0) [[unlikely]]
    finished_late(here, e, exclusive, watched, bytes, std::move(hold));
}

// By who has the access.
std::uint64_t directory::packed_bytes(const type_record& type, const void* object) noexcept {
  try {
    return type.bytes ? type.bytes(object) : 0;
  } catch (...) { // it cannot be packed, which whoever wants that will be told
    return 0;
  }
}

// As soon as the lock is let go of, the object may end.
void directory::finished_late(net::node& here, entry& e, bool exclusive, bool watched, std::uint64_t bytes,
                              std::unique_lock<tern::detail::owner_lock> hold) {
  const unsigned what = attends();
  todo then(&e);
  if (watched) then.changed = e.id;
  if (what & to_memory) {
    e.used = true;
    if (exclusive) pager_->measured(e, bytes);
  }
  if (what & to_move_on) move_on(e);
  pump(e, then);
  const bool may_go = e.is_idle();
  hold.unlock();
  act(here, then);
  if (what & to_memory) pager_->look_again(may_go);
}

// The last of its invocations: it has the object alone.
void directory::end_object(net::node& here, entry& e, int origin, std::uint64_t reply) {
  const object_id id = e.id;
  void* object = nullptr;
  {
    const std::lock_guard hold(shard_of(id).lock); // reports look at it
    object = std::exchange(e.object, nullptr);
  }
  e.type->destroy(object);
  invocation_list late;
  std::vector<int> knows;
  std::optional<detail::stored> copy;
  bool was_ready = false;
  {
    shard& s = shard_of(id);
    const std::lock_guard hold(s.lock);
    s.entries.erase(id);
    was_ready = std::exchange(e.offered, false);
    set_load(e, 0);
    s.add_runs(*e.type, e);
    ++s.of(*e.type).destroyed;
    copy = pager_->gone(e);
    late = std::move(e.waiting);
    if (e.travel) {
      travel_state& t = *e.travel;
      late.append(std::move(t.held));
      late.append(std::move(t.moves));
      late.append(std::move(t.after_close));
      for (auto& [key, one] : t.early) late.push(std::move(one));
      for (const stream_state& st : t.streams) knows.push_back(st.rank);
      knows.insert(knows.end(), t.closed.begin(), t.closed.end());
    }
    if (e.starting)
      e.at = entry::place::gone; // whoever starts invocations lets go of it
    else
      delete &e;
  }
  if (balancer* const b = told(); b && (was_ready || watches())) b->left(id, was_ready);
  pager_->forget(copy);
  for (const int rank : knows)
    if (rank != rank_) detail::post_note(here, rank, {id, directory_note::kind::gone, rank_, 0, 0});
  if (id.home() != rank_) detail::post_note(here, id.home(), {id, directory_note::kind::gone, rank_, 0, 0});
  while (!late.empty()) {
    auto one = late.pop();
    const tern::detail::held_context on = std::move(one->on);
    const tern::detail::causal_scope in(on.get());
    refuse(here, *one);
  }
  if (reply) net::detail::post_answer(here, origin, reply);
}

} // namespace tern::mobile

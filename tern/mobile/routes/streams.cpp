// SPDX-License-Identifier: Apache-2.0
/// \file
/// The order in which an object takes messages in.
#include <tern/mobile/routes/router.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/access/event_signals.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/net/node.hpp>

namespace tern::mobile::detail {
namespace {

/// A message that has been sent on so often goes to the home, which is never far behind.
constexpr unsigned most_hops = 8;

} // namespace

void router::take_in(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  if (objects_.abandoned()) [[unlikely]] // nothing waits any more
    return then.done.push(std::move(one));
  const bool own = one->to.stream == address::no_stream && one->to.origin() == rank_;
  if (one->to.stream == address::moved && e.at != entry::place::left) {
    if (e.at == entry::place::elsewhere) { // the object could not be unpacked here
      const int from = one->source;
      then.forwards.push_back({from, std::move(one)});
    } else if (e.coming > 0) {
      accept(e, std::move(one), then); // `coming` keeps it from running
      if (--e.coming == 0) {
        release_held(e, then);
        admission_.admit_waiting(e, then);
      }
    } else {
      throw error(errc::invalid_data, "rank " + std::to_string(one->source) + " sent more with object " +
                                          to_string(e.id) + " than it had announced");
    }
    return;
  }
  if (e.own_closing && own) {
    if (!e.own_closed) return e.travels().after_close.push(std::move(one));
    then.forwards.push_back({objects_.home_of(e.id), std::move(one)});
    then.closed = e.id;
    return;
  }
  if (e.holds_all()) return e.travels().held.push(std::move(one));
  if (e.at == entry::place::elsewhere) return send_on(e, std::move(one), then);
  notify_origin(e, one->to, then);
  if (one->to.stream == address::no_stream) {
    if (!e.own_open) return accept(e, std::move(one), then);
    one->to.stream = rank_;
    one->to.number = e.sent++;
  }
  accept_numbered(e, std::move(one), then);
}

void router::accept(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  switch (one->what->what) {
  case action::share:
  case action::exclude:
  case action::destroy:
    return admission_.accept(e, std::move(one), then);
  case action::migrate:
  case action::swap_out:
    e.travels().moves.push(std::move(one));
    return admission_.admit_waiting(e, then);
  case action::pin:
  case action::unpin:
    if (one->what->what == action::pin)
      ++e.pins;
    else if (e.pins > 0)
      --e.pins;
    then.done.push(std::move(one));
    return;
  case action::add_credit:
    e.extra().credit += credit_in(*one);
    then.done.push(std::move(one));
    return;
  case action::return_credit: {
    const std::uint64_t back = credit_in(*one);
    if (back > e.known().credit)
      throw error(errc::invalid_data,
                  "more references to object " + to_string(e.id) + " were given back than there are");
    e.extra().credit -= back;
    if (e.extras->credit > 0) {
      then.done.push(std::move(one));
      return;
    }
    make_destroy(*one); // each rank that had one has sent what it had to send
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
    std::erase(e.travel->notified, from); // it forgets
    e.travels().closed.push_back(from);
    if (e.confirmed) notify_closed(e, then);
    then.done.push(std::move(one));
    return;
  }
  case action::settle:
    if (e.unfinished > 0) return e.travels().settling.push(std::move(one));
    then.done.push(std::move(one));
    return;
  case action::skip:
    then.done.push(std::move(one));
    return;
  case action::arm:
  case action::signal:
  case action::rearm:
  case action::ended:
    return events_.accept(e, std::move(one), then);
  }
}

void router::accept_numbered(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  const int rank = one->to.stream;
  if (e.one_stream && e.where == rank && e.sent == one->to.number) {
    ++e.sent;
    return accept(e, std::move(one), then);
  }
  stream_state* const s = e.travels().find(rank);
  if (!s || one->to.number != s->expected) {
    const std::uint64_t number = one->to.number;
    auto& place = e.travel->early[{rank, number}];
    if (place || (s && number < s->expected))
      node_.fatal("number " + std::to_string(number) + " of rank " + std::to_string(rank) + " for object " +
                  to_string(e.id) + " has come twice: this is a fault of Tern's or of the network");
    place = std::move(one);
    return;
  }
  ++s->expected;
  accept(e, std::move(one), then);
  after_number(e, rank, then);
}

void router::after_number(entry& e, int rank, deferred_actions& then) {
  for (;;) {
    stream_state* const s = e.travel->find(rank);
    if (!s) return; // it was closed
    const auto next = e.travel->early.find({rank, s->expected});
    if (next == e.travel->early.end()) break;
    auto one = std::move(next->second);
    e.travel->early.erase(next);
    ++s->expected;
    accept(e, std::move(one), then);
  }
  if (rank == rank_) close_own_if_drained(e);
}

void router::open_stream(entry& e, int rank, deferred_actions& then) {
  if (e.travels().find(rank))
    node_.fatal("rank " + std::to_string(rank) + " has opened its stream to object " + to_string(e.id) +
                " twice: this is a fault of Tern's or of the network");
  e.travel->streams.push_back({rank, 0, 0});
  after_number(e, rank, then);
}

// Both of its ends are here.
void router::close_own_if_drained(entry& e) {
  if (!e.own_open || e.own_closing || e.at == entry::place::elsewhere) return;
  stream_state* const s = e.travel->find(rank_);
  if (!s || s->expected != e.sent) return;
  std::erase_if(e.travel->streams, [&](const stream_state& st) { return st.rank == rank_; });
  e.own_open = false;
  e.sent = 0;
}

// By way of the home: so it comes after what this rank has sent that way.
void router::open_own_stream(shard& s, entry& e, deferred_actions& then) {
  e.own_open = true;
  e.sent = 0;
  if (s.posting == 0)
    then.opens.push_back(e.id);
  else
    s.to_open.push_back(e.id);
}

void router::send_on(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  if (one->to.stream == address::no_stream) {
    one->to.stream = rank_;
    one->to.number = e.sent++;
  }
  const unsigned hops = one->to.hops();
  const bool far = hops > 0 && hops % most_hops == 0 && !objects_.is_home(e.id);
  one->to.count_hop();
  then.forwards.push_back({far ? objects_.home_of(e.id) : e.where, std::move(one)});
}

// The object has taken in all that this rank has numbered for it.
void router::own_stream_closed(entry& e, deferred_actions& then) {
  e.own_open = false;
  e.sent = 0;
  invocation_list kept = e.travel ? std::move(e.travel->after_close) : invocation_list();
  if (e.at != entry::place::elsewhere) { // it has come here meanwhile
    e.own_closing = false;
    while (!kept.empty()) take_in(e, kept.pop(), then);
    return admission_.admit_waiting(e, then);
  }
  // What comes next goes by way of the home, behind what has been kept.
  while (!kept.empty()) then.forwards.push_back({objects_.home_of(e.id), kept.pop()});
  e.own_closed = true;
  then.closed = e.id;
}

void router::release_held(entry& e, deferred_actions& then) {
  if (!e.travel) return;
  invocation_list late = std::move(e.travel->held);
  while (!late.empty()) take_in(e, late.pop(), then);
}

// Entries of objects that are elsewhere
// ----------------------------------------------------------------------------------

// What this rank sends next does not come by here.
void router::forget_closed(object_id id) {
  deferred_actions then;
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  if (entry* const e = s.entries.find(id); e && e->own_closed && e->under_way == 0) forget(s, *e, then);
}

void router::forget(shard& s, entry& e, deferred_actions& then) const {
  mailboxes::abandon(e);
  s.entries.erase(e.id);
  if (!objects_.is_home(e.id)) --s.remote;
  then.forgotten.reset(&e);
  then.of = nullptr;
}

// The clock algorithm (Corbato 1968). The stream to the object is closed, and the entry is
// forgotten when the object has taken in all of it.
void router::count_remote(shard& s, const entry& one, deferred_actions& then) {
  if (objects_.is_home(one.id) || ++s.remote <= most_remote_) return;
  const std::size_t slots = s.entries.capacity();
  for (std::size_t looks = std::min<std::size_t>(2 * slots, 256); looks > 0; --looks) {
    const std::size_t at = s.hand++ % slots;
    entry* e = s.entries.at(at);
    if (const auto number = e ? std::nullopt : s.entries.number_at(at); number && !objects_.is_home(number->first)) {
      far_place f = far_place::of(number->second);
      if (std::exchange(f.used, false)) {
        s.entries.put_number(number->first, f.number());
        continue;
      }
      e = s.find_any(number->first);
    }
    if (!e || e->at != entry::place::elsewhere || !e->own_open || e->own_closing || e->under_way > 0 ||
        objects_.is_home(e->id))
      continue;
    if (std::exchange(e->used, false)) continue;
    e->own_closing = true;
    address to(e->id, rank_);
    to.stream = rank_;
    to.number = e->sent++;
    then.closes.emplace_back(e->where, to);
    return;
  }
}

void router::cancel_move(entry& e, std::uint32_t coming) {
  deferred_actions then(&e);
  {
    shard& s = objects_.shard_of(e.id);
    const std::lock_guard hold(s.lock);
    e.at = entry::place::here;
    s.entries.mark(e.id, true);
    if (e.known().load == 0) loads_.set(e, e.known().each * e.pending()); // it had been given away
    e.coming = coming;
    if (e.travel) after_number(e, rank_, then);
    release_held(e, then);
    admission_.admit_waiting(e, then);
  }
  objects_.perform(then);
}

} // namespace tern::mobile::detail

// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that move.
#include <tern/mobile/directory.hpp>

#include <cstring>
#include <tuple>

#include <tern/base/error.hpp>
#include <tern/mobile/access/deferred_actions.hpp>
#include <tern/mobile/disk/pager.hpp>
#include <tern/net/message.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile {

// Right behind the object, in order.
void directory::send_after(net::node& here, int to, invocation_list& following) noexcept {
  try {
    while (!following.empty()) {
      auto one = following.pop();
      one->to.stream = address::moved;
      detail::forward(here, to, std::move(one));
    }
  } catch (const std::exception& x) { // memory has run out, or the job has ended: they cannot be put back in order
    here.fatal(std::string("invocations cannot follow their object: ") + x.what());
  }
}

// It does not go after all. \param coming of those that had followed it.
void directory::stay_here(net::node& here, entry& e, std::uint32_t coming) {
  todo then(&e);
  {
    shard& s = shard_of(e.id);
    const std::lock_guard hold(s.lock);
    e.at = entry::place::here;
    s.entries.mark(e.id, true);
    if (e.known().load == 0) set_load(e, e.known().each * e.pending()); // it had been given away
    e.coming = coming;
    if (e.travel) after_number(e, rank_, then);
    release_held(e, then);
    pump(e, then);
  }
  act(here, then);
}

// In a fiber. The object is at `leaving`: nothing runs on it, and nothing will.
void directory::depart(net::node& here, entry& e, std::unique_ptr<invocation> request) {
  const int origin = request->to.origin();
  const std::uint64_t reply = request->header.reply;
  const auto context = [&, name = request->what->name()] {
    return detail::describe_invocation(name, e.id, e.type->name);
  };
  if (request->what->what == action::put_out) {
    const type_record& type = *e.type; // the object may end as soon as it is out
    const object_id id = e.id;
    try {
      pager_->put_out(e);
      if (reply) net::detail::post_answer(here, origin, reply);
    } catch (...) {
      here.reply_error(origin, reply, std::current_exception(),
                       detail::describe_invocation(request->what->name(), id, type.name));
    }
    return;
  }
  std::int32_t to = 0;
  byte_buffer state;
  try {
    std::tie(to) = net::detail::unpack_call<std::tuple<std::int32_t>>(request->message, sizeof(address));
    here.check_rank(to);
    if (to != rank_) {
      if (e.pins > 0) // nobody writes it meanwhile
        throw error(errc::invalid_state, "object " + to_string(e.id) + " is pinned", "unpin it before it moves");
      if (!e.type->pack)
        throw error(errc::unsupported, "objects of class " + e.type->name + " cannot move", detail::how_to_serialize);
      state = e.type->pack(e.object);
    }
  } catch (...) {
    here.reply_error(origin, reply, std::current_exception(), context());
    return stay_here(here, e, 0);
  }
  const std::size_t bytes = state.size();
  if (to == rank_) {
    if (reply) net::detail::post_answer(here, origin, reply);
    return stay_here(here, e, 0);
  }

  invocation_list following;
  std::vector<stream_state> streams;
  travel_note with{};
  bool was_ready = false;
  {
    shard& s = shard_of(e.id);
    const std::lock_guard hold(s.lock);
    travel_state& t = e.travels();
    if (!e.own_open) {
      e.own_open = true;
      e.sent = 0;
      t.streams.push_back({rank_, 0, 0});
    }
    following = std::move(e.waiting);
    following.append(std::move(t.moves)); // the next ones move it on from there
    streams = t.streams;
    with = {e.version + 1, following.size(), e.id.home() == to, e.known().seconds, e.known().credit};
    set_load(e, 0);
    e.at = entry::place::left;
    was_ready = std::exchange(e.offered, false);
    s.entries.mark(e.id, false);
  }
  if (balancer* const b = told()) b->left(e.id, was_ready);
  if (trace::built && trace::on()) [[unlikely]]
    trace_departure(e.id, *e.type, to, bytes);
  const std::uint32_t number = following.size();
  bool sent = false;
  try {
    auto landed = net::detail::post_call<void>(here, to, [&](std::uint64_t answer) {
      auto packed = net::detail::buffer_access::adopt<std::byte>(std::move(state));
      net::detail::post_packed(here, to, {e.type->arrival()->id(), 0, answer}, {}, address(e.id, rank_), with,
                               std::as_const(streams), net::detail::range_out<std::byte>(std::move(packed)));
    });
    sent = true;
    send_after(here, to, following);
    landed.get();
  } catch (...) {
    if (!sent) {
      const std::lock_guard hold(shard_of(e.id).lock);
      while (!following.empty()) {
        auto one = following.pop();
        (one->moves() ? e.travel->moves : e.waiting).push(std::move(one));
      }
    }
    here.reply_error(origin, reply, std::current_exception(), context());
    return stay_here(here, e, sent ? number : 0);
  }
  const type_record& type = *e.type;
  void* old = nullptr;
  std::optional<detail::stored> copy;
  {
    const std::lock_guard hold(shard_of(e.id).lock); // reports look at it
    old = std::exchange(e.object, nullptr);
    copy = pager_->gone(e);
  }
  pager_->forget(copy);
  type.destroy(old);
  if (attends() & to_memory) pager_->look_again();
  todo then(&e);
  std::vector<std::pair<int, directory_note>> notes;
  std::unique_ptr<landing> back;
  {
    shard& s = shard_of(e.id);
    const std::lock_guard hold(s.lock);
    std::unique_ptr<travel_state> t = std::move(e.travel);
    s.add_runs(type, e);
    ++s.of(type).left;
    s.of(type).bytes += bytes;
    e.at = entry::place::elsewhere;
    e.type = nullptr;
    e.extras.reset();
    e.where = to;
    e.version = with.version;
    e.confirmed = true;
    if (!t->after_close.empty()) e.travels().after_close.append(std::move(t->after_close));
    count_route(s, e, then);
    back = std::move(t->returns);
    if (back)
      begin_landing(s, e, *back, then);
    else if (!e.own_open)
      begin_own(s, e, then); // it was closed meanwhile
    while (!t->held.empty()) take_in(e, t->held.pop(), then);
    for (auto& [key, one] : t->early) take_in(e, std::move(one), then);
    notes = std::move(t->notes);
  }
  act(here, then);
  for (const auto& [from, n] : notes) take(here, from, n);
  if (back) land_in_fiber(here, e, std::move(back));
  if (reply) net::detail::post_answer(here, origin, reply);
}

// Where messages arrive: so what follows finds the entry.
void directory::land(net::node& here, const type_record& type, int source, const net::wire_header& header,
                     net::payload& message) {
  message.settle();
  auto one = std::make_unique<landing>();
  address to;
  std::tie(to, one->with, one->streams, one->state) =
      net::detail::unpack_call<std::tuple<address, travel_note, std::vector<stream_state>, buffer<std::byte>>>(message);
  detail::check_address(to, here.size());
  for (const stream_state& st : one->streams)
    if (st.rank < 0 || st.rank >= here.size()) detail::bad_rank(to.object, st.rank, here.size());
  one->type = &type;
  one->source = source;
  one->header = header;
  one->on = here.hold_account();
  todo then;
  entry* e = nullptr;
  {
    shard& s = shard_of(to.object);
    const std::lock_guard hold(s.lock);
    e = s.entries.find(to.object);
    if (e && e->at == entry::place::left && !e->travel->returns) {
      e->travel->returns = std::move(one);
      return;
    }
    if (e && e->at != entry::place::elsewhere)
      throw error(errc::invalid_data,
                  "rank " + std::to_string(source) + " sent object " + to_string(to.object) + ", which is here");
    if (!e) {
      auto fresh = std::make_unique<entry>(to.object);
      e = fresh.get();
      s.entries.insert(to.object, e, false);
      fresh.release();
      e->at = entry::place::elsewhere;
      count_route(s, *e, then);
    }
    then.of = e;
    begin_landing(s, *e, *one, then);
  }
  act(here, then);
  land_in_fiber(here, *e, std::move(one));
}

void directory::begin_landing(shard& s, entry& e, landing& one, todo& then) {
  if (e.id.home() != rank_) --s.routes;
  e.at = entry::place::arriving;
  e.where = one.source;
  e.version = one.with.version;
  e.coming = one.with.coming;
  e.confirmed = one.with.confirmed != 0;
  if (one.with.seconds > 0 || one.with.credit > 0) {
    e.extra().each = e.extra().seconds = one.with.seconds;
    e.extras->credit = one.with.credit;
  }
  if (std::exchange(e.own_left, false)) e.own_closing = false;
  e.travels().streams = std::move(one.streams);
  if (!e.own_open) begin_own(s, e, then);
}

void directory::land_in_fiber(net::node& here, entry& e, std::unique_ptr<landing> one) {
  const tern::detail::held_context on = std::move(one->on);
  const tern::detail::causal_scope in(on.get());
  const net::wire_header header = one->header;
  const int source = one->source;
  const std::string& name = one->type->arrival()->name();
  here.run_service([this, &here, &e, one = std::move(one)]() mutable { unpack(here, e, std::move(one)); }, source,
                   header, name);
}

// In a fiber. Until now nothing was done to the object: whatever comes is held.
void directory::unpack(net::node& here, entry& e, std::unique_ptr<landing> one) {
  const int source = one->source;
  const std::uint64_t reply = one->header.reply;
  const type_record& type = *one->type;
  void* object = nullptr;
  std::exception_ptr why;
  const std::size_t bytes = one->state.size();
  try {
    object = type.unpack(one->state);
  } catch (...) {
    why = std::current_exception();
  }
  one.reset();
  if (why) return send_back(here, e, source, reply, why);
  if (watches()) weigh_landed(e, type, object);
  if (trace::built && trace::on()) [[unlikely]]
    trace_landing(e.id, type, object, source, bytes);
  todo then(&e);
  then.changed = e.id;
  {
    shard& s = shard_of(e.id);
    const std::lock_guard hold(s.lock);
    e.object = object;
    e.type = &type;
    e.at = entry::place::here;
    s.entries.mark(e.id, true);
    ++s.of(type).arrived;
    pager_->measured(e, bytes);
    after_number(e, rank_, then); // perhaps all of its own has come
    if (e.coming == 0) {
      release_held(e, then);
      pump(e, then);
    }
    if (!e.confirmed)
      then.notes.emplace_back(e.id.home(), directory_note{e.id, directory_note::kind::moved, rank_, e.version, 0});
  }
  act(here, then);
  net::detail::post_answer(here, source, reply);
  if (attends() & to_memory) pager_->look_again();
}

// It stays where it was. What has followed it goes back, in order: so what comes meanwhile waits here until the last of
// those has been posted. Only then its old rank is told, which may send it again.
void directory::send_back(net::node& here, entry& e, int source, std::uint64_t reply, const std::exception_ptr& why) {
  shard& s = shard_of(e.id);
  todo then(&e);
  for (;;) {
    std::unique_lock hold(s.lock);
    invocation_list back = std::move(e.waiting);
    back.append(std::move(e.travel->moves));
    if (back.empty()) {
      e.at = entry::place::elsewhere;
      --e.version;
      e.coming = 0;
      set_load(e, 0);
      e.extras.reset();
      e.confirmed = true;
      e.travel->streams.clear();
      if (!e.own_open) begin_own(s, e, then); // it was closed meanwhile
      release_held(e, then);
      count_route(s, e, then);
      break;
    }
    hold.unlock();
    while (!back.empty()) detail::forward(here, source, back.pop());
  }
  act(here, then);
  here.reply_error(source, reply, why, "unpacking of object " + to_string(e.id));
}

// For the option debug-migrate: nobody has asked for it, and nobody waits.
void directory::move_on(entry& e) {
  if (!e.type->pack || e.pins > 0 || e.has_moves() || node_.size() == 1) return;
  std::uint64_t by = 1;
  if (debug_ == debugging::random) { // the same in each run; the finisher of splitmix64
    by = e.id.bits * 0x9e3779b97f4a7c15u + e.version;
    by = (by ^ (by >> 30)) * 0xbf58476d1ce4e5b9u;
    by = 1 + (by >> 32) % static_cast<std::uint64_t>(node_.size() - 1);
  }
  const int to = static_cast<int>((static_cast<std::uint64_t>(rank_) + by) % static_cast<std::uint64_t>(node_.size()));
  e.travels().moves.push(detail::migrate_request(node_, e.id, to));
}

// For the same option. \return whether the invocation may run; else its caller has been told.
bool directory::reserialize(net::node& here, entry& e, const invocation& one) {
  if (!e.type->pack) return true;
  try {
    void* const fresh = e.type->unpack(e.type->pack(e.object));
    e.type->destroy(std::exchange(e.object, fresh));
    return true;
  } catch (...) {
    here.reply_error(one.to.origin(), one.header.reply, std::current_exception(),
                     "packing and unpacking object " + to_string(e.id) + " (" + e.type->name + ") in place");
    return false;
  }
}

} // namespace tern::mobile

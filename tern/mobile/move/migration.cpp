// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that move.
#include <tern/mobile/move/migration.hpp>

#include <cstring>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/access/event_signals.hpp>
#include <tern/mobile/entry/object_trace.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/net/memory/shared_memory.hpp>
#include <tern/net/message.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile::detail {

// What is large goes into memory that the next rank can look into, if it is on this host: it
// unpacks the object from there.
byte_buffer migration::pack(const type_record& type, const void* object, packing_undo& undo) {
  const std::size_t bytes = type.bytes_moved(object);
  byte_buffer state = bytes < net::detail::shared_pool::least ? byte_buffer(bytes) : node_.memory().take(bytes);
  type.pack_moved(object, state.bytes(), undo);
  return state;
}

// Right behind the object, in order.
void migration::send_after(net::node& here, int to, invocation_list& following) noexcept {
  try {
    while (!following.empty()) {
      auto one = following.pop();
      one->to.stream = address::moved;
      forward(here, to, std::move(one));
    }
  } catch (const std::exception& x) { // memory has run out, or the job has ended: they cannot be put back in order
    here.fatal(std::string("invocations cannot follow their object: ") + x.what());
  }
}

void migration::depart(entry& e, std::unique_ptr<invocation> request) {
  net::node& here = node_;
  const int origin = request->to.origin();
  const std::uint64_t reply = request->header.reply;
  const auto tell = [&, id = e.id, type = e.type](const std::exception_ptr& why) {
    if (why)
      here.reply_error(origin, reply, why, describe_invocation(request->what->name(), id, type->name));
    else if (reply)
      net::detail::post_answer(here, origin, reply);
  };
  // Its claimer lets it go when it hears that it stays: so it is here again by then. From that on
  // it may run, move and end.
  const auto stay = [&](std::uint32_t coming, const std::exception_ptr& why) {
    router_.cancel_move(e, coming);
    tern::detail::schedule_point();
    tell(why);
  };
  std::int32_t to = 0;
  byte_buffer state;
  std::optional<packing_undo> undo(std::in_place); // what its members have announced is taken back if it stays
  try {
    std::tie(to) = net::detail::unpack_call<std::tuple<std::int32_t>>(request->message, sizeof(address));
    here.check_rank(to);
    if (to != rank_) {
      if (e.pins > 0) // it does not change meanwhile
        throw error(errc::invalid_state, "object " + to_string(e.id) + " is pinned", "unpin it before it moves");
      if (!e.type->pack)
        throw error(errc::unsupported, "objects of class " + e.type->name + " cannot move", how_to_serialize);
      state = pack(*e.type, e.object, *undo);
    }
  } catch (...) {
    undo.reset();
    return stay(0, std::current_exception());
  }
  if (to == rank_) return stay(0, nullptr);
  const std::size_t bytes = state.size();

  invocation_list following;
  std::vector<stream_state> streams;
  travel_note with{};
  bool was_ready = false;
  {
    shard& s = objects_.shard_of(e.id);
    const std::lock_guard hold(s.lock);
    travel_state& t = e.travels();
    if (!e.own_open) {
      e.own_open = true;
      e.sent = 0;
      t.streams.push_back({rank_, 0, 0});
    }
    events_.take_out(e, following); // they fire behind what waits already
    following.append(std::move(e.waiting));
    following.append(std::move(t.moves)); // the next ones move it on from there
    streams = t.streams;
    with = e.note();
    ++with.version;
    with.coming = following.size();
    with.confirmed = objects_.home_of(e.id) == to;
    with.claimed = e.claims > 0;
    loads_.set(e, 0);
    e.at = entry::place::left;
    was_ready = std::exchange(e.offered, false);
    s.entries.mark(e.id, false);
  }
  if (auto* const b = objects_.balancer()) b->left(e.id, was_ready);
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
    undo->delivered();
  } catch (...) {
    undo.reset();
    deferred_actions undone(&e);
    if (!sent) {
      const std::lock_guard hold(objects_.shard_of(e.id).lock);
      while (!following.empty()) {
        auto one = following.pop();
        if (one->of_event())
          events_.accept(e, std::move(one), undone);
        else
          (one->moves() ? e.travel->moves : e.waiting).push(std::move(one));
      }
    }
    objects_.perform(undone);
    return stay(sent ? number : 0, std::current_exception());
  }
  const type_record& type = *e.type;
  void* old = nullptr;
  std::optional<tern::detail::stored> copy;
  {
    const std::lock_guard hold(objects_.shard_of(e.id).lock); // reports look at it
    old = std::exchange(e.object, nullptr);
    copy = objects_.discount(e);
  }
  pager_.forget(copy);
  type.destroy(old);
  if (objects_.attends() & rank_objects::to_memory) pager_.look_again();
  deferred_actions then(&e);
  std::vector<std::pair<int, directory_note>> notes;
  std::unique_ptr<landing> back;
  std::unique_ptr<entry> reduced;
  {
    shard& s = objects_.shard_of(e.id);
    const std::lock_guard hold(s.lock);
    std::unique_ptr<travel_state> t = std::move(e.travel);
    s.add_runs(type, e);
    ++s.of(type).left;
    s.of(type).bytes += bytes;
    e.at = entry::place::elsewhere;
    e.exclusive = false; // its claim has gone with it
    e.claims = 0;
    e.type = nullptr;
    e.extras.reset();
    e.where = to;
    e.version = with.version;
    e.confirmed = true;
    if (!t->after_close.empty()) e.travels().after_close.append(std::move(t->after_close));
    router_.count_remote(s, e, then);
    back = std::move(t->returns);
    if (back)
      begin_landing(s, e, *back, then);
    else if (!e.own_open)
      router_.open_own_stream(s, e, then); // it was closed meanwhile
    while (!t->held.empty()) router_.take_in(e, t->held.pop(), then);
    for (auto& [key, one] : t->early) router_.take_in(e, std::move(one), then);
    notes = std::move(t->notes);
    if (!back && notes.empty()) reduced = s.reduce(e);
  }
  objects_.perform(then);
  for (const auto& [from, n] : notes) router_.take(from, n);
  if (back) land_in_fiber(e, std::move(back));
  if (reply) net::detail::post_answer(here, origin, reply);
}

void migration::land(const type_record& type, int source, const net::wire_header& header, net::payload& message) {
  net::node& here = node_;
  message.settle();
  auto one = std::make_unique<landing>();
  address to;
  std::tie(to, one->with, one->streams, one->state) =
      net::detail::unpack_call<std::tuple<address, travel_note, std::vector<stream_state>, buffer<std::byte>>>(message);
  check_address(to, here.size(), objects_.homes().count());
  for (const stream_state& st : one->streams)
    if (st.rank < 0 || st.rank >= here.size()) bad_rank(to.object, st.rank, here.size());
  one->type = &type;
  one->source = source;
  one->header = header;
  one->on = here.hold_account();
  deferred_actions then;
  entry* e = nullptr;
  {
    shard& s = objects_.shard_of(to.object);
    const std::lock_guard hold(s.lock);
    e = s.find_any(to.object);
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
      router_.count_remote(s, *e, then);
    }
    then.of = e;
    begin_landing(s, *e, *one, then);
  }
  objects_.perform(then);
  land_in_fiber(*e, std::move(one));
}

void migration::begin_landing(shard& s, entry& e, landing& one, deferred_actions& then) {
  if (!objects_.is_home(e.id)) --s.remote;
  e.at = entry::place::arriving;
  e.where = one.source;
  e.version = one.with.version;
  e.coming = one.with.coming;
  e.confirmed = one.with.confirmed != 0;
  e.exclusive = one.with.claimed != 0; // before anything is admitted here
  e.claims = one.with.claimed;
  e.take_over(one.with);
  if (std::exchange(e.own_closed, false)) e.own_closing = false;
  e.travels().streams = std::move(one.streams);
  if (!e.own_open) router_.open_own_stream(s, e, then);
}

void migration::land_in_fiber(entry& e, std::unique_ptr<landing> one) {
  net::node& here = node_;
  const tern::detail::held_context on = std::move(one->on);
  const tern::detail::causal_scope in(on.get());
  const net::wire_header header = one->header;
  const int source = one->source;
  const std::string& name = one->type->arrival()->name();
  here.run_service([this, &e, one = std::move(one)]() mutable { unpack(e, std::move(one)); }, source, header, name);
}

// In a fiber. Until now nothing was done to the object: whatever comes is held.
void migration::unpack(entry& e, std::unique_ptr<landing> one) {
  net::node& here = node_;
  const int source = one->source;
  const std::uint64_t reply = one->header.reply;
  const type_record& type = *one->type;
  void* object = nullptr;
  std::exception_ptr why;
  const std::size_t bytes = one->state.size();
  unpacking_steps members; // ask for their data
  try {
    object = type.unpack_moved(one->state, members);
  } catch (...) {
    why = std::current_exception();
  }
  one.reset();
  if (why) return send_back(e, source, reply, why);
  try {
    members.run();
  } catch (const std::exception& x) { // memory has run out, or the job has ended
    here.fatal("members of object " + to_string(e.id) + " cannot follow it: " + x.what());
  }
  if (objects_.watches()) loads_.weigh_landed(e, type, object);
  if (trace::built && trace::on()) [[unlikely]]
    trace_landing(e.id, type, object, source, bytes);
  deferred_actions then(&e);
  then.changed = e.id;
  {
    shard& s = objects_.shard_of(e.id);
    const std::lock_guard hold(s.lock);
    e.object = object;
    e.type = &type;
    e.at = entry::place::here;
    s.entries.mark(e.id, true);
    ++s.of(type).arrived;
    objects_.count_bytes(e, bytes);
    router_.after_number(e, rank_, then); // perhaps all of its own has come
    if (e.coming == 0) {
      router_.release_held(e, then);
      admission_.admit_waiting(e, then);
      e.settle();
    }
    if (!e.confirmed)
      then.notes.emplace_back(objects_.home_of(e.id),
                              directory_note{e.id, directory_note::kind::moved, rank_, e.version, 0});
  }
  objects_.perform(then);
  net::detail::post_answer(here, source, reply);
  if (objects_.attends() & rank_objects::to_memory) pager_.look_again();
}

// It stays where it was. What has followed it goes back, in order: so what comes meanwhile waits
// here until the last of those has been posted. Only then its old rank is told, which may send it
// again.
void migration::send_back(entry& e, int source, std::uint64_t reply, const std::exception_ptr& why) {
  net::node& here = node_;
  const object_id id = e.id;
  shard& s = objects_.shard_of(id);
  deferred_actions then(&e);
  for (;;) {
    std::unique_lock hold(s.lock);
    invocation_list back;
    events_.take_out(e, back);
    back.append(std::move(e.waiting));
    back.append(std::move(e.travel->moves));
    if (back.empty()) {
      e.at = entry::place::elsewhere;
      e.exclusive = false;
      e.claims = 0;
      --e.version;
      e.coming = 0;
      loads_.set(e, 0);
      e.extras.reset();
      e.confirmed = true;
      e.travel->streams.clear();
      if (!e.own_open) router_.open_own_stream(s, e, then); // it was closed meanwhile
      router_.release_held(e, then);
      router_.count_remote(s, e, then);
      break;
    }
    hold.unlock();
    while (!back.empty()) forward(here, source, back.pop());
  }
  objects_.perform(then);
  here.reply_error(source, reply, why, "unpacking of object " + to_string(id));
}

bool migration::send_away(object_id id, int to, net::reply_ref reply_to, const std::function<void()>& marked) {
  objects_.check(id);
  node_.check_rank(to);
  const net::shutdown_guard until_counted(node_.shutdown());
  const std::uint64_t reply = node_.calls().expect(std::move(reply_to), rank_);
  deferred_actions then;
  {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    if (entry* const e = s.entries.find(id); e && to != rank_ && !objects_.frozen() && e->could_leave()) {
      then.of = e;
      then.request = migrate_request(node_, id, to, reply);
      then.request->header.flags |= net::flag_high;
      e->at = entry::place::leaving; // a balancer that begins it meanwhile finds that it cannot
    }
  }
  if (!then.request) {
    node_.calls().forget(reply);
    return false;
  }
  try {
    marked();
  } catch (...) {
    node_.calls().forget(reply);
    node_.message_done(then.request->header);
    router_.cancel_move(*then.of, 0);
    throw;
  }
  objects_.perform(then);
  return true;
}

double migration::cost_of_moving(object_id id) {
  held_access h;
  {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(id);
    if (!e || !e->could_leave()) return 0;
    e->admit(action::share);
    h = {e, e->object};
  }
  const type_record* const type = h.of->type;
  double cost = 0;
  try {
    cost = type->migration_cost ? type->migration_cost(h.object) : static_cast<double>(type->bytes(h.object));
  } catch (...) { // a request to move it tells why
  }
  admission_.finished(static_cast<entry&>(*h.of), false, false);
  return cost;
}

} // namespace tern::mobile::detail

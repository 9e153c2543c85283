// SPDX-License-Identifier: Apache-2.0
/// \file
/// Events of the objects that are here.
#include <tern/mobile/access/event_signals.hpp>

#include <cstring>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include <tern/mobile/entry/event_set.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/object/element_name.hpp>
#include <tern/net/message.hpp>

namespace tern::mobile::detail {
namespace {

event_actions& actions_of(deferred_actions& then) {
  if (!then.events) then.events = std::make_unique<event_actions>();
  return *then.events;
}

event_set& events_of(entry& e) {
  auto& all = e.extra().events;
  if (!all) all = std::make_unique<event_set>();
  return *all;
}

bool is_counted(const invocation& one) noexcept { return (one.header.flags & net::flag_uncounted) == 0; }

void note_failure(deferred_actions& then, const invocation& one, error why) {
  actions_of(then).failures.push_back(
      {one.to.origin(), one.header.reply, std::make_exception_ptr(std::move(why)), one.what->name()});
}

} // namespace

event_signals::event_signals(rank_objects& objects, admission& access) noexcept
    : objects_(objects), node_(objects.node()), admission_(access) {}

std::string event_signals::called(const entry& e) {
  const std::string element = element_name(net::node::current(), e.id);
  return element.empty() ? "object " + to_string(e.id) + " (" + e.type->name + ")" : element;
}

// The object is on this rank, and so are all of its events.
inline entry* event_signals::find_here(shard& s, object_id id) const {
  entry* const e = s.entries.find(id);
  return e && e->is_present() && e->coming == 0 ? e : nullptr;
}

// `messages` that count have come with it and are not done. As many are left, or become so, as are
// needed: one for each invocation, and one for the signals that wait.
void event_signals::settle(entry& e, event_state& of, unsigned messages, deferred_actions& then) {
  unsigned there = messages + std::exchange(of.counted, false);
  const auto take_one = [&] {
    if (there > 0)
      --there;
    else
      node_.parked({});
  };
  event_set& all = *e.extras->events;
  while (auto f = all.fire(of)) {
    take_one();
    fire(e, *f, then);
  }
  if (of.has_signals()) {
    take_one();
    of.counted = true;
  }
  if (there > 0) actions_of(then).done += there;
}

// It can belong to one epoch: that of the last signal that had one. The others end without it.
void event_signals::fire(entry& e, event_firing& f, deferred_actions& then) {
  tern::detail::held_context on;
  for (signal_content& c : f.with.contents) {
    if (!c.on.get()) continue;
    if (on.get()) actions_of(then).released.push_back(std::move(on));
    on = std::move(c.on);
  }
  if (f.kind->objects) {
    actions_of(then).firings.push_back(
        {f.kind, e.id, f.number, f.round, f.with.last, fired_signals(f.with), std::move(on)});
    return;
  }
  // Not beside what is under way by another way; nor does the line know epochs.
  if (line_place_ && f.kind->near && !on.get()) {
    actions_of(then).near.push_back({f.kind, e.id, {f.number, f.round}, f.with.last});
    return;
  }
  if (!then.of) then.of = &e;
  actions_of(then); // a caller without a message asks whether there are any
  auto one = invocation_of(e, f);
  one->on = std::move(on);
  admission_.accept(e, std::move(one), then);
}

std::unique_ptr<invocation> event_signals::invocation_of(const entry& e, const event_firing& f) const {
  auto one = std::make_unique<invocation>();
  one->what = f.kind->fired;
  one->source = objects_.rank();
  one->header = {f.kind->fires->id(), 0, 0};
  one->to = address(e.id, f.with.last);
  const firing_note note{f.number, f.round};
  one->message.bytes = f.kind->takes_signals ? pack(one->header, one->to, note, fired_signals(f.with))
                                             : pack(one->header, one->to, note);
  return one;
}

void event_signals::end_round(entry& e, const firing_note& f, unsigned messages, deferred_actions& then) {
  event_state* const lives =
      e.extras && e.extras->events ? e.extras->events->ended_with_objects(f.number, f.round) : nullptr;
  if (lives)
    settle(e, *lives, messages, then);
  else
    actions_of(then).done += messages;
}

void event_signals::accept(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  const unsigned counts = is_counted(*one);
  const std::uint64_t reply = one->header.reply;
  const auto answer = [&](std::uint32_t number) {
    if (reply != 0)
      actions_of(then).answers.push_back({one->to.origin(), reply, number, tern::detail::held_context(one->on.get())});
  };
  const auto let_go = [&] {
    actions_of(then).done += counts;
    actions_of(then).released.push_back(std::move(one->on));
  };
  switch (one->what->what) {
  case action::arm: {
    const auto& kind = static_cast<const event_kind&>(*one->what);
    std::tuple<arm_note> fresh;
    if (net::detail::load_plain(one->message, sizeof(address), fresh)) {
      const std::uint32_t size = std::get<0>(fresh).size;
      if (size < 1 || size > most_signals)
        throw error(errc::invalid_data, "an event of " + std::to_string(size) + " signals has come");
      answer(events_of(e).add(kind, size));
      return let_go();
    }
    const auto [p] = net::detail::unpack_call<std::tuple<packed_event>>(one->message, sizeof(address));
    event_state& there = events_of(e).add(kind, p);
    settle(e, there, counts, then);
    actions_of(then).released.push_back(std::move(one->on));
    return;
  }
  case action::signal: {
    event_note s;
    signal_content content{};
    std::tuple<event_note> alone;
    if (net::detail::load_plain(one->message, sizeof(address), alone)) {
      s = std::get<0>(alone);
    } else {
      auto both = net::detail::unpack_call<std::tuple<event_note, buffer<std::byte>>>(one->message, sizeof(address));
      s = std::get<0>(both);
      content.bytes = net::detail::buffer_access::release(std::get<1>(both));
    }
    content.index = s.index;
    content.type = s.type;
    content.on = std::move(one->on);
    event_set& all = events_of(e);
    const auto wrong = all.signal(s, one->to.origin(), content, [&] { return called(e); });
    if (wrong) {
      one->on = std::move(content.on);
      note_failure(then, *one, *wrong);
      return let_go();
    }
    answer(0);
    return settle(e, *all.find(s.number), counts, then);
  }
  case action::ended: {
    const auto [f] = net::detail::unpack_call<std::tuple<firing_note>>(one->message, sizeof(address));
    actions_of(then).released.push_back(std::move(one->on));
    return end_round(e, f, counts, then);
  }
  default: { // rearm
    const auto [f] = net::detail::unpack_call<std::tuple<firing_note>>(one->message, sizeof(address));
    event_set& all = events_of(e);
    if (!all.rearm(f.number, f.round)) {
      note_failure(then, *one, all.refuse_rearm(f.number, called(e)));
      return let_go();
    }
    answer(0);
    actions_of(then).released.push_back(std::move(one->on));
    return settle(e, *all.find(f.number), counts, then);
  }
  }
}

// Signals that count for an epoch travel in its name, each in a message of its own.
void event_signals::take_out(entry& e, invocation_list& into) {
  if (!e.extras || !e.extras->events) return;
  for (const auto& state : e.extras->events->take()) {
    const auto spent = static_cast<std::uint8_t>((state->spent ? 1 : 0) | (state->busy ? 2 : 0));
    packed_event p{state->number, state->size, state->round, state->armed, spent, std::move(state->last), {}};
    invocation_list apart;
    const auto pack_round = [&](std::uint32_t number, event_round& r) {
      std::vector<bool> alone(r.places.size());
      for (signal_content& c : r.contents) {
        const signal_place& from = r.places[c.index];
        alone[c.index] = true;
        if (!c.on.get()) {
          const auto bytes = c.bytes.bytes();
          p.signals.push_back({number, c.index, c.type, from.rank, from.from, {bytes.begin(), bytes.end()}});
          continue;
        }
        auto one = std::make_unique<invocation>();
        one->what = &signal_message;
        one->source = objects_.rank();
        one->header = {signal_handler.id(), 0, 0};
        one->to = address(e.id, from.rank);
        one->to.stream = address::moved;
        const event_note s{from.from, state->number, number, c.index, state->size, c.type, 0};
        one->message.bytes = c.type == 0
                                 ? pack(one->header, one->to, s)
                                 : pack(one->header, one->to, s,
                                        net::detail::range_out<std::byte>(std::span<const std::byte>(c.bytes.bytes())));
        one->on = std::move(c.on);
        node_.parked(one->header);
        apart.push(std::move(one));
      }
      for (std::uint32_t i = 0; i < r.places.size(); ++i)
        if (r.places[i].rank >= 0 && !alone[i])
          p.signals.push_back({number, i, 0, r.places[i].rank, r.places[i].from, {}});
    };
    pack_round(state->round, state->now);
    for (auto& [number, r] : state->early) pack_round(number, r);
    auto one = std::make_unique<invocation>();
    one->what = state->kind;
    one->source = objects_.rank();
    one->header = {state->kind->arms->id(), 0, 0};
    one->to = address(e.id, objects_.rank());
    one->to.stream = address::moved;
    one->message.bytes = pack(one->header, one->to, p);
    if (!state->counted) node_.parked(one->header);
    into.push(std::move(one));
    into.append(std::move(apart));
  }
}

void event_signals::drop(entry& e, deferred_actions& then) {
  if (!e.extras || !e.extras->events) return;
  for (const auto& state : e.extras->events->take()) {
    const auto let_go = [&](event_round& r) {
      for (signal_content& c : r.contents) actions_of(then).released.push_back(std::move(c.on));
    };
    let_go(state->now);
    for (auto& [number, r] : state->early) let_go(r);
    if (state->counted) ++actions_of(then).done;
  }
}

void event_signals::abandon() {
  for (shard& s : objects_.shards()) {
    deferred_actions then;
    {
      const std::lock_guard hold(s.lock);
      for (std::size_t i = 0; i < s.entries.capacity(); ++i)
        if (entry* const e = s.entries.at(i); e && e->at != entry::place::gone) drop(*e, then);
    }
    objects_.perform(then);
  }
}

std::uint32_t event_signals::arm_here(object_id id, const event_kind& kind, std::uint32_t size) {
  objects_.check(id);
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  entry* const e = find_here(s, id);
  return e ? events_of(*e).add(kind, size) : 0;
}

// The frequent case: neither the first nor the last of its round. A message that counts stands for
// the others, so that the job does not end meanwhile.
inline event_state* event_signals::frequent(shard& s, object_id id, const event_note& note) const noexcept {
  entry* const e = find_here(s, id);
  if (!e || !e->extras || !e->extras->events) return nullptr;
  event_state* const of = e->extras->events->find(note.number);
  if (!of || !of->counted || of->spent || note.round != of->round || note.index >= of->size ||
      of->now.given + 1 >= of->size || of->now.given == 0 || of->now.places[note.index].rank >= 0 ||
      (note.type & brings_object) != 0)
    return nullptr;
  return of;
}

bool event_signals::add_bare(object_id id, const event_note& note) {
  objects_.check(id);
  if (node_.hold_account().get()) [[unlikely]]
    return false;
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  event_state* const of = frequent(s, id, note);
  if (!of) return false;
  event_set::take_bare(of->now, note, objects_.rank());
  return true;
}

inline bool event_signals::add_at_once(object_id id, const event_note& note, signal_content& content) {
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  event_state* const of = frequent(s, id, note);
  if (!of) return false;
  content.on = node_.hold_account();
  event_set::take(of->now, note, objects_.rank(), content);
  return true;
}

event_signals::result event_signals::signal_here(object_id id, const event_note& note, signal_content& content) {
  objects_.check(id);
  if (add_at_once(id, note, content)) [[likely]]
    return result::done;
  if (objects_.abandoned()) return result::not_here; // then it is sent, to no rank
  const net::shutdown_guard until_counted(node_.shutdown());
  deferred_actions then;
  std::optional<error> wrong;
  {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    entry* const e = find_here(s, id);
    if (!e) return result::not_here;
    content.on = node_.hold_account();
    event_set& all = events_of(*e);
    wrong = all.signal(note, objects_.rank(), content, [&] { return called(*e); });
    if (!wrong) settle(*e, *all.find(note.number), 0, then);
  }
  content.on.reset();
  if (wrong) throw std::move(*wrong);
  if (then.events) objects_.perform(then);
  return result::done;
}

event_signals::result event_signals::rearm_here(object_id id, std::uint32_t number, std::uint32_t round) {
  objects_.check(id);
  if (objects_.abandoned()) return result::not_here; // as above
  const net::shutdown_guard until_counted(node_.shutdown());
  deferred_actions then;
  std::optional<error> wrong;
  {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    entry* const e = find_here(s, id);
    if (!e) return result::not_here;
    event_set& all = events_of(*e);
    if (all.rearm(number, round))
      settle(*e, *all.find(number), 0, then);
    else
      wrong = all.refuse_rearm(number, called(*e));
  }
  if (wrong) throw std::move(*wrong);
  if (then.events) objects_.perform(then);
  return result::done;
}

void event_signals::ended(object_id id, const firing_note& f) noexcept {
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  const entry* const e = s.entries.find(id);
  if (e && e->extras && e->extras->events) e->extras->events->ended(f.number, f.round);
}

event_signals::result event_signals::ended_here(object_id id, const firing_note& f) {
  deferred_actions then; // the function that calls this counts as under way
  {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    entry* const e = find_here(s, id);
    if (!e) return result::not_here;
    end_round(*e, f, 0, then);
  }
  if (then.events) objects_.perform(then);
  return result::done;
}

bool event_signals::has_all(object_id id) const {
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  return find_here(s, id) != nullptr;
}

// The message that stood for the signals counts until this does.
void event_signals::fire_near(const fired_near& f) {
  if (std::byte* const at = line_place_(node_, f.target, f.kind->near, sizeof f.note)) [[likely]] {
    std::memcpy(at, &f.note, sizeof f.note);
    return node_.message_done({});
  }
  deferred_actions then;
  {
    shard& s = objects_.shard_of(f.target);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(f.target); // the one thread was nowhere else since it had fired
    event_firing again{f.kind, f.note.number, f.note.round, {}};
    again.with.last = f.last;
    then.of = e;
    admission_.accept(*e, invocation_of(*e, again), then);
  }
  objects_.perform(then);
}

void event_signals::perform(event_actions& then) {
  // In fibers of their own: each waits for its objects.
  if (!then.firings.empty()) node_.start_none_at_once();
  for (fired_with_objects& f : then.firings) {
    const event_kind& kind = *f.kind;
    const tern::detail::held_context on = std::move(f.on);
    const tern::detail::causal_scope in(on.get());
    node_.run_handler([this, f = std::move(f)]() mutable { f.kind->objects->fire(node_, std::move(f)); },
                      objects_.rank(), {kind.fires->id(), 0, 0}, kind.fires->name());
  }
  then.firings.clear();
  for (const fired_near& f : then.near) fire_near(f);
  then.near.clear();
  for (const event_actions::answer& a : then.answers) {
    const tern::detail::causal_scope in(a.on.get());
    if (a.number != 0)
      net::detail::post_answer(node_, a.to, a.reply, a.number);
    else
      net::detail::post_answer(node_, a.to, a.reply);
  }
  for (const event_actions::failure& f : then.failures) node_.reply_error(f.to, f.reply, f.why, "'" + f.name + "'");
  then.answers.clear();
  then.released.clear(); // before it counts as done
  for (; then.done > 0; --then.done) node_.message_done({});
}

} // namespace tern::mobile::detail

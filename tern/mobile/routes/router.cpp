// SPDX-License-Identifier: Apache-2.0
/// \file
/// Where messages to objects go, and what ranks tell each other of where objects are.
#include <tern/mobile/routes/router.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include <tern/mobile/access/admission.hpp>
#include <tern/mobile/access/event_signals.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/mobile/object/element_name.hpp>
#include <tern/net/message.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::mobile::detail {
namespace {

/// Would a rank have sent it of its own accord, without a program that asked for it?
bool is_unasked(const invocation& one) {
  const action what = one.what->what;
  return (what == action::migrate || what == action::return_credit || what == action::destroy ||
          what == action::ended) &&
         one.header.reply == 0;
}

constexpr const char* stale_pointer = "do not use pointers to destroyed objects";

} // namespace

router::router(rank_objects& objects, object_loads& loads, admission& access, event_signals& events,
               std::size_t most_remote)
    : objects_(objects), node_(objects.node()), rank_(objects.rank()), most_remote_(most_remote / shard_count),
      loads_(loads), admission_(access), events_(events), mail_(objects), line_(objects.node()) {}

inline bool router::is_own(const entry* e) noexcept {
  return e && e->at != entry::place::gone && (e->is_here() || e->under_way > 0 || e->own_closing);
}

destination router::find_destination(object_id id) {
  objects_.check(id);
  tern::detail::activations::settle();
  destination d;
  d.to = address(id, rank_);
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  choose(s, s.entries.find(id), d);
  return d;
}

// Under the shard's lock, where there is no entry.
// \return one that has been made; null: none, and the destination is chosen if something is known.
[[gnu::noinline]] entry* router::choose_far(shard& s, destination& d) {
  const auto number = s.entries.number(d.to.object);
  if (!number) return nullptr;
  far_place f = far_place::of(*number);
  f.used = true;
  const std::uint64_t next = f.sent++;
  if (!f.fits()) return s.find_any(d.to.object);
  s.entries.put_number(d.to.object, f.number());
  d.where = f.where;
  d.as = destination::kind::numbered;
  d.to.stream = rank_;
  d.to.number = next;
  return nullptr;
}

// Under the shard's lock.
inline void router::choose(shard& s, entry* e, destination& d) {
  if (!e && (e = choose_far(s, d), d.as == destination::kind::numbered)) [[unlikely]]
    return;
  if (!e || e->at == entry::place::gone) {
    d.where = objects_.home_of(d.to.object);
    if (d.where != rank_) {
      d.as = destination::kind::home;
      ++s.posting;
    }
  } else if (is_own(e)) {
    d.where = rank_;
    e->lined = e->lined && e->under_way > 0; // one way at a time: so they stay in order
    d.as = e->lined ? destination::kind::lined : destination::kind::self;
    ++e->under_way;
  } else {
    d.where = e->where;
    e->used = true;
    d.as = destination::kind::numbered;
    d.to.stream = rank_;
    d.to.number = e->sent++;
  }
}

std::byte* router::place(object_id id, near_function run, std::size_t arguments, std::size_t message) noexcept {
  if (arguments > own_line::most_near || tern::detail::this_worker_head()->causal ||
      (objects_.attends() & rank_objects::to_contacts) != 0) [[unlikely]]
    return nullptr;
  shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  entry* const e = s.entries.find(id);
  if (!is_own(e) || (e->under_way > 0 && !e->lined) || !node_.try_line_up()) return nullptr;
  std::byte* const at = line_.place(id, run, arguments, message);
  if (!at) [[unlikely]] {
    node_.leave_line();
    return nullptr;
  }
  ++e->under_way;
  e->lined = true;
  return at;
}

inline destination router::deliver_or_find(object_id id, outgoing_mail& message, bool invokes) {
  objects_.check(id);
  destination d;
  d.to = address(id, rank_);
  std::byte* const at = message.message().data();
  net::wire_header h;
  std::memcpy(&h, at, sizeof h);
  std::memcpy(at + sizeof h, &d.to, sizeof d.to);
  const std::size_t bytes = message.bytes();
  node_.hand_over(bytes); // before it can be done
  if (mail_.hand_over(id, message, h, invokes)) {
    d.where = rank_;
    d.as = destination::kind::mailed;
    return d;
  }
  mailboxes::started put;
  try {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(id);
    if (is_own(e)) [[likely]] {
      put = mail_.put(*e, message);
      ++e->under_way;
      d.where = rank_;
      d.as = destination::kind::mailed;
    } else {
      choose(s, e, d);
    }
  } catch (...) {
    node_.take_back(bytes);
    throw;
  }
  if (d.is_mailed()) [[likely]] {
    mail_.start(put, h.reply != 0);
  } else {
    node_.take_back(bytes);
    std::memcpy(at + sizeof h, &d.to, sizeof d.to);
  }
  return d;
}

destination router::send(object_id id, outgoing_mail& message, bool invokes) {
  destination d = deliver_or_find(id, message, invokes);
  if (d.is_mailed()) [[likely]]
    return d;
  try {
    node_.post(d.where, byte_buffer::copy_of(message.message()), message.body(), {});
  } catch (...) {
    failed(d);
    throw;
  }
  sent(d);
  return d;
}

// The last fiber that posts to homes opens the streams that had to wait: what they open by way of
// the home must come there after what was sent there before.
void router::posted_to_home(const destination& d) {
  shard& s = objects_.shard_of(d.to.object);
  std::vector<object_id> open;
  {
    const std::lock_guard hold(s.lock);
    if (--s.posting == 0 && !s.to_open.empty()) [[unlikely]]
      open.swap(s.to_open);
  }
  for (const object_id id : open) post_open(net::node::here(), objects_.home_of(id), id);
}

void router::failed(const destination& d) noexcept {
  try {
    not_sent(d);
  } catch (const error& e) {
    if (e.code() != errc::invalid_state) node_.fatal(e.what()); // but for the job's end, when nothing follows
  }
}

void router::not_sent(const destination& d) {
  switch (d.as) {
  case destination::kind::nowhere:
  case destination::kind::mailed:
    return;
  case destination::kind::home:
    return posted_to_home(d);
  case destination::kind::numbered:
    return post_skip(node_, d.where, d.to); // else what follows would wait for ever
  case destination::kind::lined:
  case destination::kind::self: {
    shard& s = objects_.shard_of(d.to.object);
    const std::lock_guard hold(s.lock);
    if (entry* const e = s.entries.find(d.to.object); e && e->under_way > 0) --e->under_way;
    return;
  }
  }
}

int router::last_known(object_id id) const {
  const shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  const entry* const e = s.entries.find(id);
  if (const auto number = e ? std::nullopt : s.entries.number(id)) return far_place::of(*number).where;
  return !e ? objects_.home_of(id) : e->is_here() ? rank_ : e->where;
}

void router::return_credit(object_id id, std::uint64_t credit) noexcept {
  try {
    if (objects_.keep_credit(id, credit)) return;
    const net::wire_header h{return_credit_handler.id(), 0, 0};
    if (mail_.in_use()) {
      outgoing_mail m(mail_, sizeof h + sizeof(address) + sizeof credit);
      std::memcpy(m.message().data(), &h, sizeof h);
      std::memcpy(m.message().data() + sizeof h + sizeof(address), &credit, sizeof credit);
      send(id, m, false);
      return;
    }
    const destination d = find_destination(id);
    try {
      if (d.is_lined()) {
        const byte_buffer message = pack(h, d.to, credit);
        line_.put(id, message.bytes(), {});
      } else {
        net::detail::post_packed(node_, d.where, h, {}, d.to, std::as_const(credit));
      }
    } catch (...) {
      failed(d);
      throw;
    }
    sent(d);
  } catch (const error& e) {
    if (e.code() != errc::invalid_state) node_.fatal(e.what()); // but for the job's end
  } catch (const std::exception& e) {
    node_.fatal(e.what());
  }
}

// Arriving ------------------------------------------------------------------------------------------------------------

void router::arrive_late(std::unique_ptr<invocation> one, bool runs_here) {
  if (objects_.abandoned()) [[unlikely]] { // nothing waits any more
    if (!runs_here) node_.message_done(one->header);
    return;
  }
  one->on = node_.hold_account();
  if (runs_here) node_.parked(one->header);
  deferred_actions then;
  std::unique_ptr<entry> reduced;
  {
    shard& s = objects_.shard_of(one->to.object);
    const std::lock_guard hold(s.lock);
    entry* const e = s.find_any(one->to.object);
    if (e && e->at != entry::place::gone) {
      if (one->to.stream == address::no_stream && one->source == rank_ && e->under_way > 0) --e->under_way;
      then.of = e;
      take_in(*e, std::move(one), then);
      reduced = s.reduce(*e);
    }
  }
  if (one) return undeliverable(std::move(one));
  objects_.perform(then);
}

void router::undeliverable(std::unique_ptr<invocation> one) {
  const int home = objects_.home_of(one->to.object);
  const tern::detail::held_context on = tern::detail::held_context(one->on.get());
  const tern::detail::causal_scope in(on.get());
  if (home == rank_ && one->to.stream != address::moved) {
    one->on.reset();
    return refuse(*one);
  }
  one->to.count_hop();
  // What has followed an object that could not be unpacked here goes back to it.
  const int where = one->to.stream == address::moved ? one->source : home;
  forward(node_, where, std::move(one));
}

std::string router::missing(object_id id, const std::string& type) const {
  if (const std::string element = element_name(&node_, id); !element.empty())
    return element + " (object " + to_string(id) + ") does not exist: it was never inserted, or has been erased";
  return "object " + to_string(id) + (type.empty() ? "" : " (" + type + ")") +
         (objects_.was_created(id) ? " has been destroyed" : " was never created");
}

void router::answer(const invocation& one, error problem) {
  node_.reply_error(one.to.origin(), one.header.reply, std::make_exception_ptr(std::move(problem)),
                    "invocation of '" + one.what->name() + "'");
}

// No rank has the object.
void router::refuse(invocation& one) {
  const int origin = one.to.origin();
  const action what = one.what->what;
  if (what != action::open && what != action::skip && what != action::close && !is_unasked(one)) {
    const std::string type = one.what->type ? one.what->type()->name : "";
    answer(one, error(errc::not_found, missing(one.to.object, type), stale_pointer));
  }
  // The rank that numbers them does not know yet.
  if (origin != rank_ && (one.to.stream == origin || what == action::open))
    post_note(node_, origin, {one.to.object, directory_note::kind::gone, rank_, 0, 0});
  if (one.what->discard) one.what->discard(one.message);
  node_.refused(one.source, one.header, one.what->name());
}

void router::refuse_late(std::unique_ptr<invocation> one) {
  const tern::detail::held_context on = std::move(one->on);
  const tern::detail::causal_scope in(on.get());
  const std::string type = one->what->type ? one->what->type()->name : "";
  answer(*one, error(errc::not_found, missing(one->to.object, type), stale_pointer));
  if (one->what->discard) one->what->discard(one->message);
  node_.refused(one->source, one->header, one->what->name());
}

// Notes ---------------------------------------------------------------------------------------------------------------

// The rank that has sent by a detour is told once.
void router::notify_origin(entry& e, const address& to, deferred_actions& then) {
  const int origin = to.origin();
  if (to.hops() == 0 || origin == rank_ || (e.at != entry::place::here && !e.is_out())) return;
  std::vector<int>& notified = e.travels().notified;
  if (std::find(notified.begin(), notified.end(), origin) != notified.end()) return;
  notified.push_back(origin);
  then.notes.emplace_back(origin, directory_note{e.id, directory_note::kind::located, rank_, e.version, 0});
}

void router::notify_closed(entry& e, deferred_actions& then) {
  for (const int rank : e.travel->closed)
    then.notes.emplace_back(rank, directory_note{e.id, directory_note::kind::closed, rank_, e.version, 0});
  e.travel->closed.clear();
}

void router::take(int source, const directory_note& n) {
  check_address(address(n.object, source), node_.size(), objects_.homes().count());
  if (n.where < 0 || n.where >= node_.size()) bad_rank(n.object, n.where, node_.size());
  deferred_actions then;
  std::unique_ptr<entry> reduced;
  shard& s = objects_.shard_of(n.object);
  {
    const std::lock_guard hold(s.lock);
    entry* e = s.find_any(n.object);
    if (e && e->at == entry::place::gone) e = nullptr;
    then.of = e;
    if (e && e->at == entry::place::left &&
        (n.what == directory_note::kind::gone || n.what == directory_note::kind::moved)) {
      e->travels().notes.emplace_back(source, n); // it is newer than what this rank knows
      return;
    }
    switch (n.what) {
    case directory_note::kind::located:
      if (!e) {
        if (objects_.is_home(n.object)) break; // it has been destroyed since
        auto fresh = std::make_unique<entry>(n.object);
        e = fresh.get();
        e->at = entry::place::elsewhere;
        e->where = n.where;
        e->version = n.version;
        s.entries.insert(n.object, e, false);
        fresh.release();
        open_own_stream(s, *e, then);
        count_remote(s, *e, then);
      } else if (e->at == entry::place::elsewhere && n.version > e->version) {
        e->where = n.where;
        e->version = n.version;
      }
      break;
    case directory_note::kind::moved:
      if (e && e->at == entry::place::elsewhere && n.version > e->version) {
        e->where = n.where;
        e->version = n.version;
      }
      then.notes.emplace_back(source, directory_note{n.object, directory_note::kind::confirmed, rank_, n.version, 0});
      break;
    case directory_note::kind::confirmed:
      if (e && e->is_here() && e->version == n.version) {
        e->confirmed = true;
        if (e->travel) notify_closed(*e, then);
        admission_.admit_waiting(*e, then);
        e->settle();
      }
      break;
    case directory_note::kind::gone:
      if (e && e->at == entry::place::elsewhere) {
        if (e->travel)
          while (!e->travel->after_close.empty())
            then.forwards.push_back({objects_.home_of(n.object), e->travel->after_close.pop()});
        forget(s, *e, then);
        e = nullptr;
      }
      break;
    case directory_note::kind::closed:
      if (e && e->own_closing && !e->own_closed) own_stream_closed(*e, then);
      break;
    }
    if (e) reduced = s.reduce(*e);
  }
  objects_.perform(then);
}

} // namespace tern::mobile::detail

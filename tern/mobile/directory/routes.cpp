// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that are elsewhere: where messages go, in which order they are taken in, and who is told what.
#include <tern/mobile/directory.hpp>

#include <algorithm>
#include <cstring>

#include <tern/base/error.hpp>
#include <tern/mobile/access/deferred_actions.hpp>
#include <tern/net/message.hpp>

namespace tern::mobile {
namespace {

constexpr std::uint32_t kept_flags = net::flag_uncounted | net::flag_high | net::flag_low; // by what is sent on

/// A message that has been sent on so often goes to the home, which is never far behind.
constexpr unsigned most_hops = 8;

const std::string destroy_name = "destroy", migrate_name = "migrate", put_out_name = "put_out", pin_name = "pin",
                  unpin_name = "unpin";
const std::string any_object = "object"; // of whatever class
const std::string share_out_name = "tern counted references", give_back_name = "tern references given back";
const std::string open_name = "tern open stream", close_name = "tern close stream", skip_name = "tern skipped number";

template <action What, const std::string& Name>
const invocable control{What, nullptr, []() -> const std::string& { return Name; }, nullptr};

template <action What, const std::string& Name>
void take_control(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::here().arrive(here, control<What, Name>, source, header, message, false);
}

void take_destroy_here(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, control<action::destroy, destroy_name>, source, header, message, true);
}

struct open_tag {};
struct close_tag {};
struct skip_tag {};
struct note_tag {};
const net::handler_record open_handler{typeid(open_tag), open_name, __FILE__, &take_control<action::open, open_name>,
                                       true};
const net::handler_record close_handler{typeid(close_tag), close_name, __FILE__,
                                        &take_control<action::close, close_name>, true};
const net::handler_record skip_handler{typeid(skip_tag), skip_name, __FILE__, &take_control<action::skip, skip_name>,
                                       true};

void take_note(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::here().take(here, source, unpack<directory_note>(net::detail::body_of(message.bytes)));
  here.message_done(header);
}
const net::handler_record note_handler{typeid(note_tag), "tern directory note", __FILE__, &take_note, true};

} // namespace

namespace detail {

namespace {
struct destroy_tag {};
struct migrate_tag {};
struct put_out_tag {};
struct pin_tag {};
struct unpin_tag {};
struct share_out_tag {};
struct give_back_tag {};
} // namespace
// Where it can it ends the object at once, which runs the program's destructor: so it is none of those that never wait.
const net::handler_record destroy_handler{
    typeid(destroy_tag), destroy_name, __FILE__, &take_control<action::destroy, destroy_name>, false,
    &take_destroy_here};
const net::handler_record migrate_handler{typeid(migrate_tag), migrate_name, __FILE__,
                                          &take_control<action::migrate, migrate_name>, true};

const net::handler_record put_out_handler{typeid(put_out_tag), put_out_name, __FILE__,
                                          &take_control<action::put_out, put_out_name>, true};
const net::handler_record pin_handler{typeid(pin_tag), pin_name, __FILE__, &take_control<action::pin, pin_name>, true};
const net::handler_record unpin_handler{typeid(unpin_tag), unpin_name, __FILE__,
                                        &take_control<action::unpin, unpin_name>, true};

const net::handler_record share_out_handler{typeid(share_out_tag), share_out_name, __FILE__,
                                            &take_control<action::share_out, share_out_name>, true};
const net::handler_record give_back_handler{typeid(give_back_tag), give_back_name, __FILE__,
                                            &take_control<action::give_back, give_back_name>, true};

void make_destroy(invocation& one) noexcept {
  one.what = &control<action::destroy, destroy_name>;
  one.header.handler = destroy_handler.id(); // it may be sent on
}

std::uint64_t credit_in(invocation& one) {
  return std::get<0>(net::detail::unpack_call<std::tuple<std::uint64_t>>(one.message, sizeof(address)));
}

void post_note(net::node& here, int to, const directory_note& n) {
  net::detail::post_packed(here, to, {note_handler.id(), 0, 0}, {}, n);
}

void post_open(net::node& here, object_id id) {
  net::detail::post_packed(here, id.home(), {open_handler.id(), 0, 0}, {}, address(id, here.rank()));
}

void post_close(net::node& here, int where, const address& to) {
  net::detail::post_packed(here, where, {close_handler.id(), 0, 0}, {}, to);
}

std::unique_ptr<invocation> migrate_request(net::node& here, object_id id, int to, std::uint64_t reply) {
  auto one = std::make_unique<invocation>();
  one->what = &control<action::migrate, migrate_name>;
  one->source = here.rank();
  one->header = {migrate_handler.id(), 0, reply};
  one->to = address(id, here.rank());
  one->message.bytes = pack(one->header, one->to, static_cast<std::int32_t>(to));
  one->on = here.hold_account();
  here.parked(one->header);
  return one;
}

void post_skip(net::node& here, const directory::way& w) {
  net::detail::post_packed(here, w.where, {skip_handler.id(), 0, 0}, {}, w.to);
}

void forward(net::node& here, int where, std::unique_ptr<invocation> one) {
  net::wire_header h = one->header;
  h.flags = (h.flags & kept_flags) | (one->message.body.empty() ? 0 : net::flag_range);
  byte_buffer& bytes = one->message.bytes;
  if (!bytes.writable()) bytes = bytes.copy();
  std::memcpy(bytes.data(), &h, sizeof h);
  std::memcpy(bytes.data() + sizeof h, &one->to, sizeof one->to);
  here.forwards(one->source, one->header, one->what->type ? one->what->type()->name : any_object, one->to.object.bits);
  {
    const tern::detail::causal_scope in(one->on.get());
    here.post(where, std::move(bytes), one->message.body, {(h.flags & net::flag_uncounted) == 0});
  }
  one->on.reset();
  here.message_done(one->header); // after what it has caused was counted
}

} // namespace detail

// Sending -------------------------------------------------------------------------------------------------------------

inline void directory::check_id(object_id id) const {
  if (!id || id.home() >= node_.size()) [[unlikely]]
    check(id);
}

void directory::check(object_id id) const {
  if (!id) throw error(errc::invalid_argument, "a null mobile_ptr was invoked", "create the object first");
  if (const int size = node_.size(); id.home() >= size)
    throw error(errc::invalid_argument,
                "a mobile_ptr names object " + to_string(id) + ", but the job has " + std::to_string(size) + " ranks",
                "pointers are valid within the job that made them only");
}

directory::way directory::find_way(object_id id) {
  check_id(id);
  way w;
  w.to = address(id, rank_);
  shard& s = shard_of(id);
  const std::lock_guard hold(s.lock);
  entry* const e = s.entries.find(id);
  if (!e || e->at == entry::place::gone) {
    w.where = id.home();
    if (id.home() != rank_) {
      w.as = way::kind::home;
      ++s.posting;
    }
  } else if (e->is_here() || e->under_way > 0 || e->own_closing) {
    w.where = rank_;
    w.as = way::kind::self;
    ++e->under_way;
  } else {
    w.where = e->where;
    e->used = true;
    w.as = way::kind::numbered;
    w.to.stream = rank_;
    w.to.number = e->sent++;
  }
  return w;
}

// The last of those who post to homes opens the streams that had to wait: what they open by way of the home must come
// there after what was sent there before.
void directory::posted_to_home(const way& w) {
  shard& s = shard_of(w.to.object);
  std::vector<object_id> open;
  {
    const std::lock_guard hold(s.lock);
    if (--s.posting == 0 && !s.to_open.empty()) [[unlikely]]
      open.swap(s.to_open);
  }
  for (const object_id id : open) detail::post_open(net::node::here(), id);
}

void directory::failed(const way& w) noexcept {
  try {
    not_sent(w);
  } catch (const error& e) {
    if (e.code() != errc::invalid_state) node_.fatal(e.what()); // but for the job's end, when nothing follows
  }
}

void directory::not_sent(const way& w) {
  switch (w.as) {
  case way::kind::nowhere:
    return;
  case way::kind::home:
    return posted_to_home(w);
  case way::kind::numbered:
    return detail::post_skip(node_, w); // else what follows would wait for ever
  case way::kind::self: {
    shard& s = shard_of(w.to.object);
    const std::lock_guard hold(s.lock);
    if (entry* const e = s.entries.find(w.to.object); e && e->under_way > 0) --e->under_way;
    return;
  }
  }
}

// Order ---------------------------------------------------------------------------------------------------------------

void directory::take_in(entry& e, std::unique_ptr<invocation> one, todo& then) {
  const bool own = one->to.stream == address::no_stream && one->to.origin() == rank_;
  if (one->to.stream == address::moved && e.at != entry::place::left) {
    if (e.at == entry::place::elsewhere) { // the object could not be unpacked here
      const int from = one->source;
      then.forwards.push_back({from, std::move(one)});
    } else if (e.coming > 0) {
      accept(e, std::move(one), then); // `coming` keeps it from running
      if (--e.coming == 0) {
        release_held(e, then);
        pump(e, then);
      }
    } else {
      throw error(errc::invalid_data, "rank " + std::to_string(one->source) + " sent more with object " +
                                          to_string(e.id) + " than it had announced");
    }
    return;
  }
  if (e.own_closing && own) {
    if (!e.own_left) return e.travels().after_close.push(std::move(one));
    then.forwards.push_back({e.id.home(), std::move(one)});
    then.left = e.id;
    return;
  }
  if (e.holds_all()) return e.travels().held.push(std::move(one));
  if (e.at == entry::place::elsewhere) return send_on(e, std::move(one), then);
  tell_where(e, one->to, then);
  if (one->to.stream == address::no_stream) {
    if (!e.own_open) return accept(e, std::move(one), then);
    one->to.stream = rank_;
    one->to.number = e.sent++;
  }
  accept_numbered(e, std::move(one), then);
}

void directory::accept_numbered(entry& e, std::unique_ptr<invocation> one, todo& then) {
  const int rank = one->to.stream;
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

// Those that have waited for a number of this rank's stream.
void directory::after_number(entry& e, int rank, todo& then) {
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

void directory::open_stream(entry& e, int rank, todo& then) {
  if (e.travels().find(rank))
    node_.fatal("rank " + std::to_string(rank) + " has opened its stream to object " + to_string(e.id) +
                " twice: this is a fault of Tern's or of the network");
  e.travel->streams.push_back({rank, 0, 0});
  after_number(e, rank, then);
}

// Both of its ends are here.
void directory::close_own_if_drained(entry& e) {
  if (!e.own_open || e.own_closing || e.at == entry::place::elsewhere) return;
  stream_state* const s = e.travel->find(rank_);
  if (!s || s->expected != e.sent) return;
  std::erase_if(e.travel->streams, [&](const stream_state& st) { return st.rank == rank_; });
  e.own_open = false;
  e.sent = 0;
}

// Whoever has sent to an object by way of its home and then numbers its messages tells so by way of the home.
void directory::begin_own(shard& s, entry& e, todo& then) {
  e.own_open = true;
  e.sent = 0;
  if (s.posting == 0)
    then.opens.push_back(e.id);
  else
    s.to_open.push_back(e.id);
}

void directory::send_on(entry& e, std::unique_ptr<invocation> one, todo& then) {
  if (one->to.stream == address::no_stream) {
    one->to.stream = rank_;
    one->to.number = e.sent++;
  }
  const unsigned hops = one->to.hops();
  const bool far = hops > 0 && hops % most_hops == 0 && e.id.home() != rank_;
  one->to.count_hop();
  then.forwards.push_back({far ? e.id.home() : e.where, std::move(one)});
}

// The object has taken in all that this rank has numbered for it.
void directory::release_own(entry& e, todo& then) {
  e.own_open = false;
  e.sent = 0;
  invocation_list kept = e.travel ? std::move(e.travel->after_close) : invocation_list();
  if (e.at != entry::place::elsewhere) { // it has come here meanwhile
    e.own_closing = false;
    while (!kept.empty()) take_in(e, kept.pop(), then);
    return pump(e, then);
  }
  // As if it had never been heard of: what comes next goes by way of the home, behind what has been kept.
  while (!kept.empty()) then.forwards.push_back({e.id.home(), kept.pop()});
  e.own_left = true;
  then.left = e.id;
}

// When what was sent on has been posted: what this rank sends next does not come by here.
void directory::forget_left(object_id id) {
  todo then;
  shard& s = shard_of(id);
  const std::lock_guard hold(s.lock);
  if (entry* const e = s.entries.find(id); e && e->own_left && e->under_way == 0) forget(s, *e, then);
}

void directory::forget(shard& s, entry& e, todo& then) const {
  s.entries.erase(e.id);
  if (e.id.home() != rank_) --s.routes;
  then.forgotten.reset(&e);
  then.of = nullptr;
}

// One more object is known to be elsewhere. If those are too many, one that was not sent to lately is forgotten, once
// it has taken in what was: the clock algorithm (Corbato 1968).
void directory::count_route(shard& s, const entry& one, todo& then) {
  if (one.id.home() == rank_ || ++s.routes <= most_routes_) return;
  const std::size_t slots = s.entries.capacity();
  for (std::size_t looks = std::min<std::size_t>(2 * slots, 256); looks > 0; --looks) {
    entry* const e = s.entries.at(s.hand++ % slots);
    if (!e || e->at != entry::place::elsewhere || !e->own_open || e->own_closing || e->under_way > 0 ||
        e->id.home() == rank_)
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

void directory::release_held(entry& e, todo& then) {
  if (!e.travel) return;
  invocation_list late = std::move(e.travel->held);
  while (!late.empty()) take_in(e, late.pop(), then);
}

void directory::lost(net::node& here, std::unique_ptr<invocation> one) {
  const int home = one->to.object.home();
  const tern::detail::held_context on = tern::detail::held_context(one->on.get());
  const tern::detail::causal_scope in(on.get());
  if (home == rank_ && one->to.stream != address::moved) {
    one->on.reset();
    return refuse(here, *one);
  }
  one->to.count_hop();
  // What has followed an object that could not be unpacked here goes back to it.
  const int where = one->to.stream == address::moved ? one->source : home;
  detail::forward(here, where, std::move(one));
}

// Notes ---------------------------------------------------------------------------------------------------------------

// To whoever has sent by a detour, once.
void directory::tell_where(entry& e, const address& to, todo& then) {
  const int origin = to.origin();
  if (to.hops() == 0 || origin == rank_ || (e.at != entry::place::here && !e.is_out())) return;
  std::vector<int>& told = e.travels().told;
  if (std::find(told.begin(), told.end(), origin) != told.end()) return;
  told.push_back(origin);
  then.notes.emplace_back(origin, directory_note{e.id, directory_note::kind::located, rank_, e.version, 0});
}

void directory::tell_closed(entry& e, todo& then) {
  for (const int rank : e.travel->closed)
    then.notes.emplace_back(rank, directory_note{e.id, directory_note::kind::closed, rank_, e.version, 0});
  e.travel->closed.clear();
}

void directory::take(net::node& here, int source, const directory_note& n) {
  detail::check_address(address(n.object, source), here.size());
  if (n.where < 0 || n.where >= here.size()) detail::bad_rank(n.object, n.where, here.size());
  todo then;
  shard& s = shard_of(n.object);
  {
    const std::lock_guard hold(s.lock);
    entry* e = s.entries.find(n.object);
    if (e && e->at == entry::place::gone) e = nullptr;
    then.of = e;
    if (e && e->at == entry::place::left &&
        (n.what == directory_note::kind::gone || n.what == directory_note::kind::moved)) {
      e->travels().notes.emplace_back(source, n); // it is further than we know
      return;
    }
    switch (n.what) {
    case directory_note::kind::located:
      if (!e) {
        if (n.object.home() == rank_) break; // it has been destroyed since
        auto fresh = std::make_unique<entry>(n.object);
        e = fresh.get();
        e->at = entry::place::elsewhere;
        e->where = n.where;
        e->version = n.version;
        s.entries.insert(n.object, e, false);
        fresh.release();
        begin_own(s, *e, then);
        count_route(s, *e, then);
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
        if (e->travel) tell_closed(*e, then);
        pump(*e, then);
      }
      break;
    case directory_note::kind::gone:
      if (e && e->at == entry::place::elsewhere) {
        if (e->travel)
          while (!e->travel->after_close.empty())
            then.forwards.push_back({n.object.home(), e->travel->after_close.pop()});
        forget(s, *e, then);
      }
      break;
    case directory_note::kind::closed:
      if (e && e->own_closing && !e->own_left) release_own(*e, then);
      break;
    }
  }
  act(here, then);
}

} // namespace tern::mobile

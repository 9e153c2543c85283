// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that are here: who may run on one, and when.
#include <tern/mobile/directory.hpp>

#include <cstring>

#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/mobile/detail/todo.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

namespace tern::mobile {
namespace {

const rank_local<directory> the_directory;

} // namespace

const option<int> known_option{"mobile-known", 65536,
                               "how many of the objects that have moved, and were not born there, each rank remembers "
                               "the place of; others are asked for at their birth places",
                               between<int>(0, 1'000'000'000)};

const option<std::string> debug_option{
    "debug-migrate", "none",
    "to find members that a class's serialize forgets: each object that can move does "
    "after each invocation, to the next rank or to any; or is packed and unpacked "
    "where it is before each exclusive one",
    one_of({"none", "rotate", "random", "reserialize"})};

namespace {

debugging debugging_of(const options& opts) {
  const std::string& word = opts[debug_option];
  return word == "rotate"        ? debugging::rotate
         : word == "random"      ? debugging::random
         : word == "reserialize" ? debugging::reserialize
                                 : debugging::none;
}

} // namespace

directory::directory()
    : node_(net::node::here()), rank_(node_.rank()),
      most_routes_(static_cast<std::size_t>(node_.opts()[known_option]) / shards), debug_(debugging_of(node_.opts())),
      moves_on_(debug_ == debugging::rotate || debug_ == debugging::random),
      shards_(std::make_unique<shard[]>(shards)) {
  if (node_.size() > 1 << address::origin_bits)
    throw error(errc::unsupported, "mobile objects know 2^24 ranks, no more");
  if (node_.one_thread()) {
    const tern::detail::asymmetric_barrier barrier(tern::detail::asymmetric_barrier::available(true));
    for (std::size_t n = 0; n < shards; ++n) shards_[n].lock.own(barrier);
  }
  node_.report_on(*this);
}

directory::~directory() {
  ending_ = true; // objects that are destroyed here may hold counted references
  node_.forget_part(*this);
  for (std::size_t n = 0; n < shards; ++n) {
    const auto& table = shards_[n].entries;
    for (std::size_t i = 0; i < table.capacity(); ++i) {
      const std::unique_ptr<entry> e(table.at(i));
      if (e && e->object) e->type->destroy(e->object);
    }
  }
}

directory& directory::here() { return of(net::node::here()); }
directory& directory::of(net::node& here) { return the_directory.of(here); }
directory* directory::current() noexcept {
  net::node* const n = net::node::current();
  if (!n) return nullptr;
  directory& d = of(*n);
  return d.ending_ ? nullptr : &d;
}

object_id directory::add(const type_record& type, void* object, std::uint64_t credit) {
  // relaxed: numbers need only differ
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (number >> 40) throw error(errc::unsupported, "a rank can make 2^40 objects, no more");
  const object_id id(rank_, number);
  auto e = std::make_unique<entry>(id);
  e->type = &type;
  e->object = object;
  e->credit = credit;
  shard& s = shard_of(id);
  const std::lock_guard hold(s.lock);
  s.entries.insert(id, e.get(), true);
  e.release();
  return id;
}

std::size_t directory::size() const {
  std::size_t n = 0;
  for (std::size_t k = 0; k < shards; ++k) {
    const std::lock_guard hold(shards_[k].lock);
    const auto& table = shards_[k].entries;
    for (std::size_t i = 0; i < table.capacity(); ++i)
      if (const entry* e = table.at(i)) n += e->object != nullptr;
  }
  return n;
}

bool directory::is_here(object_id id) const {
  const shard& s = shard_of(id);
  if (const auto found = s.entries.looks_marked(id)) [[likely]]
    return *found;
  const std::lock_guard hold(s.lock);
  return s.entries.looks_marked(id).value_or(false);
}

std::string directory::missing(object_id id, const std::string& type) const {
  const bool never = id.home() == rank_ && id.number() >= next_.load(std::memory_order_relaxed);
  return "object " + to_string(id) + (type.empty() ? "" : " (" + type + ")") +
         (never ? " was never created" : " has been destroyed");
}

// The frequent case in one go: the object is here, nothing waits for it, and what runs lets this run too.
inline void* directory::admit_at_once(const invocable& what, const address& to, int source, entry*& e) {
  shard& s = shard_of(to.object);
  const std::lock_guard hold(s.lock);
  e = s.entries.find(to.object);
  if (!e || to.stream != address::no_stream || e->own_open || to.hops() != 0 || e->starting || !e->waiting.empty() ||
      !e->admits(what.what)) [[unlikely]]
    return nullptr;
  const type_record& wanted = *what.type();
  void* const object = e->type == &wanted ? e->object : cast_object(*e->type, e->object, wanted);
  if (!object) [[unlikely]]
    return nullptr;
  if (source == rank_ && e->under_way > 0) --e->under_way;
  e->admit(what.what);
  if (watches()) [[unlikely]]
    weigh_arrival(*e);
  return object;
}

directory::held directory::try_hold(object_id id, const type_record& wanted, action how) {
  check(id);
  shard& s = shard_of(id);
  const std::lock_guard hold(s.lock);
  entry* const e = s.entries.find(id);
  // After what this rank has sent before.
  if (!e || e->under_way > 0 || e->own_open || e->starting || !e->waiting.empty() || !e->admits(how)) return {};
  void* const object = cast_object(*e->type, e->object, wanted);
  if (object) e->admit(how);
  return {e, object};
}

// May another one run under the access that the last one had?
bool directory::admits_next(entry& e, const address& to, int source) {
  const std::lock_guard hold(shard_of(e.id).lock);
  if (to.stream != address::no_stream || e.own_open || to.hops() != 0 || !e.waiting.empty() ||
      e.at != entry::place::here || e.coming > 0 || e.may_leave() || (e.travel && !e.travel->resuming.empty()))
      [[unlikely]]
    return false;
  if (source == rank_ && e.under_way > 0) --e.under_way;
  return true;
}

void* directory::series::admit_anew(const address& to) {
  end();
  detail::check_address(to, directory_.node_.size());
  if (directory_.debug_ == debugging::none && !directory_.watches())
    object_ = directory_.admit_at_once(what_, to, source_, of_);
  if (!object_) of_ = nullptr;
  return object_;
}

void directory::series::end() {
  if (object_) directory_.finished(directory_.node_, *of_, what_.what != action::share);
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
  void* const object = what.run && debug_ != debugging::reserialize ? admit_at_once(what, to, source, e) : nullptr;
  if (object) [[likely]] {
    if (!runs_here) {
      auto one = kept(what, source, header, to, message);
      {
        const std::lock_guard hold(shard_of(to.object).lock);
        e->will_begin(*one);
      }
      return start(here, *e, std::move(one));
    }
    run(here, what, *e, object, to, header, message);
    return finished(here, *e, what.what != action::share);
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

// In the order in which it is to run.
void directory::accept(entry& e, std::unique_ptr<invocation> one, todo& then) {
  switch (one->what->what) {
  case action::share:
  case action::exclude:
  case action::destroy:
    if (!e.starting && e.waiting.empty() && e.admits(one->what->what)) {
      e.admit(*one);
      e.starting = true;
      then.start.push(std::move(one));
    } else {
      e.waiting.push_by_priority(std::move(one));
    }
    if (watches()) weigh_arrival(e);
    return;
  case action::migrate:
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
    e.credit += detail::credit_in(*one);
    then.done.push(std::move(one));
    return;
  case action::give_back: {
    const std::uint64_t back = detail::credit_in(*one);
    if (back > e.credit)
      throw error(errc::invalid_data,
                  "more references to object " + to_string(e.id) + " were given back than there are");
    e.credit -= back;
    if (e.credit > 0) {
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
  for (const object_id id : then.opens) detail::post_open(here, id);
  for (const auto& [where, to] : then.closes) detail::post_close(here, where, to);
  for (const auto& [rank, n] : then.notes) detail::post_note(here, rank, n);
  while (!then.done.empty()) {
    const auto one = then.done.pop();
    if (one->header.reply) {
      const tern::detail::cause_scope in(one->on.get());
      net::detail::post_answer(here, one->to.origin(), one->header.reply);
    }
    one->on.let_go();
    here.message_done(one->header);
  }
  if (then.request) {
    auto* const e = then.of;
    const net::wire_header header = then.request->header;
    const int source = then.request->source;
    const tern::detail::cause_scope in(then.request->on.get());
    here.run_handler(
        [this, &here, e, request = std::move(then.request)]() mutable { depart(here, *e, std::move(request)); }, source,
        header, detail::migrate_handler.name());
  }
  // None of them where messages arrive: while one waits, others that it was admitted with must begin.
  if (!then.start.empty()) here.start_none_at_once();
  while (!then.start.empty()) {
    entry& e = *then.of;
    while (!then.start.empty()) {
      auto one = then.start.pop();
      const tern::detail::held_cause on = std::move(one->on); // not on that of who has made room
      const tern::detail::cause_scope in(on.get());
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
    if (then.request || !then.wake.empty()) return act(here, then);
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
          if (one->what->what == action::destroy) return end_object(here, e, *one);
          const bool exclusive = one->what->what != action::share;
          const type_record& wanted = *one->what->type();
          if (exclusive && debug_ == debugging::reserialize && e.unfinished == 0 && !reserialize(here, e, *one))
            ;
          else if (void* const object = cast_object(*e.type, e.object, wanted))
            run(here, *one->what, e, object, one->to, one->header, one->message);
          else
            answer(here, *one,
                   error(errc::not_found,
                         "object " + to_string(e.id) + " is a " + e.type->name + ", not a " + wanted.name));
          one.reset(); // what it holds goes before the next one sees the object
          finished(here, e, exclusive);
        },
        source, header, name);
  } catch (const std::exception& x) { // memory has run out: the object would stay locked for ever
    here.fatal("cannot start '" + name + "': " + x.what());
  }
}

void directory::run(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                    const net::wire_header& header, net::payload& message) {
  const running_invocation frame(*this, e, what.what);
  if (!watches()) [[likely]]
    return what.run(here, object, to, header, message);
  run_watched(here, what, e, object, to, header, message);
}

directory::running_invocation& directory::running(const char* what) {
  auto* const frame = tern::detail::work_frame::here();
  if (!frame)
    throw error(errc::invalid_state, std::string(what) + " was used outside an invocation of a mobile object",
                "use it in the fiber that runs the invocation");
  return static_cast<running_invocation&>(*frame); // there is no other kind
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

void directory::finished(net::node& here, entry& e, bool exclusive) {
  if (watches()) [[unlikely]]
    weigh(e, 1);
  std::unique_lock hold(shard_of(e.id).lock);
  if (exclusive)
    e.exclusive = false;
  else
    --e.sharing;
  if (!e.waiting.empty() || e.travel || moves_on_) [[unlikely]]
    finished_late(here, e, std::move(hold));
}

// As soon as the lock is let go of, the object may end.
void directory::finished_late(net::node& here, entry& e, std::unique_lock<tern::detail::owner_lock> hold) {
  todo then(&e);
  if (moves_on_) move_on(e);
  pump(e, then);
  hold.unlock();
  act(here, then);
}

void directory::answer(net::node& here, const invocation& one, error problem) {
  here.reply_error(one.to.origin(), one.header.reply, std::make_exception_ptr(std::move(problem)),
                   "invocation of '" + one.what->name() + "'");
}

// Nobody has it.
void directory::refuse(net::node& here, const invocation& one) {
  const int origin = one.to.origin();
  const action what = one.what->what;
  const bool unasked = (what == action::migrate || what == action::give_back) && one.header.reply == 0;
  if (what != action::open && what != action::skip && what != action::close && !unasked) {
    const std::string type = one.what->type ? one.what->type()->name : "";
    answer(here, one, error(errc::not_found, missing(one.to.object, type), "do not use pointers to destroyed objects"));
  }
  // Whoever numbers them still believes in it.
  if (origin != rank_ && (one.to.stream == origin || what == action::open))
    detail::post_note(here, origin, {one.to.object, directory_note::kind::gone, rank_, 0, 0});
  here.refused(one.source, one.header, one.what->name());
}

// The last of its invocations: it has the object alone.
void directory::end_object(net::node& here, entry& e, const invocation& last) {
  const object_id id = e.id;
  void* object = nullptr;
  {
    const std::lock_guard hold(shard_of(id).lock); // reports look at it
    object = std::exchange(e.object, nullptr);
  }
  e.type->destroy(object);
  invocation_list late;
  std::vector<int> knows;
  {
    shard& s = shard_of(id);
    const std::lock_guard hold(s.lock);
    s.entries.erase(id);
    set_load(e, 0);
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
  for (const int rank : knows)
    if (rank != rank_) detail::post_note(here, rank, {id, directory_note::kind::gone, rank_, 0, 0});
  if (id.home() != rank_) detail::post_note(here, id.home(), {id, directory_note::kind::gone, rank_, 0, 0});
  while (!late.empty()) {
    auto one = late.pop();
    const tern::detail::held_cause on = std::move(one->on);
    const tern::detail::cause_scope in(on.get());
    refuse(here, *one);
  }
  if (last.header.reply) net::detail::post_answer(here, last.to.origin(), last.header.reply);
}

void* cast_object(const type_record& type, void* object, const type_record& wanted) noexcept {
  if (&type == &wanted) return object;
  for (const auto& base : type.bases)
    if (void* const as = cast_object(*base.type, base.cast(object), wanted)) return as;
  return nullptr;
}

std::string to_string(object_id id) { return std::to_string(id.home()) + ":" + std::to_string(id.number()); }

namespace detail {

namespace {

bool derives(const type_record& type, const type_record& wanted) noexcept {
  if (&type == &wanted) return true;
  for (const auto& base : type.bases)
    if (derives(*base.type, wanted)) return true;
  return false;
}

} // namespace

void check_self(const directory::running_invocation& running, const type_record& wanted) {
  if (derives(running.type(), wanted)) return;
  throw error(errc::invalid_argument, "the invocation runs on object " + to_string(running.id()) + ", a " +
                                          running.type().name + ", not a " + wanted.name);
}

address read_address(const byte_buffer& message) {
  address to;
  if (message.size() < sizeof(net::wire_header) + sizeof to)
    throw error(errc::invalid_data, "an invocation's message of " + std::to_string(message.size()) +
                                        " bytes has no room for the object's name");
  std::memcpy(&to, message.data() + sizeof(net::wire_header), sizeof to);
  return to;
}

void bad_rank(object_id object, int rank, int ranks) {
  throw error(errc::invalid_data, "a message to object " + to_string(object) + " speaks of rank " +
                                      std::to_string(rank) + ", but there are " + std::to_string(ranks));
}

void check_address(const address& to, int ranks) {
  if (!to.object) throw error(errc::invalid_data, "a message to no object has come");
  if (to.object.home() >= ranks) bad_rank(to.object, to.object.home(), ranks);
  if (to.origin() >= ranks) bad_rank(to.object, to.origin(), ranks);
  if (to.stream < address::moved || to.stream >= ranks) bad_rank(to.object, to.stream, ranks);
}

std::string describe_invocation(const std::string& function, object_id id, const std::string& type) {
  return "'" + function + "' of object " + to_string(id) + " (" + type + ")";
}

} // namespace detail
} // namespace tern::mobile

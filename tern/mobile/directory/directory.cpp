// SPDX-License-Identifier: Apache-2.0
/// \file
/// The facade over the rooms of this layer: how they are put together, and what they ask of each
/// other.
#include <tern/mobile/directory.hpp>

#include <mutex>
#include <optional>
#include <utility>

#include <tern/mobile/directory/directory_parts.hpp>
#include <tern/mobile/entry/object_trace.hpp>
#include <tern/mobile/message/control.hpp>
#include <tern/mobile/move/migration.hpp>
#include <tern/mobile/paging/pager.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile {
namespace {

const rank_local<directory> the_directory;

debugging debugging_of(const options& opts) {
  const std::string& word = opts[debug_option];
  return word == "rotate"        ? debugging::rotate
         : word == "random"      ? debugging::random
         : word == "reserialize" ? debugging::reserialize
                                 : debugging::none;
}

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

directory::directory()
    : node_(net::node::here()), parts_(new detail::directory_parts(node_, *this)), objects_(parts_->objects),
      attention_(objects_.attention()), admission_(objects_, parts_->loads, parts_->costs, debugging_of(node_.opts())),
      events_(objects_, admission_),
      router_(objects_, parts_->loads, admission_, events_, static_cast<std::size_t>(node_.opts()[known_option])),
      pager_(std::make_unique<detail::pager>(objects_, parts_->loads, admission_, router_)),
      migration_(std::make_unique<detail::migration>(objects_, parts_->loads, admission_, events_, router_, *pager_)),
      has_mailboxes_(router_.mail().in_use()) {
  const debugging debug = debugging_of(node_.opts());
  if (debug == debugging::rotate || debug == debugging::random) objects_.attend(detail::rank_objects::to_debug_moves);
  if (line().in_use())
    events_.fire_by_line([](net::node& here, object_id id, detail::near_function run, std::size_t arguments) {
      return of(here).place(id, run, arguments, sizeof(net::wire_header) + sizeof(address) + arguments);
    });
  node_.report_on(*this);
}

static_assert(directory::to_contacts == detail::rank_objects::to_contacts);

directory::~directory() {
  node_.forget_part(*this);
  mail().clear();
  line().clear();
  objects_.clear();
}

directory& directory::here() { return of(net::node::here()); }
directory& directory::of(net::node& here) { return the_directory.of(here); }
directory* directory::if_made(net::node& here) noexcept { return the_directory.if_made(here); }
int directory::home_of_here(object_id id) noexcept {
  directory* const here = current();
  return here ? here->home_of(id) : id.home();
}
directory* directory::current() noexcept {
  net::node* const n = net::node::current();
  return n && !n->is_over() ? &of(*n) : nullptr;
}

std::uint64_t directory::reserve(std::uint64_t count) { return objects_.reserve(count); }
int directory::home_of(object_id id) const noexcept { return objects_.home_of(id); }
const detail::home_table& directory::homes() const noexcept { return objects_.homes(); }
detail::object_labels& directory::labels() noexcept { return objects_.labels(); }
void directory::check(object_id id) const { objects_.check(id); }
void directory::note_split() noexcept { objects_.note_split(); }
void directory::count_as(load_model m) noexcept { parts_->loads.count_as(m); }
double directory::load() const noexcept { return parts_->loads.sum(); }
void directory::set_balancer(balancer& b) noexcept { objects_.set_balancer(b); }
std::vector<object_contact> directory::take_contacts() { return parts_->contacts.take(); }
void directory::set_homes(std::vector<std::int32_t> ranks) { objects_.homes().assign(std::move(ranks)); }

object_id directory::add(const type_record& type, void* object, std::uint64_t credit, object_id id) {
  if (!id) id = objects_.next_id();
  auto e = std::make_unique<entry>(id);
  e->type = &type;
  e->object = object;
  if (credit > 0) e->extra().credit = credit;
  const bool counts = objects_.attends() & detail::rank_objects::to_memory;
  if (counts) objects_.count_bytes(*e, detail::admission::packed_bytes(type, object));
  if (objects_.watches()) parts_->loads.weigh_first(*e, object);
  if (trace::built && trace::on()) [[unlikely]]
    detail::trace_name(id, type, object);
  {
    detail::shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    detail::class_counts& of_class = s.of(type); // first: it may throw
    s.entries.insert(id, e.get(), true);
    ++of_class.created;
    parts_->loads.add_first(*e);
    e.release();
  }
  if (counts) pager_->look_again();
  return id;
}

std::size_t directory::size() const {
  std::size_t n = 0;
  for (const detail::shard& s : objects_.shards()) {
    const std::lock_guard hold(s.lock);
    for (std::size_t i = 0; i < s.entries.capacity(); ++i)
      if (const entry* e = s.entries.at(i)) n += e->is_present();
  }
  return n;
}

bool directory::is_here(object_id id) const {
  const detail::shard& s = objects_.shard_of(id);
  if (const auto found = s.entries.looks_marked(id)) [[likely]]
    return *found;
  const std::lock_guard hold(s.lock);
  return s.entries.looks_marked(id).value_or(false);
}

bool directory::lives(object_id id) const {
  const detail::shard& s = objects_.shard_of(id);
  const std::lock_guard hold(s.lock);
  const entry* const e = s.entries.find(id);
  return e ? e->at != entry::place::gone : s.entries.number(id).has_value();
}

void directory::send(object_id id, detail::outgoing_mail& message, bool invokes) {
  const std::size_t bytes = message.bytes();
  const detail::destination to = router_.send(id, message, invokes);
  if (!invokes) return;
  if (objects_.attends() & detail::rank_objects::to_contacts) [[unlikely]]
    note_contact(id, bytes);
  if (to.is_mailed())
    mail().throttle();
  else
    node_.throttle(to.where);
}

void directory::land(const type_record& type, int source, const net::wire_header& header, net::payload& message) {
  migration_->land(type, source, header, message);
}

bool directory::send_away(object_id id, int to, net::reply_ref reply, const std::function<void()>& marked) {
  return migration_->send_away(id, to, std::move(reply), marked);
}

double directory::cost_of_moving(object_id id) { return migration_->cost_of_moving(id); }

// What the rooms below ask for ----------------------------------------------------------------------------------------

void directory::arrive_late(std::unique_ptr<invocation> one, bool runs_here) {
  router_.arrive_late(std::move(one), runs_here);
}

void directory::memory_changed(bool room) { pager_->look_again(room); }

void directory::perform(detail::deferred_actions& then) {
  net::node& here = node_;
  for (auto& [where, what] : then.forwards) detail::forward(here, where, std::move(what));
  if (const object_id id = std::exchange(then.closed, {})) router_.forget_closed(id);
  while (tern::detail::waiter* const w = then.wake.pop()) w->wake();
  for (entry* const e : then.loads) pager_->want(*e);
  if (const object_id id = std::exchange(then.ready, {}))
    objects_.balancer()->ready(id, then.ready_load, then.ready_level, then.ready_again);
  if (const object_id id = std::exchange(then.changed, {}))
    if (auto* const b = objects_.balancer()) b->changed(id);
  for (const object_id id : then.opens) detail::post_open(here, objects_.home_of(id), id);
  for (const auto& [where, to] : then.closes) detail::post_close(here, where, to);
  for (const auto& [rank, n] : then.notes) detail::post_note(here, rank, n);
  for (auto& [one, with] : then.grants) {
    const tern::detail::causal_scope in(one->on.get());
    net::detail::post_answer(here, one->to.origin(), one->header.reply, with);
    one->on.reset();
    here.message_done(one->header);
  }
  then.grants.clear();
  while (!then.done.empty()) {
    const auto one = then.done.pop();
    if (one->header.reply) {
      const tern::detail::causal_scope in(one->on.get());
      net::detail::post_answer(here, one->to.origin(), one->header.reply);
    }
    one->on.reset();
    here.message_done(one->header);
  }
  while (!then.refusals.empty()) router_.refuse_late(then.refusals.pop());
  if (const auto events = std::exchange(then.events, nullptr)) events_.perform(*events);
  if (then.request) {
    auto* const e = then.of;
    const net::wire_header header = then.request->header;
    const int source = then.request->source;
    const tern::detail::causal_scope in(then.request->on.get());
    const std::string& name = then.request->what->name();
    here.run_service(
        [this, e, request = std::move(then.request)]() mutable { depart_in_fiber(*e, std::move(request)); }, source,
        header, name);
  }
  // None of them where messages arrive: while one waits, others that it was admitted with must
  // begin.
  if (!then.start.empty()) here.start_none_at_once();
  while (!then.start.empty()) {
    entry& e = *then.of;
    while (!then.start.empty()) {
      auto one = then.start.pop();
      const tern::detail::held_context on = std::move(one->on); // not in the context of what has made room
      const tern::detail::causal_scope in(on.get());
      admission_.start(e, std::move(one));
    }
    detail::deferred_actions more(&e);
    {
      detail::shard& s = objects_.shard_of(e.id);
      const std::lock_guard hold(s.lock);
      e.starting = false;
      if (e.at == entry::place::gone)
        delete &e; // no longer in the table
      else
        admission_.admit_waiting(e, more);
    }
    then = std::move(more);
    if (then.request || !then.wake.empty() || then.ready || !then.grants.empty()) return perform(then);
  }
}

void directory::depart_in_fiber(entry& e, std::unique_ptr<invocation> request) {
  if (request->what->what == action::swap_out) return pager_->serve(e, *request);
  migration_->depart(e, std::move(request));
}

void directory::end_object(entry& e, int origin, std::uint64_t reply) {
  net::node& here = node_;
  const object_id id = e.id;
  void* object = nullptr;
  {
    const std::lock_guard hold(objects_.shard_of(id).lock); // reports look at it
    object = std::exchange(e.object, nullptr);
  }
  e.type->destroy(object);
  invocation_list late;
  std::vector<int> knows;
  std::optional<tern::detail::stored> copy;
  bool was_ready = false;
  detail::deferred_actions then;
  {
    detail::shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    s.entries.erase(id);
    detail::mailboxes::abandon(e);
    was_ready = std::exchange(e.offered, false);
    parts_->loads.set(e, 0);
    s.add_runs(*e.type, e);
    ++s.of(*e.type).destroyed;
    copy = objects_.discount(e);
    late = std::move(e.waiting);
    events_.drop(e, then);
    if (e.one_stream) knows.push_back(e.where);
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
      e.at = entry::place::gone; // the fiber that starts invocations deletes it
    else
      delete &e;
  }
  if (auto* const b = objects_.balancer(); b && (was_ready || objects_.watches())) b->left(id, was_ready);
  pager_->forget(copy);
  for (const int rank : knows)
    if (rank != objects_.rank()) detail::post_note(here, rank, {id, directory_note::kind::gone, objects_.rank(), 0, 0});
  if (const int home = objects_.home_of(id); home != objects_.rank())
    detail::post_note(here, home, {id, directory_note::kind::gone, objects_.rank(), 0, 0});
  while (!late.empty()) {
    auto one = late.pop();
    const tern::detail::held_context on = std::move(one->on);
    const tern::detail::causal_scope in(on.get());
    router_.refuse(*one);
  }
  objects_.perform(then);
  if (reply) net::detail::post_answer(here, origin, reply);
}

// Loads ---------------------------------------------------------------------------------------------------------------

void directory::watch_loads(bool on) {
  {
    const std::lock_guard hold(guard_);
    loads_wanted_ = on;
    if (!on) {
      if (!(objects_.attends() & detail::rank_objects::to_balance)) objects_.ignore(detail::rank_objects::to_loads);
      return;
    }
  }
  begin_watching();
}

void directory::begin_watching() {
  if (objects_.attend(detail::rank_objects::to_loads) & detail::rank_objects::to_loads) return;
  std::vector<std::pair<object_id, const type_record*>> there;
  for (const detail::shard& s : objects_.shards()) {
    const std::lock_guard hold(s.lock);
    for (std::size_t i = 0; i < s.entries.capacity(); ++i)
      if (const entry* const e = s.entries.at(i); e && e->at == entry::place::here) there.emplace_back(e->id, e->type);
  }
  // What ends is weighed; what is busy ends later.
  for (const auto& [id, type] : there)
    if (const auto h = try_hold(id, *type, action::share); h.object) end_hold(h, action::share);
}

std::vector<object_load> directory::loads() const {
  std::vector<object_load> all;
  for (const detail::shard& s : objects_.shards()) {
    const std::lock_guard hold(s.lock);
    for (std::size_t i = 0; i < s.entries.capacity(); ++i) {
      const entry* const e = s.entries.at(i);
      if (!e || !e->is_present()) continue;
      const extra_state& x = e->known();
      all.push_back({e->id, &e->type->name, x.load, e->pending(), x.seconds,
                     e->type->pack && e->pins == 0 && e->claims == 0, e->could_leave(), x.device,
                     x.device * static_cast<double>(e->keeps)});
    }
  }
  return all;
}

void directory::defer(bool on) {
  using detail::rank_objects;
  {
    const std::lock_guard hold(guard_);
    constexpr unsigned balancing = rank_objects::to_balance | rank_objects::to_defer;
    if (!on) return objects_.ignore(loads_wanted_ ? balancing : balancing | rank_objects::to_loads);
    parts_->costs.prepare();
  }
  begin_watching();
  // A thread that sees it sees the costs.
  objects_.attend(rank_objects::to_balance | rank_objects::to_defer);
}

void directory::hold_back(bool on) noexcept {
  if (on)
    objects_.attend(detail::rank_objects::to_defer);
  else
    objects_.ignore(detail::rank_objects::to_defer);
}

void directory::count_contacts(bool on) noexcept {
  if (on)
    objects_.attend(detail::rank_objects::to_contacts);
  else
    objects_.ignore(detail::rank_objects::to_contacts);
}

void directory::note_contact(object_id to, std::size_t bytes) noexcept {
  if (const auto* const frame = detail::running_invocation::here()) // else no object has sent it
    parts_->contacts.note(frame->id(), to, bytes);
}

} // namespace tern::mobile

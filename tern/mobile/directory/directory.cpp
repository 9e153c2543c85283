// SPDX-License-Identifier: Apache-2.0
/// \file
/// The table of objects, and the names of what is in it.
#include <tern/mobile/directory.hpp>

#include <cstring>

#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/mobile/access/deferred_actions.hpp>
#include <tern/mobile/disk/pager.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/trace/trace.hpp>

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
      shards_(std::make_unique<shard[]>(shards)) {
  if (node_.size() > 1 << address::origin_bits)
    throw error(errc::unsupported, "mobile objects know 2^24 ranks, no more");
  if (node_.one_thread()) {
    const tern::detail::asymmetric_barrier barrier(tern::detail::asymmetric_barrier::available(true));
    for (std::size_t n = 0; n < shards; ++n) shards_[n].lock.own(barrier);
  }
  pager_ = std::make_unique<pager>(*this);
  if (pager_->limits()) attention_ |= to_memory;
  if (debug_ == debugging::rotate || debug_ == debugging::random) attention_ |= to_move_on;
  node_.report_on(*this);
}

directory::~directory() {
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
  return n && !n->is_over() ? &of(*n) : nullptr;
}

object_id directory::add(const type_record& type, void* object, std::uint64_t credit) {
  // relaxed: numbers need only differ
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (number >> 40) throw error(errc::unsupported, "a rank can make 2^40 objects, no more");
  const object_id id(rank_, number);
  auto e = std::make_unique<entry>(id);
  e->type = &type;
  e->object = object;
  if (credit > 0) e->extra().credit = credit;
  const bool counts = attends() & to_memory;
  if (counts) pager_->measured(*e, packed_bytes(type, object));
  if (watches()) weigh_first(*e, object);
  if (trace::built && trace::on()) [[unlikely]]
    trace_name(id, type, object);
  {
    shard& s = shard_of(id);
    const std::lock_guard hold(s.lock);
    class_counts& of_class = s.of(type); // first: it may throw
    s.entries.insert(id, e.get(), true);
    ++of_class.created;
    load_.fetch_add(e->known().load, std::memory_order_relaxed);
    e.release();
  }
  if (counts) pager_->look_again();
  return id;
}

std::size_t directory::size() const {
  std::size_t n = 0;
  for (std::size_t k = 0; k < shards; ++k) {
    const std::lock_guard hold(shards_[k].lock);
    const auto& table = shards_[k].entries;
    for (std::size_t i = 0; i < table.capacity(); ++i)
      if (const entry* e = table.at(i)) n += e->is_present();
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

bool directory::lives(object_id id) const {
  const shard& s = shard_of(id);
  const std::lock_guard hold(s.lock);
  const entry* const e = s.entries.find(id);
  return e && e->at != entry::place::gone;
}

std::string directory::missing(object_id id, const std::string& type) const {
  const bool never = id.home() == rank_ && id.number() >= next_.load(std::memory_order_relaxed);
  return "object " + to_string(id) + (type.empty() ? "" : " (" + type + ")") +
         (never ? " was never created" : " has been destroyed");
}

void directory::answer(net::node& here, const invocation& one, error problem) {
  here.reply_error(one.to.origin(), one.header.reply, std::make_exception_ptr(std::move(problem)),
                   "invocation of '" + one.what->name() + "'");
}

// Nobody has it.
void directory::refuse(net::node& here, const invocation& one) {
  const int origin = one.to.origin();
  const action what = one.what->what;
  // What the runtime does of its own accord: an end that others have come before, for one.
  const bool unasked =
      (what == action::migrate || what == action::give_back || what == action::destroy) && one.header.reply == 0;
  if (what != action::open && what != action::skip && what != action::close && !unasked) {
    const std::string type = one.what->type ? one.what->type()->name : "";
    answer(here, one, error(errc::not_found, missing(one.to.object, type), "do not use pointers to destroyed objects"));
  }
  // Whoever numbers them still believes in it.
  if (origin != rank_ && (one.to.stream == origin || what == action::open))
    detail::post_note(here, origin, {one.to.object, directory_note::kind::gone, rank_, 0, 0});
  here.refused(one.source, one.header, one.what->name());
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

void no_address(std::size_t bytes) {
  throw error(errc::invalid_data,
              "an invocation's message of " + std::to_string(bytes) + " bytes has no room for the object's name");
}

void bad_rank(object_id object, int rank, int ranks) {
  throw error(errc::invalid_data, "a message to object " + to_string(object) + " speaks of rank " +
                                      std::to_string(rank) + ", but there are " + std::to_string(ranks));
}

void bad_address(const address& to, int ranks) {
  if (!to.object) throw error(errc::invalid_data, "a message to no object has come");
  if (to.object.home() >= ranks) bad_rank(to.object, to.object.home(), ranks);
  if (to.origin() >= ranks) bad_rank(to.object, to.origin(), ranks);
  bad_rank(to.object, to.stream, ranks);
}

std::string describe_invocation(const std::string& function, object_id id, const std::string& type) {
  return "'" + function + "' of object " + to_string(id) + " (" + type + ")";
}

} // namespace detail
} // namespace tern::mobile

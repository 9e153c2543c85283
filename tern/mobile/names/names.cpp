// SPDX-License-Identifier: Apache-2.0
/// \file
/// The table of names: which rank keeps which, and which ranks wait.
#include <tern/mobile/names.hpp>

#include <algorithm>
#include <exception>
#include <mutex>
#include <tuple>

#include <tern/base/error.hpp>
#include <tern/base/language/hash.hpp>
#include <tern/mobile/entry/homes.hpp>
#include <tern/mobile/entry/object_labels.hpp>
#include <tern/mobile/names/name_table.hpp>
#include <tern/net/message.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/runtime.hpp>
#include <tern/trace/record/events.hpp>
#include <tern/trace/trace.hpp>

namespace tern::mobile {
namespace {

const rank_local<name_table> the_names;
constexpr std::size_t listed = 8; // in a report

std::string described(const name_table::published& one) {
  return "object " + to_string(one.object) + " (" + one.types.front() + ")";
}

void add_types(const type_record& type, std::vector<std::string>& all) {
  if (std::find(all.begin(), all.end(), type.name) != all.end()) return;
  all.push_back(type.name);
  for (const type_record::base& b : type.bases) add_types(*b.type, all);
}

error not_published(const std::string& name) {
  return error(errc::not_found, "no object has the name '" + name + "'",
               "it was never published, or its object has been destroyed");
}

} // namespace

// What ranks ask of each other ----------------------------------------------------------------------------------------

namespace detail {

void enter_name(const std::string& name, object_id id, std::vector<std::string> types, int rank) {
  name_table::of(net::node::here()).publish(name, {id, std::move(types), rank});
}
void remove_name(const std::string& name) { name_table::of(net::node::here()).unpublish(name); }

// Where the object was born.
bool label_object(object_id id, const std::string& name) {
  if (!directory::here().lives(id)) return false;
  directory::here().labels().add(id, name);
  if (trace::built && trace::on()) [[unlikely]]
    trace::detail::name_object(id.bits, name);
  return true;
}
void unlabel_object(object_id id, const std::string& name) { directory::here().labels().remove(id, name); }
bool object_lives(object_id id) {
  const bool lives = directory::here().lives(id);
  if (!lives) directory::here().labels().forget(id);
  return lives;
}

namespace {

void run_find(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  try {
    auto [name, wanted, waits, limited, limit] =
        net::detail::unpack_call<std::tuple<std::string, std::string, bool, bool, std::int64_t>>(message);
    name_query how{waits, limited, std::chrono::nanoseconds(limit)};
    const auto over = how.limit.count() > 0 ? fiber_clock::now() + how.limit : fiber_clock::time_point::max();
    name_table::of(here).find(name, {source, header.reply, std::move(wanted), how, over});
  } catch (...) {
    here.reply_error(source, header.reply, std::current_exception(), "tern::find");
  }
}
void take_find(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  here.run_handler(&run_find, source, header, message, find_handler.name());
}
struct find_tag {};

} // namespace

const net::handler_record find_handler{typeid(find_tag), "tern::find", __FILE__, &take_find};

int keeper_of(net::node& here, const std::string& name) {
  if (name.empty())
    throw error(errc::invalid_argument, "the name of an object is empty", "give it at least one character");
  const auto home = static_cast<int>(tern::detail::hash_of(name) % static_cast<std::uint64_t>(here.size()));
  return directory::of(here).homes().rank_of(home); // that rank, as long as it lives
}

future<void> publish(std::string name, object_id id, const type_record& type) {
  net::node& here = net::node::here();
  const int keeper = keeper_of(here, name);
  directory::of(here).check(id);
  std::vector<std::string> types;
  add_types(type, types);
  return call<&enter_name>(keeper, std::move(name), id, std::move(types), here.rank());
}

future<void> unpublish(std::string name) {
  const int keeper = keeper_of(net::node::here(), name);
  return call<&remove_name>(keeper, std::move(name));
}

void post_find(net::node& here, int keeper, std::uint64_t reply, const std::string& name, const type_record& wanted,
               const name_query& how) {
  const std::int64_t limit = how.limit.count();
  net::detail::post_packed(here, keeper, {find_handler.id(), 0, reply}, {}, name, wanted.name, how.waits, how.limited,
                           limit);
}

} // namespace detail

// The table -----------------------------------------------------------------------------------------------------------

name_table::name_table() : node_(net::node::here()) { node_.report_on(*this); }
name_table::~name_table() { node_.forget_part(*this); }
name_table& name_table::of(net::node& here) { return the_names.of(here); }

std::optional<name_table::published> name_table::living(const std::string& name) {
  for (;;) {
    published found;
    {
      const std::lock_guard hold(lock_);
      const auto at = names_.find(name);
      if (at == names_.end()) return {};
      found = at->second;
    }
    const int born = directory::of(node_).home_of(found.object);
    const bool lives = born == node_.rank() ? detail::object_lives(found.object)
                                            : call<&detail::object_lives>(born, found.object).get();
    const std::lock_guard hold(lock_);
    const auto at = names_.find(name);
    if (at == names_.end()) return {};
    if (at->second.serial != found.serial) continue; // another one has it meanwhile
    if (lives) return found;
    names_.erase(at);
    return {};
  }
}

void name_table::publish(const std::string& name, published one) {
  if (one.types.empty() || !one.object || one.object.home() >= directory::of(node_).homes().count())
    throw error(errc::invalid_data, "a message publishes '" + name + "' for no object");
  const object_id id = one.object;
  // Before it can be found: a fiber that has found it may take the name away.
  if (!call<&detail::label_object>(directory::of(node_).home_of(id), id, name).get())
    throw error(errc::not_found, described(one) + " has been destroyed, and rank " + std::to_string(one.rank) +
                                     " publishes it as '" + name + "'");
  std::vector<search> who;
  for (;;) {
    if (const auto other = living(name)) {
      if (other->object != id) send<&detail::unlabel_object>(directory::of(node_).home_of(id), id, name);
      throw error(errc::already_exists,
                  "the name '" + name + "' belongs to " + described(*other) + ", published by rank " +
                      std::to_string(other->rank) + "; rank " + std::to_string(one.rank) + " publishes it for " +
                      (other->object == id ? "the same object" : described(one)),
                  "unpublish it first, or choose another name");
    }
    const std::lock_guard hold(lock_);
    one.serial = serial_ + 1;
    if (!names_.try_emplace(name, one).second) continue; // another fiber was faster
    ++serial_;
    if (const auto at = waiting_.find(name); at != waiting_.end()) {
      who = std::move(at->second);
      waiting_.erase(at);
    }
    break;
  }
  for (const search& s : who) answer(name, one, s);
}

void name_table::unpublish(const std::string& name) {
  const auto found = living(name);
  if (!found) throw not_published(name);
  {
    const std::lock_guard hold(lock_);
    const auto at = names_.find(name);
    if (at == names_.end() || at->second.serial != found->serial) throw not_published(name);
    names_.erase(at);
  }
  send<&detail::unlabel_object>(directory::of(node_).home_of(found->object), found->object, name);
}

void name_table::find(const std::string& name, search one) {
  for (;;) {
    if (const auto found = living(name)) return answer(name, *found, one);
    if (!one.how.waits) return net::detail::post_answer(node_, one.rank, one.reply, object_id());
    const std::lock_guard hold(lock_);
    if (names_.contains(name)) continue; // it has just been published
    auto& all = waiting_[name];
    drop_expired(all);
    all.push_back(std::move(one));
    return;
  }
}

std::vector<detail::saved_name> name_table::save() const {
  const std::lock_guard hold(lock_);
  std::vector<detail::saved_name> all;
  for (const auto& [name, one] : names_) all.push_back({name, one.object, one.types, one.rank});
  return all;
}

void name_table::restore(const std::vector<detail::saved_name>& all) {
  directory& objects = directory::of(node_);
  for (const detail::saved_name& one : all) {
    if (one.name.empty() || one.types.empty()) continue;
    if (objects.home_of(one.object) == node_.rank()) objects.labels().add(one.object, one.name);
    if (detail::keeper_of(node_, one.name) != node_.rank()) continue;
    const std::lock_guard hold(lock_);
    names_.try_emplace(one.name, published{one.object, one.types, one.rank, ++serial_});
  }
}

void name_table::clear() {
  const std::lock_guard hold(lock_);
  names_.clear();
  waiting_.clear();
}

std::string name_table::first_search() const {
  const auto now = fiber_clock::now();
  const std::lock_guard hold(lock_);
  for (const auto& [name, all] : waiting_)
    for (const search& s : all)
      if (s.over > now) return "'" + name + "', by rank " + std::to_string(s.rank);
  return {};
}

void name_table::drop_expired(std::vector<search>& all) const {
  const auto now = fiber_clock::now();
  std::erase_if(all, [&](const search& s) { return s.over <= now; });
}

void name_table::answer(const std::string& name, const published& one, const search& who) const {
  if (std::find(one.types.begin(), one.types.end(), who.wanted) != one.types.end())
    return net::detail::post_answer(node_, who.rank, who.reply, one.object);
  node_.reply_error(
      who.rank, who.reply,
      std::make_exception_ptr(error(errc::invalid_argument,
                                    "the name '" + name + "' belongs to " + described(one) + ", published by rank " +
                                        std::to_string(one.rank) + ", and rank " + std::to_string(who.rank) +
                                        " looks for a " + who.wanted,
                                    "look for the class that it was published as")),
      "tern::find");
}

std::string name_table::describe() {
  const auto hold = net::try_for_a_while(lock_);
  if (!hold) return "  (names of objects: another thread holds the lock on their table)\n";
  std::string text;
  std::size_t n = 0;
  for (const auto& [name, all] : waiting_) {
    if (++n > listed) continue;
    text += "    '" + name + "', by";
    for (std::size_t i = 0; i < std::min(all.size(), listed); ++i)
      text += (i ? ", rank " : " rank ") + std::to_string(all[i].rank) + " (as a " + all[i].wanted +
              (all[i].how.limited ? ", with a limit)" : ")");
    text += all.size() > listed ? " and " + std::to_string(all.size() - listed) + " more\n" : "\n";
  }
  if (n == 0) return {};
  return "  " + std::to_string(n) + (n == 1 ? " name of an object is" : " names of objects are") +
         " waited for, and no rank has published " + (n == 1 ? "it:\n" : "them:\n") + text +
         (n > listed ? "    and " + std::to_string(n - listed) + " more\n" : "");
}

} // namespace tern::mobile

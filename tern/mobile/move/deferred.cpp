// SPDX-License-Identifier: Apache-2.0
/// \file
/// Load balancing: invocations that begin when a worker has time for them, objects that are sent away, and who talks to
/// whom.
#include <tern/mobile/directory.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/mobile/access/deferred_actions.hpp>
#include <tern/net/handler.hpp>
#include <tern/task/scheduler/causal_context.hpp>

namespace tern::mobile {
namespace {

constexpr float quick = 5e-6F;                   // seconds: what runs no longer is not worth a place in a queue
constexpr float forgets = 0.98F;                 // of the longest time, with each that is measured
constexpr unsigned runs_for_measure = 16;        // one in so many of the quick ones is measured
constexpr std::size_t most_contacts = 1'000'000; // pairs that are known; others are not counted until these are taken

} // namespace

void directory::defer(bool on) {
  {
    const std::lock_guard hold(guard_);
    if (!on) {
      attention_.fetch_and(~unsigned(loads_wanted_ ? to_balance : to_balance | to_loads), std::memory_order_relaxed);
      return;
    }
    if (!paces_) paces_ = std::make_unique<std::atomic<float>[]>(net::handler_table::size());
  }
  begin_watching();
  attention_.fetch_or(to_balance, std::memory_order_release); // whoever sees it sees the paces
}

// An invocation of this function need not wait for a worker: it takes less time than that. Not known yet: it must.
bool directory::is_quick(const net::wire_header& header) const noexcept {
  const float longest = paces_[header.handler].load(std::memory_order_relaxed);
  return longest > 0 && longest < quick;
}

// Two that measure at once may lose one of the times.
void directory::measured(const net::wire_header& header, double seconds) noexcept {
  if (!(attends() & to_balance)) return;
  std::atomic<float>& longest = paces_[header.handler];
  const auto took = static_cast<float>(seconds);
  longest.store(std::max({took, 1e-9F, forgets * longest.load(std::memory_order_relaxed)}), std::memory_order_relaxed);
}

void directory::run_quick(net::node& here, const invocable& what, void* object, const address& to,
                          const net::wire_header& header, net::payload& message) {
  const unsigned n = quick_runs_.load(std::memory_order_relaxed) + 1;
  quick_runs_.store(n, std::memory_order_relaxed); // one that is lost is no harm
  if (n % runs_for_measure != 0) return what.run(here, object, to, header, message);
  const tern::detail::run_timer time;
  what.run(here, object, to, header, message);
  measured(header, time.seconds());
}

// Now and then one comes alone, to be measured.
bool directory::takes_series(const net::wire_header& header) noexcept {
  const unsigned what = attends();
  if (what == 0) [[likely]]
    return true;
  if ((what & ~unsigned{to_loads | to_balance | to_contacts}) || !(what & to_balance) || !is_quick(header))
    return false;
  const unsigned n = quick_runs_.load(std::memory_order_relaxed) + 1;
  quick_runs_.store(n, std::memory_order_relaxed);
  return n % runs_for_measure != 0;
}

// Under the lock.
void directory::offer(entry& e, todo& then) noexcept {
  const priority level = e.waiting.front().level();
  const bool again = std::exchange(e.offered, true);
  if (again && level >= e.offered_level) return;
  e.offered_level = level;
  then.ready = e.id;
  then.ready_load = e.known().each;
  then.ready_level = level;
  then.ready_again = again;
}

directory::beginning directory::begin_next(object_id id) {
  todo then;
  {
    shard& s = shard_of(id);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(id);
    if (!e || !e->offered) return beginning::unknown;
    e->offered = false;
    // What keeps it from beginning offers it again when that is over.
    if (e->starting || e->waiting.empty() || !e->admits(e->waiting.front().what->what)) return beginning::not_now;
    then.of = e;
    auto one = e->waiting.pop();
    e->admit(*one);
    e->starting = true;
    then.start.push(std::move(one));
  }
  act(node_, then);
  return beginning::begun;
}

bool directory::send_away(object_id id, int to, net::reply_ref who, const std::function<void()>& marked) {
  check(id);
  node_.check_rank(to);
  const net::shutdown_guard until_counted(node_.shutdown());
  const std::uint64_t reply = node_.calls().expect(std::move(who), rank_);
  todo then;
  {
    shard& s = shard_of(id);
    const std::lock_guard hold(s.lock);
    if (entry* const e = s.entries.find(id); e && to != rank_ && e->could_leave()) {
      then.of = e;
      then.request = detail::migrate_request(node_, id, to, reply);
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
    stay_here(node_, *then.of, 0);
    throw;
  }
  act(node_, then);
  return true;
}

double directory::cost_of_moving(object_id id) {
  held h;
  {
    shard& s = shard_of(id);
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
  } catch (...) { // it cannot be packed, which whoever wants that will be told
  }
  finished(node_, *h.of, false, false);
  return cost;
}

int directory::last_known(object_id id) const {
  const shard& s = shard_of(id);
  const std::lock_guard hold(s.lock);
  const entry* const e = s.entries.find(id);
  return !e ? id.home() : e->is_here() ? rank_ : e->where;
}

void directory::count_contacts(bool on) noexcept {
  if (on)
    attention_.fetch_or(to_contacts, std::memory_order_relaxed);
  else
    attention_.fetch_and(~unsigned{to_contacts}, std::memory_order_relaxed);
}

void directory::note_contact(object_id to, std::size_t bytes) noexcept {
  const auto* const frame = static_cast<running_invocation*>(tern::detail::work_frame::here());
  if (!frame) return; // no object has sent it
  const std::lock_guard hold(guard_);
  const std::pair key(frame->id().bits, to.bits);
  if (contacts_.size() >= most_contacts && !contacts_.contains(key)) return;
  object_contact& c = contacts_[key];
  c.from = frame->id();
  c.to = to;
  ++c.messages;
  c.bytes += static_cast<double>(bytes);
}

std::vector<object_contact> directory::take_contacts() {
  std::map<std::pair<std::uint64_t, std::uint64_t>, object_contact> all;
  {
    const std::lock_guard hold(guard_);
    all.swap(contacts_);
  }
  std::vector<object_contact> list;
  list.reserve(all.size());
  for (const auto& [key, one] : all) list.push_back(one);
  return list;
}

} // namespace tern::mobile

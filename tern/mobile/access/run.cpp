// SPDX-License-Identifier: Apache-2.0
/// \file
/// Running invocations.
#include <tern/mobile/access/admission.hpp>

#include <exception>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/handler_costs.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/message.hpp>

namespace tern::mobile::detail {

void admission::start(entry& e, std::unique_ptr<invocation> one) noexcept {
  const std::string& name = one->what->name();
  const net::wire_header header = one->header;
  const int source = one->source;
  try {
    node_.run_handler([this, &e, one = std::move(one)]() mutable { run_in_fiber(e, std::move(one)); }, source, header,
                      name);
  } catch (const std::exception& x) { // memory has run out: the object would stay locked for ever
    node_.fatal("cannot start '" + name + "': " + x.what());
  }
}

void admission::run_in_fiber(entry& e, std::unique_ptr<invocation> one) {
  {
    const std::lock_guard hold(objects_.shard_of(e.id).lock);
    --e.not_begun;
  }
  if (one->what->what == action::destroy) return objects_.services().end_object(e, one->to.origin(), one->header.reply);
  const bool exclusive = one->what->what != action::share;
  const type_record& wanted = *one->what->type();
  bool watched = true;
  if (exclusive && debug_ == debugging::reserialize && e.unfinished == 0 && !is_kept(e) && !reserialize(e, *one))
    ;
  else if (void* const object = cast_object(*e.type, e.object, wanted))
    watched = run(node_, *one->what, e, object, one->to, one->header, one->message, one->deferred);
  else {
    node_.reply_error(one->to.origin(), one->header.reply,
                      std::make_exception_ptr(error(errc::not_found, "object " + to_string(e.id) + " is a " +
                                                                         e.type->name + ", not a " + wanted.name)),
                      "invocation of '" + one->what->name() + "'");
    if (one->what->discard) one->what->discard(one->message);
  }
  one.reset(); // what it holds goes before the next one sees the object
  finished(e, exclusive, watched);
}

// In the fiber that has the access.
void admission::run_watched(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                            const net::wire_header& header, net::payload& message) {
  const double load = loads_.weigh(e, 0);
  auto* const b = objects_.balancer();
  if (b) b->begun(e.id, load);
  const tern::detail::run_timer time;
  what.run(here, object, to, header, message);
  const double took = time.seconds();
  const bool judged = objects_.attends() & rank_objects::to_balance;
  if (judged) learn(e, header, took);
  // What an object takes is what its long ones take, if it has any.
  if (!judged || handler_costs::is_long(took) || costs_.expects(header.handler) != expected::by_object)
    loads_.note_time(e, took);
  if (b) b->ended(e.id, *e.type, object, load, took, true);
}

// A quick one is expected. \return whether it was long, and is weighed now.
bool admission::run_measured(net::node& here, const invocable& what, entry& e, void* object, const address& to,
                             const net::wire_header& header, net::payload& message) {
  const tern::detail::run_timer time;
  what.run(here, object, to, header, message);
  const double took = time.seconds();
  const double load = learn(e, header, took);
  if (!handler_costs::is_long(took)) return false;
  loads_.note_time(e, took);
  if (auto* const b = objects_.balancer()) b->ended(e.id, *e.type, object, load, took, false);
  return true;
}

// \return the load that one invocation of the object counts.
double admission::learn(entry& e, const net::wire_header& header, double seconds) {
  const std::lock_guard hold(objects_.shard_of(e.id).lock);
  extra_state& x = e.extra();
  costs_.note(header.handler, *e.type, x.rhythm.place(), seconds);
  x.rhythm.ran(handler_costs::is_long(seconds));
  return x.each;
}

// Now and then one comes alone, to be measured.
bool admission::takes_series(const net::wire_header& header) noexcept {
  const unsigned what = objects_.attends();
  if (what == 0) [[likely]]
    return true;
  constexpr unsigned balancing =
      rank_objects::to_loads | rank_objects::to_balance | rank_objects::to_contacts | rank_objects::to_defer;
  if ((what & ~balancing) || !(what & rank_objects::to_balance) || expects(header) != expected::quick) return false;
  return !costs_.measures_next();
}

// For the option debug-migrate: the runtime asks for it, and no caller waits.
void admission::debug_move(entry& e) {
  if (!e.type->pack || e.pins > 0 || e.has_moves() || node_.size() == 1) return;
  const communicator world = communicator::world(); // of the ranks that live
  const auto ranks = static_cast<std::uint64_t>(world.size());
  if (ranks == 1) return;
  std::uint64_t by = 1;
  if (debug_ == debugging::random) { // the same in each run; the finisher of splitmix64
    by = e.id.bits * 0x9e3779b97f4a7c15u + e.version;
    by = (by ^ (by >> 30)) * 0xbf58476d1ce4e5b9u;
    by = 1 + (by >> 32) % (ranks - 1);
  }
  const int to = world.job_rank(static_cast<int>((static_cast<std::uint64_t>(world.rank()) + by) % ranks));
  e.travels().moves.push(migrate_request(node_, e.id, to));
}

// For the same option. \return whether the invocation may run; else its caller has been told.
bool admission::reserialize(entry& e, const invocation& one) {
  if (!e.type->pack) return true;
  try {
    reserialize(e);
    return true;
  } catch (...) {
    node_.reply_error(one.to.origin(), one.header.reply, std::current_exception(),
                      "packing and unpacking object " + to_string(e.id) + " (" + e.type->name + ") in place");
    return false;
  }
}

void admission::reserialize(entry& e) {
  if (!e.type->pack) return;
  packing_undo undo;
  unpacking_steps members;
  byte_buffer state(e.type->bytes_moved(e.object));
  e.type->pack_moved(e.object, state.bytes(), undo);
  void* const fresh = e.type->unpack_moved(state, members);
  undo.delivered();
  members.run();
  e.type->destroy(std::exchange(e.object, fresh));
}

} // namespace tern::mobile::detail

// SPDX-License-Identifier: Apache-2.0
/// \file
/// How many messages an invocation takes if its sender knows a former place of the object only.
/// On simulated ranks, with no other messages under way.

#include <algorithm>
#include <cstdint>
#include <string>
#include <typeinfo>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

struct vagrant {
  int visits = 0;
  template <class A> void serialize(A& ar) { ar(visits); }
  void visit() { ++visits; }
  int count() const { return visits; }
};

// All ranks of a simulation live on one thread.
long arrivals = 0;

// As `call<&vagrant::visit>`, and sees the message wherever it comes by.
struct probe_tag {};
void take_probe(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  ++arrivals;
  tern::mobile::directory::here().arrive(here, tern::mobile::detail::member<&vagrant::visit>, source, header, message,
                                         false);
}
const net::handler_record probe{typeid(probe_tag), "bench probe", __FILE__, &take_probe};

/// How many messages it took, or 0 if it was not to be sent. The object's rank tells where it is
/// before it answers.
long send_probe(mobile_ptr<vagrant> to, bool really) {
  arrivals = 0;
  net::node& here = net::node::here();
  if (really)
    net::detail::post_call<void>(here, to.home(), [&](std::uint64_t reply) {
      tern::mobile::detail::post_to_object(tern::mobile::directory::of(here), to.id(),
                                           [&](int where, const tern::mobile::address& a) {
                                             net::detail::post_packed(here, where, {probe.id(), 0, reply}, {}, a);
                                           });
    }).get();
  return arrivals;
}

struct counts {
  long stale = 0, again = 0;  // messages that carried the invocation, and the next one
  std::uint64_t messages = 0; // of the whole job
};

/// Rank 0 sends, the object is born on rank 1, comes to rank 2, where rank 0 gets to know it, and
/// then moves `stale` times.
counts count(int stale, bool really) {
  counts found;
  const auto result = sim::run(sim::parse_world("ranks=" + std::to_string(3 + stale) + ",jitter=0"), [&] {
    const auto all = communicator::world();
    auto object = all.rank() == 1 ? create<vagrant>() : mobile_ptr<vagrant>();
    object = all.broadcast(object, 1);
    if (all.rank() == 1) migrate(object, 2).get();
    all.barrier();
    if (all.rank() == 0) send_probe(object, true);
    all.barrier();
    if (all.rank() == 1)
      for (int r = 3; r < 3 + stale; ++r) migrate(object, r).get();
    quiesce(); // what the moves have to tell each other is told
    if (all.rank() == 0) {
      found.stale = send_probe(object, really);
      found.again = send_probe(object, really);
      if (really) check(call<&vagrant::count>(object).get() == 3, "an object that moves");
    }
    return 0;
  });
  found.messages = result.messages;
  return found;
}

} // namespace

nlohmann::json hops(int most_stale) {
  nlohmann::json found;
  long again = 0, notes = 0;
  for (int k = 1; k <= most_stale; ++k) {
    const counts with = count(k, true), without = count(k, false);
    const long bound = k <= 8 ? k + 1 : 11; // after eight hops by way of the home
    check(with.stale <= bound && with.again == 1, "the number of messages");
    found[std::to_string(k)] = with.stale;
    again = std::max(again, with.again);
    const auto more = static_cast<long>(with.messages - without.messages);
    notes = std::max(notes, more - with.stale - with.again - 4); // two answers, and a call at the end
  }
  found["again"] = again;
  found["notes"] = notes;
  return found;
}

} // namespace tern::bench::mobile

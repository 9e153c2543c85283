// SPDX-License-Identifier: Apache-2.0
/// \file
/// How many messages an invocation takes if its sender knows a former place of the object only, and
/// not its present one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include <gtest/gtest.h>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>

namespace tern::mobile {
namespace {

struct vagrant {
  int visits = 0;
  template <class A> void serialize(A& ar) { ar(visits); }
  int visit() { return ++visits; }
};

long arrivals = 0; // on all ranks, which live on this thread

// As the handler of `call<&vagrant::visit>`, and sees the message wherever it comes by.
struct probe_tag {};
void take_probe(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  ++arrivals;
  directory::here().arrive(here, detail::member<&vagrant::visit>, source, header, message, false);
}
const net::handler_record probe{typeid(probe_tag), "probe", __FILE__, &take_probe};

// The object's rank tells the caller where it is before it answers: so the next one needs no more
// than that.
long messages_of_visit(mobile_ptr<vagrant> to, int expected) {
  arrivals = 0;
  net::node& here = net::node::here();
  auto visited = net::detail::post_call<int>(here, to.home(), [&](std::uint64_t reply) {
    detail::post_to_object(directory::of(here), to.id(), [&](int where, const address& a) {
      net::detail::post_packed(here, where, {probe.id(), 0, reply}, {}, a);
    });
  });
  EXPECT_EQ(visited.get(), expected);
  return arrivals;
}

// Rank 0 sends; the object is born on rank 1, comes to rank 2, where rank 0 gets to know it, and
// moves on to other ranks `missed` times. \return the messages of the next three visits.
std::vector<long> visits_after(int missed, const std::string& more) {
  std::vector<long> found;
  sim::run(sim::parse_world("ranks=" + std::to_string(3 + missed) + more), [&] {
    const auto object = broadcast(rank() == 1 ? create<vagrant>() : mobile_ptr<vagrant>(), 1);
    if (rank() == 1) migrate(object, 2).get();
    barrier();
    if (rank() == 0) messages_of_visit(object, 1);
    barrier();
    if (rank() == 1)
      for (int r = 3; r < 3 + missed; ++r) migrate(object, r).get();
    quiesce(); // what the moves have to tell each other is told
    if (rank() == 0)
      for (int i = 2; i < 5; ++i) found.push_back(messages_of_visit(object, i));
    return 0;
  });
  return found;
}

TEST(hops, are_at_most_one_more_than_missed_moves_and_then_none) {
  for (int missed = 0; missed <= 8; ++missed)
    for (int seed = 1; seed <= 10; ++seed) {
      const auto found = visits_after(missed, ",faults=delay:reorder:slow,seed=" + std::to_string(seed));
      ASSERT_EQ(found.size(), 3u);
      EXPECT_LE(found[0], missed + 1) << "seed " << seed;
      EXPECT_EQ(found[1], 1) << "after " << missed << " moves, seed " << seed;
      EXPECT_EQ(found[2], 1) << "after " << missed << " moves, seed " << seed;
    }
}

// Eight are sent on along the way; then the last of those ranks sends to the home, which knows.
TEST(hops, that_are_many_go_by_way_of_the_home) {
  for (const int missed : {9, 10, 20}) EXPECT_EQ(visits_after(missed, ""), (std::vector<long>{11, 1, 1})) << missed;
}

} // namespace
} // namespace tern::mobile

// SPDX-License-Identifier: Apache-2.0
// Invocations that wait for their own object.
#include <cstdint>
#include <string>

#include <tern/mobile/hold.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/causal_context.hpp>

#include "rank_test.hpp"

namespace self_test {

using tern::call;
using tern::errc;
using tern::mobile_ptr;
using tern::rank;
using tern::size;

class hermit {
public:
  template <class A> void serialize(A& ar) { ar(visits_); }
  int visit() { return ++visits_; }
  int visits() const { return visits_; }

  // Each waits for what cannot begin before it has ended.
  int visit_myself() { return call<&hermit::visit>(me()).get(); }
  int look_at_myself() { return call<&hermit::visits>(me()).get(); }
  int visit_while_looking() const { return call<&hermit::visit>(me()).get(); }
  void go_away() { tern::migrate(me(), (rank() + 1) % size()).get(); }
  void end() { tern::destroy(me()).get(); }
  void hold_myself() { static_cast<void>(tern::hold(me())); }

  // And these for what can.
  int look_while_looking() const { return call<&hermit::visits>(me()).get(); }
  int visit_later() {
    auto later = call<&hermit::visit>(me());
    const tern::release_access meanwhile;
    return later.get();
  }
  int visit_another(mobile_ptr<hermit> other) { return call<&hermit::visit>(other).get(); }
  void visit_without_waiting() { tern::send<&hermit::visit>(me()); }

  std::uint64_t key() const { return tern::detail::work_frame::key_here().value_or(0); }

private:
  static mobile_ptr<hermit> me() { return tern::self<hermit>(); }
  int visits_ = 0;
};

mobile_ptr<hermit> somewhere_else() { return tern::create_on<hermit>((rank() + 1) % size()).get(); }

// What the object has sent to itself and this rank's question do not know of each other.
int visits_at_least(mobile_ptr<hermit> h, int n) {
  int seen = 0;
  while ((seen = call<&hermit::visits>(h).get()) < n) tern::this_fiber::yield();
  return seen;
}

TERN_RANK_TEST(an_invocation_gives_its_object_as_key_where_a_layer_above_asks_for_it) {
  tern::mobile::detail::running_invocation::frames.key = &tern::mobile::detail::running_invocation::key_of;
  tern::barrier(); // other ranks run invocations of these objects
  for (const auto h : {tern::create<hermit>(), somewhere_else()})
    TERN_EXPECT_EQ(call<&hermit::key>(h).get(), h.id().bits);
  TERN_EXPECT_EQ(tern::detail::work_frame::key_here().has_value(), false);
}

TERN_RANK_TEST(who_waits_for_its_own_object_alone_is_told) {
  for (const auto h : {tern::create<hermit>(), somewhere_else()}) {
    TERN_EXPECT_ERROR(call<&hermit::visit_myself>(h).get(), errc::deadlock,
                      "runs an exclusive invocation of object " + tern::mobile::to_string(h.id()) + " (");
    TERN_EXPECT_ERROR(call<&hermit::visit_myself>(h).get(), errc::deadlock, "hermit) and waits for '");
    TERN_EXPECT_ERROR(call<&hermit::visit_myself>(h).get(), errc::deadlock,
                      "hermit::visit' of the same object, which begins only when that invocation has ended");
    TERN_EXPECT_ERROR(call<&hermit::visit_myself>(h).get(), errc::deadlock,
                      "send it and do not wait, or wait while a tern::release_access lives");
    TERN_EXPECT_ERROR(call<&hermit::look_at_myself>(h).get(), errc::deadlock, "hermit::visits' of the same object");
    TERN_EXPECT_ERROR(call<&hermit::go_away>(h).get(), errc::deadlock, "waits for 'migrate' of the same object");
    TERN_EXPECT_ERROR(call<&hermit::hold_myself>(h).get(), errc::deadlock, "waits for 'tern::hold'");
    // What was sent runs nevertheless, afterwards.
    TERN_EXPECT_EQ(visits_at_least(h, 4), 4);
  }
}

TERN_RANK_TEST(a_shared_invocation_that_waits_for_an_exclusive_one_is_told) {
  for (const auto h : {tern::create<hermit>(), somewhere_else()}) {
    TERN_EXPECT_ERROR(call<&hermit::visit_while_looking>(h).get(), errc::deadlock,
                      "runs a shared invocation of object ");
    TERN_EXPECT_ERROR(call<&hermit::end>(h).get(), errc::deadlock, "waits for 'destroy' of the same object");
  }
}

TERN_RANK_TEST(who_waits_for_what_can_run_beside_is_not) {
  for (const auto h : {tern::create<hermit>(), somewhere_else()}) {
    TERN_EXPECT_EQ(call<&hermit::look_while_looking>(h).get(), 0);
    TERN_EXPECT_EQ(call<&hermit::visit_later>(h).get(), 1);
    TERN_EXPECT_EQ(call<&hermit::visit_another>(h, tern::create<hermit>()).get(), 1);
    call<&hermit::visit_without_waiting>(h).get();
    TERN_EXPECT_EQ(visits_at_least(h, 2), 2);
  }
}

} // namespace self_test

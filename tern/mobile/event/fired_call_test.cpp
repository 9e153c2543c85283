// SPDX-License-Identifier: Apache-2.0
// What a program is told when an event's function cannot have its objects.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/mobile/event.hpp>
#include <tern/net/job/settings.hpp>
#include <tern/net/runtime.hpp>
#include <tern/net/simulate.hpp>

namespace tern::mobile {
namespace {

int met = 0; // on all ranks, which live on this thread

class visitor {
public:
  void meet(std::span<visitor* const> brought) {
    met += static_cast<int>(brought.size());
    if (fails_) throw error(errc::unsupported, "the visitors quarrel");
  }
  void fail() { fails_ = true; }
  template <class A> void serialize(A& ar) {
    ar(fails_);
    if (fails_) throw error(errc::io, "the visitor is stuck");
  }

private:
  bool fails_ = false;
};
using pointer = mobile_ptr<visitor>;

/// What is said of an event on rank 0 with two objects, which `spoil` has done something to. The
/// job ends by itself.
template <class Spoil> std::string told(int ranks, int last_round, Spoil spoil) {
  met = 0;
  options report;
  report.set(net::unhandled_option, "report");
  testing::internal::CaptureStderr();
  sim::run(
      sim::parse_world("ranks=" + std::to_string(ranks)),
      [&] {
        if (rank() > 0) return 0;
        const pointer target = create<visitor>(), a = create<visitor>(), b = create_on<visitor>(ranks - 1).get();
        event e = make_event<&visitor::meet>(target, 2);
        event next = e;
        for (int r = 0; r < last_round; ++r) next = rearm(next);
        spoil(target, a, b);
        for (int r = 0; r <= last_round; ++r, e = e.next_round()) {
          signal(e, 0, b);
          signal(e, 1, r == 0 ? a : pointer());
        }
        return 0;
      },
      report);
  return testing::internal::GetCapturedStderr();
}
void expect(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(fired_call, an_object_that_is_gone_is_told) {
  const std::string text = told(2, 1, [](pointer, pointer a, pointer) { destroy(a).get(); });
  expect(text, "visitor::meet' of object 0:1 (tern::mobile::(anonymous namespace)::visitor) together with objects 0:2, "
               "1:1 did not run: object 0:2");
  expect(text, "has been destroyed");
  expect(text, "(in event 1 of object 0:1 on rank 0");
  EXPECT_EQ(met, 2); // the next round fires
}

TEST(fired_call, a_target_that_is_gone_is_told) {
  met = 0;
  options report;
  report.set(net::unhandled_option, "report");
  testing::internal::CaptureStderr();
  sim::run(
      sim::parse_world("ranks=1"),
      [] {
        const pointer a = create<visitor>(), target = create<visitor>();
        // It has fired and waits for the first object when the target ends.
        send<[](visitor&, pointer to) {
          signal(make_event<&visitor::meet>(to, 1), 0, self<visitor>());
          destroy(to).get();
        }>(a, target);
        return 0;
      },
      report);
  const std::string text = testing::internal::GetCapturedStderr();
  expect(text, "did not run: object 0:2");
  expect(text, "(in event 1 of object 0:2 on rank 0");
  EXPECT_EQ(met, 0);
}

TEST(fired_call, objects_that_cannot_be_packed_are_told) {
  const std::string text = told(2, 0, [](pointer, pointer, pointer b) { call<&visitor::fail>(b).get(); });
  expect(text, "did not run:");
  expect(text, "the visitor is stuck");
  EXPECT_EQ(met, 0);
}

TEST(fired_call, objects_that_cannot_come_together_are_told) {
  const std::string text = told(3, 0, [](pointer target, pointer, pointer b) {
    pin(target).get();
    pin(b).get();
  });
  expect(text,
         "did not run: its objects cannot come together: object 0:1 is pinned on rank 0, and object 2:1 is pinned "
         "on rank 2");
  EXPECT_EQ(met, 0);
}

TEST(fired_call, what_the_function_throws_is_told) {
  for (const int ranks : {1, 2}) {
    const std::string text = told(ranks, 1, [](pointer target, pointer, pointer b) {
      call<&visitor::fail>(target).get();
      if (rank() != b.home()) pin(target).get();
    });
    expect(text, "the visitors quarrel");
    expect(text, "visitor::meet' of object 0:1");
    expect(text, "; an event's function has no caller: give the pointers as values, and use tern::call_together within "
                 "the function to handle this");
    EXPECT_EQ(met, 4) << "with " << ranks << " ranks"; // both rounds
  }
}

} // namespace
} // namespace tern::mobile

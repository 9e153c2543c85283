// SPDX-License-Identifier: Apache-2.0
// Events whose signals bring objects: which of them the function gets, when they are claimed, and
// what comes of it.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tern/mobile/event.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/report.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/semaphore.hpp>

#include "rank_test.hpp"

namespace event_objects_test {

using tern::call;
using tern::errc;
using tern::event;
using tern::mobile_ptr;
using tern::rank;
using tern::size;

class leaf {
public:
  leaf() = default;
  explicit leaf(int number) : number_(number) {}
  virtual ~leaf() = default;
  virtual int number() const { return number_; }
  int place() const { return rank(); }
  int met() const { return met_; }
  void meet() { ++met_; }
  std::string log() const { return log_; }
  void begin() { log_.clear(); }

  /// In the order of the numbers: whose signals, and what they have brought.
  void merge(std::span<leaf* const> leaves, const tern::signals& in) {
    log_ += std::to_string(in.of().round()) + ":";
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      TERN_EXPECT(!leaves[i] || in.has_value(i));
      log_ += leaves[i] ? " " + std::to_string(leaves[i]->number()) : " -";
      if (leaves[i]) leaves[i]->meet();
    }
    log_ += ";";
    if (in.of().round() + 1 < rounds_) static_cast<void>(tern::rearm(in.of()));
  }
  void gather(std::span<leaf* const> leaves) {
    for (leaf* const l : leaves)
      if (l) ++l->met_;
    ++met_;
  }
  int look(std::span<const leaf* const> leaves) const {
    for (const leaf* const l : leaves) *seen += l->number();
    return *seen;
  }
  event arm(std::int64_t n, std::uint32_t rounds) {
    rounds_ = rounds;
    return tern::make_event<&leaf::merge>(tern::self<leaf>(), n);
  }
  void note_caller(std::span<leaf* const>) { met_ = tern::caller(); }
  template <class A> void serialize(A& ar) { ar(number_, met_, rounds_, log_); }

  static const tern::rank_local<int> seen;

private:
  int number_ = 0, met_ = 0;
  std::uint32_t rounds_ = 1;
  std::string log_;
};
const tern::rank_local<int> leaf::seen;
class bud : public leaf {
public:
  bud() = default;
  explicit bud(int) : leaf(-7) {}
  int number() const override { return -7; }
  template <class A> void serialize(A& ar) { leaf::serialize(ar); }
};

/// One on each rank.
std::vector<mobile_ptr<leaf>> leaves() { return tern::broadcast(tern::gather(tern::create<leaf>(rank()))); }
void end(const std::vector<mobile_ptr<leaf>>& all) {
  tern::barrier();
  if (rank() == 0)
    for (const auto& l : all) tern::destroy(l).get();
  tern::barrier();
  TERN_EXPECT_EQ(tern::mobile::directory::here().size(), 0u);
  tern::barrier();
}
const mobile_ptr<leaf>& mine(const std::vector<mobile_ptr<leaf>>& all) { return all[static_cast<std::size_t>(rank())]; }

TERN_RANK_TEST(objects_of_signals_come_when_the_event_fires) {
  const auto all = leaves();
  const auto target = all[0];
  const event e = tern::broadcast(rank() == 0 ? call<&leaf::arm>(target, size() + 2, 1u).get() : event());
  tern::call_signal(e, size() - 1 - rank(), mine(all)).get();
  tern::barrier();
  TERN_EXPECT_EQ(call<&leaf::place>(mine(all)).get(), rank()); // nothing is claimed, and nothing has moved
  tern::barrier();
  if (rank() == 0) {
    tern::signal(e, size(), mobile_ptr<leaf>()); // none
    tern::signal(e, size() + 1, 3.5);            // a value
  }
  tern::quiesce();
  std::string expected = "0:";
  for (int r = size() - 1; r >= 0; --r) expected += " " + std::to_string(r); // the target is one of them
  TERN_EXPECT_EQ(call<&leaf::log>(target).get(), expected + " - -;");
  TERN_EXPECT_EQ(call<&leaf::place>(mine(all)).get(), 0);
  TERN_EXPECT_EQ(call<&leaf::met>(mine(all)).get(), 1);
  TERN_EXPECT_ERROR(tern::call_signal(e, 0).get(), errc::already_exists, "and before the event had fired");
  end(all);
}

TERN_RANK_TEST(an_object_may_be_brought_by_several_signals) {
  const auto all = leaves();
  const auto target = all.back(), other = all.front();
  const event e = tern::broadcast(rank() == 0 ? tern::make_event<&leaf::gather>(target, 2 * size()) : event());
  tern::signal(e, 2 * rank(), other);
  tern::signal(e, 2 * rank() + 1, target);
  tern::quiesce();
  if (target == other)
    TERN_EXPECT_EQ(call<&leaf::met>(target).get(), 3);
  else
    TERN_EXPECT_EQ(call<&leaf::met>(other).get() * 100 + call<&leaf::met>(target).get(), 100 * size() + size() + 1);
  end(all);
}

TERN_RANK_TEST(events_with_objects_may_be_rearmed) {
  constexpr std::uint32_t rounds = 6;
  const auto all = leaves();
  const auto target = all[static_cast<std::size_t>(size() / 2)];
  event e = tern::broadcast(rank() == 0 ? call<&leaf::arm>(target, size(), rounds).get() : event());
  for (std::uint32_t r = 0; r < rounds; ++r, e = e.next_round()) { // as fast as each can
    tern::signal(e, rank(), mine(all));
    if (r % 2 == 1) static_cast<void>(tern::migrate(rank() == 0 ? target : mine(all), static_cast<int>(r) % size()));
  }
  tern::quiesce();
  std::string expected;
  for (std::uint32_t r = 0; r < rounds; ++r) {
    expected += std::to_string(r) + ":";
    for (int i = 0; i < size(); ++i) expected += " " + std::to_string(i);
    expected += ";";
  }
  TERN_EXPECT_EQ(call<&leaf::log>(target).get(), expected);
  TERN_EXPECT_EQ(call<&leaf::met>(mine(all)).get(), static_cast<int>(rounds));
  end(all);
}

// Rearmed before it fires: a round begins when the function of the one before has ended.
TERN_RANK_TEST(rounds_with_objects_come_one_after_the_other) {
  const auto all = leaves();
  const auto target = all.back();
  event e = tern::broadcast(rank() == 0 ? call<&leaf::arm>(target, size(), 1u).get() : event());
  event next = e;
  if (rank() == 0)
    for (int r = 0; r < 3; ++r) next = tern::rearm(next);
  tern::quiesce();
  for (int r = 0; r < 4; ++r, e = e.next_round()) tern::signal(e, rank(), all[static_cast<std::size_t>(r % size())]);
  tern::quiesce();
  std::string expected;
  for (int r = 0; r < 4; ++r) {
    expected += std::to_string(r) + ":";
    for (int i = 0; i < size(); ++i) expected += " " + std::to_string(r % size());
    expected += ";";
  }
  TERN_EXPECT_EQ(call<&leaf::log>(target).get(), expected);
  end(all);
}

// Each has the other's object as its first: claimed as they are named, neither could go on.
TERN_RANK_TEST(events_that_want_the_same_objects_do_not_wait_for_each_other) {
  const auto all = leaves();
  std::vector<event> events(2);
  if (rank() == 0)
    for (event& e : events) e = tern::make_event<&leaf::gather>(tern::create_on<leaf>(size() - 1, 0).get(), 2);
  events = tern::broadcast(events);
  const auto first = all.front();
  const auto second = tern::broadcast(rank() == 0 ? tern::create<leaf>(9) : mobile_ptr<leaf>());
  if (rank() == 0) tern::call_signal(events[0], 0, first).get();
  if (rank() == size() - 1) tern::call_signal(events[1], 0, second).get();
  tern::barrier();
  if (rank() == 0) tern::signal(events[1], 1, first);
  if (rank() == size() - 1) tern::signal(events[0], 1, second);
  tern::quiesce();
  TERN_EXPECT_EQ(call<&leaf::met>(first).get(), 2);
  TERN_EXPECT_EQ(call<&leaf::met>(second).get(), 2);
  tern::barrier();
  if (rank() == 0) {
    for (const event& e : events) tern::destroy(mobile_ptr<leaf>(e.target())).get();
    tern::destroy(second).get();
  }
  end(all);
}

// What cannot move draws the target to it, and the target's events follow.
TERN_RANK_TEST(pinned_objects_draw_the_target) {
  constexpr std::uint32_t rounds = 3;
  const auto all = leaves();
  const auto target = all.front(), pinned = all.back();
  if (rank() == 0) tern::pin(pinned).get();
  event e = tern::broadcast(rank() == 0 ? call<&leaf::arm>(target, size() + 1, rounds).get() : event());
  for (std::uint32_t r = 0; r < rounds; ++r, e = e.next_round()) {
    tern::signal(e, rank(), pinned);
    if (rank() != 0) continue;
    tern::signal(e, size(), std::string("last"));
    if (r == 1) static_cast<void>(tern::migrate(target, 0));
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&leaf::met>(pinned).get(), static_cast<int>(rounds) * size());
  TERN_EXPECT_EQ(call<&leaf::place>(pinned).get(), size() - 1);
  tern::barrier();
  if (rank() == 0) tern::unpin(pinned).get();
  end(all);
}

TERN_RANK_TEST(shared_functions_and_objects_of_derived_classes) {
  const auto all = leaves();
  *leaf::seen = 0;
  const auto derived = tern::broadcast(rank() == size() - 1 ? tern::create<bud>(0) : mobile_ptr<bud>(), size() - 1);
  tern::barrier();
  if (rank() == 0) {
    const event e = tern::make_event<&leaf::look>(all[0], 3);
    tern::signal(e, 0, all.back());
    tern::signal(e, 1, mobile_ptr<leaf>(derived));
    TERN_EXPECT_ERROR(tern::call_signal(e, 2, derived).get(), errc::invalid_argument,
                      "signal 2 of event 1 of object " + tern::mobile::to_string(all[0].id()) +
                          " (event_objects_test::leaf) brings a pointer to another class than its function takes");
    tern::finish([&] { tern::signal(e, 2, all[0]); }); // and its end waits for that
    TERN_EXPECT_EQ(*leaf::seen, size() - 1 - 7);
    const event f = tern::make_event<[](leaf& at, std::span<leaf* const> brought) {
      at.meet();
      brought[0]->meet();
    }>(all[0], 1);
    tern::finish([&] { tern::signal(f, 0, all[0]); });
    TERN_EXPECT_EQ(call<&leaf::met>(all[0]).get(), 2);
  }
  tern::barrier();
  if (rank() == 0) tern::destroy(derived).get();
  end(all);
}

TERN_RANK_TEST(the_caller_of_a_function_with_objects_gave_the_last_signal) {
  const auto all = leaves();
  const auto target = all.back();
  const event e = tern::broadcast(rank() == 0 ? tern::make_event<&leaf::note_caller>(target, size()) : event());
  for (int r = size() - 1; r >= 0; --r) {
    if (rank() == r) tern::call_signal(e, r, mine(all)).get();
    tern::barrier();
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&leaf::met>(target).get(), 0);
  end(all);
}

// A function without objects sees pointers as values.
TERN_RANK_TEST(pointers_are_values_of_other_functions) {
  if (rank() > 0) return;
  const auto s = tern::create<leaf>(0);
  static mobile_ptr<leaf> got;
  const event e = tern::make_event<[](leaf&, const tern::signals& in) { got = in.get<mobile_ptr<leaf>>(0); }>(s, 1);
  tern::finish([&] { tern::signal(e, 0, s); });
  TERN_EXPECT(got == s);
  tern::destroy(s).get();
}

TERN_RANK_TEST(reports_name_what_an_event_waits_for) {
  static tern::semaphore begun(0), may_end(0);
  const auto all = leaves();
  tern::barrier();
  if (rank() == 0) {
    const auto target = tern::create<leaf>(1);
    tern::send<[](leaf&) {
      begun.release();
      may_end.acquire();
    }>(all[0]);
    begun.acquire();
    event e = call<&leaf::arm>(target, 1, 2u).get();
    static_cast<void>(tern::rearm(e));
    tern::signal(e, 0, all[0]);
    tern::signal(e.next_round(), 0);
    std::string report;
    tern::wait_until([&] {
      report = tern::net::describe(tern::net::node::here(), false);
      return report.find(" waits for " + tern::mobile::to_string(all[0].id())) != std::string::npos;
    });
    const std::string wanted =
        "event 1 of object " + tern::mobile::to_string(target.id()) +
        " (event_objects_test::leaf) has all signals of round 1, and the function of the round before "
        "runs\n";
    if (report.find(wanted) == std::string::npos) TERN_EXPECT_EQ(report, wanted);
    TERN_EXPECT(report.find("leaf::merge' of object " + tern::mobile::to_string(target.id())) != std::string::npos);
    may_end.release();
    while (call<&leaf::log>(target).get() != "0: 0;1: -;") tern::this_fiber::yield();
    tern::destroy(target).get();
  }
  end(all);
}

} // namespace event_objects_test

// SPDX-License-Identifier: Apache-2.0
// Events of mobile objects: who fires when, with what, wherever the object is.
#include <cstdint>
#include <string>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/mobile/event.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/report.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"

namespace event_test {

using tern::call;
using tern::errc;
using tern::event;
using tern::mobile_ptr;
using tern::rank;
using tern::size;

class site {
public:
  site() = default;
  explicit site(const tern::indices<2>&) {}
  void go() {
    ++fired_;
    ran_on_ = rank();
  }
  void look() const { ++*looked; }
  void read(const tern::signals& in) {
    ++fired_;
    text_.clear();
    for (std::size_t i = 0; i < in.size(); ++i)
      text_ += std::to_string(in.rank(i)) + ":" + (in.has_value(i) ? in.get<std::string>(i) : "-") + " ";
  }
  void add(const tern::signals& in) {
    ++fired_;
    sum_ = 0;
    for (std::size_t i = 0; i < in.size(); ++i)
      for (const double x : in.elements<double>(i)) sum_ += x;
  }
  void mistake(const tern::signals& in) {
    try {
      static_cast<void>(in.get<int>(0));
    } catch (const tern::error& e) {
      text_ = std::string(tern::name_of(e.code())) + ": " + e.message();
    }
  }
  void again() {
    ++fired_;
    if (event_.round() < 4) event_ = tern::rearm(event_);
  }
  event arm_again(std::int64_t n) { return event_ = tern::make_event<&site::again>(tern::self<site>(), n); }
  void who() { ran_on_ = tern::caller(); }
  void pass(const event& e, std::int64_t i) { tern::signal(e, i); }
  std::string pass_and_tell(const event& e, std::int64_t i) {
    try {
      tern::call_signal(e, i).get();
    } catch (const tern::error& x) {
      return x.message();
    }
    return {};
  }
  /// Gives the last signal of an event of its own.
  int signal_and_wait(const event& e) {
    tern::call_signal(e, 0).get();
    for (int i = 0; i < 3; ++i) tern::this_fiber::yield();
    return fired_;
  }
  int fired() const { return fired_; }
  int ran_on() const { return ran_on_; }
  double sum() const { return sum_; }
  std::string text() const { return text_; }
  template <class A> void serialize(A& ar) { ar(fired_, ran_on_, sum_, text_, event_); }

  static const tern::rank_local<int> looked;

private:
  int fired_ = 0, ran_on_ = -1;
  double sum_ = 0;
  std::string text_;
  event event_;
};
const tern::rank_local<int> site::looked;

mobile_ptr<site> make_site(int home = 0) {
  return tern::broadcast(rank() == home ? tern::create<site>() : mobile_ptr<site>(), home);
}
void end(mobile_ptr<site> s) {
  tern::barrier();
  if (rank() == 0) tern::destroy(s).get();
  tern::barrier();
}

TERN_RANK_TEST(events_fire_after_the_last_signal) {
  const auto s = make_site(size() - 1);
  const event e = tern::broadcast(rank() == 0 ? tern::make_event<&site::go>(s, 2 * size()) : event());
  TERN_EXPECT_EQ(e.number(), 1u);
  TERN_EXPECT_EQ(e.size(), static_cast<std::uint32_t>(2 * size()));
  TERN_EXPECT(e.target() == s.id());
  tern::signal(e, 2 * rank());
  tern::barrier();
  TERN_EXPECT_EQ(call<&site::fired>(s).get(), 0);
  tern::barrier();
  if (rank() > 0) tern::signal(e, 2 * rank() + 1);
  tern::barrier();
  TERN_EXPECT_EQ(call<&site::fired>(s).get(), 0);
  tern::barrier();
  if (rank() == 0) tern::signal(e, 1);
  tern::quiesce();
  TERN_EXPECT_EQ(call<&site::fired>(s).get(), 1);
  end(s);
}

TERN_RANK_TEST(events_bring_values_in_the_order_of_numbers) {
  const auto s = make_site();
  event e, f;
  if (rank() == 0) {
    e = tern::make_event<&site::read>(s, size() + 1);
    f = tern::make_event<&site::add>(s, size());
  }
  e = tern::broadcast(e);
  f = tern::broadcast(f);
  tern::signal(e, rank(), std::string(static_cast<std::size_t>(rank()), 'x'));
  if (rank() == size() - 1) tern::signal(e, size());
  tern::quiesce();
  std::string expected;
  for (int r = 0; r < size(); ++r)
    expected += std::to_string(r) + ":" + std::string(static_cast<std::size_t>(r), 'x') + " ";
  TERN_EXPECT_EQ(call<&site::text>(s).get(), expected + std::to_string(size() - 1) + ":- ");
  constexpr std::size_t many = 10'000; // larger than what is copied into a message
  tern::buffer<double> b(many);
  for (std::size_t i = 0; i < many; ++i) b[i] = rank() + 1;
  tern::signal(f, size() - 1 - rank(), std::move(b));
  tern::quiesce();
  TERN_EXPECT_EQ(call<&site::sum>(s).get(), static_cast<double>(many) * size() * (size() + 1) / 2);
  TERN_EXPECT_EQ(call<&site::fired>(s).get(), 2);
  end(s);
}

TERN_RANK_TEST(values_of_another_type_are_told) {
  if (rank() > 0) return;
  const auto s = tern::create_on<site>(size() - 1).get();
  tern::signal(tern::make_event<&site::mistake>(s, 1), 0, 2.5);
  while (call<&site::text>(s).get().empty()) tern::this_fiber::yield();
  TERN_EXPECT_EQ(call<&site::text>(s).get(),
                 "invalid_argument: signal 0 of rank 0 has not brought a int, but a value of "
                 "another type");
  tern::call_signal(tern::make_event<&site::mistake>(s, 1), 0).get();
  while (call<&site::text>(s).get().find("no value") == std::string::npos) tern::this_fiber::yield();
  TERN_EXPECT_EQ(call<&site::text>(s).get(),
                 "not_found: signal 0 of rank 0 has brought no value, and a int was asked for");
  tern::destroy(s).get();
}

// Events, signals that wait and values go where their target goes.
TERN_RANK_TEST(events_move_with_their_target) {
  const auto s = make_site();
  const event e = tern::broadcast(rank() == 0 ? tern::make_event<&site::read>(s, 3 * size()) : event());
  for (int i = 0; i < 3; ++i) {
    tern::signal(e, 3 * rank() + i, std::to_string(3 * rank() + i));
    if (rank() == 0) tern::migrate(s, (i + 1) % size()).get();
    tern::barrier();
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&site::fired>(s).get(), 1);
  std::string expected;
  for (int i = 0; i < 3 * size(); ++i) expected += std::to_string(i / 3) + ":" + std::to_string(i) + " ";
  TERN_EXPECT_EQ(call<&site::text>(s).get(), expected);
  end(s);
}

TERN_RANK_TEST(events_of_objects_on_disk) {
  if (rank() > 0) return;
  const auto s = tern::create_on<site>(size() - 1).get();
  const event e = tern::make_event<&site::read>(s, 3);
  for (int i = 0; i < 3; ++i) {
    tern::swap_out(s).get();
    tern::call_signal(e, i, std::string(1, static_cast<char>('a' + i))).get();
  }
  while (call<&site::fired>(s).get() == 0) tern::this_fiber::yield();
  TERN_EXPECT_EQ(call<&site::text>(s).get(), "0:a 0:b 0:c ");
  tern::destroy(s).get();
}

TERN_RANK_TEST(events_may_be_rearmed_and_signalled_early) {
  const auto s = make_site(size() - 1);
  event e = tern::broadcast(rank() == 0 ? call<&site::arm_again>(s, size()).get() : event());
  for (int round = 0; round < 5; ++round) { // as fast as each can
    TERN_EXPECT_EQ(e.round(), static_cast<std::uint32_t>(round));
    tern::signal(e, rank());
    if (rank() == 0 && round % 2 == 1) static_cast<void>(tern::migrate(s, round % size()));
    e = e.next_round();
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&site::fired>(s).get(), 5);
  end(s);
}

TERN_RANK_TEST(an_event_fires_shared_functions_and_lambdas) {
  if (rank() > 0) return;
  const auto s = tern::create<site>();
  *site::looked = 0;
  tern::signal(tern::make_event<&site::look>(s, 1), 0);
  while (*site::looked == 0) tern::this_fiber::yield();
  TERN_EXPECT_EQ(*site::looked, 1);
  tern::signal(tern::make_event<[](site& at) { at.go(); }>(s, 1), 0);
  while (call<&site::fired>(s).get() == 0) tern::this_fiber::yield();
  TERN_EXPECT_EQ(call<&site::ran_on>(s).get(), 0);
  tern::destroy(s).get();
}

// Also where it could run at once: it comes behind what has the object, and what was sent before.
TERN_RANK_TEST(an_events_function_waits_for_its_object) {
  const auto s = make_site();
  if (rank() == 0) {
    const event e = tern::make_event<&site::go>(s, 1);
    TERN_EXPECT_EQ(call<&site::signal_and_wait>(s, e).get(), 0);
    while (call<&site::fired>(s).get() == 0) tern::this_fiber::yield();
    for (int i = 1; i < 100; ++i) {
      const event next = tern::make_event<&site::go>(s, 1);
      auto before = call<&site::text>(s); // under way by another way
      if (i % 2 == 0) tern::send<&site::go>(s);
      tern::signal(next, 0);
      before.get();
      const int expected = 1 + i + i / 2;
      while (call<&site::fired>(s).get() < expected) tern::this_fiber::yield();
      TERN_EXPECT_EQ(call<&site::fired>(s).get(), expected);
      TERN_EXPECT_ERROR(tern::call_signal(next, 0).get(), errc::already_exists, "given twice");
    }
  }
  end(s);
}

TERN_RANK_TEST(who_gave_the_last_signal_is_the_caller) {
  const auto s = make_site();
  const event e = tern::broadcast(rank() == 0 ? tern::make_event<&site::who>(s, size()) : event());
  for (int r = size() - 1; r >= 0; --r) {
    if (rank() == r) tern::call_signal(e, r).get();
    tern::barrier();
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&site::ran_on>(s).get(), 0);
  end(s);
}

TERN_RANK_TEST(double_signals_are_told_with_both_places) {
  const auto s = make_site();
  const auto other = make_site(size() - 1);
  const event e = tern::broadcast(rank() == 0 ? tern::make_event<&site::go>(s, 3) : event());
  if (rank() == size() - 1) tern::call_signal(e, 1).get();
  tern::barrier();
  const std::string start = "signal 1 of event 1 of object " + tern::mobile::to_string(s.id()) +
                            " (event_test::site) was given twice: by rank " + std::to_string(size() - 1) + " and by ";
  TERN_EXPECT_ERROR(tern::call_signal(e, 1).get(), errc::already_exists, start + "rank " + std::to_string(rank()));
  const std::string last = start + "rank " + std::to_string(size() - 1);
  TERN_EXPECT_EQ(call<&site::pass_and_tell>(other, e, 1).get().substr(0, last.size()), last);
  TERN_EXPECT(
      call<&site::pass_and_tell>(other, e, 1).get().find(" from object " + tern::mobile::to_string(other.id())) !=
      std::string::npos);
  tern::barrier();
  if (rank() == 0) {
    tern::signal(e, 0);
    tern::signal(e, 2);
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&site::fired>(s).get(), 1);
  TERN_EXPECT_ERROR(tern::call_signal(e, 1).get(), errc::already_exists, "and before the event had fired");
  end(s);
  TERN_EXPECT_ERROR(tern::call_signal(e, 1).get(), errc::not_found, "has been destroyed");
  if (rank() == 0) tern::destroy(other).get();
  TERN_EXPECT_ERROR(tern::make_event<&site::go>(s, 1), errc::not_found, "has been destroyed");
  tern::barrier();
}

TERN_RANK_TEST(wrong_events_are_told) {
  const auto s = make_site();
  TERN_EXPECT_ERROR(tern::make_event<&site::go>(s, 0), errc::invalid_argument, "an event of 0 signals was asked for");
  TERN_EXPECT_ERROR(tern::make_event<&site::go>(s, -1), errc::invalid_argument, "an event of -1 signals");
  TERN_EXPECT_ERROR(tern::make_event<&site::go>(s, std::int64_t{1} << 25), errc::invalid_argument,
                    "an event takes 1 to 16777216 signals");
  TERN_EXPECT_ERROR(tern::make_event<&site::go>(mobile_ptr<site>(), 1), errc::invalid_argument, "null");
  TERN_EXPECT_ERROR(tern::signal(event(), 0), errc::invalid_argument, "a null event was signalled");
  TERN_EXPECT_ERROR(tern::rearm(event()), errc::invalid_argument, "a null event was rearmed");
  const event e = tern::make_event<&site::go>(s, 4);
  TERN_EXPECT_ERROR(tern::signal(e, 4), errc::invalid_argument, "signal 4 of an event of 4 signals was given");
  TERN_EXPECT_ERROR(tern::call_signal(e, -1), errc::invalid_argument, "signals have the numbers 0 to 3");
  end(s);
}

// An epoch and `quiesce` wait for what a signal has fired, and so for what it waits for.
TERN_RANK_TEST(epochs_follow_signals) {
  const auto s = make_site();
  const event e = tern::broadcast(rank() == 0 ? tern::make_event<&site::go>(s, size()) : event());
  if (rank() > 0) tern::call_signal(e, rank()).get(); // of no epoch
  tern::barrier();
  if (rank() == 0) {
    tern::finish([&] {
      static_cast<void>(tern::migrate(s, size() - 1));
      tern::signal(e, 0);
    });
    TERN_EXPECT_EQ(call<&site::fired>(s).get(), 1);
  }
  tern::barrier();
  // Signals of an epoch wait, and move, until another one comes.
  const event f = tern::broadcast(rank() == 0 ? tern::make_event<&site::go>(s, 3) : event());
  bool over = false;
  tern::future<void> done;
  if (rank() == 0) {
    tern::promise<void> begun;
    auto has_begun = begun.get_future();
    done = tern::async([&over, f, s, begun = std::move(begun)]() mutable {
      tern::finish([&] {
        tern::call_signal(f, 0, std::string("in")).get();
        tern::call_signal(f, 1).get();
        begun.set_value();
      });
      over = true;
      TERN_EXPECT_EQ(call<&site::fired>(s).get(), 2);
    });
    has_begun.get();
    for (int r = 0; r < size(); ++r) tern::migrate(s, r).get();
    TERN_EXPECT(!over);
    TERN_EXPECT_EQ(call<&site::fired>(s).get(), 1);
    tern::signal(f, 2);
    done.get();
    TERN_EXPECT(over);
  }
  end(s);
}

TERN_RANK_TEST(an_object_that_ends_lets_its_signals_go) {
  if (rank() == 0) {
    const auto s = tern::create_on<site>(size() - 1).get();
    const event e = tern::make_event<&site::read>(s, 3);
    tern::finish([&] {
      tern::call_signal(e, 0, std::string("x")).get();
      tern::call_signal(e, 2).get();
      tern::destroy(s).get();
    });
  }
  tern::quiesce(); // and the end of the job
}

std::string report_of() { return tern::net::describe(tern::net::node::here(), false); }

TERN_RANK_TEST(reports_name_the_missing_signals) {
  tern::mobile_array<site, 2> grid;
  if (rank() == 0) grid = tern::mobile_array<site, 2>({.name = "grid"}, {2, 2});
  grid = tern::broadcast(grid);
  event e;
  if (rank() == 0) {
    for (int i = 0; i < 3; ++i) e = tern::make_event<&site::go>(grid(1, 1), 13);
    for (int i = 0; i < 13; ++i)
      if (i != 4 && i != 7 && i != 12) tern::call_signal(e, i).get();
    const std::string text = call<&report_of>(grid(1, 1).home()).get();
    const std::string wanted = "event 3 of event_test::site(1, 1) of 'grid' waits for signals 4, 7 and 12\n";
    if (text.find(wanted) == std::string::npos) TERN_EXPECT_EQ(text, wanted);
    TERN_EXPECT(text.find("2 events of mobile objects have had no signal\n") != std::string::npos);
    for (const int i : {4, 7, 12}) tern::signal(e, i);
  }
  tern::quiesce();
  tern::barrier();
  if (rank() == 0) tern::destroy(grid).get();
  tern::barrier();
}

} // namespace event_test

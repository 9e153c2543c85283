// SPDX-License-Identifier: Apache-2.0
/// \file
/// Pointers to bases, and what an invocation may do with its own object.
#include <stdexcept>
#include <string>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

#include "rank_test.hpp"

namespace mobile_test {

using tern::call;
using tern::create;
using tern::create_on;
using tern::errc;
using tern::mobile_ptr;
using tern::rank;
using tern::send;
using tern::size;

// Pointers to bases: the object is found whatever it is, and functions see their part of it.
struct animal {
  virtual ~animal() = default;
  virtual std::string sound() const { return "?"; }
  int legs = 4;
  int count() const { return legs; }
};
struct swimmer {
  int depth = 7;
  int how_deep() const { return depth; }
};
struct duck final : animal, swimmer {
  duck() { legs = 2; }
  std::string sound() const override { return "quack"; }
  template <class A> void serialize(A& ar) { ar(legs, depth); }
};
struct no_duck {};
struct statue : animal {
  std::string sound() const override { return "..."; }
};
TERN_RANK_TEST(pointers_convert_to_bases) {
  const auto d = create_on<duck>(size() - 1).get();
  const mobile_ptr<animal> a = d;
  const mobile_ptr<swimmer> s = d;
  for (int r = 0; r < size(); ++r) {
    tern::migrate(a, r).get();
    TERN_EXPECT_EQ(call<&animal::sound>(a).get(), "quack");
    TERN_EXPECT_EQ(call<&animal::count>(a).get(), 2);
    TERN_EXPECT_EQ(call<&swimmer::how_deep>(s).get(), 7); // lies behind the animal
  }
  TERN_EXPECT_ERROR(call<&duck::sound>(mobile_ptr<duck>(create<no_duck>().id())).get(), errc::not_found,
                    "is a mobile_test::no_duck, not a mobile_test::duck");
  const mobile_ptr<animal> stone = create<statue>();
  if (size() > 1)
    TERN_EXPECT_ERROR(tern::migrate(stone, (rank() + 1) % size()).get(), errc::unsupported,
                      "objects of class mobile_test::statue cannot move");
  TERN_EXPECT_EQ(call<&animal::sound>(stone).get(), "...");
  tern::destroy(stone).get();
  tern::destroy(a).get();
}

// A class without default constructor.
class from_archive {
public:
  explicit from_archive(int n) : n_(n) {}
  explicit from_archive(tern::input_archive& ar) : n_(0) { ar(n_); }
  template <class A> void save(A& ar) const { ar(n_); }
  int n() const { return n_; }

private:
  int n_;
};
TERN_RANK_TEST(classes_may_be_made_from_an_archive) {
  const auto f = create<from_archive>(42);
  tern::migrate(f, (rank() + 1) % size()).get();
  TERN_EXPECT_EQ(call<&from_archive::n>(f).get(), 42);
  tern::destroy(f).get();
}

// Waits for another invocation of its own object, which is possible only because it lets it in.
struct asker {
  long answer = 0;
  template <class A> void serialize(A& ar) { ar(answer); }
  void set(long a) { answer = a; }
  long get() const { return answer; }
  long ask_oneself() {
    const auto me = tern::self<asker>();
    {
      const tern::release_access meanwhile;
      const tern::release_access twice; // is once
      call<&asker::set>(me, 42).get();
    }
    return answer;
  }
  long wait_and_stay() {
    const int before = rank();
    auto moved = tern::migrate(tern::self<asker>(), (rank() + 1) % size());
    {
      const tern::release_access meanwhile;
      for (int i = 0; i < 10; ++i) tern::this_fiber::yield();
    }
    return before == rank() && !moved.ready() ? 1 : size() == 1 ? 1 : 0;
  }
};
TERN_RANK_TEST(an_invocation_may_let_others_in) {
  const auto a = create_on<asker>((rank() + 1) % size()).get();
  TERN_EXPECT_EQ(call<&asker::ask_oneself>(a).get(), 42);
  TERN_EXPECT_EQ(call<&asker::wait_and_stay>(a).get(), 1);
  TERN_EXPECT_EQ(call<&asker::get>(a).get(), 42);
  tern::destroy(a).get();
}
int self_of_another(duck&) {
  TERN_EXPECT_ERROR(static_cast<void>(tern::self<no_duck>()), errc::invalid_argument,
                    "a mobile_test::duck, not a mobile_test::no_duck");
  return tern::self<animal>() == tern::self<duck>() ? 1 : 0;
}
TERN_RANK_TEST(what_belongs_into_invocations_says_so_elsewhere) {
  TERN_EXPECT_ERROR(tern::release_access(), errc::invalid_state,
                    "tern::release_access was used outside an invocation of a mobile object");
  TERN_EXPECT_ERROR(static_cast<void>(tern::self<no_duck>()), errc::invalid_state, "tern::self was used outside");
  const auto d = create<duck>();
  TERN_EXPECT_EQ(call<&self_of_another>(d).get(), 1);
  tern::destroy(d).get();
}

// Which rank has sent it: also if it was sent on, or had to wait and moved with its object.
class doorman {
public:
  int asked() const { return tern::caller(); }
  int asked_and_waits() { // the innermost counts
    const int before = tern::caller();
    const int inner = tern::call<&doorman::asked>(tern::create<doorman>()).get();
    return inner == rank() && tern::caller() == before ? before : -1;
  }
  void note(int from) { ++(tern::caller() == from ? right_ : wrong_); }
  int right() const { return right_; }
  int wrong() const { return wrong_; }
  template <class A> void serialize(A& ar) { ar(right_, wrong_); }

private:
  int right_ = 0, wrong_ = 0;
};
TERN_RANK_TEST(invocations_know_their_caller) {
  mobile_ptr<doorman> d;
  if (rank() == 0) d = create<doorman>();
  d = tern::broadcast(d);
  for (int i = 0; i < 20; ++i) {
    if (rank() == size() - 1) static_cast<void>(tern::migrate(d, i % size()));
    send<&doorman::note>(d, rank());
    TERN_EXPECT_EQ(call<&doorman::asked>(d).get(), rank());
    TERN_EXPECT_EQ(call<&doorman::asked_and_waits>(d).get(), rank());
    for (int n = 0; n < 10; ++n) send<&doorman::note>(d, rank());
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&doorman::right>(d).get(), 220 * size());
  TERN_EXPECT_EQ(call<&doorman::wrong>(d).get(), 0);
  TERN_EXPECT_ERROR(tern::caller(), errc::invalid_state, "outside an invocation");
  tern::barrier();
  if (rank() == 0) tern::destroy(d).get();
}

} // namespace mobile_test

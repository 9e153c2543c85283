// SPDX-License-Identifier: Apache-2.0
// Promises that travel: in the program tern_calls_ranks_test.
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <tern/net/call_options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/channel.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "rank_test.hpp"

namespace promises_test {

using tern::call;
using tern::errc;
using tern::rank;
using tern::remote_promise;
using tern::send;
using tern::size;

std::string text(int n) { return std::to_string(n); }
int other() { return (rank() + 1) % size(); }

// Promises that travel ------------------------------------------------------------------------------------------------

void set_it(remote_promise<int> p, int x) { p.set_value(x); }
void set_text(remote_promise<std::string> p, std::string x) { p.set_value(std::move(x)); }
void set_nothing(remote_promise<void> p) { p.set_value(); }
void set_error(remote_promise<int> p) {
  p.set_exception(std::make_exception_ptr(tern::error(errc::io, "disk full", "free some space")));
}
void set_what_is_no_error(remote_promise<int> p) {
  p.set_exception(std::make_exception_ptr(std::out_of_range("index 7 of 5")));
}
void pass_round(int hops, remote_promise<int> p) {
  if (hops == 0) return p.set_value(rank());
  send<&pass_round>(other(), hops - 1, std::move(p));
}
void forget_it(const remote_promise<int>&) {}

TERN_RANK_TEST(promises_are_set_from_any_rank) {
  for (int r = 0; r < size(); ++r) {
    remote_promise<int> number;
    auto a = number.get_future();
    send<&set_it>(r, std::move(number), r + 5);
    TERN_EXPECT_EQ(a.get(), r + 5);
    remote_promise<std::string> words;
    auto b = words.get_future();
    send<&set_text>(r, words, "from " + text(r)); // a share of it: this one stays
    TERN_EXPECT_EQ(b.get(), "from " + text(r));
    remote_promise<void> nothing;
    auto c = nothing.get_future();
    call<&set_nothing>(r, nothing.share()).get();
    c.get();
  }
  remote_promise<int> round;
  auto d = round.get_future();
  send<&pass_round>(other(), 3 * size() - 1, std::move(round));
  TERN_EXPECT_EQ(d.get(), rank());
  remote_promise<int> here;
  here.set_value(3);
  TERN_EXPECT_EQ(here.get_future().get(), 3);
}

TERN_RANK_TEST(exceptions_travel_to_the_future) {
  for (int r = 0; r < size(); ++r) {
    remote_promise<int> one, two;
    auto a = one.get_future(), b = two.get_future();
    send<&set_error>(r, std::move(one));
    send<&set_what_is_no_error>(r, std::move(two));
    TERN_EXPECT_ERROR(a.get(), errc::io, "disk full");
    if (r == rank()) {
      bool seen = false;
      try {
        b.get();
      } catch (const std::out_of_range&) {
        seen = true;
      }
      TERN_EXPECT(seen);
    } else {
      TERN_EXPECT_ERROR(b.get(), errc::remote, "std::out_of_range: index 7 of 5 (set by rank " + text(r) + ")");
    }
  }
}

TERN_RANK_TEST(promises_that_nobody_sets) {
  for (int r = 0; r < size(); ++r) {
    remote_promise<int> p;
    auto f = p.get_future();
    const std::string place = "tests/net/promise_ranks_test.cpp:" + text(__LINE__ - 2);
    for (int i = 0; i < 5; ++i) send<&forget_it>((r + i) % size(), p);
    TERN_EXPECT(!f.ready());
    send<&forget_it>(r, std::move(p));
    TERN_EXPECT_ERROR(f.get(), errc::broken_promise, place);
  }
  auto f = remote_promise<std::vector<int>>().get_future();
  TERN_EXPECT_ERROR(f.get(), errc::broken_promise,
                    "all shares of a remote promise were destroyed before its value was set; it was made on rank " +
                        text(rank()));
}

std::string set_twice(remote_promise<int> p) {
  p.set_value(1);
  try {
    p.set_value(2);
  } catch (const tern::error& e) {
    return e.code() == errc::already_exists ? e.what() : "";
  }
  return "";
}
TERN_RANK_TEST(a_second_value_is_an_error_where_that_is_known) {
  remote_promise<int> p;
  auto f = p.get_future();
  auto more = p.share();
  call<&set_it>(other(), std::move(p), 1).get();
  TERN_EXPECT_EQ(f.get(), 1);
  TERN_EXPECT_ERROR(more.set_value(2), errc::already_exists,
                    "gave a second value or exception to a remote promise of rank " + text(rank()));
  TERN_EXPECT_ERROR(more.set_exception(nullptr), errc::already_exists, "tests/net/promise_ranks_test.cpp:");
  TERN_EXPECT_ERROR(p.set_value(2), errc::invalid_state, "moved away");
  for (int r = 0; r < size(); ++r) {
    remote_promise<int> q;
    const auto got = call<&set_twice>(r, q).get();
    TERN_EXPECT(got.find("has already set the remote promise of rank " + text(rank())) != got.npos);
    TERN_EXPECT_EQ(q.get_future().get(), 1);
  }
}

TERN_RANK_TEST(promises_are_used_as_promised) {
  remote_promise<int> p;
  auto f = p.get_future();
  TERN_EXPECT_ERROR(p.get_future(), errc::invalid_state, "remote_promise::get_future");
  auto s = p.share();
  TERN_EXPECT_ERROR(s.get_future(), errc::invalid_state, "remote_promise::get_future");
  auto moved = std::move(s);
  TERN_EXPECT_ERROR(s.share(), errc::invalid_state, "moved away");
  TERN_EXPECT_ERROR(send<&forget_it>(0, s), errc::invalid_state, "moved away");
  moved.set_value(4);
  TERN_EXPECT_ERROR(moved.share(), errc::already_exists, "has already set");
  TERN_EXPECT_EQ(f.get(), 4);
  s = remote_promise<int>(); // another one
  auto g = s.get_future();
  s = remote_promise<int>(); // which is gone
  TERN_EXPECT_ERROR(g.get(), errc::broken_promise, "");
}

// A promise inside of something else, returned, kept, and sent on.
struct request {
  int number = 0;
  std::vector<remote_promise<int>> answers;
  template <class A> void serialize(A& ar) { ar(number, answers); }
};
void answer_all(request r) {
  for (auto& a : r.answers) a.set_value(r.number++);
}
void answer_many(std::vector<remote_promise<int>> all) {
  for (auto& a : all) a.set_value(1);
}
remote_promise<int> back_again(remote_promise<int> p) { return p; }
TERN_RANK_TEST(promises_inside_of_values) {
  request r;
  std::vector<tern::future<int>> answers;
  for (int i = 0; i < 10; ++i) answers.push_back(r.answers.emplace_back().get_future());
  r.number = 7;
  send<&answer_all>(other(), r);
  for (int i = 0; i < 10; ++i) TERN_EXPECT_EQ(answers[static_cast<std::size_t>(i)].get(), 7 + i);
  remote_promise<int> p;
  auto f = p.get_future();
  auto back = call<&back_again>(other(), std::move(p)).get();
  back.set_value(9);
  TERN_EXPECT_EQ(f.get(), 9);
}

struct picky { // cannot be copied into place
  picky() = default;
  explicit picky(int x) : value(x) {
    if (x < 0) throw std::invalid_argument("negative");
  }
  int value = 0;
  template <class A> void serialize(A& ar) { ar(value); }
};
void set_at_last(remote_promise<picky> p) {
  try {
    p.set_value(-1);
  } catch (const std::invalid_argument&) {
    p.set_value(8);
  }
}
TERN_RANK_TEST(a_value_that_cannot_be_made_leaves_the_promise_as_it_was) {
  for (int r = 0; r < size(); ++r) {
    remote_promise<picky> p;
    auto f = p.get_future();
    send<&set_at_last>(r, std::move(p));
    TERN_EXPECT_EQ(f.get().value, 8);
  }
}

// One share that is copied very often.
TERN_RANK_TEST(many_shares) {
  remote_promise<int> p;
  auto f = p.get_future();
  const int n = size() > 8 ? 50 : 2000;
  for (int i = 0; i < n; ++i) send<&forget_it>(i % size(), p);
  send<&set_it>(other(), p, 6);
  TERN_EXPECT_EQ(f.get(), 6);
  for (int i = 0; i < n; ++i) send<&forget_it>(i % size(), p);
}

TERN_RANK_TEST(promises_are_not_sent_to_many_at_once) {
  std::vector<remote_promise<int>> some(1);
  auto f = some[0].get_future();
  TERN_EXPECT_ERROR((tern::multicast<&answer_all>(tern::all_ranks, request{1, {}}), // none inside: fine
                     tern::multicast<&answer_many>(tern::all_ranks, some)),
                    errc::unsupported, "send each of them a share() of it");
  for (int r = 0; r < size(); ++r) send<&forget_it>(r, some[0]); // the fiber may do so again
  some.clear();
  TERN_EXPECT_ERROR(f.get(), errc::broken_promise, "");
}

// A share that is packed and never read counts as destroyed.
struct misfit {
  template <class A> void save(A& ar) const {
    if constexpr (!std::is_same_v<A, tern::size_archive>) throw tern::error(errc::io, "a misfit");
    ar(1);
  }
  template <class A> void load(A&) {}
};
void take_misfit(remote_promise<int>, misfit) {}
struct signal {
  tern::channel<int> given{1};
};
const tern::rank_local<signal> goes_on;
remote_promise<int> back_late(remote_promise<int> p) {
  static_cast<void>(goes_on->given.pop()); // when the caller has given up
  return p;
}
void go_on() { goes_on->given.push(1); }
TERN_RANK_TEST(promises_that_are_not_read) {
  remote_promise<int> p;
  auto f = p.get_future();
  TERN_EXPECT_ERROR(send<&take_misfit>(other(), p, misfit()), errc::io, "a misfit");
  send<&set_it>(other(), p, 3); // what is kept is a share yet
  TERN_EXPECT_EQ(f.get(), 3);
  remote_promise<int> q;
  auto g = q.get_future();
  TERN_EXPECT_ERROR(send<&take_misfit>(other(), std::move(q), misfit()), errc::io, "a misfit");
  TERN_EXPECT_ERROR(g.get(), errc::broken_promise, "");
  remote_promise<int> r;
  auto h = r.get_future();
  std::stop_source given_up;
  auto answer = call<&back_late>({.stop = given_up.get_token()}, other(), std::move(r));
  given_up.request_stop();
  TERN_EXPECT_ERROR(answer.get(), errc::cancelled, "back_late");
  send<&go_on>(other());
  TERN_EXPECT_ERROR(h.get(), errc::broken_promise, "");
}

} // namespace promises_test

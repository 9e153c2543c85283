// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
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

class counter {
public:
  counter() = default;
  explicit counter(long start, std::string name) : value_(start), name_(std::move(name)) {
    if (start < 0) throw std::invalid_argument("counters start at 0 or more");
  }
  void add(long n) { value_ += n; }
  long get() const { return value_; }
  std::string name() const { return name_; }
  int lives_on() const { return tern::rank(); }
  void fail() { throw tern::error(errc::io, "no paper", "load the tray"); }

private:
  long value_ = 0;
  std::string name_ = "nameless";
};

TERN_RANK_TEST(objects_are_made_and_called_anywhere) {
  for (int r = 0; r < size(); ++r) {
    auto c = create_on<counter>(r, 5, "five").get();
    TERN_EXPECT_EQ(c.home(), r);
    TERN_EXPECT_EQ(call<&counter::lives_on>(c).get(), r);
    send<&counter::add>(c, 3);
    send<&counter::add>(c, 4);
    TERN_EXPECT_EQ(call<&counter::get>(c).get(), 12); // after both: one sender, one object
    TERN_EXPECT_EQ(call<&counter::name>(c).get(), "five");
  }
  const auto here = create<counter>();
  TERN_EXPECT_EQ(here.home(), rank());
  TERN_EXPECT_EQ(call<&counter::get>(here).get(), 0);
}

long sum_through(mobile_ptr<counter> c, long n) { // pointers travel
  send<&counter::add>(c, n);
  return call<&counter::get>(c).get();
}
// That it may move is for a class to say, also where its objects could travel as arguments.
struct only_numbers {
  double x, y;
};
static_assert(tern::detail::bitwise<only_numbers> && !tern::mobile::detail::can_move<only_numbers>);

TERN_RANK_TEST(lambdas_take_their_object_first) {
  const auto c = create_on<counter>((rank() + 1) % size(), 5, "five").get();
  send<[](counter& x, long n) { x.add(n); }>(c, 3);                                          // exclusive
  TERN_EXPECT_EQ(call<[](const counter& x, int n) { return n * x.get(); }>(c, 2).get(), 16); // shared
  TERN_EXPECT_ERROR(send<&counter::add>(c, ~0ULL), errc::invalid_argument, "argument 1 of 'mobile_test::counter::add'");
}

TERN_RANK_TEST(pointers_travel_and_compare) {
  auto c = create<counter>(1, "one");
  TERN_EXPECT_EQ(call<&sum_through>(size() - 1, c, 10).get(), 11);
  std::unordered_set<mobile_ptr<counter>> set{c, c, create<counter>()};
  TERN_EXPECT_EQ(set.size(), 2u);
  TERN_EXPECT(!mobile_ptr<counter>() && c);
}

TERN_RANK_TEST(exclusive_invocations_never_overlap) {
  auto shared = tern::broadcast(rank() == 0 ? create<counter>() : mobile_ptr<counter>());
  for (int i = 0; i < 1000; ++i) send<&counter::add>(shared, 1);
  tern::quiesce();
  TERN_EXPECT_EQ(call<&counter::get>(shared).get(), 1000L * size());
  tern::barrier();
}

// Free functions take the object first.
void twice(counter& c) { c.add(c.get()); }
long peek(const counter& c) { return c.get(); }
TERN_RANK_TEST(free_functions_are_invoked_on_objects) {
  auto c = create_on<counter>(size() - 1, 21, "half").get();
  send<&twice>(c);
  TERN_EXPECT_EQ(call<&peek>(c).get(), 42);
}

// Shared invocations run together: each waits until the other has begun. Would hang if they
// excluded each other.
struct meeting {
  mutable tern::latch both{2};
  mutable std::atomic<int> inside{0};
  std::atomic<int> seen_by_writer{-1};
  int meet() const {
    ++inside;
    both.arrive_and_wait();
    return --inside;
  }
  void write() { seen_by_writer = inside.load(); }
  int seen() const { return seen_by_writer; }
};
TERN_RANK_TEST(shared_invocations_run_together_and_writers_alone) {
  auto m = create_on<meeting>((rank() + 1) % size()).get();
  auto a = call<&meeting::meet>(m), b = call<&meeting::meet>(m);
  send<&meeting::write>(m); // must wait for both
  auto seen = call<&meeting::seen>(m);
  a.get(), b.get();
  TERN_EXPECT_EQ(seen.get(), 0);
}

TERN_RANK_TEST(errors_name_function_object_and_rank) {
  const int to = size() - 1;
  auto c = create_on<counter>(to).get();
  TERN_EXPECT_ERROR(call<&counter::fail>(c).get(), errc::io,
                    "no paper (in 'mobile_test::counter::fail' of object " + std::to_string(to) + ":");
  TERN_EXPECT_ERROR(call<&counter::fail>(c).get(), errc::io,
                    "(mobile_test::counter) on rank " + std::to_string(to) + ")");
  TERN_EXPECT_EQ(call<&counter::get>(c).get(), 0); // the object goes on
  TERN_EXPECT_ERROR(create_on<counter>(to, -1, "bad").get(), errc::remote, "counters start at 0 or more");
  TERN_EXPECT_ERROR(call<&counter::get>(mobile_ptr<counter>()), errc::invalid_argument, "null mobile_ptr");
  TERN_EXPECT_ERROR(call<&counter::get>(mobile_ptr<counter>(tern::mobile::object_id(size(), 1))),
                    errc::invalid_argument, "but the job has " + std::to_string(size()) + " ranks");
}

struct other {
  int x = 0;
  int get() const { return x; }
};

TERN_RANK_TEST(use_after_destroy_and_wrong_types_are_errors) {
  const int to = size() - 1;
  auto c = create_on<counter>(to, 1, "gone").get();
  send<&counter::add>(c, 1);
  auto before = call<&counter::get>(c);
  auto gone = tern::destroy(c);
  TERN_EXPECT_EQ(before.get(), 2); // what was there before is served
  gone.get();
  TERN_EXPECT_ERROR(call<&counter::get>(c).get(), errc::not_found, "(mobile_test::counter) has been destroyed");
  TERN_EXPECT_ERROR(tern::destroy(c).get(), errc::not_found, "has been destroyed");
  TERN_EXPECT_ERROR(call<&counter::get>(mobile_ptr<counter>(tern::mobile::object_id(to, 1 << 30))).get(),
                    errc::not_found, "was never created");
  auto live = create_on<counter>(to).get();
  TERN_EXPECT_ERROR(call<&other::get>(mobile_ptr<other>(live.id())).get(), errc::not_found,
                    "is a mobile_test::counter, not a mobile_test::other");
}

// Objects talk to objects: a token goes round a ring of them, blocking each while the rest of the
// ring runs.
struct stop {
  mobile_ptr<stop> next;
  int visits = 0;
  void link(mobile_ptr<stop> n) { next = n; }
  int pass(int hops) const { return hops == 0 ? 0 : 1 + call<&stop::pass>(next, hops - 1).get(); }
};
TERN_RANK_TEST(conversations_of_objects) {
  std::vector<mobile_ptr<stop>> ring;
  for (int i = 0; i < 3 * size(); ++i) ring.push_back(create_on<stop>(i % size()).get());
  for (std::size_t i = 0; i < ring.size(); ++i) call<&stop::link>(ring[i], ring[(i + 1) % ring.size()]).get();
  TERN_EXPECT_EQ(call<&stop::pass>(ring[0], 100).get(), 100);
}

struct noisy {
  ~noisy() { ++*died; }
  static const tern::rank_local<std::atomic<int>> died;
};
const tern::rank_local<std::atomic<int>> noisy::died;
struct closed_gate {
  tern::semaphore open{0};
};
const tern::rank_local<closed_gate> gate;
void open_gate() { gate->open.release(1); }
struct door {
  int passed = 0;
  void pass() {
    gate->open.acquire();
    ++passed;
  }
  int count() const { return passed; }
};

// An invocation that waits for its object belongs to its epoch, whichever fiber lets it begin.
TERN_RANK_TEST(what_waits_for_an_object_keeps_its_epoch) {
  const int there = (rank() + 1) % size();
  const auto d = create_on<door>(there).get();
  tern::epoch first("first"), second("second");
  first.run([&] { send<&door::pass>(d); });
  second.run([&] {
    for (int i = 0; i < 3; ++i) send<&door::pass>(d);
  });
  second.close();
  send<&open_gate>(there);
  first.wait();
  for (int i = 0; i < 3; ++i) {
    TERN_EXPECT(!second.finished()); // one stands in the door
    send<&open_gate>(there);
  }
  second.wait();
  TERN_EXPECT_EQ(call<&door::count>(d).get(), 4);
}

TERN_RANK_TEST(destroying_twice_at_once_fails_once) {
  auto c = create_on<counter>(size() - 1).get();
  auto a = tern::destroy(c), b = tern::destroy(c); // the second is queued behind the first
  int failed = 0;
  for (auto* f : {&a, &b}) {
    try {
      f->get();
    } catch (const tern::error& e) {
      failed += e.code() == errc::not_found;
    }
  }
  TERN_EXPECT_EQ(failed, 1);
}

TERN_RANK_TEST(destroy_runs_the_destructor_where_the_object_is) {
  auto n = create_on<noisy>(size() - 1).get();
  tern::destroy(n).get();
  tern::barrier();
  if (rank() == size() - 1) TERN_EXPECT_EQ(noisy::died->load(), size());
  tern::barrier();
}

// Two shared invocations that were let in together, of which the first waits for the second: also
// where messages arrive one by one, as those of an epoch do, and are numbered, since the object has
// moved.
struct lobby {
  template <class A> void serialize(A&) {}
  void wait() const { gate->open.acquire(); }
  void open() const { gate->open.release(1); }
};
TERN_RANK_TEST(those_let_in_together_run_together) {
  const auto l = create<lobby>();
  for (int i = 1; i <= size(); ++i) {
    tern::migrate(l, (rank() + i) % size()).get();
    tern::finish([&] {
      send<&lobby::wait>(l);
      send<&lobby::open>(l);
    });
  }
  tern::destroy(l).get();
}

} // namespace mobile_test

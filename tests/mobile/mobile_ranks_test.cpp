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

// Shared invocations run together: each waits until the other has begun. Would hang if they excluded each other.
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

// Objects talk to objects: a token goes round a ring of them, blocking each while the rest of the ring runs.
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

// Invocations that wait for their object belong to their epochs, whoever lets them begin.
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

// Migration -----------------------------------------------------------------------------------------------------------

class traveller {
public:
  traveller() = default;
  explicit traveller(std::string name) : name_(std::move(name)) {}
  template <class A> void serialize(A& ar) { ar(name_, visits_, load_); }
  void visit() { visits_.push_back(tern::rank()); }
  void load(std::size_t bytes) { load_.assign(bytes, 'x'); }
  std::vector<int> visits() const { return visits_; }
  std::string name() const { return name_; }
  std::size_t size() const { return load_.size(); }

private:
  std::string name_ = "nameless";
  std::vector<int> visits_;
  std::vector<char> load_;
};

TERN_RANK_TEST(objects_move_and_keep_what_they_are) {
  const auto t = create_on<traveller>(size() - 1, "Ada").get();
  std::vector<int> expected;
  for (int r = 0; r < 2 * size(); ++r) {
    tern::migrate(t, r % size()).get();
    TERN_EXPECT_EQ(tern::is_here(t), r % size() == rank());
    call<&traveller::visit>(t).get(); // before it may leave again, though it may wait until it is back from disk
    expected.push_back(r % size());
  }
  TERN_EXPECT(call<&traveller::visits>(t).get() == expected);
  TERN_EXPECT_EQ(call<&traveller::name>(t).get(), "Ada");
  TERN_EXPECT_EQ(t.home(), size() - 1); // for ever
  tern::destroy(t).get();
  TERN_EXPECT_ERROR(tern::migrate(t, 0).get(), errc::not_found, "has been destroyed");
}

TERN_RANK_TEST(large_objects_move) {
  const auto t = create<traveller>("big");
  send<&traveller::load>(t, std::size_t{3} << 20);
  for (int r = 1; r <= size(); ++r) tern::migrate(t, (rank() + r) % size()).get();
  TERN_EXPECT_EQ(call<&traveller::size>(t).get(), std::size_t{3} << 20);
  tern::destroy(t).get();
}

// Everybody sends to an object that moves all the time.
struct diary {
  std::vector<long> next;
  long wrong = 0, entries = 0;
  template <class A> void serialize(A& ar) { ar(next, wrong, entries); }
  void note(int from, long number) {
    if (next.size() <= static_cast<std::size_t>(from)) next.resize(static_cast<std::size_t>(from) + 1);
    long& due = next[static_cast<std::size_t>(from)];
    wrong += number != due;
    due = number + 1;
    ++entries;
  }
  long mistakes() const { return wrong; }
  long count() const { return entries; }
};
TERN_RANK_TEST(order_is_kept_on_the_way) {
  const long each = tern::sim::active() ? 500 : 2000; // of simulated ones far more wait, which travel each time
  const auto d = tern::broadcast(rank() == 0 ? create<diary>() : mobile_ptr<diary>());
  std::vector<tern::future<void>> moves;
  for (long i = 0; i < each; ++i) {
    send<&diary::note>(d, rank(), i);
    if (i % 100 == 10 * rank()) moves.push_back(tern::migrate(d, static_cast<int>(i / 100 + rank()) % size()));
    if (i % 50 == 0) tern::this_fiber::yield();
  }
  for (auto& m : moves) m.get();
  tern::quiesce();
  TERN_EXPECT_EQ(call<&diary::mistakes>(d).get(), 0);
  TERN_EXPECT_EQ(call<&diary::count>(d).get(), each * size());
  tern::barrier();
}

TERN_RANK_TEST(bad_places_are_refused) {
  const auto t = create<traveller>();
  TERN_EXPECT_ERROR(tern::migrate(t, size()), errc::invalid_argument, "there is no rank " + std::to_string(size()));
  TERN_EXPECT_ERROR(tern::migrate(t, -1), errc::invalid_argument, "there is no rank -1");
  TERN_EXPECT_ERROR(tern::migrate(mobile_ptr<traveller>(), 0), errc::invalid_argument, "null mobile_ptr");
  tern::destroy(t).get();
}

// Fails on demand, on either side.
struct fragile {
  int fails = 0; // 1: in packing, 2: in unpacking
  long value = 0;
  template <class A> void save(A& ar) const {
    if (fails == 1) throw tern::error(errc::io, "too fragile to pack", "use more paper");
    ar(fails, value);
  }
  template <class A> void load(A& ar) {
    ar(fails, value);
    if (fails == 2) throw std::runtime_error("broken on the way");
  }
  void set(int f) { fails = f; }
  void add(long n) { value += n; }
  long get() const { return value; }
  int where() const { return tern::rank(); }
};
TERN_RANK_TEST(one_that_cannot_be_packed_or_unpacked_stays_and_says_why) {
  const auto f = create<fragile>();
  const int to = (rank() + 1) % size();
  for (const int how : {1, 2}) {
    call<&fragile::set>(f, how).get();
    for (int i = 0; i < 5; ++i) send<&fragile::add>(f, 1);
    auto moved = tern::migrate(f, to);
    for (int i = 0; i < 5; ++i) send<&fragile::add>(f, 1);
    if (size() > 1 && how == 1) {
      TERN_EXPECT_ERROR(moved.get(), errc::io, "too fragile to pack");
    } else if (size() > 1) {
      TERN_EXPECT_ERROR(moved.get(), errc::remote, "broken on the way (in unpacking of object ");
    } else {
      moved.get();
    }
    TERN_EXPECT_EQ(call<&fragile::where>(f).get(), rank());
    TERN_EXPECT_EQ(call<&fragile::get>(f).get(), 10L * how);
  }
  tern::destroy(f).get();
}

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
  TERN_EXPECT_ERROR(call<&duck::sound>(mobile_ptr<duck>(create<counter>().id())).get(), errc::not_found,
                    "is a mobile_test::counter, not a mobile_test::duck");
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

// An invocation of an object that has been on all ranks runs once, on the last of them, and the next one sees that.
// (How many messages it takes: hops_test.cpp.)
TERN_RANK_TEST(objects_that_have_been_everywhere_are_found) {
  const auto t = create<traveller>();
  const int last = (rank() + size() - 1) % size();
  for (int r = 1; r < size(); ++r) tern::migrate(t, (rank() + r) % size()).get();
  call<&traveller::visit>(t).get();
  tern::quiesce();
  const bool there = call<&traveller::visits>(t).get() == std::vector<int>{last};
  TERN_EXPECT(there);
  tern::barrier();
  tern::destroy(t).get();
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
  TERN_EXPECT_ERROR(static_cast<void>(tern::self<counter>()), errc::invalid_argument,
                    "a mobile_test::duck, not a mobile_test::counter");
  return tern::self<animal>() == tern::self<duck>() ? 1 : 0;
}
TERN_RANK_TEST(what_belongs_into_invocations_says_so_elsewhere) {
  TERN_EXPECT_ERROR(tern::release_access(), errc::invalid_state,
                    "tern::release_access was used outside an invocation of a mobile object");
  TERN_EXPECT_ERROR(static_cast<void>(tern::self<counter>()), errc::invalid_state, "tern::self was used outside");
  const auto d = create<duck>();
  TERN_EXPECT_EQ(call<&self_of_another>(d).get(), 1);
  tern::destroy(d).get();
}

TERN_RANK_TEST(pinned_objects_stay) {
  const auto t = create<traveller>();
  const int to = (rank() + 1) % size();
  tern::pin(t).get();
  tern::pin(t).get();
  tern::unpin(t).get();
  if (size() > 1)
    TERN_EXPECT_ERROR(tern::migrate(t, to).get(), errc::invalid_state, "is pinned (in 'migrate' of object ");
  tern::unpin(t).get();
  tern::migrate(t, to).get();
  send<&traveller::visit>(t);
  TERN_EXPECT(call<&traveller::visits>(t).get() == std::vector<int>{to});
  tern::destroy(t).get();
  TERN_EXPECT_ERROR(tern::pin(t).get(), errc::not_found, "has been destroyed");
}

// Two shared invocations that were let in together, of which the first waits for the second: also where messages arrive
// one by one, as those of an epoch do, and are numbered, since the object has moved.
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

// An argument that talks to the object that it is packed for, or to another one.
struct chatty {
  mobile_ptr<diary> with;
  long seen = -1;
  template <class A> void save(A& ar) const { ar(with.id().bits, call<&diary::count>(with).get()); }
  template <class A> void load(A& ar) {
    std::uint64_t id = 0;
    ar(id, seen);
  }
};
void hear(diary& d, const chatty& what) { d.wrong += what.seen < 0; }
TERN_RANK_TEST(arguments_may_talk_while_they_are_packed) {
  const auto d = create_on<diary>((rank() + 1) % size()).get();
  for (int i = 0; i < 3; ++i) {
    tern::migrate(d, (rank() + 2) % size()).get();
    call<&hear>(d, chatty{d}).get();
  }
  TERN_EXPECT_EQ(call<&diary::mistakes>(d).get(), 0);
  tern::destroy(d).get();
}

} // namespace mobile_test

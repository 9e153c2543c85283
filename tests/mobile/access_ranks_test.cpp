// SPDX-License-Identifier: Apache-2.0
// Ways to an object that are not plain invocations: holding it, counted references, priorities; and
// what it weighs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/counted.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/load.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/multicast.hpp>
#include <tern/net/node.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>

#include "rank_test.hpp"

namespace access_test {

using namespace std::chrono_literals;
using tern::call;
using tern::create;
using tern::create_on;
using tern::errc;
using tern::mobile_ptr;
using tern::mobile_ref;
using tern::rank;
using tern::send;
using tern::size;

// Held ----------------------------------------------------------------------------------------------------------------

class register_book {
public:
  register_book() = default;
  explicit register_book(int n) : values_(static_cast<std::size_t>(n)) {}
  template <class A> void serialize(A& ar) { ar(values_); }
  void add(long n) { values_.push_back(n); }
  std::vector<long> all() const { return values_; }
  long size() const { return static_cast<long>(values_.size()); }

private:
  std::vector<long> values_;
};

TERN_RANK_TEST(an_object_that_is_here_is_held) {
  const auto book = create<register_book>();
  if (auto mine = tern::hold(book))
    mine->add(7);
  else
    TERN_EXPECT(false && "it is here");
  {
    const auto one = tern::hold_shared(book);
    const auto other = tern::hold_shared(book); // together
    TERN_EXPECT(one && other && one->size() == 1 && &*one == other.get());
  }
  TERN_EXPECT(!tern::hold(create_on<register_book>((rank() + 1) % size()).get()) || size() == 1);
  TERN_EXPECT_ERROR(tern::hold(mobile_ptr<register_book>()), errc::invalid_argument, "null mobile_ptr");
  tern::destroy(book).get();
  TERN_EXPECT(!tern::hold(book));
}

// What was sent before comes before, and what is sent meanwhile waits.
TERN_RANK_TEST(a_held_object_keeps_the_order) {
  const auto book = create<register_book>();
  for (long i = 0; i < 50; ++i) {
    send<&register_book::add>(book, 2 * i);
    auto mine = tern::hold(book);
    TERN_EXPECT(mine && mine->size() == 2 * i + 1);
    auto later = call<&register_book::size>(book);
    mine->add(2 * i + 1);
    TERN_EXPECT(!later.ready());
    auto moved = std::move(mine);
    moved.let_go();
    TERN_EXPECT(!moved && !mine);
    TERN_EXPECT_EQ(later.get(), 2 * i + 2);
  }
  const auto all = call<&register_book::all>(book).get();
  TERN_EXPECT(std::is_sorted(all.begin(), all.end()));
}

TERN_RANK_TEST(a_held_object_stays_until_it_is_let_go) {
  const auto book = create<register_book>();
  auto mine = tern::hold(book);
  auto move = tern::migrate(book, (rank() + 1) % size());
  auto end = tern::destroy(book);
  TERN_EXPECT(call<&tern::rank>((rank() + 1) % size()).get() >= 0); // others have had their turn
  TERN_EXPECT(!move.ready() && !end.ready() && tern::is_here(book));
  mine->add(1);
  mine.let_go();
  move.get();
  end.get();
}

// Asked for on the rank that it leaves: it is had there, or not at all.
TERN_RANK_TEST(what_leaves_is_not_held) {
  const auto book = tern::broadcast(rank() == 0 ? create<register_book>() : mobile_ptr<register_book>());
  long had = 0;
  for (int i = 0; i < 60; ++i) {
    if (rank() == 0) static_cast<void>(tern::migrate(book, i % size()));
    send<&register_book::add>(book, -1);
    if (auto mine = tern::hold(book)) {
      mine->add(-1);
      ++had;
    }
  }
  tern::quiesce();
  const long sum = tern::allreduce(had, std::plus<>());
  TERN_EXPECT_EQ(call<&register_book::size>(book).get(), 60L * size() + sum);
  tern::barrier();
}

// Counted -------------------------------------------------------------------------------------------------------------

std::atomic<long> alive{0}; // in this process, which may be several ranks

class table {
public:
  table() { ++alive; }
  explicit table(long n) : n_(n) { ++alive; }
  table(const table&) = delete;
  table& operator=(const table&) = delete;
  ~table() { --alive; }
  template <class A> void serialize(A& ar) { ar(n_, other_); }
  long get() const { return n_; }
  void add(long n) { n_ += n; }
  void refer_to(const mobile_ref<table>& other) { other_ = other; }
  long ask() const { return other_ ? call<&table::get>(other_).get() : -1; }
  void pass(const mobile_ref<table>& what, int hops) const {
    if (hops > 0)
      send<&table::pass>(other_, what, hops - 1);
    else
      send<&table::add>(what, 1);
  }
  void drop() { other_ = {}; }

private:
  long n_ = 0;
  mobile_ref<table> other_;
};

long left() {
  tern::quiesce();
  tern::barrier();
  const long here = alive;
  tern::barrier();
  return here;
}

TERN_RANK_TEST(the_last_reference_ends_the_object) {
  {
    auto t = tern::create_counted<table>(5);
    auto copy = t;
    t = {};
    TERN_EXPECT_EQ(call<&table::get>(copy).get(), 5);
    auto there = tern::create_counted_on<table>((rank() + 1) % size(), 6).get();
    TERN_EXPECT_EQ(call<&table::get>(there).get(), 6);
    TERN_EXPECT(there != copy && copy == mobile_ref<table>(copy) && !t);
    send<&table::add>(there, 1); // though the reference goes
  }
  TERN_EXPECT_EQ(left(), 0);
}

TERN_RANK_TEST(references_travel_and_live_in_objects) {
  {
    // A ring of holders, each of which knows the next; and a reference that goes round.
    const auto holder = tern::create_counted<table>(1);
    const auto next = tern::create_counted_on<table>((rank() + 1) % size(), 2).get();
    send<&table::refer_to>(holder, next);
    send<&table::refer_to>(next, tern::create_counted<table>(3));
    TERN_EXPECT_EQ(call<&table::ask>(next).get(), 3); // which only `next` refers to
    TERN_EXPECT_EQ(call<&table::ask>(holder).get(), 2);
    tern::migrate(next.ptr(), rank()).get(); // with what it refers to
    TERN_EXPECT_EQ(call<&table::ask>(next).get(), 3);
    send<&table::pass>(holder, holder, 1);
    tern::quiesce();
    TERN_EXPECT_EQ(call<&table::get>(holder).get(), 2);
  }
  TERN_EXPECT_EQ(left(), 0);
}

void keep(const mobile_ref<table>&) {}

// More halvings in a row than a number has bits.
mobile_ref<table> twice_there(const mobile_ref<table>& t, int more) {
  return more == 0 ? t : call<&twice_there>((rank() + 1) % size(), t, more - 1).get();
}
TERN_RANK_TEST(credit_never_runs_out) {
  {
    auto t = tern::create_counted<table>(9);
    t = twice_there(t, 100);
    t = twice_there(t, 100);
    TERN_EXPECT_EQ(call<&table::get>(t).get(), 9);
  }
  TERN_EXPECT_EQ(left(), 0);
}

TERN_RANK_TEST(references_go_to_one_rank_at_a_time) {
  {
    const auto t = tern::create_counted<table>(1);
    if (size() > 1 && rank() == 0)
      TERN_EXPECT_ERROR(tern::multicast<&keep>({0, 1}, t), errc::unsupported, "to many ranks at once");
    TERN_EXPECT_EQ(call<&table::get>(t).get(), 1);
  }
  TERN_EXPECT_EQ(left(), 0);
}

TERN_RANK_TEST(a_counted_object_may_be_destroyed) {
  {
    const auto t = tern::create_counted<table>(1);
    const auto copy = call<&twice_there>((rank() + 1) % size(), t, 0).get();
    tern::destroy(t.ptr()).get();
    TERN_EXPECT_ERROR(call<&table::get>(copy).get(), errc::not_found, "has been destroyed");
  }
  TERN_EXPECT_EQ(left(), 0);
}

// What is packed and never read gives its credit back.
struct misfit {
  template <class A> void save(A& ar) const {
    if constexpr (!std::is_same_v<A, tern::size_archive>) throw tern::error(errc::io, "a misfit");
    ar(1);
  }
  template <class A> void load(A&) {}
};
void keep_misfit(const mobile_ref<table>&, const misfit&) {}
TERN_RANK_TEST(references_that_are_not_read) {
  {
    const auto t = tern::create_counted<table>(1);
    TERN_EXPECT_ERROR(send<&keep_misfit>((rank() + 1) % size(), t, misfit()), errc::io, "a misfit");
    const auto gone = tern::create<table>(2);
    tern::destroy(gone).get();
    TERN_EXPECT_ERROR(call<&table::refer_to>(gone, t).get(), errc::not_found, "has been destroyed");
    TERN_EXPECT_EQ(call<&table::get>(t).get(), 1);
  }
  TERN_EXPECT_EQ(left(), 0);
}

// Priorities ----------------------------------------------------------------------------------------------------------

class queue {
public:
  template <class A> void serialize(A& ar) { ar(seen_); }
  void block() { gate->acquire(); }
  void note(int what) { seen_.push_back(what); }
  void look(int what) const { noted->push_back(what); }
  std::vector<int> seen() const { return seen_; }
  // Of rank 0's object, which does not move.
  static inline tern::semaphore* gate = nullptr;
  static inline std::vector<int>* noted = nullptr;

private:
  std::vector<int> seen_;
};

// On rank 0; nothing gets at it before that rank's `gate` opens. Collective.
mobile_ptr<queue> blocked_queue(tern::semaphore& gate) {
  mobile_ptr<queue> q;
  if (rank() == 0) {
    queue::gate = &gate;
    q = create<queue>();
    send<&queue::block>(q);
  }
  return tern::broadcast(q);
}

TERN_RANK_TEST(urgent_ones_of_other_ranks_come_first) {
  tern::semaphore gate(0);
  const auto q = blocked_queue(gate);
  // In turn: so all of them wait, in the order of the ranks.
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) {
      send<&queue::note>({.priority = tern::priority::low}, q, 300 + r);
      send<&queue::note>(q, 200 + r);
      if (r > 0) send<&queue::note>({.priority = tern::priority::high}, q, 100 + r);
      tern::pin(q).get(); // it comes behind them, and does not wait for what runs
    }
    tern::barrier();
  }
  if (rank() == 0) gate.release(1);
  tern::quiesce();
  const auto seen = call<&queue::seen>(q).get();
  TERN_EXPECT_EQ(seen.size(), static_cast<std::size_t>(3 * size() - 1));
  const auto at = [&](int what) { return std::find(seen.begin(), seen.end(), what) - seen.begin(); };
  for (int r = 0; r < size(); ++r) { // each rank's in its order
    TERN_EXPECT(at(300 + r) < at(200 + r));
    if (r > 0) TERN_EXPECT(at(200 + r) < at(100 + r));
  }
  if (size() == 2) TERN_EXPECT(seen == (std::vector<int>{300, 200, 301, 201, 101}));
  tern::barrier();
}

TERN_RANK_TEST(a_call_of_an_object_may_take_too_long) {
  tern::semaphore gate(0);
  if (rank() == 0) {
    queue::gate = &gate;
    const auto q = create<queue>();
    auto blocked = call<&queue::block>({.priority = tern::priority::high}, q);
    TERN_EXPECT_ERROR(call<&queue::seen>({.timeout = 1ms}, q).get(), errc::timeout, "access_test::queue::seen");
    gate.release(1);
    blocked.get();
    TERN_EXPECT(call<&queue::seen>({.timeout = 60s}, q).get().empty());
  }
  tern::barrier();
}

// Loads ---------------------------------------------------------------------------------------------------------------

class heavy {
public:
  template <class A> void serialize(A& ar) { ar(cells_); }
  void grow(long n) { cells_ += n; }
  void block() { queue::gate->acquire(); }
  double workload(std::size_t pending) const {
    return static_cast<double>(cells_) * (1 + static_cast<double>(pending));
  }
  double migration_cost() const { return 100; }

private:
  long cells_ = 10;
};
struct constant {
  static constexpr double workload = 4;
  void block() { queue::gate->acquire(); }
};
struct measured {
  std::vector<char> data = std::vector<char>(1000);
  template <class A> void serialize(A& ar) { ar(data); }
  void work() { // two milliseconds, which count; what it waits does not
    const auto end = std::chrono::steady_clock::now() + 2ms;
    if (tern::net::node::here().simulated())
      tern::sim::charge(2e-3);
    else
      while (std::chrono::steady_clock::now() < end) {
      }
    tern::this_fiber::sleep_for(20ms);
  }
  void block() { queue::gate->acquire(); }
};
// Of the only object of such a class.
template <class T> const tern::mobile::object_load one_of(const std::vector<tern::mobile::object_load>& all) {
  for (const auto& one : all)
    if (one.type->find(tern::detail::type_name(typeid(T))) != std::string::npos) return one;
  return {};
}

// Until so many have arrived and not ended. An answer may be there before its invocation has ended.
template <class T> void await_pending(std::uint32_t n) {
  tern::wait_until([n] { return one_of<T>(tern::mobile::loads()).pending == n; });
}
template <class T> void settle() { await_pending<T>(0); }

TERN_RANK_TEST(loads_follow_what_arrives) {
  // An object that is just being written to disk counts what arrives when that is done.
  const bool all_in_memory = tern::net::node::here().opts()[tern::mobile::memory_option] == "0";
  if (rank() == 0 && all_in_memory) {
    tern::mobile::watch_loads(true);
    // What earlier tests have been answered may still be about to end.
    tern::wait_until([] {
      const auto all = tern::mobile::loads();
      return std::all_of(all.begin(), all.end(), [](const auto& one) { return one.pending == 0; });
    });
    const double before = tern::mobile::load();
    tern::semaphore gate(0);
    queue::gate = &gate;
    {
      const auto h = create<heavy>();
      call<&heavy::grow>(h, 10).get();
      settle<heavy>();
      const auto now = [&] { return tern::mobile::load() - before; };
      TERN_EXPECT_EQ(now(), 20.0); // 20 cells, nothing pending
      auto blocked = call<&heavy::block>(h);
      send<&heavy::grow>(h, 1);
      send<&heavy::grow>(h, 1);
      await_pending<heavy>(3);
      const auto one = one_of<heavy>(tern::mobile::loads());
      TERN_EXPECT(one.id == h.id() && one.movable);
      TERN_EXPECT_EQ(now(), 80.0);
      gate.release(1);
      blocked.get();
      TERN_EXPECT_EQ(tern::migration_cost(h).get(), 100.0);
      settle<heavy>();
      TERN_EXPECT_EQ(now(), 22.0);
      tern::destroy(h).get();
      TERN_EXPECT_EQ(now(), 0.0);
    }
    {
      const auto c = create<constant>();
      auto blocked = call<&constant::block>(c), then = call<&constant::block>(c);
      await_pending<constant>(2);
      TERN_EXPECT_EQ(tern::mobile::load() - before, 8.0);
      TERN_EXPECT(!one_of<constant>(tern::mobile::loads()).movable);
      gate.release(2);
      blocked.get(), then.get();
      TERN_EXPECT_ERROR(tern::migration_cost(c).get(), errc::unsupported, "access_test::constant cannot move");
      tern::destroy(c).get();
    }
    const auto m = create<measured>();
    for (int i = 0; i < 3; ++i) call<&measured::work>(m).get();
    settle<measured>();
    const auto idle = one_of<measured>(tern::mobile::loads());
    TERN_EXPECT(idle.seconds > 1e-3 && idle.load == 0 && idle.pending == 0);
    // What it waits does not count. Asserted in virtual time only: real seconds depend on what else
    // the machine does.
    if (tern::net::node::here().simulated()) TERN_EXPECT(idle.seconds < 15e-3);
    auto blocked = call<&measured::block>(m);
    send<&measured::work>(m);
    await_pending<measured>(2);
    const auto busy = one_of<measured>(tern::mobile::loads());
    TERN_EXPECT(busy.load > 1.9 * idle.seconds && busy.load < 2.1 * idle.seconds);
    gate.release(1);
    blocked.get();
    TERN_EXPECT(tern::migration_cost(m).get() >= 1000);
    if (size() > 1) { // what is known of it goes with it
      tern::migrate(m, 1).get();
      TERN_EXPECT_EQ(std::round(1e9 * (tern::mobile::load() - before)), 0.0);
      tern::migrate(m, 0).get();
      TERN_EXPECT(one_of<measured>(tern::mobile::loads()).seconds > 1e-3);
    }
    tern::destroy(m).get();
    tern::mobile::watch_loads(false);
  }
  tern::barrier();
}

// Out and back
// -----------------------------------------------------------------------------------------------------------

TERN_RANK_TEST(objects_go_to_disk_and_come_back) {
  const auto book = create_on<register_book>((rank() + 1) % size(), 1000).get();
  for (int i = 0; i < 3; ++i) {
    tern::swap_out(book).get();
    if (size() == 1) TERN_EXPECT(tern::is_here(book));
    send<&register_book::add>(book, i);
    TERN_EXPECT_EQ(call<&register_book::size>(book).get(), 1001 + i);
  }
  tern::swap_out(book).get();
  tern::migrate(book, rank()).get(); // by way of memory
  TERN_EXPECT(tern::is_here(book));
  tern::swap_out(book).get();
  if (auto mine = tern::hold(book))
    TERN_EXPECT_EQ(mine->size(), 1003);
  else
    TERN_EXPECT(false && "it is here, though on disk");
  tern::swap_out(book).get();
  tern::destroy(book).get();
  TERN_EXPECT_ERROR(tern::swap_out(book).get(), errc::not_found, "has been destroyed");
  TERN_EXPECT_ERROR(tern::swap_out(create<constant>()).get(), errc::unsupported,
                    "objects of class access_test::constant cannot be put on disk");
}

// What it refers to lives as long as it does, on disk too.
TERN_RANK_TEST(references_on_disk_count) {
  {
    const auto holder = tern::create_counted<table>(1);
    send<&table::refer_to>(holder, tern::create_counted<table>(3));
    tern::swap_out(holder.ptr()).get();
    tern::quiesce();
    TERN_EXPECT_EQ(call<&table::ask>(holder).get(), 3);
    tern::swap_out(holder.ptr()).get();
  }
  TERN_EXPECT_EQ(left(), 0);
}

// An object with a copy on disk that cannot always be read.
class fragile {
public:
  fragile() = default;
  explicit fragile(const mobile_ref<table>& to) : to_(to) {}
  template <class A> void save(A& ar) const { ar(to_); }
  template <class A> void load(A& ar) {
    ar(to_);
    if (failures > 0) {
      --failures;
      throw tern::error(errc::out_of_memory, "no room to unpack");
    }
  }
  long ask() const { return call<&table::get>(to_).get(); }
  static inline std::atomic<int> failures{0};

private:
  mobile_ref<table> to_;
};

TERN_RANK_TEST(what_cannot_be_unpacked_from_disk_is_tried_again) {
  if (rank() == 0) { // `failures` counts for all ranks of a process
    auto t = tern::create_counted<table>(8);
    const auto f = create<fragile>(t);
    tern::swap_out(f).get();
    fragile::failures = 2;
    for (int i = 0; i < 2; ++i)
      TERN_EXPECT_ERROR(call<&fragile::ask>(f).get(), errc::out_of_memory, "no room to unpack");
    t = {}; // what failed has given nothing back
    TERN_EXPECT_EQ(call<&fragile::ask>(f).get(), 8);
    tern::swap_out(f).get();
    tern::destroy(f).get();
  }
  TERN_EXPECT_EQ(left(), 0);
}

// Ends ----------------------------------------------------------------------------------------------------------------

TERN_RANK_TEST(an_end_comes_behind_what_waits) {
  tern::semaphore gate(0);
  const auto q = blocked_queue(gate);
  tern::future<std::vector<int>> last;
  tern::future<void> end;
  for (int r = size() - 1; r >= 0; --r) { // rank 0 last, if it is not the only one
    if (r == rank() && r > 0) last = call<&queue::seen>({.priority = tern::priority::low}, q);
    static_cast<void>(call<&tern::rank>(0).get());
    tern::barrier();
  }
  if (rank() == 0) {
    end = tern::destroy(q);
    gate.release(1);
    end.get();
  } else {
    TERN_EXPECT(last.get().empty());
  }
  tern::barrier();
}

TERN_RANK_TEST(a_last_reference_may_go_beside_a_destroy) {
  tern::semaphore gate(0);
  if (rank() == 0) {
    queue::gate = &gate;
    auto q = tern::create_counted<queue>();
    const auto p = q.ptr();
    send<&queue::block>(q);
    auto end = tern::destroy(p);
    q = {};
    static_cast<void>(call<&tern::rank>(0).get());
    gate.release(1);
    end.get();
    TERN_EXPECT_ERROR(call<&queue::seen>(p).get(), errc::not_found, "has been destroyed");
  }
  TERN_EXPECT_EQ(left(), 0);
}

// Its end waits for it, and it for what it asks itself.
class thinker {
public:
  void think() {
    const tern::release_access meanwhile;
    queue::gate->acquire();
    try {
      thought = call<&thinker::self_seen>(tern::self<thinker>()).get();
    } catch (const tern::error& e) {
      thought = e.code() == errc::not_found ? -1 : -2;
    }
  }
  long self_seen() { return 5; }
  static inline std::atomic<long> thought{0};
};
TERN_RANK_TEST(an_end_gives_way_to_those_that_have_begun) {
  tern::semaphore gate(0);
  if (rank() == 0) {
    queue::gate = &gate;
    auto t = tern::create_counted<thinker>();
    auto first = call<&thinker::think>(t);
    t = {}; // there is no other reference
    static_cast<void>(call<&tern::rank>(0).get());
    gate.release(1);
    first.get();
    TERN_EXPECT_EQ(thinker::thought.load(), 5);
    const auto p = create<thinker>();
    first = call<&thinker::think>(p);
    auto end = tern::destroy(p); // an explicit destroy is pending
    static_cast<void>(call<&tern::rank>(0).get());
    gate.release(1);
    first.get();
    TERN_EXPECT_EQ(thinker::thought.load(), -1);
    end.get();
  }
  tern::barrier();
}

} // namespace access_test

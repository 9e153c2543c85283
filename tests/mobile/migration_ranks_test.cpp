// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that move.
#include <stdexcept>
#include <string>
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

// All ranks send to an object that moves all the time.
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
  // 1: in packing; 2: in unpacking on another rank. An idle object may go to disk meanwhile, and
  // must come back from there.
  int fails = 0;
  int home = -1;
  long value = 0;
  template <class A> void save(A& ar) const {
    if (fails == 1) throw tern::error(errc::io, "too fragile to pack", "use more paper");
    ar(fails, home, value);
  }
  template <class A> void load(A& ar) {
    ar(fails, home, value);
    if (fails == 2 && tern::rank() != home) throw std::runtime_error("broken on the way");
  }
  void set(int f) {
    fails = f;
    home = tern::rank();
  }
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

// An invocation of an object that has been on all ranks runs once, on the last of them, and the
// next one sees that. (How many messages it takes: hops_test.cpp.)
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

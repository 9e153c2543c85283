// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include <tern/mobile/names.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/report.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"

namespace names_test {

using namespace std::chrono_literals;
using tern::call;
using tern::create;
using tern::create_on;
using tern::errc;
using tern::find;
using tern::mobile_ptr;
using tern::publish;
using tern::rank;
using tern::size;
using tern::try_find;
using tern::unpublish;

class counter {
public:
  counter() = default;
  explicit counter(long start) : value_(start) {}
  void add(long n) { value_ += n; }
  long get() const { return value_; }
  void wait_for(const std::string& name) { value_ = call<&counter::get>(find<counter>(name).get()).get(); }
  template <class A> void serialize(A& ar) { ar(value_); }

private:
  long value_ = 0;
};
class table {
public:
  int size() const { return 1; }
};
class shape {
public:
  virtual ~shape() = default;
  virtual int corners() const { return 0; }
};
class square : public shape {
public:
  int corners() const override { return 4; }
};

// Names are the job's: each test has its own.
std::string of_rank(const std::string& name, int r) { return name + " of rank " + std::to_string(r); }

TERN_RANK_TEST(what_one_rank_publishes_all_find) {
  if (rank() == size() - 1) publish("one", create_on<counter>(0, 7).get()).get();
  const auto c = find<counter>("one").get(); // before or after
  TERN_EXPECT_EQ(call<&counter::get>(c).get(), 7);
  TERN_EXPECT_EQ(c.home(), 0);
}

TERN_RANK_TEST(each_rank_publishes_and_finds_those_of_all) {
  const auto mine = create<counter>(rank());
  auto there = publish(of_rank("each", rank()), mine);
  for (int r = 0; r < size(); ++r)
    TERN_EXPECT_EQ(call<&counter::get>(find<counter>(of_rank("each", r)).get()).get(), r);
  there.get();
  tern::barrier();
  TERN_EXPECT(try_find<counter>(of_rank("each", rank())).get() == mine);
  unpublish(of_rank("each", rank())).get();
  tern::barrier();
  for (int r = 0; r < size(); ++r) TERN_EXPECT(!try_find<counter>(of_rank("each", r)).get());
  TERN_EXPECT_ERROR(unpublish(of_rank("each", rank())).get(), errc::not_found, "no object has the name 'each of rank");
}

TERN_RANK_TEST(a_search_waits_in_a_fiber) {
  auto early = find<counter>(of_rank("early", (rank() + 1) % size()));
  tern::quiesce(); // a search is no message under way
  TERN_EXPECT(!early.ready());
  tern::barrier();
  publish(of_rank("early", rank()), create<counter>(rank())).get();
  TERN_EXPECT_EQ(call<&counter::get>(early.get()).get(), (rank() + 1) % size());
}

TERN_RANK_TEST(of_several_that_publish_a_name_one_does) {
  const auto mine = create<counter>(rank());
  int won = 1;
  try {
    publish("only one", mine).get();
  } catch (const tern::error& e) {
    won = 0;
    TERN_EXPECT(e.code() == errc::already_exists);
    const auto holds = find<counter>("only one").get();
    const std::string text = e.what();
    for (const std::string& part :
         {"the name 'only one' belongs to object " + to_string(holds.id()) +
              " (names_test::counter), published by rank " + std::to_string(holds.home()),
          "rank " + std::to_string(rank()) + " publishes it for object " + to_string(mine.id())})
      if (text.find(part) == std::string::npos) tern::test::fail(__FILE__, __LINE__, text + " lacks " + part);
  }
  TERN_EXPECT_EQ(tern::allreduce(won, std::plus<>()), 1);
  if (won) TERN_EXPECT_ERROR(publish("only one", mine).get(), errc::already_exists, "for the same object");
}

TERN_RANK_TEST(a_name_has_a_class) {
  if (rank() == 0) {
    publish("a counter", create<counter>()).get();
    publish("a square", create<square>()).get();
  }
  find<counter>("a counter").get();
  TERN_EXPECT_ERROR(find<table>("a counter").get(), errc::invalid_argument,
                    "(names_test::counter), published by rank 0");
  TERN_EXPECT_ERROR(find<table>("a counter").get(), errc::invalid_argument, "looks for a names_test::table");
  // A search that waits for the name fails, too.
  auto wrong = find<table>(of_rank("later", rank()));
  publish(of_rank("later", rank()), create<counter>()).get();
  TERN_EXPECT_ERROR(wrong.get(), errc::invalid_argument, "looks for a names_test::table");
  // A base will do, as for pointers.
  const mobile_ptr<shape> s = find<shape>("a square").get();
  TERN_EXPECT_EQ(call<&shape::corners>(s).get(), 4);
  const mobile_ptr<shape> same = find<square>("a square").get();
  TERN_EXPECT(s == same);
}

TERN_RANK_TEST(a_name_goes_with_its_object) {
  const std::string name = of_rank("goes", rank());
  auto c = create_on<counter>((rank() + 1) % size(), 1).get();
  publish(name, c).get();
  TERN_EXPECT(try_find<counter>(name).get() == c);
  tern::destroy(c).get();
  TERN_EXPECT(!try_find<counter>(name).get());
  TERN_EXPECT_ERROR(publish(name, c).get(), errc::not_found, "has been destroyed, and rank " + std::to_string(rank()));
  auto later = find<counter>(name);
  const auto other = create<counter>(2);
  publish(name, other).get();
  TERN_EXPECT(later.get() == other);
}

TERN_RANK_TEST(an_object_that_moves_keeps_its_name) {
  const std::string name = of_rank("moves", rank());
  const auto c = create<counter>(5);
  publish(name, c).get();
  for (int r = 0; r < size(); ++r) {
    tern::migrate(c, r).get();
    TERN_EXPECT(find<counter>(name).get() == c);
    TERN_EXPECT_EQ(call<&counter::get>(find<counter>(name).get()).get(), 5);
  }
}

TERN_RANK_TEST(a_name_keeps_no_counted_object_alive) {
  const std::string name = of_rank("counted", rank());
  {
    const auto t = tern::create_counted<counter>(3);
    publish(name, t).get();
    TERN_EXPECT(try_find<counter>(name).get() == t.ptr());
  }
  tern::quiesce(); // its last reference is gone
  TERN_EXPECT(!try_find<counter>(name).get());
}

TERN_RANK_TEST(a_search_may_have_a_limit) {
  const std::string name = of_rank("nobody", rank());
  TERN_EXPECT_ERROR(find<counter>({.timeout = 1ms}, name).get(), errc::timeout, "find(\"" + name + "\")");
  std::stop_source stop;
  auto f = find<counter>({.stop = stop.get_token()}, name);
  stop.request_stop();
  TERN_EXPECT_ERROR(f.get(), errc::cancelled, name);
  publish(name, create<counter>(4)).get();
  TERN_EXPECT_EQ(call<&counter::get>(find<counter>({.timeout = 1h}, name).get()).get(), 4);
}

TERN_RANK_TEST(reports_name_objects_and_who_waits_for_a_name) {
  const std::string gate = of_rank("gate", rank()), key = of_rank("key", rank());
  const auto g = create<counter>();
  publish(gate, g).get();
  auto open = call<&counter::wait_for>(g, key);
  // Until the invocation runs and its search has come to the rank that keeps the name.
  const std::string object = "object " + to_string(g.id()) + ", '" + gate +
                             "' (names_test::counter), an exclusive invocation runs",
                    wait = "'" + key + "', by rank " + std::to_string(rank()) + " (as a names_test::counter)";
  int here = 0;
  do {
    tern::this_fiber::yield();
    const std::string all = tern::allreduce(tern::net::describe(tern::net::node::here(), false), std::plus<>());
    here = all.find(object) != std::string::npos && all.find(wait) != std::string::npos &&
           all.find(" waited for, and no rank has published ") != std::string::npos;
  } while (tern::allreduce(here, std::plus<>()) < size());
  publish(key, create<counter>(9)).get();
  open.get();
  TERN_EXPECT_EQ(call<&counter::get>(g).get(), 9);
  tern::barrier();
  const std::string all = tern::net::describe(tern::net::node::here(), false);
  TERN_EXPECT(all.find("'" + key + "', by rank") == std::string::npos);
}

TERN_RANK_TEST(misuse) {
  TERN_EXPECT_ERROR(publish("", create<counter>()), errc::invalid_argument, "the name of an object is empty");
  TERN_EXPECT_ERROR(find<counter>(""), errc::invalid_argument, "the name of an object is empty");
  TERN_EXPECT_ERROR(unpublish(""), errc::invalid_argument, "the name of an object is empty");
  TERN_EXPECT_ERROR(publish("null", mobile_ptr<counter>()), errc::invalid_argument, "null");
}

} // namespace names_test

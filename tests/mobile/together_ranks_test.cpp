// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/load.hpp>
#include <tern/mobile/together.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/report.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/semaphore.hpp>

#include "rank_test.hpp"

namespace together_test {

using tern::errc;
using tern::mobile_ptr;
using tern::rank;
using tern::size;

class base {
public:
  virtual ~base() = default;
  virtual long weight() const { return 1; }
};

class purse : public base {
public:
  purse() = default;
  explicit purse(long money) : money_(money) {}
  void add(long n) { money_ += n; }
  long money() const { return money_; }
  long weight() const override { return money_; }
  void note(const std::string& s) { log_ += s; }
  std::string log() const { return log_; }
  int place() const { return tern::rank(); }
  bool unpacks = true, packs = true;
  void spoil(bool pack) { (pack ? packs : unpacks) = false; }
  void mend() { packs = unpacks = true; }
  void wait_for(int sender);
  long gather(std::span<purse* const> others, long each) {
    for (purse* const p : others) {
      p->money_ -= each;
      money_ += each;
    }
    return money_;
  }
  template <class A> void serialize(A& ar) {
    if (!packs) throw tern::error(errc::io, "the purse is stuck");
    ar(money_, log_, unpacks);
    if (!unpacks && A::is_loading) {
      unpacks = true;
      throw tern::error(errc::io, "the purse is torn");
    }
  }

private:
  long money_ = 0;
  std::string log_;
};
class stone { // does not move
public:
  explicit stone(int at) : born_(at) {}
  bool at_home() const { return born_ == tern::rank(); }

private:
  int born_;
};

int where_all_are(purse& main, std::span<purse* const> others) {
  main.note("m");
  for (purse* const p : others) p->note("o");
  return rank();
}
long sum(const purse& main, std::span<const purse* const> others) {
  long all = main.money();
  for (const purse* const p : others) all += p->money();
  return all;
}
void fail(purse& main, std::span<purse* const>, const std::string& why) {
  main.note("failed");
  throw std::runtime_error(why);
}
long with_arguments(purse& main, std::span<purse* const> others, const std::string& text,
                    std::span<const double> values, const std::vector<int>& more) {
  main.note(text);
  double all = static_cast<double>(others.size());
  for (const double x : values) all += x;
  for (const int x : more) all += x;
  return static_cast<long>(all);
}
bool on_stone(purse& main, std::span<const stone* const> stones) {
  main.note("s");
  bool all = true;
  for (const stone* const s : stones) all = all && s->at_home();
  return all;
}

template <class T> std::vector<T> everywhere(T mine) { return tern::broadcast(tern::gather(std::move(mine))); }
/// One for each rank, of i * 10.
std::vector<mobile_ptr<purse>> purses(int each = 1) {
  std::vector<mobile_ptr<purse>> all;
  for (int i = 0; i < each; ++i)
    for (const auto& p : everywhere(tern::create<purse>(10L * rank()))) all.push_back(p);
  return all;
}
void end(const std::vector<mobile_ptr<purse>>& all) {
  tern::barrier();
  if (rank() == 0)
    for (const auto& p : all) tern::destroy(p).get();
  tern::barrier();
  TERN_EXPECT_EQ(tern::mobile::directory::here().size(), 0u);
  tern::barrier();
}
std::vector<mobile_ptr<purse>> but_first(const std::vector<mobile_ptr<purse>>& all) {
  return {all.begin() + 1, all.end()};
}
int place_of(mobile_ptr<purse> p) { return tern::call<&purse::place>(p).get(); }

TERN_RANK_TEST(they_come_to_the_main_objects_rank) {
  const auto all = purses();
  tern::barrier();
  if (rank() == size() - 1) {
    const auto others = but_first(all);
    TERN_EXPECT_EQ(tern::call_together<&where_all_are>(all[0], others).get(), 0);
    for (const auto& p : all) TERN_EXPECT_EQ(place_of(p), 0);
    for (const auto& p : others) TERN_EXPECT_EQ(tern::call<&purse::log>(p).get(), std::string("o"));
    if (size() > 1) { // the other way round
      TERN_EXPECT_EQ(tern::call_together<&where_all_are>(all.back(), {all[0]}).get(), 0);
      TERN_EXPECT_EQ(tern::call<&purse::log>(all[0]).get(), std::string("mo"));
    }
  }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(members_lambdas_arguments_and_results) {
  const auto all = purses();
  tern::barrier();
  if (rank() == 0) {
    const auto others = but_first(all);
    const long n = static_cast<long>(others.size());
    TERN_EXPECT_EQ(tern::call_together<&purse::gather>(all[0], others, 2L).get(), 2 * n);
    TERN_EXPECT_EQ((tern::call_together<[](purse& p, std::span<purse* const> o, long x) {
                      p.add(x);
                      return static_cast<long>(o.size());
                    }>(all[0], others, 5)
                        .get()),
                   n);
    TERN_EXPECT_EQ(tern::call<&purse::money>(all[0]).get(), 2 * n + 5);
    const std::vector<double> values{1, 2, 3};
    // On another rank, so that arguments travel, and here.
    const std::vector<mobile_ptr<purse>> mains{all.back(), all.front()};
    for (const auto& main : mains)
      TERN_EXPECT_EQ(tern::call_together<&with_arguments>(main, {}, "text", values, std::vector<int>{10, 20}).get(),
                     36);
    TERN_EXPECT_EQ(tern::call<&purse::log>(all.back()).get(), std::string(size() > 1 ? "text" : "texttext"));
    const std::array<mobile_ptr<purse>, 1> none_else{all.back()};
    if (size() > 1) TERN_EXPECT_EQ(tern::call_together<&where_all_are>(all[0], none_else).get(), 0);
  }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(what_is_here_and_free_costs_no_message) {
  tern::net::node& here = tern::net::node::here();
  if (here.opts()[tern::mobile::memory_option] != "0") return; // objects may be on disk
  std::vector<mobile_ptr<purse>> mine;
  for (int i = 0; i < 5; ++i) mine.push_back(tern::create<purse>(i));
  tern::quiesce();
  const auto sent = [&] { return here.counters().begun(); };
  tern::barrier();
  const auto others = but_first(mine);
  for (int i = 0; i < 10; ++i) {
    const auto before = sent();
    auto f = tern::call_together<&where_all_are>(mine[0], others);
    const int where = f.get();
    const auto after = sent();
    TERN_EXPECT_EQ(where, rank());
    TERN_EXPECT(after - before <= 1); // what keeps the job open, which is no message
    static_cast<void>(before);
  }
  tern::barrier();
  for (const auto& p : mine) tern::destroy(p).get();
  tern::barrier();
}

// Each takes what was sent before, and what comes later waits.
TERN_RANK_TEST(it_comes_after_what_was_sent_before) {
  const auto all = purses();
  tern::barrier();
  if (rank() == size() - 1) {
    for (int round = 0; round < 20; ++round) {
      for (const auto& p : all) tern::send<&purse::note>(p, "a");
      auto f = tern::call_together<&where_all_are>(all[static_cast<std::size_t>(round) % all.size()],
                                                   round % all.size() == 0 ? but_first(all)
                                                                           : std::vector<mobile_ptr<purse>>{});
      static_cast<void>(f.get());
      for (const auto& p : all) tern::send<&purse::note>(p, "b");
    }
    std::string expected;
    for (int round = 0; round < 20; ++round) expected += round % all.size() == 0 ? "amb" : "ab";
    TERN_EXPECT_EQ(tern::call<&purse::log>(all[0]).get(), expected);
  }
  tern::quiesce(); // what was sent to the others
  end(all);
}

// All ranks, overlapping sets, in all orders: no deadlock, and money is kept.
TERN_RANK_TEST(overlapping_sets_do_not_wait_for_ever) {
  const auto all = purses(3);
  tern::barrier();
  std::vector<tern::future<long>> open;
  for (int i = 0; i < 40; ++i) {
    const std::size_t n = all.size(), a = static_cast<std::size_t>(7 * i + 3 * rank()) % n;
    std::vector<mobile_ptr<purse>> others;
    for (std::size_t k = 1; k < std::min<std::size_t>(n, 4); ++k) others.push_back(all[(a + k * (1 + i % 2)) % n]);
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    std::erase(others, all[a]);
    open.push_back(tern::call_together<&purse::gather>(all[a], others, 1L));
    if (i % 5 == 0) static_cast<void>(tern::migrate(all[(a + 1) % n], i % size()));
    if (open.size() > 4) {
      static_cast<void>(open.front().get());
      open.erase(open.begin());
    }
  }
  for (auto& f : open) static_cast<void>(f.get());
  tern::quiesce();
  long money = 0;
  for (const auto& p : all) money += tern::call<&purse::money>(p).get();
  TERN_EXPECT_EQ(money, 3L * 10 * size() * (size() - 1) / 2);
  if (rank() == 0) TERN_EXPECT_EQ(tern::call_together<&sum>(all[0], but_first(all)).get(), money);
  end(all);
}

TERN_RANK_TEST(shared_claims_run_together) {
  static tern::semaphore both(0);
  const auto all = purses(2);
  tern::barrier();
  if (rank() == 0) {
    const auto other = all[static_cast<std::size_t>(size())]; // also of rank 0
    auto first = tern::call_together<[](const purse& p, std::span<const purse* const> o) {
      both.acquire();
      return p.money() + o[0]->money();
    }>(all[0], {other});
    auto second = tern::call_together<[](const purse& p, std::span<const purse* const> o) {
      both.release();
      return p.money() + o[0]->money();
    }>(all[0], {other});
    TERN_EXPECT_EQ(second.get(), 0);
    TERN_EXPECT_EQ(first.get(), 0);
  }
  tern::barrier();
  end(all);
}

// A call from an invocation of one of them.
std::string ask_for_itself(purse& p, mobile_ptr<purse> other, bool main, bool release) {
  const auto me = tern::self<purse>();
  auto f = main ? tern::call_together<&where_all_are>(me, {other}) : tern::call_together<&where_all_are>(other, {me});
  p.note("q");
  std::unique_ptr<tern::release_access> away;
  if (release) away = std::make_unique<tern::release_access>();
  try {
    static_cast<void>(f.get());
  } catch (const tern::error& e) {
    return std::string(tern::name_of(e.code())) + ": " + e.what();
  }
  return "";
}
TERN_RANK_TEST(an_invocation_that_waits_for_itself_is_told) {
  const auto all = purses(2);
  tern::barrier();
  if (rank() == 0) {
    const auto other = all[static_cast<std::size_t>(size())];
    const auto has = [](const std::string& text, const std::string& part) {
      return text.find(part) != std::string::npos;
    };
    const std::string told = tern::call<&ask_for_itself>(all[0], other, false, false).get();
    TERN_EXPECT(has(told, "runs an exclusive invocation of object " + to_string(all[0].id()) + " ("));
    TERN_EXPECT(has(told, "purse) and waits for '"));
    TERN_EXPECT(has(told, "where_all_are"));
    TERN_EXPECT(has(told, "' of object " + to_string(other.id()) + " together with object " + to_string(all[0].id()) +
                              ", which begins only when that invocation has ended"));
    TERN_EXPECT(has(told, "release_access"));
    TERN_EXPECT_EQ(tern::call<&ask_for_itself>(all[0], other, true, true).get(), std::string());
    TERN_EXPECT_EQ(tern::call<&ask_for_itself>(all[0], other, false, true).get(), std::string());
    if (size() > 1) { // it would have to move while its invocation has not ended
      const std::string stuck = tern::call<&ask_for_itself>(all[0], all[1], false, true).get();
      TERN_EXPECT(has(stuck, "deadlock"));
      TERN_EXPECT(has(stuck, "would have to move from rank 0 to rank 1"));
      TERN_EXPECT_EQ(tern::call<&ask_for_itself>(all[0], all[1], true, true).get(), std::string());
      TERN_EXPECT_EQ(place_of(all[1]), 0);
    }
    TERN_EXPECT_EQ(tern::call<&purse::log>(all[0]).get().substr(0, 2), std::string("qo"));
  }
  tern::barrier();
  end(all);
}

// Within the function: no object of it can be waited for, unless the access is released.
std::string ask_within(purse&, std::span<purse* const>, mobile_ptr<purse> other, bool release) {
  std::unique_ptr<tern::release_access> away;
  if (release) away = std::make_unique<tern::release_access>();
  try {
    tern::call<&purse::add>(other, 1L).get();
  } catch (const tern::error& e) {
    return std::string(tern::name_of(e.code()));
  }
  return "";
}
TERN_RANK_TEST(within_the_function_all_are_had) {
  const auto all = purses(2);
  tern::barrier();
  if (rank() == 0) {
    const auto other = all.back();
    TERN_EXPECT_EQ(tern::call_together<&ask_within>(all[0], {other}, other, false).get(), std::string("deadlock"));
    TERN_EXPECT_EQ(tern::call_together<&ask_within>(all[0], {other}, all[0], false).get(), std::string("deadlock"));
    TERN_EXPECT_EQ(tern::call_together<&ask_within>(all[0], {other}, other, true).get(), std::string());
    TERN_EXPECT_EQ(tern::call_together<&ask_within>(all[0], {other}, all[0], true).get(), std::string());
    TERN_EXPECT((tern::call_together<[](purse&, std::span<purse* const>, mobile_ptr<purse> me) {
                   return tern::self<purse>() == me;
                 }>(all[0], {other}, all[0])
                     .get()));
  }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(misuse_is_told_before_anything_is_sent) {
  const auto all = purses();
  tern::barrier();
  const std::string id = to_string(all[0].id());
  TERN_EXPECT_ERROR((tern::call_together<&where_all_are>(all[0], {all[0]})), errc::invalid_argument,
                    "object " + id + " is claimed together with itself, for '");
  TERN_EXPECT_ERROR((tern::call_together<&where_all_are>(all[0], {mobile_ptr<purse>()})), errc::invalid_argument,
                    "null");
  TERN_EXPECT_ERROR((tern::call_together<&where_all_are>(mobile_ptr<purse>(), {})), errc::invalid_argument, "null");
  end(all);
}

TERN_RANK_TEST(two_pinned_apart_are_told_before_anything_moves) {
  const auto all = purses();
  tern::barrier();
  if (rank() == 0 && size() > 1) {
    tern::pin(all[0]).get();
    tern::pin(all[1]).get();
    auto main = size() > 2 ? all[2] : all[0];
    auto others = all;
    std::erase(others, main);
    const std::string text = "object " + to_string(all[0].id()) + " is pinned on rank 0, and object " +
                             to_string(all[1].id()) + " is pinned on rank 1";
    TERN_EXPECT_ERROR(tern::call_together<&where_all_are>(main, others).get(), errc::invalid_state, text);
    for (std::size_t i = 0; i < all.size(); ++i) TERN_EXPECT_EQ(place_of(all[i]), static_cast<int>(i));
    for (const auto& p : all) TERN_EXPECT_EQ(tern::call<&purse::log>(p).get(), std::string());
    // One of them that is pinned draws the others.
    tern::unpin(all[0]).get();
    TERN_EXPECT_EQ(tern::call_together<&where_all_are>(main, others).get(), 1);
    for (const auto& p : all) TERN_EXPECT_EQ(place_of(p), 1);
  }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(what_cannot_move_draws_the_others) {
  const auto all = purses();
  const auto stones = everywhere(tern::create<stone>(rank()));
  tern::barrier();
  if (rank() == 0) {
    TERN_EXPECT(tern::call_together<&on_stone>(all[0], {stones.back()}).get());
    TERN_EXPECT_EQ(place_of(all[0]), size() - 1);
    if (size() > 1)
      TERN_EXPECT_ERROR(tern::call_together<&on_stone>(all[0], stones).get(), errc::invalid_state,
                        "of a class that cannot move");
  }
  tern::barrier();
  tern::destroy(stones[static_cast<std::size_t>(rank())]).get();
  end(all);
}

TERN_RANK_TEST(one_that_is_gone_lets_the_others_go) {
  const auto all = purses(2);
  tern::barrier();
  if (rank() == 0) {
    const auto gone = all.back();
    tern::destroy(gone).get();
    auto others = but_first(all);
    TERN_EXPECT_ERROR(tern::call_together<&where_all_are>(all[0], others).get(), errc::not_found,
                      "object " + to_string(gone.id()) + " has been destroyed");
    TERN_EXPECT_ERROR(tern::call_together<&where_all_are>(all[0], others).get(), errc::not_found, "did not run");
    TERN_EXPECT_ERROR(tern::call_together<&where_all_are>(gone, {all[0]}).get(), errc::not_found, "has been destroyed");
    others.pop_back();
    for (const auto& p : others) TERN_EXPECT_EQ(tern::call<&purse::log>(p).get(), std::string());
    TERN_EXPECT_EQ(tern::call_together<&where_all_are>(all[0], others).get(), 0);
  }
  tern::barrier();
  end({all.begin(), all.end() - 1});
}

TERN_RANK_TEST(one_that_cannot_be_packed_lets_the_others_go) {
  const auto all = purses(2);
  tern::barrier();
  if (rank() == 0 && size() > 1) {
    for (const bool pack : {true, false}) {
      tern::call<&purse::spoil>(all[1], pack).get();
      const std::string text = pack ? "the purse is stuck" : "the purse is torn";
      TERN_EXPECT_ERROR(tern::call_together<&where_all_are>(all[0], but_first(all)).get(), errc::io, text);
      TERN_EXPECT_ERROR(
          (tern::call<&purse::spoil>(all[1], pack).get(), tern::call_together<&where_all_are>(all[0], {all[1]}).get()),
          errc::io, "object " + to_string(all[1].id()));
      for (const auto& p : all) TERN_EXPECT_EQ(tern::call<&purse::log>(p).get(), std::string());
      TERN_EXPECT_EQ(place_of(all[1]), 1);
      tern::call<&purse::mend>(all[1]).get();
    }
    TERN_EXPECT_EQ(tern::call_together<&where_all_are>(all[0], but_first(all)).get(), 0);
  }
  tern::barrier();
  end(all);
}

// A claimer that hears that an object stays lets it go at once: it must be there again by then.
TERN_RANK_TEST(moves_that_fail_leave_nothing_claimed) {
  const auto all = purses();
  tern::barrier();
  if (rank() == 0 && size() > 1) {
    const auto others = but_first(all);
    for (const auto& p : others) tern::call<&purse::spoil>(p, true).get();
    for (int round = 0; round < 50; ++round) {
      TERN_EXPECT_ERROR(tern::call_together<&where_all_are>(all[0], others).get(), errc::io, "the purse is stuck");
      // One of the caller's rank that cannot follow the main object, likewise.
      tern::call<&purse::spoil>(all[0], true).get();
      TERN_EXPECT_ERROR(tern::call_together<&where_all_are>(all.back(), {all[0]}).get(), errc::io,
                        "the purse is stuck");
      tern::call<&purse::mend>(all[0]).get();
    }
    for (const auto& p : others) tern::call<&purse::mend>(p).get();
    for (const auto& p : all) TERN_EXPECT_EQ(tern::call<&purse::log>(p).get(), std::string());
    TERN_EXPECT_EQ(tern::call_together<&where_all_are>(all[0], others).get(), 0);
  }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(what_the_function_throws_is_told_with_its_objects) {
  const auto all = purses(2);
  tern::barrier();
  if (rank() == 0)
    for (const auto& main : all) {
      auto others = all;
      std::erase(others, main);
      TERN_EXPECT_ERROR(tern::call_together<&fail>(main, others, "no reason").get(), errc::remote, "no reason");
      TERN_EXPECT_ERROR(tern::call_together<&fail>(main, others, "no reason").get(), errc::remote,
                        "' of object " + to_string(main.id()));
      TERN_EXPECT_ERROR(tern::call_together<&fail>(main, {}, "no reason").get(), errc::remote, " on rank ");
      TERN_EXPECT_ERROR((tern::call_together<[](purse&, std::span<purse* const>) {
                           throw tern::error(errc::out_of_memory, "too little");
                         }>(main, {all.back() == main ? all.front() : all.back()})
                             .get()),
                        errc::out_of_memory, "together with object ");
    }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(another_class_is_told) {
  const auto all = purses();
  tern::barrier();
  if (rank() == 0) {
    const auto other = mobile_ptr<stone>(all.back().id());
    if (size() > 1)
      TERN_EXPECT_ERROR(tern::call_together<&on_stone>(all[0], {other}).get(), errc::not_found, "purse, not a ");
    // As a base.
    TERN_EXPECT_EQ((tern::call_together<[](const base& b, std::span<const base* const> o) {
                      return b.weight() + static_cast<long>(o.size());
                    }>(all.back(), {})
                        .get()),
                   10L * (size() - 1));
  }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(objects_on_disk_come_back) {
  const auto all = purses();
  tern::barrier();
  if (rank() == size() - 1) {
    for (int i = 0; i < 3; ++i) {
      for (const auto& p : all) tern::swap_out(p).get();
      TERN_EXPECT_EQ(tern::call_together<&sum>(all[0], but_first(all)).get(), 5L * size() * (size() - 1));
    }
  }
  tern::barrier();
  end(all);
}

// Nobody else moves it, and a request to move it is heard afterwards.
TERN_RANK_TEST(what_is_claimed_is_not_movable) {
  static tern::semaphore begun(0), may_end(0);
  const auto all = purses(2);
  tern::barrier();
  if (rank() == 0) {
    const auto other = all[static_cast<std::size_t>(size())];
    auto f = tern::call_together<[](purse&, std::span<purse* const>) {
      begun.release();
      may_end.acquire();
      return rank();
    }>(all[0], {other});
    begun.acquire();
    for (const auto& load : tern::mobile::directory::here().loads())
      if (load.id == all[0].id() || load.id == other.id()) TERN_EXPECT(!load.movable && !load.idle);
    auto moved = tern::migrate(other, size() - 1);
    auto second = tern::call_together<&where_all_are>(all[0], {other});
    std::string report;
    tern::wait_until([&] {
      report = tern::net::describe(tern::net::node::here(), false);
      return report.find(" waits for " + to_string(all[0].id())) != std::string::npos;
    });
    TERN_EXPECT(report.find(", claimed for a function over several objects") != std::string::npos);
    TERN_EXPECT(report.find("1 function waits for several objects:") != std::string::npos);
    may_end.release();
    TERN_EXPECT_EQ(f.get(), 0);
    moved.get();
    TERN_EXPECT_EQ(second.get(), 0);
    for (const auto& load : tern::mobile::directory::here().loads())
      if (load.id == all[0].id()) TERN_EXPECT(load.movable);
  }
  tern::barrier();
  end(all);
}

TERN_RANK_TEST(epochs_and_quiesce_follow) {
  const auto all = purses();
  tern::barrier();
  for (int i = 0; i < 5; ++i) {
    tern::finish(
        [&] { static_cast<void>(tern::call_together<&where_all_are>(all[static_cast<std::size_t>(rank())], {})); });
    TERN_EXPECT_EQ(tern::call<&purse::log>(all[static_cast<std::size_t>(rank())]).get().size(),
                   static_cast<std::size_t>(i + 1));
  }
  tern::barrier();
  if (rank() == 0) static_cast<void>(tern::call_together<&where_all_are>(all[0], but_first(all)));
  tern::quiesce();
  TERN_EXPECT_EQ(tern::call<&purse::log>(all[static_cast<std::size_t>(rank())]).get().size(), 6u);
  tern::barrier();
  end(all);
}

} // namespace together_test

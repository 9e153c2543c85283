// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a rank sends to its own objects: with several workers it goes by mailboxes, with one worker
/// and in simulations by the transport, and programs see no difference.
#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <tern/mobile/counted.hpp>
#include <tern/mobile/hold.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/buffer.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/epoch.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>

#include "rank_test.hpp"

namespace mail_test {

using tern::call;
using tern::create;
using tern::errc;
using tern::rank;
using tern::send;
using tern::size;

constexpr int senders = 4;

/// Notes what each sender's messages come in.
struct diary {
  std::vector<int> next = std::vector<int>(senders, 0);
  int wrong = 0;
  template <class A> void serialize(A& ar) { ar(next, wrong); }
  void note(int sender, int number) { wrong += next.at(static_cast<std::size_t>(sender))++ != number; }
  void note_text(int sender, int number, const std::string& text) {
    wrong += text != std::string(300, 'x');
    note(sender, number);
  }
  void note_numbers(int sender, int number, tern::buffer<double> numbers) {
    wrong += numbers.size() != 5000 || numbers[4999] != number;
    note(sender, number);
  }
  void note_and_wait(int sender, int number) {
    note(sender, number);
    tern::this_fiber::yield();
  }
  int errors() const { return wrong; }
  std::vector<int> counts() const { return next; }
};

void write(tern::mobile_ptr<diary> d, int sender, int from, int upto) {
  for (int i = from; i < upto; ++i) switch (i % 4) {
    case 0:
      send<&diary::note>(d, sender, i);
      break;
    case 1:
      send<&diary::note_text>(d, sender, i, std::string(300, 'x'));
      break;
    case 2:
      send<&diary::note_and_wait>(d, sender, i);
      break;
    default:
      send<&diary::note_numbers>(d, sender, i, [&] {
        tern::buffer<double> all(5000);
        all[4999] = i;
        return all;
      }());
      break;
    }
}

TERN_RANK_TEST(each_senders_messages_come_in_order) {
  const int n = tern::sim::active() ? 40 : 400;
  const auto d = create<diary>();
  std::vector<tern::future<void>> all;
  for (int s = 0; s < senders; ++s) all.push_back(tern::async([=] { write(d, s, 0, n); }));
  for (auto& one : all) one.get();
  tern::wait_until([&] { return call<&diary::counts>(d).get() == std::vector<int>(senders, n); });
  TERN_EXPECT_EQ(call<&diary::errors>(d).get(), 0);
  tern::destroy(d).get();
}

TERN_RANK_TEST(also_while_the_object_leaves_and_returns) {
  const int n = 40, moves = 4;
  const auto d = create<diary>();
  std::vector<tern::future<void>> all;
  for (int s = 0; s < senders; ++s)
    all.push_back(tern::async([=] {
      for (int i = 0; i < moves; ++i) {
        write(d, s, i * n, (i + 1) * n);
        if (s == 0) tern::migrate(d, (rank() + i) % size()).get();
      }
    }));
  for (auto& one : all) one.get();
  tern::wait_until([&] { return call<&diary::counts>(d).get() == std::vector<int>(senders, n * moves); });
  TERN_EXPECT_EQ(call<&diary::errors>(d).get(), 0);
  tern::destroy(d).get();
}

// Whichever way each of them goes: with and without a caller, and of each priority.
TERN_RANK_TEST(calls_and_sends_of_one_fiber_stay_in_order) {
  const int n = tern::sim::active() ? 60 : 2000;
  const auto d = create<diary>();
  std::vector<tern::future<void>> answers;
  for (int i = 0; i < n; ++i) switch (i % 7) {
    case 1:
      answers.push_back(call<&diary::note>(d, 0, i));
      break;
    case 3:
      send<&diary::note>({.priority = tern::priority::high}, d, 0, i);
      break;
    case 4:
      send<&diary::note>({.priority = tern::priority::low}, d, 0, i);
      break;
    case 5:
      send<&diary::note_text>(d, 0, i, std::string(300, 'x'));
      break;
    default:
      send<&diary::note>(d, 0, i);
      if (i % 11 == 0) tern::this_fiber::yield();
      break;
    }
  for (auto& one : answers) one.get();
  tern::wait_until([&] { return call<&diary::counts>(d).get().front() == n; });
  TERN_EXPECT_EQ(call<&diary::errors>(d).get(), 0);
  tern::destroy(d).get();
}

struct tally {
  long sum = 0;
  std::array<long, 40> wide{};
  void add(long n) { sum += n; }
  void add_wide(const std::array<long, 40>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) wide[i] += all[i];
  }
  long total() const { return sum; }
  long total_wide() const { return wide[0] + wide[39]; }
};

// More than the way holds at a time, of a fiber that lets no other run.
TERN_RANK_TEST(a_flood_arrives_whole) {
  const int n = tern::sim::active() ? 500 : 60'000, objects = 20;
  std::vector<tern::mobile_ptr<tally>> all;
  for (int i = 0; i < objects; ++i) all.push_back(create<tally>());
  std::array<long, 40> wide{};
  wide[0] = wide[39] = 1;
  for (int i = 0; i < n; ++i) {
    send<&tally::add>(all[static_cast<std::size_t>(i % objects)], 1);
    if (i % 100 == 0) send<&tally::add_wide>(all[0], wide);
  }
  long sum = 0;
  for (const auto& one : all) sum += call<&tally::total>(one).get(); // behind what was sent
  TERN_EXPECT_EQ(sum, n);
  TERN_EXPECT_EQ(call<&tally::total_wide>(all[0]).get(), 2 * ((n + 99) / 100));
  for (const auto& one : all) tern::destroy(one).get();
}

struct lock_step {
  tern::semaphore* gate = nullptr;
  std::atomic<int>* opened = nullptr;
  void set(std::uint64_t g, std::uint64_t o) {
    gate = reinterpret_cast<tern::semaphore*>(g);
    opened = reinterpret_cast<std::atomic<int>*>(o);
  }
  void wait_shared() const {
    gate->acquire();
    ++*opened;
  }
  void wait_without_access() {
    const tern::release_access others_may;
    gate->acquire();
    ++*opened;
  }
  void open() { gate->release(1); }
  void open_shared() const { gate->release(1); }
};

// What is behind one that waits is not kept by it.
TERN_RANK_TEST(one_that_waits_lets_the_next_pass) {
  tern::semaphore gate(0);
  std::atomic<int> opened{0};
  const auto o = create<lock_step>();
  call<&lock_step::set>(o, reinterpret_cast<std::uint64_t>(&gate), reinterpret_cast<std::uint64_t>(&opened)).get();
  for (int i = 0; i < 20; ++i) {
    send<&lock_step::wait_without_access>(o);
    send<&lock_step::open>(o);
  }
  tern::wait_until([&] { return opened == 20; });
  for (int i = 0; i < 20; ++i) {
    send<&lock_step::wait_shared>(o);
    send<&lock_step::open_shared>(o);
  }
  tern::wait_until([&] { return opened == 40; });
  tern::destroy(o).get();
}

/// Keeps its worker until as many have begun.
struct crowd {
  std::atomic<int>* begun = nullptr;
  void set(std::uint64_t b) { begun = reinterpret_cast<std::atomic<int>*>(b); }
  void meet(int many) {
    ++*begun;
    while (*begun < many) std::this_thread::yield();
  }
  void meet_shared(int many) const {
    ++*begun;
    while (*begun < many) std::this_thread::yield();
  }
};

TERN_RANK_TEST(objects_of_one_rank_run_on_all_workers) {
  if (tern::sim::active()) return; // virtual workers are one thread
  const int workers = tern::scheduler::current()->workers();
  std::atomic<int> begun{0};
  const auto address = reinterpret_cast<std::uint64_t>(&begun);
  std::vector<tern::mobile_ptr<crowd>> all;
  for (int i = 0; i < workers; ++i) {
    all.push_back(create<crowd>());
    call<&crowd::set>(all.back(), address).get();
  }
  std::vector<tern::future<void>> done;
  for (const auto& one : all) done.push_back(call<&crowd::meet>(one, workers));
  for (auto& one : done) one.get();
  begun = 0; // and those of one object that share it
  done.clear();
  for (int i = 0; i < workers; ++i) done.push_back(call<&crowd::meet_shared>(all[0], workers));
  for (auto& one : done) one.get();
  for (const auto& one : all) tern::destroy(one).get();
}

struct tree {
  std::atomic<int>* count = nullptr;
  std::vector<tern::mobile_ptr<tree>>* all = nullptr;
  void set(std::uint64_t c, std::uint64_t a) {
    count = reinterpret_cast<std::atomic<int>*>(c);
    all = reinterpret_cast<std::vector<tern::mobile_ptr<tree>>*>(a);
  }
  void grow(int depth) {
    ++*count;
    if (depth == 0) return;
    for (int i = 0; i < 2; ++i)
      send<&tree::grow>((*all)[static_cast<std::size_t>(2 * depth + i) % all->size()], depth - 1);
  }
};

TERN_RANK_TEST(an_epoch_ends_when_all_that_it_sent_has_run) {
  const int depth = tern::sim::active() ? 5 : 10;
  std::atomic<int> count{0};
  std::vector<tern::mobile_ptr<tree>> all;
  for (int i = 0; i < 12; ++i) all.push_back(create<tree>());
  for (const auto& one : all)
    call<&tree::set>(one, reinterpret_cast<std::uint64_t>(&count), reinterpret_cast<std::uint64_t>(&all)).get();
  for (int round = 1; round <= 3; ++round) {
    tern::finish([&] { send<&tree::grow>(all[0], depth); });
    TERN_EXPECT_EQ(count.load(), round * ((2 << depth) - 1));
  }
  send<&tree::grow>(all[0], depth);
  tern::quiesce();
  TERN_EXPECT_EQ(count.load(), 4 * ((2 << depth) - 1));
  for (const auto& one : all) tern::destroy(one).get();
}

struct mortal {
  std::atomic<int>* ran = nullptr;
  void set(std::uint64_t r) { ran = reinterpret_cast<std::atomic<int>*>(r); }
  void step() { ++*ran; }
};

TERN_RANK_TEST(an_end_comes_behind_what_was_sent) {
  std::atomic<int> ran{0};
  for (int round = 0; round < 20; ++round) {
    const auto o = create<mortal>();
    send<&mortal::set>(o, reinterpret_cast<std::uint64_t>(&ran));
    for (int i = 0; i < 50; ++i) send<&mortal::step>(o);
    auto end = tern::destroy(o);
    auto late = call<&mortal::step>(o);
    end.get();
    TERN_EXPECT_ERROR(late.get(), errc::not_found, "has been destroyed");
    TERN_EXPECT_EQ(ran.load(), 50 * (round + 1));
  }
  // The last reference is given back behind what it sent.
  for (int round = 0; round < 20; ++round) {
    const auto last = tern::create_counted<mortal>();
    send<&mortal::set>(last.ptr(), reinterpret_cast<std::uint64_t>(&ran));
    for (int i = 0; i < 50; ++i) send<&mortal::step>(last.ptr());
  }
  tern::wait_until([&] { return ran == 2000; });
}

// What was sent before has run when the access is there.
TERN_RANK_TEST(access_comes_behind_what_was_sent) {
  for (int round = 0; round < 50; ++round) {
    const auto d = create<diary>();
    write(d, 1, 0, 20);
    {
      const auto mine = tern::hold(d);
      TERN_EXPECT(mine && mine->next[1] == 20 && mine->wrong == 0);
    }
    tern::destroy(d).get();
  }
}

/// Writes into others' diaries from where it is, in one fiber for each request.
struct writer {
  std::vector<tern::mobile_ptr<diary>> to;
  void set(std::vector<tern::mobile_ptr<diary>> all) { to = std::move(all); }
  /// As its own sender of all diaries, so often in each.
  void write_all(int sender, int many) {
    for (int i = 0; i < many; ++i)
      for (std::size_t k = 0; k < to.size(); ++k) {
        const auto number = static_cast<std::size_t>(sender) + static_cast<std::size_t>(i) + k;
        if (number % 13 == 5)
          send<&diary::note>({.priority = tern::priority::high}, to[k], sender, i);
        else if (number % 17 == 3)
          send<&diary::note_text>(to[k], sender, i, std::string(300, 'x'));
        else if (number % 29 == 7)
          call<&diary::note>(to[k], sender, i).get();
        else
          send<&diary::note>(to[k], sender, i);
        if (number % 41 == 2) tern::this_fiber::yield();
        if (number % 53 == 4) {
          const auto it = tern::hold_shared(to[k]);
          TERN_EXPECT(!it || it->next.at(static_cast<std::size_t>(sender)) > i);
        }
      }
  }
};

// Between objects that are on different workers, which hand such messages to each other.
TERN_RANK_TEST(what_objects_of_all_workers_send_stays_in_order) {
  const int rounds = tern::sim::active() ? 1 : 20, many = tern::sim::active() ? 3 : 40;
  std::vector<tern::mobile_ptr<diary>> diaries;
  std::vector<tern::mobile_ptr<writer>> writers;
  for (int i = 0; i < 32; ++i) diaries.push_back(create<diary>());
  for (int i = 0; i < 32; ++i) writers.push_back(create<writer>());
  for (const auto& w : writers) call<&writer::set>(w, diaries).get();
  for (int round = 0; round < rounds; ++round) {
    std::vector<tern::future<void>> done;
    for (int s = 0; s < senders; ++s) // far from each other, so they belong to different workers
      done.push_back(call<&writer::write_all>(writers[static_cast<std::size_t>(8 * s + round % 8)], s, many));
    for (auto& one : done) one.get();
    for (const auto& d : diaries) {
      tern::wait_until([&] { return call<&diary::counts>(d).get() == std::vector<int>(senders, many); });
      TERN_EXPECT_EQ(call<&diary::errors>(d).get(), 0);
      auto mine = tern::hold(d);
      mine->next.assign(senders, 0);
    }
  }
  for (const auto& one : diaries) tern::destroy(one).get();
  for (const auto& one : writers) tern::destroy(one).get();
}

/// Ends others behind what it has sent to them.
struct executioner {
  void finish(std::vector<tern::mobile_ptr<mortal>> all, int steps) {
    for (const auto& one : all)
      for (int i = 0; i < steps; ++i) send<&mortal::step>(one);
    for (const auto& one : all) tern::destroy(one).get();
  }
};

TERN_RANK_TEST(an_end_comes_behind_what_another_worker_has_sent) {
  std::atomic<int> ran{0};
  const int rounds = tern::sim::active() ? 2 : 50, count = 16, steps = 10;
  std::vector<tern::mobile_ptr<executioner>> by;
  for (int i = 0; i < 16; ++i) by.push_back(create<executioner>());
  for (int round = 0; round < rounds; ++round) {
    std::vector<tern::mobile_ptr<mortal>> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(create<mortal>());
      call<&mortal::set>(all.back(), reinterpret_cast<std::uint64_t>(&ran)).get();
    }
    call<&executioner::finish>(by[static_cast<std::size_t>(round % 16)], all, steps).get();
    TERN_EXPECT_EQ(ran.load(), (round + 1) * count * steps);
  }
  for (const auto& one : by) tern::destroy(one).get();
}

TERN_RANK_TEST(a_flood_is_delivered) {
  const int n = tern::sim::active() ? 500 : 40000;
  const auto d = create<diary>();
  for (int i = 0; i < n; ++i) send<&diary::note>(d, 0, i);
  TERN_EXPECT_EQ(call<&diary::counts>(d).get()[0], n);
  TERN_EXPECT_EQ(call<&diary::errors>(d).get(), 0);
  tern::destroy(d).get();
}

} // namespace mail_test

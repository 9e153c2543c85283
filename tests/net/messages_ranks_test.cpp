// SPDX-License-Identifier: Apache-2.0
// Messages on their way: arrays of every size and origin, more messages than there is space for,
// handlers that keep what they were given.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/fiber/sanitizer.hpp>
#include <tern/task/future.hpp>
#include <tern/task/parallel_for.hpp>
#include <tern/task/semaphore.hpp>
#include <tern/task/sim.hpp>

#include "rank_test.hpp"
#include "support/messages.hpp"

namespace messages_test {

// Handlers that keep and that block
// -------------------------------------------------------------------------------------

struct keeper {
  std::mutex lock; // blocks the worker, so no other fiber there overtakes
  std::vector<std::pair<std::uint64_t, buffer<double>>> kept;
  tern::semaphore opened{0};
  std::atomic<int> looked{0}, bumps{0};
  std::atomic<std::int64_t> most_resident{0};
};
const tern::rank_local<keeper> mine;

void keep(std::uint64_t salt, int hops, buffer<double> b) {
  if (hops > 0) return send<&keep>(next_rank(), salt, hops - 1, std::move(b));
  keeper& k = *mine;
  std::lock_guard hold(k.lock);
  k.kept.emplace_back(salt, std::move(b));
}
void bump(const std::vector<char>&) { ++mine->bumps; }
TERN_RANK_TEST(handlers_keep_buffers) {
  const int n = some(400);
  for (int i = 0; i < n; ++i) {
    const auto salt = static_cast<std::uint64_t>(i);
    send<&keep>(next_rank(), salt, i % 3, buffer<double>(made<double>(salt, static_cast<std::size_t>(i * 97 % 5000))));
    send<&bump>(next_rank(), std::vector<char>(static_cast<std::size_t>(i * 131 % 6000)));
  }
  tern::quiesce();
  keeper& k = *mine;
  TERN_EXPECT_EQ(k.kept.size(), static_cast<std::size_t>(n));
  TERN_EXPECT_EQ(k.bumps.exchange(0), n);
  for (const auto& [salt, b] : k.kept)
    TERN_EXPECT_EQ(look<double>(salt, std::span<const double>(b)), static_cast<std::int64_t>(salt * 97 % 5000));
  k.kept.clear();
  tern::barrier();
}

void look_when_open(std::uint64_t salt, std::span<const double> v) {
  mine->opened.acquire();
  TERN_EXPECT_EQ(look<double>(salt, v), static_cast<std::int64_t>(salt * 53 % 4000));
  ++mine->looked;
}
int bumps() { return mine->bumps; }
void open(int n) { mine->opened.release(n); }
TERN_RANK_TEST(what_a_blocked_handler_sees_stays) {
  const int blocked = some(300), others = some(6000);
  tern::barrier();
  for (int i = 0; i < blocked; ++i) {
    const auto salt = static_cast<std::uint64_t>(i);
    send<&look_when_open>(next_rank(), salt, made<double>(salt, static_cast<std::size_t>(i * 53 % 4000)));
  }
  for (int i = 0; i < others; ++i) send<&bump>(next_rank(), std::vector<char>(static_cast<std::size_t>(i % 900)));
  while (call<&bumps>(next_rank()).get() < others) tern::this_fiber::yield();
  send<&open>(next_rank(), blocked);
  tern::quiesce();
  TERN_EXPECT_EQ(mine->looked.exchange(0), blocked);
  TERN_EXPECT_EQ(mine->bumps.exchange(0), others);
  tern::barrier();
}

// Order ---------------------------------------------------------------------------------------------------------------

struct ledger {
  std::mutex lock;
  std::map<std::pair<int, int>, std::vector<int>> arrived; // by sender and its fiber
};
const tern::rank_local<ledger> book;
void note(int from, int fiber, int number) {
  ledger& all = *book;
  std::lock_guard hold(all.lock);
  all.arrived[{from, fiber}].push_back(number);
}
void note_view(int from, int fiber, int number, std::span<const double> v) {
  note(from, fiber, number);
  TERN_EXPECT_EQ(look<double>(static_cast<std::uint64_t>(number), v), static_cast<std::int64_t>(v.size()));
}
void note_buffer(int from, int fiber, int number, buffer<double> b) {
  note_view(from, fiber, number, std::span<const double>(b));
}
void note_text(int from, int fiber, int number, const std::string&) { note(from, fiber, number); }

TERN_RANK_TEST(messages_of_all_kinds_keep_their_order) {
  constexpr int fibers = 3;
  const int n = some(3000);
  book->lock.lock(); // its first use may suspend, and let others overtake
  book->lock.unlock();
  tern::barrier();
  const auto sender = [n](int fiber) {
    for (int i = 0; i < n; ++i)
      for (const int to : destinations()) {
        const auto salt = static_cast<std::uint64_t>(i);
        const std::size_t some_of_them = static_cast<std::size_t>(i) * 7 % 300, many = 2100 + some_of_them;
        switch ((i * 13 + fiber) % 16) {
        case 0:
          send<&note_buffer>(to, rank(), fiber, i, made<double>(salt, many));
          break;
        case 1:
          send<&note_view>(to, rank(), fiber, i, made<double>(salt, some_of_them));
          break;
        case 2:
          send<&note_text>(to, rank(), fiber, i, std::string(10'000, 'x'));
          break;
        case 3:
          send<&note_text>(to, rank(), fiber, i, std::string(700, 'x'));
          break;
        case 4:
          if (i % 8 == 0) {
            const auto v = made<double>(salt, many);
            send<&note_view>(to, rank(), fiber, i, lend(v));
            break;
          }
          [[fallthrough]];
        default:
          send<&note>(to, rank(), fiber, i);
        }
      }
  };
  std::vector<tern::future<void>> all;
  for (int f = 1; f < fibers; ++f) all.push_back(tern::async([&sender, f] { sender(f); }));
  sender(0);
  for (auto& f : all) f.get();
  tern::quiesce();
  TERN_EXPECT_EQ(book->arrived.size(), destinations().size() * fibers);
  std::vector<int> expected;
  for (int i = 0; i < n; ++i) expected.push_back(i);
  for (auto& [who, numbers] : book->arrived) {
    // With several workers handlers start in order too, but one may overtake another before it
    // takes the lock.
    if (!starts_are_seen()) std::sort(numbers.begin(), numbers.end());
    TERN_EXPECT(numbers == expected);
  }
  book->arrived.clear();
  tern::barrier();
}

// More than fits ------------------------------------------------------------------------------------------------------

std::int64_t resident_bytes() {
  const tern::sim::outside_world reads;
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}
// \param steps so many that it is quick, for a scheduler, or that it is not.
void bump_slowly(int steps, const std::vector<char>&) {
  tern::sim::charge(1e-9 * steps);
  for (std::atomic<int> i = 0; i < steps; ++i) {
  }
  keeper& k = *mine;
  if (++k.bumps % 1000 == 0 && !simulated()) k.most_resident = std::max(k.most_resident.load(), resident_bytes());
}
void overwhelm(int steps, int n, std::size_t bytes) {
  const int to = size() - 1;
  keeper& k = *mine;
  const std::int64_t before = k.most_resident = resident_bytes();
  tern::barrier();
  if (rank() == 0) {
    const std::vector<char> load(bytes);
    for (int i = 0; i < n; ++i) {
      send<&bump_slowly>(to, steps, load);
      if (i % 1000 == 0 && !simulated() && to != 0)
        k.most_resident = std::max(k.most_resident.load(), resident_bytes());
    }
  }
  tern::quiesce();
  if (!simulated() && !sanitized) TERN_EXPECT(k.most_resident - before < (96 << 20));
  TERN_EXPECT_EQ(k.bumps.exchange(0), rank() == to ? n : 0);
  tern::barrier();
}
TERN_RANK_TEST(a_fast_sender_fills_nobodys_memory) {
  overwhelm(150, some(150'000), 1000); // 150 MB; a few thousand messages are kept anywhere
  overwhelm(1000, some(40'000), 3900);
}

int plus_one(int x) { return x + 1; }
int ask_back(int from, int x) { return call<&plus_one>(from, x).get() + 1; }
TERN_RANK_TEST(storm_of_calls) {
  const int each = std::max(1, some(2000) / size());
  const auto caller = [each](int salt) {
    std::vector<std::pair<int, tern::future<int>>> open;
    for (int i = 0; i < each; ++i)
      for (int r = 0; r < size(); ++r) {
        const int x = salt * 1'000'000 + i;
        open.emplace_back(x + 1, call<&plus_one>(r, x));
        if (i % 4 == 0) open.emplace_back(x + 2, call<&ask_back>(r, rank(), x));
      }
    for (auto& [expected, answer] : open) TERN_EXPECT_EQ(answer.get(), expected);
  };
  std::vector<tern::future<void>> fibers;
  for (int f = 1; f < 4; ++f) fibers.push_back(tern::async([&caller, f] { caller(f); }));
  caller(0);
  for (auto& f : fibers) f.get();
}

void again(int left) {
  ++mine->bumps;
  if (left > 0) send<&again>(rank(), left - 1);
}
void burst(int to, int n, int bytes) {
  for (int i = 0; i < n; ++i) send<&bump>(to, std::vector<char>(static_cast<std::size_t>(bytes)));
}
TERN_RANK_TEST(handlers_send_more_than_fits_to_themselves_and_to_all) {
  const int n = some(20'000), to_each = std::max(1, some(10'000) / size());
  tern::barrier();
  send<&again>(rank(), n - 1);
  send<&burst>(rank(), rank(), n, 8);
  send<&burst>(rank(), rank(), n / 4, 3000);
  burst(rank(), n, 100); // no handler
  for (int r = 0; r < size(); ++r) {
    send<&burst>(r, next_rank(), to_each, 50);
    send<&burst>(next_rank(), r, to_each / 4, 2000);
  }
  tern::quiesce();
  const int all = tern::allreduce(mine->bumps.exchange(0), std::plus<>());
  TERN_EXPECT_EQ(all, size() * (3 * n + n / 4 + size() * (to_each + to_each / 4)));
}

TERN_RANK_TEST(tasklets_send) {
  const int n = some(10'000);
  tern::barrier();
  tern::parallel_for(0, n,
                     [](int i) { send<&bump>(next_rank(), std::vector<char>(static_cast<std::size_t>(i % 700))); });
  tern::quiesce();
  TERN_EXPECT_EQ(mine->bumps.exchange(0), n);
  tern::barrier();
}

// What a handler is
// -----------------------------------------------------------------------------------------------------

const tern::fiber_local<int> visits;
struct self {
  std::uint64_t id = 0;
  int visits = 0;
  std::string name;
  template <class A> void serialize(A& ar) { ar(id, visits, name); }
};
self tell() {
  self s{tern::this_fiber::id(), ++*visits, tern::this_fiber::name()};
  tern::this_fiber::set_name("somebody else");
  return s;
}
self tell_late() {
  const std::uint64_t before = tern::this_fiber::id();
  ++*visits;
  tern::this_fiber::yield();
  TERN_EXPECT_EQ(tern::this_fiber::id(), before);
  return {before, *visits, tern::this_fiber::name()};
}
TERN_RANK_TEST(each_handler_is_a_fiber_of_its_own) {
  for (const int to : destinations()) {
    std::set<std::uint64_t> ids{0};
    if (to == rank()) ids.insert(tern::this_fiber::id());
    std::vector<std::pair<std::string, tern::future<self>>> open;
    const int n = some(1000);
    for (int i = 0; i < n; ++i) {
      if (i % 3 == 0)
        open.emplace_back("messages_test::tell_late", call<&tell_late>(to));
      else
        open.emplace_back("messages_test::tell", call<&tell>(to));
    }
    for (auto& [name, answer] : open) {
      const self s = answer.get();
      TERN_EXPECT_EQ(s.name, name);
      TERN_EXPECT_EQ(s.visits, 1);
      TERN_EXPECT(ids.insert(s.id).second);
    }
  }
}

struct flood_state {
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> drops{0};
};
const tern::rank_local<flood_state> flood;
void drop(const std::array<std::uint64_t, 3>& n) { flood->drops.fetch_add(n[0], std::memory_order_relaxed); }
void dry_up() { flood->over.store(true, std::memory_order_relaxed); }
TERN_RANK_TEST(timers_ring_and_fibers_take_turns_in_a_flood) {
  if (simulated() || size() == 1) return; // a flood takes no virtual time
  if (rank() == 0) {
    for (int i = 0; i < 3; ++i) tern::this_fiber::sleep_for(std::chrono::milliseconds(2));
    for (int i = 0; i < 100; ++i) tern::this_fiber::yield();
    for (int r = 1; r < size(); ++r) send<&dry_up>(r);
  }
  while (rank() != 0 && !flood->over.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 64; ++i) send<&drop>(0, std::array<std::uint64_t, 3>{1});
    tern::this_fiber::yield();
  }
}

TERN_RANK_TEST(threads_and_schedulers_of_ones_own_may_not_send) {
  const auto try_it = [] {
    TERN_EXPECT_ERROR(send<&bump>(0, std::vector<char>()), tern::errc::invalid_state, "from inside tern::run");
    TERN_EXPECT_ERROR(call<&plus_one>(0, 1), tern::errc::invalid_state, "this thread works for no rank");
  };
  const tern::sim::outside_world announced; // waiting for a thread
  std::thread(try_it).join();
  if (!simulated()) // schedulers would be the simulation's
    std::thread([&] {
      tern::scheduler own({.workers = 1});
      own.run(try_it);
    }).join();
}

} // namespace messages_test

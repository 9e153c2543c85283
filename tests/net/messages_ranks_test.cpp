// SPDX-License-Identifier: Apache-2.0
// Messages on their way: arrays of every size and origin, more messages than there is space for, handlers that keep
// what they were given.
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

namespace messages_test {
struct alignas(16) wide {
  double a = 0, b = 0;
  bool operator==(const wide&) const = default;
};
} // namespace messages_test
template <> inline constexpr bool tern::is_bitwise<messages_test::wide> = true;

namespace messages_test {

using tern::buffer;
using tern::call;
using tern::lend;
using tern::rank;
using tern::send;
using tern::size;

using tern::detail::sanitized;

bool simulated() { return tern::sim::active(); }
// Simulations and sanitizers do less; so do many ranks, which share a process or a core.
int some(int plain) {
  const int slow = simulated() || sanitized ? 20 : 1;
  return std::max(3, plain / slow / std::max(1, size() / 4));
}
int next_rank() { return (rank() + 1) % size(); }
std::vector<int> destinations() { return size() == 1 ? std::vector{0} : std::vector{next_rank(), rank()}; }
bool starts_are_seen() { // a handler that has started gets to its first statement before the next one starts
  return simulated() || tern::scheduler::current()->workers() == 1;
}

// What is sent can be told from what is not
// ----------------------------------------------------------------------------

template <class T> T element(std::uint64_t salt, std::size_t i) {
  const std::uint64_t x = (salt + 1) * 7919 + i * 31 + (i >> 8);
  if constexpr (std::is_same_v<T, wide>)
    return {static_cast<double>(x % 65521), static_cast<double>(i)};
  else
    return static_cast<T>(x % 65521);
}
template <class T> std::vector<T> made(std::uint64_t salt, std::size_t n) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = element<T>(salt, i);
  return v;
}
/// \return the number of elements; -1 if one is wrong, -2 if they are not aligned.
template <class T> std::int64_t look(std::uint64_t salt, std::span<const T> v) {
  if (reinterpret_cast<std::uintptr_t>(v.data()) % alignof(T) != 0) return -2; // address: tests its alignment
  for (std::size_t i = 0; i < v.size(); ++i)
    if (v[i] != element<T>(salt, i)) return -1;
  return static_cast<std::int64_t>(v.size());
}
template <class T> std::int64_t take(std::uint64_t salt, buffer<T> b) {
  const std::int64_t n = look<T>(salt, std::span<const T>(b));
  for (T& x : b) x = T(); // it is the handler's own
  return n;
}

// Arrays --------------------------------------------------------------------------------------------------------------

template <class T, auto F> void try_sizes() {
  std::vector<std::size_t> sizes{0,    1,    3 * sizeof(T), 400,  480,  496,  512,   528,   4048,  4064,
                                 4080, 4096, 8144,          8176, 8192, 8208, 16368, 16384, 16400, 65536};
  if (std::is_same_v<T, double>) sizes.push_back(size() > 4 ? 256 << 10 : 3 << 20);
  std::uint64_t salt = static_cast<std::uint64_t>(rank());
  for (const std::size_t bytes : sizes)
    for (const int to : destinations()) {
      const std::size_t n = (bytes + sizeof(T) - 1) / sizeof(T);
      const auto all = static_cast<std::int64_t>(n);
      auto v = made<T>(++salt, n);
      const auto same = v;
      TERN_EXPECT_EQ((call<F>(to, salt, v).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, std::span<const T>(same)).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, lend(v)).get()), all);
      TERN_EXPECT(v == same);
      TERN_EXPECT_EQ((call<F>(to, salt, buffer<T>::copy_of(v)).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, buffer<T>(std::vector<T>(v))).get()), all);
      TERN_EXPECT_EQ((call<F>(to, salt, std::move(v)).get()), all);
    }
}
TERN_RANK_TEST(handlers_see_arrays_of_every_size) {
  try_sizes<double, &look<double>>();
  try_sizes<std::uint8_t, &look<std::uint8_t>>();
  try_sizes<wide, &look<wide>>();
}
TERN_RANK_TEST(handlers_are_given_arrays_of_every_size) {
  try_sizes<double, &take<double>>();
  try_sizes<std::uint16_t, &take<std::uint16_t>>();
  try_sizes<wide, &take<wide>>();
}

template <std::size_t N> void try_array(int to) {
  std::array<double, N> a;
  for (std::size_t i = 0; i < N; ++i) a[i] = element<double>(N, i);
  TERN_EXPECT_EQ(call<&look<double>>(to, N, a).get(), static_cast<std::int64_t>(N));
  TERN_EXPECT_EQ(call<&take<double>>(to, N, a).get(), static_cast<std::int64_t>(N));
  TERN_EXPECT_EQ(call<&look<double>>(to, N, lend(a)).get(), static_cast<std::int64_t>(N));
}
TERN_RANK_TEST(arrays_and_other_elements_are_converted) {
  for (const int to : destinations()) {
    try_array<1>(to);
    try_array<63>(to);
    try_array<1000>(to);
    try_array<3000>(to);
    for (const std::size_t n : {0u, 1u, 50u, 1000u, 5000u}) {
      const auto all = static_cast<std::int64_t>(n);
      const auto floats = made<float>(n, n);
      const auto ints = made<int>(n, n);
      const std::list<int> listed(ints.begin(), ints.end());
      TERN_EXPECT_EQ(call<&look<double>>(to, n, floats).get(), all);
      TERN_EXPECT_EQ(call<&take<double>>(to, n, std::span(ints)).get(), all);
      TERN_EXPECT_EQ(call<&look<double>>(to, n, std::vector<int>(ints)).get(), all);
      TERN_EXPECT_EQ(call<&take<double>>(to, n, listed).get(), all);
    }
  }
}

using words = std::map<int, std::string>;
words many_words(std::size_t bytes) {
  words all;
  for (int i = 0; all.size() * 120 < bytes; ++i) all[i] = std::string(100, static_cast<char>('a' + i % 26));
  return all;
}
std::int64_t look_words(const words& w) {
  for (const auto& [i, text] : w)
    if (text != std::string(100, static_cast<char>('a' + i % 26))) return -1;
  return static_cast<std::int64_t>(w.size());
}
std::int64_t several(std::span<const double> a, const std::string& text, buffer<std::uint8_t> b,
                     std::span<const wide> c, const words& w) {
  const std::int64_t parts[]{look<double>(1, a), static_cast<std::int64_t>(text.size()),
                             look<std::uint8_t>(2, std::span<const std::uint8_t>(b)), look<wide>(3, c), look_words(w)};
  std::int64_t sum = 0;
  for (const std::int64_t p : parts) {
    if (p < 0) return p;
    sum += p;
  }
  return sum;
}
TERN_RANK_TEST(several_arrays_travel_beside_other_arguments) {
  const std::size_t large = size() > 4 ? 60'000 : 200'000;
  for (const int to : destinations())
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{3000}, large}) { // large: the arguments fill no head
      const words w = many_words(bytes);
      for (const auto& [x, y, z] :
           {std::array{0, 0, 0}, std::array{1, 1, 1}, std::array{5, 3, 7}, std::array{100, 77, 30},
            std::array{3000, 5, 5}, std::array{5, 20001, 5}, std::array{3000, 20001, 2000}, std::array{0, 0, 2000},
            std::array{9000, 40000, 0}}) {
        const auto nx = static_cast<std::size_t>(x), ny = static_cast<std::size_t>(y), nz = static_cast<std::size_t>(z);
        const auto a = made<double>(1, nx);
        const auto b = made<std::uint8_t>(2, ny);
        const auto c = made<wide>(3, nz);
        const std::string text(ny % 7, 'x'); // so that what follows stands at odd places
        const auto all = static_cast<std::int64_t>(nx + ny + nz + text.size() + w.size());
        TERN_EXPECT_EQ(call<&several>(to, a, text, b, c, w).get(), all);
        TERN_EXPECT_EQ(call<&several>(to, lend(a), text, lend(b), lend(c), w).get(), all);
        TERN_EXPECT_EQ(call<&several>(to, a, text, buffer<std::uint8_t>::copy_of(b), lend(c), w).get(), all);
        TERN_EXPECT_EQ(call<&several>(to, std::vector(a), text, std::vector(b), std::vector(c), w).get(), all);
      }
    }
}

std::vector<double> large_result(std::uint64_t salt, std::uint64_t n) { return made<double>(salt, n); }
TERN_RANK_TEST(results_may_be_large) {
  for (const int to : destinations())
    for (const std::size_t n : {0u, 60u, 64u, 500u, 512u, 1024u, 2048u, 8192u, size() > 4 ? 20'000u : 400'000u}) {
      const auto answer = call<&large_result>(to, n, n).get();
      TERN_EXPECT_EQ(look<double>(n, answer), static_cast<std::int64_t>(n));
    }
  std::vector<tern::future<std::vector<double>>> open; // together they are more than fits anywhere
  for (int i = 0; i < some(100); ++i) open.push_back(call<&large_result>(next_rank(), i, 5000));
  for (std::size_t i = 0; i < open.size(); ++i) TERN_EXPECT_EQ(look<double>(i, open[i].get()), 5000);
}

// Lending -------------------------------------------------------------------------------------------------------------

std::int64_t look_late(std::uint64_t salt, std::span<const double> v) {
  for (int i = 0; i < 10; ++i) tern::this_fiber::yield();
  return look<double>(salt, v);
}
std::int64_t look_late_with_words(std::uint64_t salt, std::span<const double> v, const words& w) {
  tern::this_fiber::yield();
  return look_words(w) < 0 ? -3 : look<double>(salt, v);
}
TERN_RANK_TEST(lent_memory_is_free_when_send_returns) {
  const words w = many_words(40'000);
  const auto lender = [&w](std::uint64_t salt) {
    for (const std::size_t n : {1u, 100u, 2047u, 2048u, 10'000u, size() > 4 ? 20'000u : 150'000u})
      for (const int to : destinations()) {
        auto v = made<double>(salt, n);
        auto first = call<&look_late>(to, salt, lend(v));
        for (double& x : v) x = -1; // the handler may run still: not with this memory
        TERN_EXPECT_EQ(first.get(), static_cast<std::int64_t>(n));
        v = made<double>(salt, n);
        auto second = call<&look_late_with_words>(to, salt, lend(v), w);
        v = {};
        TERN_EXPECT_EQ(second.get(), static_cast<std::int64_t>(n));
      }
  };
  std::vector<tern::future<void>> fibers;
  for (std::uint64_t f = 1; f < 4; ++f) fibers.push_back(tern::async([&lender, f] { lender(f); }));
  lender(0);
  for (auto& f : fibers) f.get();
}

struct liar { // serializes differently the second time
  mutable int visits = 0;
  template <class A> void serialize(A& ar) {
    ar(visits);
    if (visits++ == 0) ar(visits);
  }
};
int with_liar(std::span<const double>, const liar&) { return 0; }
TERN_RANK_TEST(lent_memory_comes_back_when_sending_fails) {
  const auto v = made<double>(1, 10'000);
  for (int i = 0; i < 3; ++i) {
    TERN_EXPECT_ERROR(call<&with_liar>(0, lend(v), liar{}), tern::errc::invalid_data, "");
    TERN_EXPECT_ERROR(call<&look<double>>(size(), 1, lend(v)), tern::errc::invalid_argument, "there is no rank");
  }
}

// Handlers that keep and that block
// -------------------------------------------------------------------------------------

struct keeper {
  std::mutex lock; // waiting for it lets nobody overtake on the same worker
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
    // With several workers handlers start in order too, but one may overtake another before it takes the lock.
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
  overwhelm(300, some(300'000), 1000); // 300 MB; a few thousand messages are kept anywhere
  overwhelm(5000, some(60'000), 3900);
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

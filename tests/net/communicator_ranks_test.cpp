// SPDX-License-Identifier: Apache-2.0
// Collective operations on communicators: on any number of ranks, on every transport.
#include <tern/net/communicator.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tern/net/buffer.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/remote_promise.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

#include "rank_test.hpp"

namespace communicator_test {

using tern::communicator;
using tern::errc;
using tern::rank;
using tern::size;

std::string letter(int i) { return std::string(static_cast<std::size_t>(1 + i % 3), static_cast<char>('a' + i % 26)); }
std::string letters(int from, int to) {
  std::string all;
  for (int i = from; i < to; ++i) all += letter(i);
  return all;
}

// All operations, with values whose order shows.
void agree(const communicator& c) {
  const int n = c.size(), me = c.rank();
  const auto join = std::plus<std::string>();
  for (int root = 0; root < n; root = 2 * root + 1) {
    TERN_EXPECT_EQ(c.broadcast(me == root ? letters(0, n) : std::string(), root), letters(0, n));
    TERN_EXPECT_EQ(c.broadcast(me == root ? 7 * root : -1, root), 7 * root);
    const std::string top = c.reduce(letter(me), join, root);
    if (me == root) TERN_EXPECT_EQ(top, letters(0, n));
    const auto all = c.gather(letter(me), root);
    TERN_EXPECT_EQ(all.size(), me == root ? static_cast<std::size_t>(n) : 0u);
    for (std::size_t i = 0; i < all.size(); ++i) TERN_EXPECT_EQ(all[i], letter(static_cast<int>(i)));
    std::vector<std::string> parts;
    if (me == root)
      for (int i = 0; i < n; ++i) parts.push_back(letter(i + root));
    TERN_EXPECT_EQ(c.scatter(parts, root), letter(me + root));
  }
  TERN_EXPECT_EQ(c.allreduce(letter(me), join), letters(0, n));
  TERN_EXPECT_EQ(c.allreduce(me + 1, std::plus<>()), n * (n + 1) / 2);
  TERN_EXPECT_EQ(c.scan(letter(me), join), letters(0, me + 1));
  TERN_EXPECT_EQ(c.exscan(letter(me), join, std::string("none")), me == 0 ? "none" : letters(0, me));
  const auto all = c.allgather(me * me);
  for (int i = 0; i < n; ++i) TERN_EXPECT_EQ(all[static_cast<std::size_t>(i)], i * i);
  // Vectors of different lengths, some empty.
  const auto lengths = c.allgather(std::vector<int>(static_cast<std::size_t>(me % 3), me));
  for (int i = 0; i < n; ++i)
    TERN_EXPECT(lengths[static_cast<std::size_t>(i)] == std::vector<int>(static_cast<std::size_t>(i % 3), i));
  std::vector<std::pair<int, int>> mail;
  for (int i = 0; i < n; ++i) mail.emplace_back(me, i);
  mail = c.alltoall(mail);
  for (int i = 0; i < n; ++i) TERN_EXPECT(mail[static_cast<std::size_t>(i)] == std::pair(i, me));
  c.barrier();
}

TERN_RANK_TEST(the_world_agrees) {
  agree(communicator::world());
  TERN_EXPECT_EQ(communicator::world().size(), size());
  TERN_EXPECT_EQ(communicator::world().rank(), rank());
  TERN_EXPECT(communicator::world().name().empty());
}

TERN_RANK_TEST(large_values_travel) {
  const communicator c = communicator::world();
  const std::size_t n = size() > 4 ? 3'000 : 300'000;
  std::vector<double> mine(n);
  std::iota(mine.begin(), mine.end(), rank());
  const auto add = [](std::vector<double> a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  };
  const auto sum = c.allreduce(mine, add);
  for (std::size_t i = 0; i < n; i += 997)
    TERN_EXPECT_EQ(sum[i], static_cast<double>(i) * size() + size() * (size() - 1) / 2.0);
  const auto last = c.broadcast(mine, size() - 1);
  TERN_EXPECT_EQ(last[n - 1], static_cast<double>(n - 1) + size() - 1);
}

// Small ones, large ones and none, told apart by their elements.
template <class T> T array_of(int who, int size_class) {
  constexpr std::size_t sizes[] = {0, 3, 700, 9'000, 100'000};
  const std::size_t n = sizes[static_cast<std::size_t>(size_class) % (size() > 4 ? 4 : 5)];
  std::vector<double> elements(n);
  std::iota(elements.begin(), elements.end(), 1000.0 * who);
  return T(std::move(elements));
}
template <class T> bool same(const T& a, int who, int size_class) {
  const T b = array_of<T>(who, size_class);
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

template <class T> void arrays_travel_as_they_are() {
  const communicator c = communicator::world();
  const int n = c.size(), me = c.rank();
  for (int round = 0; round < 5; ++round) {
    const int root = round % n;
    TERN_EXPECT(same(c.broadcast(array_of<T>(me, me == root ? round : 1), root), root, round));
    const auto all = c.allgather(array_of<T>(me, me + round));
    const auto gathered = c.gather(array_of<T>(me, me + round), root);
    TERN_EXPECT_EQ(gathered.size(), me == root ? static_cast<std::size_t>(n) : 0u);
    for (int i = 0; i < n; ++i) {
      TERN_EXPECT(same(all[static_cast<std::size_t>(i)], i, i + round));
      if (me == root) TERN_EXPECT(same(gathered[static_cast<std::size_t>(i)], i, i + round));
    }
    std::vector<T> parts;
    for (int i = 0; i < n; ++i) parts.push_back(array_of<T>(me, me + i + round));
    const auto got = c.alltoall(std::move(parts));
    for (int i = 0; i < n; ++i) TERN_EXPECT(same(got[static_cast<std::size_t>(i)], i, i + me + round));
    parts.clear();
    for (int i = 0; me == root && i < n; ++i) parts.push_back(array_of<T>(i, i + round));
    TERN_EXPECT(same(c.scatter(std::move(parts), root), me, me + round));
  }
}
TERN_RANK_TEST(vectors_travel_as_they_are) { arrays_travel_as_they_are<std::vector<double>>(); }
TERN_RANK_TEST(buffers_travel_as_they_are) { arrays_travel_as_they_are<tern::buffer<double>>(); }

// Bytes at the edges of the ways that an array may take, again and again: under MPI it may take
// another one each time.
template <class T> T bytes_of(int who, int to, int round, std::size_t n) {
  std::vector<std::uint8_t> elements(n);
  const std::array told{static_cast<std::size_t>(who), static_cast<std::size_t>(to), static_cast<std::size_t>(round)};
  for (std::size_t i = 0; i < n; ++i) elements[i] = static_cast<std::uint8_t>(told[i % 3] + i / 3 + i / 256);
  return T(std::move(elements));
}
template <class T> void arrays_of_odd_sizes_travel() {
  const communicator c = communicator::world();
  const int n = c.size(), me = c.rank();
  constexpr std::size_t kib = 1024;
  std::vector<std::size_t> sizes{0,        1,        8 * kib - 1,  8 * kib,  16 * kib - 1,
                                 16 * kib, 32 * kib, 64 * kib - 1, 64 * kib, 64 * kib + 1};
  if (n <= 4) sizes.push_back(1024 * kib + 3);
  if (n > 16) sizes = {0, 16 * kib - 1, 64 * kib + 1}; // simulated: one of each way of the algorithms
  const auto is = [](const T& found, int who, int to, int round, std::size_t bytes) {
    const T wanted = bytes_of<T>(who, to, round, bytes);
    return std::equal(found.begin(), found.end(), wanted.begin(), wanted.end());
  };
  for (const std::size_t bytes : sizes) {
    const int rounds = n > 4 || bytes > 64 * kib + 1 ? 1 : 12;
    for (int round = 0; round < rounds; ++round) {
      const auto all = c.allgather(bytes_of<T>(me, 0, round, bytes));
      std::vector<T> parts;
      for (int to = 0; to < n; ++to) parts.push_back(bytes_of<T>(me, to, round, bytes));
      const auto copied = c.alltoall(std::as_const(parts));
      TERN_EXPECT(is(parts[0], me, 0, round, bytes));
      const auto given = c.alltoall(std::move(parts));
      TERN_EXPECT_EQ(copied.size(), static_cast<std::size_t>(n));
      for (int i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        TERN_EXPECT(is(all[at], i, 0, round, bytes));
        TERN_EXPECT(is(copied[at], i, me, round, bytes));
        TERN_EXPECT(is(given[at], i, me, round, bytes));
      }
      const int root = round % n;
      TERN_EXPECT(is(c.broadcast(bytes_of<T>(me, 1, round, me == root ? bytes : 5), root), root, 1, round, bytes));
    }
  }
}
TERN_RANK_TEST(vectors_of_odd_sizes_travel) { arrays_of_odd_sizes_travel<std::vector<std::uint8_t>>(); }
TERN_RANK_TEST(buffers_of_odd_sizes_travel) { arrays_of_odd_sizes_travel<tern::buffer<std::uint8_t>>(); }

// A root need not wait until the others come.
const tern::rank_local<tern::promise<void>> told;
TERN_RANK_TEST(a_large_broadcast_does_not_wait_for_others) {
  const communicator c = communicator::world();
  if (rank() == 0) {
    static_cast<void>(c.broadcast(std::vector<double>(50'000, 1.0)));
    for (int i = 1; i < size(); ++i) tern::send<[] { told->set_value(); }>(i);
  } else {
    told->get_future().get();
    TERN_EXPECT_EQ(c.broadcast(std::vector<double>())[49'999], 1.0);
  }
}

TERN_RANK_TEST(ranks_split_by_colour_and_key) {
  const communicator world = communicator::world();
  const communicator odd = world.split(rank() % 2);
  TERN_EXPECT_EQ(odd.size(), (size() + 1 - rank() % 2) / 2);
  TERN_EXPECT_EQ(odd.rank(), rank() / 2);
  TERN_EXPECT_EQ(odd.job_rank(odd.rank()), rank());
  TERN_EXPECT_EQ(odd.name(), rank() % 2 ? "world/1" : "world/0");
  agree(odd);
  const communicator back = world.split(5, -rank(), "backwards");
  TERN_EXPECT_EQ(back.rank(), size() - 1 - rank());
  TERN_EXPECT_EQ(back.name(), "backwards");
  agree(back);
  agree(back.split(back.rank() / 3)); // of a part, and it ends at once
  const communicator none = world.split(rank() == 0 ? std::nullopt : std::optional(1));
  TERN_EXPECT_EQ(none.valid(), rank() != 0);
  if (none.valid()) agree(none);
  if (!none.valid()) TERN_EXPECT_ERROR(none.barrier(), errc::invalid_state, "has no ranks");
}

// Each fiber's operations follow each other, in whatever order fibers run.
TERN_RANK_TEST(fibers_have_communicators_of_their_own) {
  const int fibers = size() > 8 ? 5 : 20;
  const communicator world = communicator::world();
  std::vector<communicator> copies;
  for (int f = 0; f < fibers; ++f) copies.push_back(world.duplicate());
  std::vector<tern::future<void>> all;
  for (int i = 0; i < fibers; ++i) {
    const int f = rank() % 2 ? fibers - 1 - i : i; // begun in different orders
    all.push_back(tern::async([c = copies[static_cast<std::size_t>(f)], f] {
      for (int k = 0; k < 5; ++k) {
        TERN_EXPECT_EQ(c.allreduce(f * 100 + k, std::plus<>()), size() * (f * 100 + k));
        if ((f + k + rank()) % 3 == 0) tern::this_fiber::yield();
      }
    }));
    all.push_back(tern::async([world, f] {
      const communicator c = world.named("fiber " + std::to_string(f));
      for (int k = 0; k < 5; ++k) TERN_EXPECT_EQ(c.broadcast(rank() == k % size() ? f : -1, k % size()), f);
    }));
  }
  agree(world); // meanwhile
  for (auto& f : all) f.get();
  TERN_EXPECT_EQ(world.named("fiber 0").name(), "fiber 0");
}

TERN_RANK_TEST(handlers_go_on_while_a_rank_waits) {
  if (rank() == 0) TERN_EXPECT_EQ((tern::call<[](int x) { return x + 1; }>(size() - 1, 41).get()), 42);
  communicator::world().barrier(); // where the last rank is
}

TERN_RANK_TEST(parts_by_host_have_leaders) {
  const auto world = communicator::world();
  const auto host = world.split(tern::locality::host, "host"), numa = world.split(tern::locality::numa, "numa");
  auto& wire = tern::net::node::here().wire();
  TERN_EXPECT_EQ(host.size(), wire.host_size());
  TERN_EXPECT_EQ(host.rank(), wire.host_rank());
  TERN_EXPECT_EQ(host.name(), "host");
  TERN_EXPECT(numa.size() <= host.size());
  const auto chiefs = world.leaders(host, "chiefs");
  TERN_EXPECT_EQ(chiefs.valid(), host.rank() == 0);
  // What each host's ranks have, by way of their first.
  int sum = host.reduce(1, std::plus<>());
  if (chiefs.valid()) sum = chiefs.allreduce(sum, std::plus<>());
  TERN_EXPECT_EQ(host.broadcast(sum), size());
  TERN_EXPECT_ERROR(static_cast<void>(world.leaders(communicator())), errc::invalid_state, "has no ranks");
}

TERN_RANK_TEST(two_fibers_at_once_are_told) {
  if (size() == 1) return; // nothing waits
  const communicator c = communicator::world().duplicate("shared");
  if (rank() == 0) {
    auto one = tern::async([&] { c.barrier(); }), other = tern::async([&] { c.barrier(); });
    while (!one.ready() && !other.ready()) tern::this_fiber::yield(); // the fiber that comes second
    if (other.ready()) std::swap(one, other);
    TERN_EXPECT_ERROR(one.get(), errc::invalid_state, "duplicate(), or named(");
    tern::barrier();
    other.get();
  } else {
    tern::barrier();
    c.barrier();
  }
}

// All ranks would get the same bytes, and with them the same share.
TERN_RANK_TEST(remote_promises_are_refused) {
  const communicator alone = communicator::world().split(rank()); // so that no rank waits for one that fails
  tern::remote_promise<int> p;
  const auto unset = p.get_future();
  TERN_EXPECT_ERROR(static_cast<void>(alone.broadcast(std::move(p))), errc::unsupported, "to many ranks at once");
}

TERN_RANK_TEST(bad_use_is_told) {
  const communicator c = communicator::world();
  TERN_EXPECT_ERROR(static_cast<void>(c.broadcast(1, size())), errc::invalid_argument, "there is no rank");
  TERN_EXPECT_ERROR(static_cast<void>(c.gather(1, -2)), errc::invalid_argument, "there is no rank -2");
  TERN_EXPECT_ERROR(static_cast<void>(c.broadcast(1, -1)), errc::invalid_argument, "there is no rank -1");
  TERN_EXPECT_ERROR(static_cast<void>(c.job_rank(size())), errc::invalid_argument, "in a communicator of");
  TERN_EXPECT_ERROR(static_cast<void>(c.alltoall(std::vector<int>(static_cast<std::size_t>(size()) + 1))),
                    errc::invalid_argument, "values for");
  TERN_EXPECT_ERROR(static_cast<void>(communicator().allreduce(1, std::plus<>())), errc::invalid_state, "has no ranks");
  c.barrier();
}

} // namespace communicator_test

// SPDX-License-Identifier: Apache-2.0
// Large arrays that stay where they are, in the program tern_messages_ranks_test: who may write to
// them and when, and what happens to those that are kept.
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "rank_test.hpp"
#include "support/messages.hpp"

namespace messages_test {
namespace {

constexpr std::size_t elements = 8192; // 64 KiB
constexpr std::size_t window = 12;     // buffers that a rank keeps

template <class Buffer> struct kept_buffer {
  Buffer data;
  std::uint64_t salt;
};
/// What a rank has got and still has. Handlers may run on several workers.
template <class Buffer> struct keeper {
  std::mutex lock;
  std::deque<kept_buffer<Buffer>> all;
  std::int64_t wrong = 0;

  void keep(Buffer data, std::uint64_t salt, std::size_t most) {
    std::lock_guard hold(lock);
    all.push_back({std::move(data), salt});
    while (all.size() > most) {
      check(all.front());
      all.pop_front();
    }
  }
  void check(const kept_buffer<Buffer>& one) {
    const std::span<const double> seen(one.data);
    if (look<double>(one.salt, seen) != static_cast<std::int64_t>(seen.size())) ++wrong;
  }
  std::int64_t drop_all() {
    std::lock_guard hold(lock);
    for (const auto& one : all) check(one);
    all.clear();
    return std::exchange(wrong, 0);
  }
};
tern::rank_local<keeper<buffer<double>>> owned;
tern::rank_local<keeper<shared_buffer<double>>> shared_ones;

buffer<double> filled(std::uint64_t salt, std::size_t n) {
  buffer<double> b(n);
  for (std::size_t i = 0; i < n; ++i) b[i] = element<double>(salt, i);
  return b;
}

void keep_owned(std::uint64_t salt, buffer<double> b) {
  if (look<double>(salt, std::span<const double>(b)) != static_cast<std::int64_t>(b.size())) {
    std::lock_guard hold(owned->lock);
    ++owned->wrong;
  }
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = element<double>(salt + 1'000'000, i); // it is ours
  owned->keep(std::move(b), salt + 1'000'000, window);
}
void keep_shared(std::uint64_t salt, shared_buffer<double> b) { shared_ones->keep(std::move(b), salt, window); }
void keep_every(std::uint64_t salt, buffer<double> b) { owned->keep(std::move(b), salt, 100'000); }
std::int64_t drop_owned() { return owned->drop_all(); }
std::int64_t drop_shared() { return shared_ones->drop_all(); }

TERN_RANK_TEST(buffers_that_are_moved_belong_to_whoever_has_them) {
  for (int i = 0; i < some(400); ++i) {
    const auto salt = static_cast<std::uint64_t>(rank() * 10'000 + i);
    send<&keep_owned>(next_rank(), salt, filled(salt, elements / 4 + static_cast<std::size_t>(i * 61) % elements));
  }
  tern::quiesce();
  TERN_EXPECT_EQ(call<&drop_owned>(next_rank()).get(), 0);
}

TERN_RANK_TEST(shared_buffers_stay_as_they_are_while_any_rank_keeps_them) {
  for (int i = 0; i < some(300); ++i) {
    const auto salt = static_cast<std::uint64_t>(rank() * 10'000 + i);
    const shared_buffer one(filled(salt, elements));
    for (int to = 0; to < size(); ++to) send<&keep_shared>(to, salt, one);
    if (i % 16 == 0) send<&keep_shared>(next_rank(), salt, shared_buffer(one));
  }
  tern::quiesce();
  for (int to = 0; to < size(); ++to) TERN_EXPECT_EQ(call<&drop_shared>(to).get(), 0);
  tern::quiesce();
}

void pass_on(std::uint64_t salt, int hops, buffer<double> b) {
  if (hops == 0) return keep_every(salt, std::move(b));
  send<&pass_on>(next_rank(), salt, hops - 1, std::move(b));
}
TERN_RANK_TEST(buffers_go_from_rank_to_rank) {
  for (int i = 0; i < some(40); ++i) {
    const auto salt = static_cast<std::uint64_t>(rank() * 10'000 + i);
    send<&pass_on>(next_rank(), salt, 3 + i % 3, filled(salt, elements));
  }
  tern::quiesce();
  TERN_EXPECT_EQ(drop_owned(), 0);
  tern::quiesce();
}

std::int64_t look_at_span(std::uint64_t salt, std::span<const double> v) { return look<double>(salt, v); }
TERN_RANK_TEST(packed_messages_of_any_size_arrive) {
  for (const int to : destinations())
    for (const std::size_t n : {3000u, 10'000u, 100'000u}) {
      const auto v = made<double>(n, n); // copied into the message
      for (int i = 0; i < 5; ++i) TERN_EXPECT_EQ(call<&look_at_span>(to, n, v).get(), static_cast<std::int64_t>(n));
    }
}

// More than there is of memory that ranks share: what lacks is copied.
TERN_RANK_TEST(a_rank_that_keeps_everything_gets_everything) {
  const bool little = simulated() || sanitized || size() > 2;
  const std::size_t n = little ? 4096 : 131'072; // 1 MiB
  const int messages = little ? 20 : 300;
  for (int i = 0; i < messages; ++i) {
    const auto salt = static_cast<std::uint64_t>(i);
    if (rank() == 0) send<&keep_every>(size() - 1, salt, filled(salt, n));
  }
  tern::quiesce();
  if (rank() == 0) TERN_EXPECT_EQ(call<&drop_owned>(size() - 1).get(), 0);
  for (int i = 0; i < 10; ++i)
    if (rank() == 0) send<&keep_every>(size() - 1, 1, filled(1, n));
  tern::quiesce();
  if (rank() == 0) TERN_EXPECT_EQ(call<&drop_owned>(size() - 1).get(), 0);
}

// The end of a job waits for no buffer, whatever rank ends first.
TERN_RANK_TEST(what_is_kept_at_the_end_keeps_no_rank) {
  for (int i = 0; i < 5; ++i) {
    const auto salt = static_cast<std::uint64_t>(rank() + i);
    const shared_buffer one(filled(salt, elements));
    send<&keep_shared>(next_rank(), salt, one);
    send<&keep_every>(next_rank(), salt, filled(salt, elements));
    shared_ones->keep(one, salt, window);
  }
  tern::quiesce();
  std::lock_guard hold(owned->lock);
  TERN_EXPECT_EQ(owned->all.size(), 5u);
}

} // namespace
} // namespace messages_test

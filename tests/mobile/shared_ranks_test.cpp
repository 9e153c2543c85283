// SPDX-License-Identifier: Apache-2.0
// Arrays that several objects keep.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <unistd.h>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "rank_test.hpp"

namespace shared_test {

using tern::call;
using tern::mobile_ptr;
using tern::rank;
using tern::send;
using tern::shared_buffer;
using tern::size;

/// Keeps what it is given, until it is given something else.
class reader {
public:
  template <class A> void serialize(A& ar) {
    ar(block_);
    if constexpr (A::is_loading) packed_ = true;
  }
  void keep(shared_buffer<double> block) {
    block_ = std::move(block);
    packed_ = false;
  }
  void pass_on(mobile_ptr<reader> to) const { call<&reader::keep>(to, block_).get(); }
  std::pair<double, std::size_t> sum() const {
    return {std::accumulate(block_.begin(), block_.end(), 0.0), block_.size()};
  }
  /// Where its elements lie; 0 if an archive has held them since it got them, which copies them.
  std::uint64_t place() const {
    return packed_ ? 0 : reinterpret_cast<std::uintptr_t>(block_.data()); // address: readers are compared
  }
  int process() const { return getpid(); }
  long shares() const { return packed_ ? 1 : block_.use_count(); }

private:
  shared_buffer<double> block_;
  bool packed_ = false;
};

constexpr std::size_t elements = 8192; // 64 KiB
std::vector<double> counted(double first) {
  std::vector<double> v(elements);
  for (double& x : v) x = first++;
  return v;
}
double sum_of(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

bool has(mobile_ptr<reader> one, double sum) { return call<&reader::sum>(one).get() == std::pair(sum, elements); }

TERN_RANK_TEST(readers_of_one_rank_share_the_memory) {
  std::vector<mobile_ptr<reader>> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(tern::create<reader>());
  auto made = counted(rank());
  const double expected = sum_of(made);
  const auto where = reinterpret_cast<std::uintptr_t>(made.data()); // address: compared, as below
  {
    const shared_buffer shared(std::move(made));
    for (const auto one : readers) send<&reader::keep>(one, shared);
    for (const auto one : readers) TERN_EXPECT(has(one, expected));
    for (const auto one : readers) {
      const std::uint64_t there = call<&reader::place>(one).get();
      TERN_EXPECT(there == where || there == 0);
    }
  }
  // Any of them sends its share on, and may end before the one that receives it.
  const auto last = tern::create<reader>();
  call<&reader::pass_on>(readers[0], last).get();
  TERN_EXPECT(has(last, expected));
  const std::uint64_t first = call<&reader::place>(readers[0]).get(), there = call<&reader::place>(last).get();
  TERN_EXPECT(there == first || there == 0 || first == 0);
  for (const auto one : readers) tern::destroy(one).get();
  while (call<&reader::shares>(last).get() != 1) tern::this_fiber::yield(); // until the messages' are gone too
  TERN_EXPECT(has(last, expected));
}

TERN_RANK_TEST(readers_of_all_ranks_have_the_elements) {
  const shared_buffer shared(counted(100.0 * rank()));
  const double expected = sum_of(counted(100.0 * rank()));
  std::vector<mobile_ptr<reader>> readers;
  for (int i = 0; i < 2 * std::min(size(), 4); ++i)
    readers.push_back(tern::create_on<reader>((rank() + i) % size()).get());
  for (const auto one : readers) send<&reader::keep>(one, shared);
  for (const auto one : readers) TERN_EXPECT(has(one, expected));
  const auto where = reinterpret_cast<std::uintptr_t>(shared.data()); // address: compared, as above
  for (const auto one : readers) {
    const std::uint64_t there = call<&reader::place>(one).get();
    TERN_EXPECT(there == where || there == 0 || call<&reader::process>(one).get() != getpid());
  }
  for (const auto one : readers) tern::migrate(one, (rank() + 1) % size()).get();
  for (const auto one : readers) TERN_EXPECT(has(one, expected));
  for (const auto one : readers) call<&reader::keep>(one, shared_buffer<double>()).get();
  while (shared.use_count() != 1) tern::this_fiber::yield(); // until the messages' are gone too
}

} // namespace shared_test

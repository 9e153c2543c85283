// SPDX-License-Identifier: Apache-2.0
// Invocations that only count their inputs down do not wait for a worker; and a policy that brings
// no gain stands aside, until the load changes.
#include <tern/balance/balance.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tern/balance/policy.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/node.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber/sanitizer.hpp>

#include "rank_test.hpp"
#include "tests/balance/support/ranks.hpp"

namespace balance_test {

using namespace std::chrono_literals;
using namespace tern::balance;
using tern::rank;
using tern::size;

bool simulated() { return tern::net::node::here().simulated(); }

// What waits ----------------------------------------------------------------------------------------------------------

struct waited {
  std::atomic<int> offers{0};
};
const tern::rank_local<waited> here_waited;

class counting_offers : public policy {
public:
  counting_offers(policy_context& h, parameters&) : policy(h) {}
  bool push(int, const ready_object&) override {
    ++here_waited->offers;
    return false;
  }
};
const registered_policy<counting_offers> the_counting("test-count-offers", "counts the objects that wait");

constexpr int inputs = 5;

/// Computes when all its inputs have come.
struct countdown {
  int left = inputs, done = 0;
  template <class A> void serialize(A& ar) { ar(left, done); }
  void input() {
    if (--left > 0) return;
    left = inputs;
    compute(40us);
    ++done;
  }
  int steps() const { return done; }
};

TERN_RANK_TEST(inputs_that_only_count_down_do_not_wait) {
  if (rank() == 0) use("test-count-offers").get();
  tern::barrier();
  constexpr int objects = 4, warm = 30, steps = 60;
  std::vector<tern::mobile_ptr<countdown>> mine;
  for (int i = 0; i < objects; ++i) mine.push_back(tern::create<countdown>());
  const auto step = [&] {
    for (int k = 0; k < inputs; ++k)
      for (const auto& o : mine) tern::send<&countdown::input>(o);
    tern::quiesce();
  };
  for (int s = 0; s < warm; ++s) step();
  here_waited->offers = 0;
  for (int s = 0; s < steps; ++s) step();
  // The one that computes waits, and can move until it begins; but not while the policy stands
  // aside. Elsewhere a quick one may be held up by the machine, and so be long.
  if (simulated()) {
    TERN_EXPECT(here_waited->offers.load() > 0);
    TERN_EXPECT(2 * here_waited->offers.load() <= 3 * objects * steps); // of 5
  }
  for (const auto& o : mine) TERN_EXPECT_EQ(tern::call<&countdown::steps>(o).get(), warm + steps);
  tern::quiesce();
  if (rank() == 0) use("none").get();
  tern::barrier();
}

// A grid whose objects wait for each other --------------------------------------------------------------------------

constexpr std::uint64_t scrambled(std::uint64_t x) { // the finisher of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

enum class load : std::uint8_t { fresh, lasting };

/// A task of each step, when those of its neighbours and its own of the step before are done.
class cell {
public:
  cell() = default;
  explicit cell(int number, int heavy) : number_(number), heavy_(heavy) {}
  void prepare(const std::vector<tern::mobile_ptr<cell>>& next, int steps, load how) {
    next_ = next;
    last_ = step_ + steps;
    how_ = how;
  }
  void begin() { tell(); }
  void input(int step) {
    if (++have_[static_cast<std::size_t>(step % 2)] < static_cast<int>(next_.size())) return;
    have_[static_cast<std::size_t>(step % 2)] = 0;
    TERN_EXPECT_EQ(step, step_);
    const auto dice = scrambled(static_cast<std::uint64_t>(step_) * 1000 + static_cast<std::uint64_t>(number_)) % 100;
    compute(how_ == load::fresh ? std::chrono::microseconds(50 + 2 * dice) : number_ < heavy_ ? 400us : 100us);
    ++step_;
    if (step_ < last_) tell();
  }
  int steps() const { return step_; }
  int where() const { return rank(); }
  template <class A> void serialize(A& ar) { ar(number_, heavy_, step_, last_, how_, have_, next_); }

private:
  void tell() {
    for (const auto& n : next_) tern::send<&cell::input>(n, step_);
  }
  int number_ = 0, heavy_ = 0, step_ = 0, last_ = 0;
  load how_ = load::fresh;
  std::array<int, 2> have_{};
  std::vector<tern::mobile_ptr<cell>> next_;
};

/// Objects in a ring, block by block on the ranks.
class ring {
public:
  explicit ring(int each) {
    std::vector<tern::mobile_ptr<cell>> mine;
    for (int i = 0; i < each; ++i) mine.push_back(tern::create<cell>(rank() * each + i, each));
    for (auto& part : tern::communicator::world().allgather(mine)) all_.insert(all_.end(), part.begin(), part.end());
    first_ = static_cast<std::size_t>(rank() * each);
    last_ = first_ + static_cast<std::size_t>(each);
  }
  void run(int steps, load how) {
    const std::size_t n = all_.size();
    for (std::size_t i = first_; i < last_; ++i)
      tern::call<&cell::prepare>(
          all_[i], std::vector<tern::mobile_ptr<cell>>{all_[(i + n - 1) % n], all_[i], all_[(i + 1) % n]}, steps, how)
          .get();
    tern::barrier();
    for (std::size_t i = first_; i < last_; ++i) tern::send<&cell::begin>(all_[i]);
    tern::quiesce();
    steps_ += steps;
    for (std::size_t i = first_; i < last_; ++i) TERN_EXPECT_EQ(tern::call<&cell::steps>(all_[i]).get(), steps_);
    tern::barrier();
  }
  /// Of this rank's, those that are elsewhere now.
  int away() const {
    int n = 0;
    for (std::size_t i = first_; i < last_; ++i) n += tern::call<&cell::where>(all_[i]).get() != rank();
    return n;
  }

private:
  std::vector<tern::mobile_ptr<cell>> all_;
  std::size_t first_ = 0, last_ = 0;
  int steps_ = 0;
};

class does_nothing : public policy {
public:
  does_nothing(policy_context& h, parameters&) : policy(h) {}
};
const registered_policy<does_nothing> the_nothing("test-nothing", "does nothing, at the price of a queue");

// Times are virtual: elsewhere what happens depends on the machine.
TERN_RANK_TEST(a_policy_without_gain_stands_aside) {
  if (rank() == 0) use("test-nothing").get();
  tern::barrier();
  ring grid(4);
  grid.run(simulated() ? 1500 : 40, load::fresh);
  const counters c = count();
  if (simulated()) {
    TERN_EXPECT(c.asides > 0);
    TERN_EXPECT_EQ(in_use(), std::string("test-nothing"));
  }
  tern::barrier();
  if (rank() == 0) use("none").get();
  tern::barrier();
  TERN_EXPECT_EQ(count().asides, count().resumptions);
}

TERN_RANK_TEST(policies_stand_aside_and_come_back) {
  if (size() > (tern::detail::sanitized ? 4 : 16)) return; // takes long, and shows no more
  for (const char* const policy : {"diffusion", "steal"}) {
    if (rank() == 0) use(policy).get();
    tern::barrier();
    ring grid(4 * tern::net::node::here().computing_workers()); // enough that some wait
    const std::uint64_t asides = count().asides;
    grid.run(simulated() ? 1500 : 20, load::fresh);
    // A rank from which others take objects may act all the time.
    const int stood = tern::allreduce(count().asides > asides ? 1 : 0, std::plus<>());
    if (simulated()) TERN_EXPECT(2 * stood >= size());
    // Now rank 0 has four times as much to do as the others, for ever.
    grid.run(simulated() ? 1000 : 20, load::lasting);
    const int away = grid.away();
    if (simulated() && size() > 1 && rank() == 0) TERN_EXPECT(away > 0);
    tern::barrier();
    if (rank() == 0) use("none").get();
    tern::barrier();
  }
}

} // namespace balance_test

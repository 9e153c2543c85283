// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What Tern's contestants and the rivals have in common: how large things are, and how threads
/// look up and change a table of objects.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/harness/timing.hpp"

namespace tern::bench::mobile {

constexpr std::size_t message_bytes = 64;
constexpr std::size_t cargo_bytes = std::size_t{1} << 20;

constexpr int threads = 4;             ///< that look up
constexpr long ask_until_change = 99;  ///< of a hundred operations one is a change
constexpr double lookup_batch = 20e-3; ///< seconds: it takes a while until all threads run

/// An object whose place is looked up.
struct small {
  std::uint64_t value = 0;
};

/// What one thread does with a table: asks for the 1st … `objects`th entry by chance, all of which
/// stay there; and now and then, in turn, enters a new one and removes the oldest of those.
class alignas(64) traffic {
public:
  /// A Table has `bool has(i)`, `std::uint64_t add()` and `void remove(number)`, as given by `add`.
  template <class Table> traffic(Table& table, std::size_t objects, int thread) : objects_(objects) {
    random_ += 0x9e3779b97f4a7c15ull * static_cast<std::uint64_t>(thread);
    for (auto& one : newer_) one = table.add();
  }
  template <class User> void run(User& table, long n) {
    bool all_there = true;
    for (long i = 0; i < n; ++i) {
      if (++since_change_ <= ask_until_change) {
        all_there &= table.has(any());
        continue;
      }
      since_change_ = 0;
      std::uint64_t& oldest = newer_[at_];
      if (oldest) {
        table.remove(oldest);
        oldest = 0;
      } else {
        oldest = table.add();
        at_ = (at_ + 1) % newer_.size();
      }
    }
    check(all_there, "a look-up");
  }

private:
  std::size_t any() noexcept { // xorshift* (Marsaglia 2003), the upper half
    random_ ^= random_ >> 12;
    random_ ^= random_ << 25;
    random_ ^= random_ >> 27;
    return static_cast<std::size_t>(((random_ * 0x2545f4914f6cdd1dull) >> 32) * objects_ >> 32);
  }
  const std::uint64_t objects_;
  std::uint64_t random_ = 0x853c49e6748fea9bull;
  long since_change_ = 0;
  std::array<std::uint64_t, 256> newer_{};
  std::size_t at_ = 0;
};

/// Lets its threads begin together, and sees how long they take.
class race {
public:
  void begin() {
    if (waiting_.fetch_add(1) + 1 == threads) {
      began_ = seconds();
      open_ = true;
    }
    while (!open_) std::this_thread::yield();
  }
  void end() {
    if (running_.fetch_sub(1) == 1) ended_ = seconds();
  }
  double taken() const { return ended_ - began_; }

private:
  std::atomic<int> waiting_{0}, running_{threads};
  std::atomic<bool> open_{false};
  double began_ = 0, ended_ = 0;
};

/// Nanoseconds for one operation of a thread. `start(f)` runs f(0), f(1), … on a thread each until
/// all have ended. Each works with a `Table::user`. Its `finish()` waits until all its changes are
/// done.
template <class Table, class Start> double lookups(Table& table, std::size_t objects, double most, Start start) {
  std::vector<traffic> each;
  for (int t = 0; t < threads; ++t) each.emplace_back(table, objects, t);
  return 1e9 * per_item(most, lookup_batch, 1024, [&](long n) {
           race all;
           start([&](int thread) {
             typename Table::user mine(table);
             all.begin();
             each[static_cast<std::size_t>(thread)].run(mine, n);
             mine.finish();
             all.end();
           });
           return all.taken();
         });
}

} // namespace tern::bench::mobile

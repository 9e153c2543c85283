// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What is done, the same for all contestants, which bring their fibers or threads, promises, locks
/// and queues along. A contestant is a program of its own as in bench/task/contestant.hpp; what it
/// answers is seconds for each operation, unless said otherwise.

#include "bench/task/contestant.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tern::bench::fiber {

using task::contestant_main;
using task::job;
using task::measurement;
using task::seconds;
using task::unknown;

using clock = std::chrono::steady_clock;
inline double since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

inline void require(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string("wrong result: ") + what);
}

/// The CPUs that this process may use.
std::vector<int> cpus();

/// Where a contestant's threads run; a suffix of the benchmark's name says it.
enum class place {
  anywhere,
  apart,   ///< "_apart": each half of them bound to a CPU of its own
  together ///< "_together": all bound to one CPU, where waking another needs no interrupt
};
/// Takes the suffix off `benchmark`.
place take_place(std::string& benchmark);
/// Binds the calling thread, of half 0 or 1. Does nothing if there are not enough CPUs.
void bind(place where, int half);

/// How many rounds of task::work take so long on this machine.
std::uint32_t rounds_for(std::chrono::nanoseconds time);

/// Takes memory from the system and gives it back, so that a host that lends it late does so before
/// and not while a measurement goes on.
void warm_memory(std::size_t bytes);

/// Two fibers of one worker that yield to each other. With `Flags`, the first has the sticky flag
/// "inexact" raised and the second has not, so that their control and status registers differ at a
/// switch, in bits that need not be restored.
class yielders {
public:
  explicit yielders(std::size_t yields) : each_(yields / 2) {}
  template <bool Flags, class Yield> void body(int me, Yield yield) {
    for (std::size_t left = each_; left > 0;) {
      if (Flags) set_flags(me);
      std::size_t block = left < 1000 ? left : 1000;
      left -= block;
      for (; block > 0; --block) {
        last_ = me;
        yield();
        met_ += last_ != me;
      }
    }
  }
  /// Both have ended. Each yield has let the other one run, but for those at the ends.
  void check() const { require(met_ + 4 >= 2 * each_ && met_ <= 2 * each_, "they did not take turns"); }
  std::size_t yields() const { return 2 * each_; }

private:
  static void set_flags(int me);
  std::size_t each_, met_ = 0;
  int last_ = -1;
};

/// Values handed to and fro between two contexts, each by a promise of its own. The context that
/// sets a promise also owns it: the context that it wakes may not destroy a std::promise.
template <class Promise> class hops {
public:
  static constexpr std::size_t warm_up = 500;
  explicit hops(std::size_t count) : rounds_(count / 2 + warm_up) { reply_ = to_second_.get_future(); }
  /// \return seconds for each hop.
  double first() {
    clock::time_point start;
    for (std::size_t r = 0; r < rounds_; ++r) {
      if (r == warm_up) start = clock::now();
      Promise mine;
      auto answer = mine.get_future();
      to_first_ = std::move(mine);
      Promise theirs = std::move(to_second_);
      theirs.set_value(2 * r);
      require(answer.get() == 2 * r + 1, "another value came back");
    }
    return since(start) / static_cast<double>(2 * (rounds_ - warm_up));
  }
  void second() {
    for (std::size_t r = 0; r < rounds_; ++r) {
      const std::uint64_t value = reply_.get();
      Promise mine;
      reply_ = mine.get_future();
      to_second_ = std::move(mine);
      Promise theirs = std::move(to_first_);
      theirs.set_value(value + 1);
    }
  }

private:
  std::size_t rounds_;
  Promise to_first_, to_second_;
  decltype(to_second_.get_future()) reply_;
};

/// Many contexts that want one lock: 50 ns of work inside, 25 ns outside. All begin at once:
/// `ready` waits until the others are there too. Each context reads the clock itself, because the
/// context that started them may be the last to get a core.
template <class Mutex> class contention {
public:
  static constexpr std::size_t contenders = 64;
  explicit contention(std::size_t locks) : each_(locks / contenders) {}
  template <class Ready> void body(std::size_t who, Ready&& ready) {
    std::uint64_t own = who;
    ready();
    begun_[who] = clock::now();
    for (std::size_t i = 0; i < each_; ++i) {
      own = task::work(own, outside_);
      mutex_.lock();
      shared_ = task::work(shared_, inside_);
      ++count_;
      mutex_.unlock();
    }
    ended_[who] = clock::now();
    sink_.fetch_xor(own, std::memory_order_relaxed);
  }
  /// All have ended. \return seconds for each lock.
  double taken() const {
    require(count_ == each_ * contenders, "a lock did not exclude");
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < count_; ++i) expected = task::work(expected, inside_);
    require(shared_ == expected, "what the lock protects was changed by two");
    const auto time = *std::max_element(ended_.begin(), ended_.end()) - *std::min_element(begun_.begin(), begun_.end());
    return std::chrono::duration<double>(time).count() / static_cast<double>(count_);
  }

private:
  std::size_t each_;
  std::uint32_t inside_ = rounds_for(std::chrono::nanoseconds(50)), outside_ = inside_ / 2;
  std::array<clock::time_point, contenders> begun_, ended_;
  std::atomic<std::uint64_t> sink_{0};
  alignas(64) Mutex mutex_;
  std::uint64_t shared_ = 0;
  std::size_t count_ = 0;
};

/// Handlers of objects, in random order. Each holds its object's lock: half of them for long, the
/// others do next to nothing.
struct handler {
  std::size_t object;
  bool is_long;
};
constexpr std::size_t objects = 10, handlers_each = 100;
constexpr std::chrono::milliseconds hold{5};
/// Always the same; of each object's handlers exactly half are long.
const std::vector<handler>& handlers();

template <class Mutex> class object_set {
public:
  /// `hold_it()`: sleeps or computes for as long as `hold` says.
  template <class Hold> void handle(const handler& h, Hold&& hold_it) {
    one& o = all_[h.object];
    o.mutex.lock();
    if (h.is_long) hold_it();
    ++o.handled;
    o.mutex.unlock();
  }
  void check() const {
    for (const one& o : all_) require(o.handled == handlers_each, "not each handler ran once");
  }

private:
  struct alignas(64) one {
    Mutex mutex;
    std::size_t handled = 0;
  };
  std::array<one, objects> all_;
};

/// Values to and fro through two queues. `Queue`: made with a capacity, `push(value)`, `value =
/// pop()`.
template <class Queue> class volley {
public:
  static constexpr std::size_t warm_up = 500;
  explicit volley(std::size_t messages) : rounds_(messages / 2 + warm_up) {}
  /// \return seconds for each message.
  double first() {
    clock::time_point start;
    for (std::size_t r = 0; r < rounds_; ++r) {
      if (r == warm_up) start = clock::now();
      there_.push(2 * r);
      require(back_.pop() == 2 * r + 1, "another value came back");
    }
    return since(start) / static_cast<double>(2 * (rounds_ - warm_up));
  }
  void second() {
    for (std::size_t r = 0; r < rounds_; ++r) back_.push(there_.pop() + 1);
  }

private:
  std::size_t rounds_;
  Queue there_{1}, back_{1};
};

/// Producers and consumers with one queue of capacity 64. The consumers know how much to take.
template <class Queue> class traffic {
public:
  traffic(std::size_t messages, std::size_t pairs) : pairs_(pairs), each_(messages / pairs) {}
  std::size_t pairs() const { return pairs_; }
  void produce(std::size_t who) {
    for (std::size_t i = 0; i < each_; ++i) queue_.push(i * pairs_ + who);
  }
  void consume() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < each_; ++i) sum += queue_.pop();
    sum_.fetch_add(sum, std::memory_order_relaxed);
  }
  std::size_t messages() const { return each_ * pairs_; }
  void check() const {
    const std::uint64_t n = messages();
    require(sum_.load() == n * (n - 1) / 2, "messages were lost or doubled");
  }

private:
  std::size_t pairs_, each_;
  Queue queue_{64};
  std::atomic<std::uint64_t> sum_{0};
};

void check_fib(int n, std::uint64_t value);

} // namespace tern::bench::fiber

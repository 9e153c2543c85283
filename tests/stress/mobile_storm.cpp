// SPDX-License-Identifier: Apache-2.0
/// \file
/// A storm of invocations from every rank of objects that move meanwhile, checksummed. Arguments:
/// the invocations of all ranks together, the migrations that they ask for, and the objects.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

namespace {

using tern::mobile_ptr;

constexpr int senders = 2;      // fibers of each rank
constexpr std::size_t hot = 10; // objects that are chosen half of the time: where many wait, and follow

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Depends on the order: so one that is lost, doubled or late changes all that follow.
std::uint64_t fold(std::uint64_t sum, std::uint64_t number) { return mix(sum + number + 1); }

/// An invocation adds a number to its sender's sum.
class cell {
public:
  cell() = default;
  cell(std::uint32_t number, int all_senders)
      : sums_(static_cast<std::size_t>(all_senders)), load_(number % 64 == 0 ? 10'000 : 1) { // some take a long message
    for (std::size_t i = 0; i < load_.size(); ++i) load_[i] = static_cast<std::uint32_t>(number + i);
  }
  template <class A> void save(A& ar) const { ar(sums_, invocations_, moves_, load_); }
  template <class A> void load(A& ar) {
    ar(sums_, invocations_, moves_, load_);
    ++moves_;
    for (std::size_t i = 0; i < load_.size(); ++i)
      if (load_[i] != static_cast<std::uint32_t>(load_[0] + i))
        throw std::runtime_error("an object changed on its way");
  }
  std::uint64_t add(std::uint32_t sender, std::uint64_t number) {
    ++invocations_; // of all senders: lost if it is not alone
    return sums_[sender] = fold(sums_[sender], number);
  }
  std::vector<std::uint64_t> sums() const { return sums_; }
  std::uint64_t invocations() const { return invocations_; }
  std::uint64_t moves() const { return moves_; }

private:
  std::vector<std::uint64_t> sums_; // by sender
  std::uint64_t invocations_ = 0, moves_ = 0;
  std::vector<std::uint32_t> load_;
};
using pointers = std::vector<mobile_ptr<cell>>;

/// One fiber's part. Invocations of one object from one fiber begin in the order sent.
class sender {
public:
  sender(const pointers& objects, int number)
      : objects_(objects), number_(static_cast<std::uint32_t>(number)), expected_(objects.size()),
        random_(mix(static_cast<std::uint64_t>(number) + 1)) {}

  void storm(std::uint64_t invocations, std::uint64_t migrations) {
    std::uint64_t asked = 0;
    for (std::uint64_t i = 0; i < invocations; ++i) {
      for (; asked * invocations < (i + 1) * migrations; ++asked) {
        moves_.push_back(
            tern::migrate(objects_[any_object()], static_cast<int>(any(static_cast<std::size_t>(tern::size())))));
        for (; moves_.size() > most_moves; moves_.pop_front()) moves_.front().get();
      }
      const std::size_t o = any_object();
      expected_[o] = fold(expected_[o], i);
      if (i % 1024 == 0)
        wrong += tern::call<&cell::add>(objects_[o], number_, i).get() != expected_[o];
      else
        tern::send<&cell::add>(objects_[o], number_, i);
    }
    for (; !moves_.empty(); moves_.pop_front()) moves_.front().get();
  }
  /// When all has come.
  void compare() {
    for (std::size_t o = 0; o < objects_.size(); ++o)
      wrong += tern::call<&cell::sums>(objects_[o]).get().at(number_) != expected_[o];
  }
  std::uint64_t wrong = 0;

private:
  static constexpr std::size_t most_moves = 64; // under way: objects stay long enough to be invoked
  std::size_t any(std::size_t n) {
    random_ += 0x9e3779b97f4a7c15ull;
    return static_cast<std::size_t>(mix(random_) % n);
  }
  std::size_t any_object() { return any(any(2) == 0 ? std::min(hot, objects_.size()) : objects_.size()); }
  const pointers& objects_;
  const std::uint32_t number_;
  std::vector<std::uint64_t> expected_; // sums, by object
  std::deque<tern::future<void>> moves_;
  std::uint64_t random_;
};

/// Calls `what` of all of this rank's senders at once.
template <class F> void each(std::deque<sender>& all, F what) {
  std::vector<tern::future<void>> fibers;
  fibers.reserve(all.size());
  for (sender& one : all) fibers.push_back(tern::async([&one, &what] { what(one); }));
  for (auto& f : fibers) f.get();
}

pointers make_objects(std::uint32_t n) {
  std::vector<tern::future<mobile_ptr<cell>>> made;
  if (tern::rank() == 0)
    for (std::uint32_t i = 0; i < n; ++i)
      made.push_back(tern::create_on<cell>(static_cast<int>(i) % tern::size(), i, senders * tern::size()));
  pointers objects;
  for (auto& one : made) objects.push_back(one.get());
  return tern::broadcast(objects);
}

int run(std::uint64_t invocations, std::uint64_t migrations, std::uint32_t n) {
  const auto parts = static_cast<std::uint64_t>(senders * tern::size());
  const std::uint64_t of_each = invocations / parts;
  const pointers objects = make_objects(n);
  std::deque<sender> mine; // of what cannot be copied
  for (int f = 0; f < senders; ++f) mine.emplace_back(objects, senders * tern::rank() + f);
  each(mine, [&](sender& one) { one.storm(of_each, migrations / parts); });
  tern::quiesce();
  each(mine, [](sender& one) { one.compare(); });
  std::uint64_t wrong = 0, got = 0, moves = 0;
  for (const sender& one : mine) wrong += one.wrong;
  wrong = tern::allreduce(wrong, std::plus<>());
  if (tern::rank() != 0) return wrong ? 1 : 0;
  for (const auto& o : objects) {
    got += tern::call<&cell::invocations>(o).get();
    moves += tern::call<&cell::moves>(o).get();
  }
  const auto lost = static_cast<long long>(of_each * parts - got);
  // Those to where an object is are none.
  const bool lazy = tern::size() > 1 && moves < migrations / 2;
  std::printf("%llu invocations of %u objects: %lld lost, %llu sums wrong; %llu moves were made%s\n",
              static_cast<unsigned long long>(of_each * parts), n, lost, static_cast<unsigned long long>(wrong),
              static_cast<unsigned long long>(moves), lazy ? ", which are TOO FEW" : "");
  return lost || wrong || lazy ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::uint64_t invocations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  const std::uint64_t migrations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'500;
  const std::uint64_t objects = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 2000;
  return tern::run(argc, argv, [=] { return run(invocations, migrations, static_cast<std::uint32_t>(objects)); });
}

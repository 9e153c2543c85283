// SPDX-License-Identifier: Apache-2.0
/// \file
/// A storm of messages from every rank to every rank, checksummed, in memory that does not grow.
/// The first argument is the number of messages of all ranks together.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <unistd.h>

#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

namespace {

constexpr int most_workers = 64;

// Of what a rank has received; a row for each worker, so that counting is no bottleneck.
struct alignas(64) sums {
  std::uint64_t messages = 0, sum = 0, mixed = 0, wrong = 0;
};
struct totals {
  sums of[most_workers];
};
const tern::rank_local<totals> received;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

void take(int to, std::uint64_t number) {
  sums& s = received->of[tern::scheduler::current_worker()];
  ++s.messages;
  s.sum += number;
  s.mixed ^= mix(number);
  if (to != tern::rank()) ++s.wrong;
}
void take_many(int to, std::uint64_t number, std::span<const std::uint32_t> load) {
  for (std::size_t i = 0; i < load.size(); i += 61)
    if (load[i] != static_cast<std::uint32_t>(number + i)) ++received->of[tern::scheduler::current_worker()].wrong;
  take(to, number);
}

sums all_of_them() {
  sums s;
  for (const sums& one : received->of) {
    s.messages += one.messages;
    s.sum += one.sum;
    s.mixed ^= one.mixed;
    s.wrong += one.wrong;
  }
  return s;
}

// A rank's messages from `first` on, of which each `size()`th is for the next rank.
sums storm(std::uint64_t first, std::uint64_t n) {
  sums sent;
  std::vector<std::uint32_t> load;
  for (std::uint64_t i = first; i < first + n; ++i) {
    const std::uint64_t number =
        i * static_cast<std::uint64_t>(tern::size()) + static_cast<std::uint64_t>(tern::rank());
    const int to = static_cast<int>(mix(number) % static_cast<std::uint64_t>(tern::size()));
    if (i % 512 == 0) { // up to 40 KB
      load.resize(1 + mix(number) % 10'000);
      for (std::size_t k = 0; k < load.size(); ++k) load[k] = static_cast<std::uint32_t>(number + k);
      tern::send<&take_many>(to, to, number, load);
    } else {
      tern::send<&take>(to, to, number);
    }
    ++sent.messages;
    sent.sum += number;
    sent.mixed ^= mix(number);
  }
  return sent;
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

int run(std::uint64_t messages) {
  constexpr int rounds = 10;
  const std::uint64_t each = messages / static_cast<std::uint64_t>(tern::size()) / rounds;
  sums sent;
  std::uint64_t early = 0, late = 0;
  static_cast<void>(*received); // made before its first handler
  tern::barrier();
  for (int round = 0; round < rounds; ++round) {
    const sums s = storm(each * static_cast<std::uint64_t>(round), each);
    sent.messages += s.messages;
    sent.sum += s.sum;
    sent.mixed ^= s.mixed;
    tern::quiesce();
    (round == 0 ? early : late) = resident_bytes();
  }
  const sums got = all_of_them();
  const auto add = [](std::uint64_t a, std::uint64_t b) { return a + b; };
  const auto flip = [](std::uint64_t a, std::uint64_t b) { return a ^ b; };
  const std::uint64_t lost = tern::allreduce(sent.messages, add) - tern::allreduce(got.messages, add);
  const std::uint64_t changed = tern::allreduce(sent.sum, add) - tern::allreduce(got.sum, add);
  const std::uint64_t mixed_up = tern::allreduce(sent.mixed ^ got.mixed, flip);
  const std::uint64_t wrong = tern::allreduce(got.wrong, add);
  // The ranks of one process measure the same memory. Messages that wait for a free worker are not
  // bounded. If a rank's only worker also receives, no message waits like that.
  const bool paced = tern::scheduler::current()->workers() == 1 && !std::getenv("TERN_PROGRESS");
  const bool grew = STRESS_SANITIZED == 0 && paced && late > early + early / 10 + (std::uint64_t{4} << 20);
  const int growing = tern::allreduce(grew ? 1 : 0, [](int a, int b) { return std::max(a, b); });
  const std::uint64_t all = each * rounds * static_cast<std::uint64_t>(tern::size());
  if (tern::rank() == 0)
    std::printf("%llu messages: %lld lost, sums differ by %llx and %llx, %llu wrong; %.1f MiB resident after a tenth, "
                "%.1f at the end%s\n",
                static_cast<unsigned long long>(all), static_cast<long long>(lost),
                static_cast<unsigned long long>(changed), static_cast<unsigned long long>(mixed_up),
                static_cast<unsigned long long>(wrong), static_cast<double>(early) / (1 << 20),
                static_cast<double>(late) / (1 << 20), growing ? ": some rank's GREW" : "");
  return lost || changed || mixed_up || wrong || growing ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::uint64_t messages = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  return tern::run(argc, argv, [=] { return run(messages); });
}

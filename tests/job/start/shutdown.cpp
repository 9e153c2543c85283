// SPDX-License-Identifier: Apache-2.0
/// \file
/// Jobs in which the main function returns while detached fibers, and handlers, go on sending.
/// Arguments: a seed, and how many jobs one after the other. Each process prints what its ranks
/// saw: how many messages were taken, handled, refused, and handled when the job was over.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>

namespace {

// Of all ranks of this process.
std::atomic<long> taken{0}, handled{0}, refused{0}, late{0};
std::atomic<bool> over{false};
unsigned seed = 1;

struct dice {
  std::minstd_rand numbers{seed * 7919 + static_cast<unsigned>(tern::rank()) * 104'729};
};
const tern::rank_local<dice> of_rank; // one worker a rank
long below(long n) { return static_cast<long>(of_rank->numbers() % static_cast<unsigned long>(n)); }

void work(int left);
void attempt(int left, bool call) {
  const int to = static_cast<int>(below(tern::size()));
  try {
    if (call) {
      auto answer = tern::call<&work>(to, left);
      ++taken;
      answer.get();
    } else {
      tern::send<&work>(to, left);
      ++taken;
    }
  } catch (const tern::error& e) {
    if (e.code() != tern::errc::invalid_state) throw;
    ++refused;
  }
}
void start_loose(int left) {
  tern::fiber([left] {
    for (long n = below(3); n >= 0; --n) {
      tern::this_fiber::sleep_for(std::chrono::microseconds(below(below(3) == 0 ? 500 : 20)));
      attempt(left, below(3) == 0);
    }
  }).detach();
}
void work(int left) {
  if (over) ++late;
  for (long n = left > 0 ? below(3) : 0; n > 0; --n) {
    if (below(3) == 0)
      start_loose(left - 1);
    else
      attempt(left - 1, false);
  }
  ++handled;
}

int job() {
  for (long n = below(4); n > 0; --n) start_loose(3);
  for (long n = below(20); n > 0; --n) {
    attempt(3, false);
    if (below(4) == 0) tern::this_fiber::sleep_for(std::chrono::microseconds(below(50)));
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  seed = static_cast<unsigned>(std::atoi(argv[1]));
  for (int jobs = std::atoi(argv[2]); jobs > 0; --jobs, ++seed) {
    over = false;
    if (const int code = tern::run(argc, argv, job); code != 0) return code;
    over = true;
  }
  std::printf("taken %ld handled %ld refused %ld late %ld\n", taken.load(), handled.load(), refused.load(),
              late.load());
  return 0;
}

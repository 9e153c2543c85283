// SPDX-License-Identifier: Apache-2.0
/// \file
/// Each rank does what the first argument says, until the test kills a rank or the time is over.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/base/options.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/semaphore.hpp>

namespace {

const tern::known_environment seconds_variable{"TERN_FAILURE_SECONDS"};

tern::semaphore never(0);
int answer_never() {
  never.acquire();
  return 0;
}

void say(const std::string& what) {
  std::printf("%s %d of process %d\n", what.c_str(), tern::rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
}

void compute_for(double seconds) {
  for (const double end = tern::steady_seconds() + seconds; tern::steady_seconds() < end;) {
  }
}

void take(const std::vector<char>&) {}

// Large messages under way from each to each.
void flood() {
  const std::vector<char> much(std::size_t{16} << 20);
  for (;;)
    for (int r = 0; r < tern::size(); ++r)
      if (r != tern::rank()) tern::call<&take>(r, much).get();
}

// Messages, computing and meetings, on too few CPUs.
void storm(double seconds) {
  const double end = tern::steady_seconds() + seconds;
  unsigned seed = static_cast<unsigned>(tern::rank()) + 1;
  const auto roll = [&](unsigned n) { return (seed = seed * 1664525u + 1013904223u) / 65536u % n; };
  for (int goes_on = 1; goes_on != 0;) {
    for (int i = 0; i < 200; ++i)
      tern::send<&take>(static_cast<int>(roll(static_cast<unsigned>(tern::size()))),
                        std::vector<char>(roll(roll(50) == 0 ? 300'000 : 2000)));
    compute_for(roll(20) == 0 ? 3 : 0.001 * roll(100));
    goes_on = tern::broadcast(tern::steady_seconds() < end ? 1 : 0);
  }
}

int live(std::string_view how) {
  const int last = tern::size() - 1;
  if (how == "handle")
    tern::on_rank_failure([](const tern::rank_failure& f) {
      std::printf("rank %d heard of rank %d on '%s': %s\n", tern::rank(), f.rank, f.host.c_str(), f.text.c_str());
      std::fflush(stdout);
    });
  tern::barrier();
  say("ready");
  if (how == "wait" || how == "handle") {
    if (tern::rank() == 0) tern::call<&answer_never>(last).get();
    tern::barrier();
  }
  const char* const given = std::getenv("TERN_FAILURE_SECONDS");
  const double seconds = given ? std::atof(given) : 5;
  if (how == "compute") compute_for(seconds);
  if (how == "compute-for-ever") compute_for(1e9);
  if (how == "flood") flood();
  if (how == "exit" && tern::rank() == last) _exit(3);
  if (how == "exit") tern::barrier();
  if (how == "storm") storm(seconds);
  tern::barrier();
  if (tern::rank() == 0) std::printf("done\n");
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "none";
  return tern::run(argc, argv, [&] { return live(how); });
}

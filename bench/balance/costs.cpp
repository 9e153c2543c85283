// SPDX-License-Identifier: Apache-2.0
#include "bench/balance/costs.hpp"

#include <array>
#include <cstddef>
#include <ctime>
#include <functional>
#include <vector>

#include <sys/resource.h>

#include <tern/balance/balance.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "bench/harness/timing.hpp"

namespace tern::bench::balance {
namespace {

constexpr std::size_t ball_bytes = 64;
using ball = std::array<std::byte, ball_bytes>;

struct {
  long left = 0;
  promise<void>* done = nullptr;
} rally; // rank 0's

/// One on each rank; rank 0's has the other begin again.
class player {
public:
  void meet(mobile_ptr<player> other) { other_ = other; }
  void ping(const ball& b) { send<&player::pong>(other_, b); }
  void pong(const ball& b) {
    if (--rally.left > 0)
      send<&player::ping>(other_, b);
    else
      rally.done->set_value();
  }

private:
  mobile_ptr<player> other_;
};

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double process_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct even {
  void work(double seconds) {
    for (const double end = thread_seconds() + seconds; thread_seconds() < end;) {
    }
  }
  template <class A> void serialize(A&) {}
};

} // namespace

double round_trip_microseconds(double most) {
  mobile_ptr<player> own = create<player>();
  const auto all = communicator::world().allgather(own);
  const mobile_ptr<player> other = all[static_cast<std::size_t>(1 - rank())];
  call<&player::meet>(own, other).get();
  barrier();
  const auto tell = [](long n) { return broadcast(n); };
  return measured(rank(), most, tell,
                  [&](long n) {
                    if (rank() != 0) return 0.0;
                    promise<void> done;
                    rally.left = n;
                    rally.done = &done;
                    auto ended = done.get_future();
                    const double begun = seconds();
                    send<&player::ping>(other, ball{});
                    ended.get();
                    return seconds() - begun;
                  }) /
         2;
}

double even_cpu_seconds(int objects, int rounds, double each) {
  std::vector<mobile_ptr<even>> mine;
  for (int i = 0; i < objects; ++i) mine.push_back(create<even>());
  barrier();
  const double begun = process_seconds();
  for (int r = 0; r < rounds; ++r) {
    for (const auto& o : mine) send<&even::work>(o, each);
    quiesce();
  }
  return allreduce(process_seconds() - begun, std::plus<>());
}

} // namespace tern::bench::balance

// SPDX-License-Identifier: Apache-2.0
#include "bench/balance/load.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include <tern/balance/balance.hpp>
#include <tern/mobile/load.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/parallel.hpp>
#include <tern/task/sim.hpp>
#include <tern/task/sync.hpp>

namespace tern::bench::balance {
namespace {

// Of the job that runs: the ranks of a process share them, and read only.
const tern::balance::workload* the_work = nullptr;
load_settings the_settings;

/// A rank's card sends one object after the other.
const rank_local<mutex> the_card;

struct tally {
  tern::detail::spin_lock guard;
  std::vector<double> busy;
  std::uint64_t invocations = 0;
};
const rank_local<tally> the_tally;

double seconds_now() { return std::chrono::duration<double>(fiber_clock::now().time_since_epoch()).count(); }

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void work_for(double seconds) {
  switch (the_settings.compute) {
  case compute::charge:
    return sim::charge(seconds);
  case compute::hold:
    return std::this_thread::sleep_until(
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
  case compute::burn:
    for (const double end = thread_seconds() + seconds; thread_seconds() < end;) {
    }
  }
}

class piece {
public:
  piece() = default;
  explicit piece(std::uint32_t index) : index_(index) {}
  template <class A> void serialize(A& ar) {
    ar(index_, done_);
    if constexpr (std::is_same_v<A, output_archive>) travel();
  }
  void run() {
    const auto& self = the_work->objects[index_];
    const double seconds = time();
    const int worker = scheduler::current_worker();
    const auto ways = static_cast<std::size_t>(self.tasklets);
    if (ways > 1)
      parallel_for(std::size_t{0}, ways, [&](std::size_t) { work_for(seconds / static_cast<double>(ways)); });
    else
      work_for(seconds);
    ++done_;
    tally& t = *the_tally;
    const std::lock_guard hold(t.guard);
    const auto w = static_cast<std::size_t>(worker);
    if (t.busy.size() <= w) t.busy.resize(w + 1);
    t.busy[w] += seconds;
    ++t.invocations;
  }
  double workload(std::size_t pending) const {
    const auto& times = the_work->objects[index_].seconds;
    return done_ < times.size() ? times[done_] * static_cast<double>(pending) : 0;
  }
  double migration_cost() const { return the_work->objects[index_].bytes; }

private:
  double time() const {
    const auto& w = *the_work;
    const double slower = w.slow.empty() ? 1 : w.slow[static_cast<std::size_t>(rank())];
    return w.objects[index_].seconds.at(done_) * slower;
  }
  void travel() const {
    if (the_settings.bandwidth <= 0) return;
    const std::lock_guard one_at_a_time(*the_card);
    this_fiber::sleep_for(std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(the_work->objects[index_].bytes / the_settings.bandwidth)));
  }
  std::uint32_t index_ = 0, done_ = 0;
};

} // namespace

load_result run_load(const tern::balance::workload& w, const load_settings& s) {
  if (rank() == 0) {
    the_work = &w;
    the_settings = s;
  }
  barrier();
  if (!the_work) { // a process of its own
    the_work = &w;
    the_settings = s;
  }
  std::vector<mobile_ptr<piece>> mine;
  for (std::size_t i = 0; i < w.objects.size(); ++i)
    if (w.objects[i].rank == rank()) mine.push_back(create<piece>(static_cast<std::uint32_t>(i)));
  barrier();
  const double begun = seconds_now();
  load_result r;
  for (std::size_t phase = 0; phase < w.phases(); ++phase) {
    for (const auto& o : mine) send<&piece::run>(o);
    if (w.phases() == 1)
      quiesce();
    else
      tern::balance::phase();
    r.phase_ends.push_back(seconds_now() - begun);
  }
  const auto larger = [](auto a, auto b) { return std::max(a, b); };
  r.makespan = allreduce(r.phase_ends.back(), larger);
  const tern::balance::counters c = tern::balance::count();
  r.moves = allreduce(c.moves, std::plus<>());
  r.stayed = allreduce(c.stayed, std::plus<>());
  r.returns = allreduce(c.returns, std::plus<>());
  r.messages = allreduce(c.messages, std::plus<>());
  r.calls = allreduce(c.calls, std::plus<>());
  r.most_moves = allreduce(c.most_moves, larger);
  r.invocations = allreduce(the_tally->invocations, std::plus<>());
  std::vector<double> busy = the_tally->busy;
  // The first worker of a simulated rank does nothing but communicate.
  if (s.compute == compute::charge && s.apart && !busy.empty()) busy.erase(busy.begin());
  busy.resize(static_cast<std::size_t>(w.workers));
  for (const std::vector<double>& part : communicator::world().allgather(busy))
    r.busy.insert(r.busy.end(), part.begin(), part.end());
  return r;
}

load_result simulate_load(const tern::balance::workload& w, const load_settings& s, sim::world world) {
  world.ranks = w.ranks;
  world.workers = w.workers + (s.apart ? 1 : 0);
  world.apart = s.apart ? 1 : 0;
  world.seed = s.seed;
  options opts;
  opts.set(tern::balance::balance_option, s.policy);
  opts.set(tern::balance::order_option, s.order);
  opts.set(tern::balance::period_option, s.period);
  opts.set(tern::balance::record_option, s.record);
  load_result result;
  the_work = nullptr;
  sim::run(
      world,
      [&] {
        load_result r = run_load(w, s);
        if (rank() == 0) result = std::move(r);
        return 0;
      },
      opts);
  return result;
}

} // namespace tern::bench::balance

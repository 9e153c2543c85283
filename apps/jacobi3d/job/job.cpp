// SPDX-License-Identifier: Apache-2.0
#include "apps/jacobi3d/job/job.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>

#include <tern/balance/balance.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

namespace jacobi3d {
namespace {

/// On rank 0, from all ranks.
std::vector<block_history> history_of(const plan& about) {
  const auto ranks = tern::gather(here().history.all());
  std::vector<block_history> blocks(static_cast<std::size_t>(count(about.blocks)));
  if (ranks.empty()) return {};
  for (const auto& records : ranks)
    for (const iteration_record& r : records) blocks[static_cast<std::size_t>(r.block)].push_back(r);
  for (block_history& b : blocks)
    std::sort(b.begin(), b.end(), [](const auto& x, const auto& y) { return x.iteration < y.iteration; });
  return blocks;
}

/// Rank 0: what becomes of a norm. One that is small enough ends the run at the next one, which
/// blocks may have begun already; else they may go on to the one after the next.
template <class T> void judge(const typename block<T>::array& blocks, const plan& about, const norm_record& norm) {
  if (norm.change <= about.tolerance) return;
  const std::int64_t limit = std::min(about.iterations, norm.iteration + 2 * about.norm_every);
  tern::send<&block<T>::go_on>(blocks, limit);
}

/// The answers of all blocks in order, two at a time: one travels while the other is looked at.
template <auto F, class Array, class Use> void ask_each_block(const Array& blocks, const plan& about, Use use) {
  std::deque<decltype(tern::call<F>(blocks(0, 0, 0)))> coming;
  const std::int64_t all = count(about.blocks);
  for (std::int64_t i = 0, asked = 0; i < all; ++i) {
    for (; asked < all && asked < i + 2; ++asked) coming.push_back(tern::call<F>(blocks(place_of_block(about, asked))));
    use(place_of_block(about, i), coming.front().get());
    coming.pop_front();
  }
}

} // namespace

template <class T> finished_run<T> run_job(const settings& wanted) {
  finished_run<T> run;
  run.about = tern::broadcast(wanted.make_plan());
  const plan& about = run.about;
  if (tern::rank() == 0)
    run.blocks = typename block<T>::array({.mapping = tern::map_by<&rank_of_block>, .name = "blocks"},
                                          {about.blocks[2], about.blocks[1], about.blocks[0]}, about);
  run.blocks = tern::broadcast(run.blocks);
  if (tern::rank() == 0) {
    std::function<void(const norm_record&)> on_norm;
    if (about.tolerance > 0)
      on_norm = [blocks = run.blocks, about](const norm_record& norm) { judge<T>(blocks, about, norm); };
    here().norms.begin(count(about.blocks), std::move(on_norm));
    tern::call<&block<T>::prepare>(run.blocks).get();
  }
  tern::barrier();
  rank_figures mine;
  const auto kernels = [] {
    std::uint64_t n = 0;
    for (const auto& d : tern::hetero::count().devices)
      if (d.id != "host") n += d.tasks;
    return n;
  };
  mine.kernels = kernels();
  tern::barrier();
  const auto began = tern::fiber_clock::now();
  here().began = began;
  if (tern::rank() == 0) tern::send<&block<T>::begin>(run.blocks);
  // Handlers submit tasks, tasks of the norm send messages: all is done when neither has come of
  // the other.
  for (std::int64_t least = -1, limit = about.first_limit();;) {
    tern::quiesce();
    tern::wait_all();
    std::int64_t done = 0;
    if (tern::rank() == 0)
      done = tern::reduce<&block<T>::done>(run.blocks, [](std::int64_t x, std::int64_t y) {
               return std::min(x, y);
             }).get();
    done = tern::broadcast(done);
    run.iterations = done;
    if (done == about.iterations || done == least) break;
    least = done;
    if (done < limit || about.balance_every == 0) continue;
    tern::balance::phase(run.blocks);
    limit += about.balance_every;
    if (tern::rank() == 0) tern::send<&block<T>::go_on>(run.blocks, std::min(limit, about.iterations));
  }
  const double seconds = std::chrono::duration<double>(tern::fiber_clock::now() - began).count();
  run.seconds = tern::allreduce(seconds, [](double a, double b) { return std::max(a, b); });
  mine.kernels = kernels() - mine.kernels;
  run.ranks = tern::gather(mine);
  run.moves = tern::allreduce(tern::balance::count().arrived, std::plus<>());
  if (about.history) run.history = history_of(about);
  if (tern::rank() == 0) {
    ask_each_block<&block<T>::rank>(run.blocks, about, [&](const tern::indices<3>&, int r) {
      run.rank_of_block.push_back(r);
      ++run.ranks[static_cast<std::size_t>(r)].blocks;
    });
    run.norms = here().norms.all();
    run.hash = tern::reduce<&block<T>::hash>(run.blocks, std::plus<>()).get();
  }
  return run;
}

template <class T> std::vector<T> gather(const finished_run<T>& run) {
  const plan& about = run.about;
  const cells size = about.block_size();
  std::vector<T> all(static_cast<std::size_t>(count(about.n)));
  ask_each_block<&block<T>::values>(run.blocks, about, [&](const tern::indices<3>& at, const std::vector<T>& part) {
    for (std::int64_t z = 0; z < size[2]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y) {
        const std::int64_t row =
            ((at[0] * size[2] + z) * about.n[1] + at[1] * size[1] + y) * about.n[0] + at[2] * size[0];
        std::copy_n(part.begin() + (z * size[1] + y) * size[0], size[0], all.begin() + row);
      }
  });
  return all;
}

template finished_run<double> run_job(const settings&);
template finished_run<float> run_job(const settings&);
template std::vector<double> gather(const finished_run<double>&);
template std::vector<float> gather(const finished_run<float>&);

} // namespace jacobi3d

// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/job.hpp"

#include "apps/common/progress.hpp"
#include "apps/nbody/job/rank_state.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <tern/balance/balance.hpp>
#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/epoch.hpp>

namespace nbody {
namespace {

constexpr const char* usual_policy = "steal";
constexpr std::uint64_t samples_a_piece = 64;

/// Calls F on each piece, from rank 0, and waits for all that this causes. Collective. The barrier:
/// each rank has what it was given before (a plan, crowns) when F runs there.
template <auto F, class... A> void on_each_piece(const char* name, A... arguments) {
  tern::barrier();
  tern::finish(
      tern::communicator::world(),
      [&] {
        if (tern::rank() == 0) tern::send<F>(here().pieces, arguments...);
      },
      name);
}

/// The answers of all pieces, piece by piece, two at a time: one travels while the other is looked
/// at.
template <auto F, class Use> void ask_each_piece(const tern::mobile_array<piece>& pieces, Use use) {
  using answer = decltype(tern::call<F>(pieces(0)).get());
  std::deque<tern::future<answer>> coming;
  const std::int64_t n = pieces.size()[0];
  for (std::int64_t p = 0, asked = 0; p < n; ++p) {
    for (; asked < n && asked < p + 2; ++asked) coming.push_back(tern::call<F>(pieces(asked)));
    use(coming.front().get());
    coming.pop_front();
  }
}

void agree_on_plan(piece_plan plan) {
  here().plan = tern::broadcast(std::move(plan));
  here().drop_spaces();
}

/// Gives rank 0's bodies to the pieces.
void distribute(const bodies& all, std::uint32_t pieces) {
  piece_plan plan;
  if (tern::rank() == 0) {
    sample everything;
    everything.add(all, 1);
    plan = plan_pieces(everything, pieces);
  }
  agree_on_plan(std::move(plan));
  tern::barrier();
  tern::finish(
      tern::communicator::world(),
      [&] {
        const piece_plan& to = here().plan;
        std::vector<bodies> parts(tern::rank() == 0 ? pieces : 0);
        for (std::size_t i = 0; i < all.size(); ++i)
          parts[to.piece_of(morton_key(to.space, all.x[i], all.y[i], all.z[i]))].push(all, i);
        for (std::uint32_t p = 0; p < parts.size(); ++p) tern::send<&piece::take>(here().pieces(p), parts[p]);
      },
      "bodies to their pieces");
}

/// Trees, forces, and a kick of `dt`.
void find_forces(double dt) {
  rank_state& mine = here();
  on_each_piece<&piece::settle>("trees");
  mine.trees.exchange(static_cast<std::uint32_t>(mine.pieces.size()[0]), mine.fixed.tree.theta);
  on_each_piece<&piece::attract>("forces", dt);
}

void check_finite(const totals& sum, std::uint64_t step) {
  if (std::isfinite(sum.energy())) return;
  throw tern::error(tern::errc::invalid_data,
                    "after " + std::to_string(step) + " steps the energy is no finite number any more",
                    "bodies have met: use --softening, or a shorter --dt");
}

class recorder {
public:
  recorder(finished_run& to, double dt) : to_(to), dt_(dt) {}
  /// After a step. Collective.
  void add(std::uint64_t step) {
    const auto busy = tern::communicator::world().allgather(here().take_busy());
    if (tern::rank() != 0) return;
    step_record r;
    r.step = step;
    r.time = static_cast<double>(step) * dt_;
    r.sum = tern::reduce<&piece::totals>(here().pieces, std::plus<>()).get();
    r.seconds = clock_.seconds();
    clock_.restart();
    to_.busy.resize(busy.size());
    for (std::size_t i = 0; i < busy.size(); ++i) to_.busy[i] += busy[i];
    const double sum = std::accumulate(busy.begin(), busy.end(), 0.0);
    if (sum > 0) r.imbalance = *std::max_element(busy.begin(), busy.end()) * static_cast<double>(busy.size()) / sum;
    to_.interactions += r.sum.interactions;
    to_.steps.push_back(r);
    check_finite(r.sum, step);
  }

private:
  finished_run& to_;
  double dt_;
  tern::stopwatch clock_;
};

/// Which pictures are due after a step: `frames` of them, evenly from the first step to the last.
bool frame_is_due(const settings& s, std::uint64_t step, std::uint64_t frame) {
  if (frame >= s.frames) return false;
  return s.frames == 1 ? step == s.steps : step * (s.frames - 1) >= frame * s.steps;
}

snapshot whole_snapshot() {
  snapshot all;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  ask_each_piece<&piece::snapshot>(here().pieces, [&](const snapshot& part) {
    append(all.x, part.x);
    append(all.y, part.y);
    append(all.z, part.z);
    append(all.label, part.label);
  });
  return all;
}

/// Rank 0's, for all.
struct loop_numbers {
  std::uint64_t steps = 0;
  double dt = 0;
  std::uint64_t pieces = 0;
};

constants constants_of(const settings& wanted, const initial& start, double softening, std::uint32_t pieces) {
  constants fixed;
  fixed.tree = wanted.tree;
  fixed.force.softening = softening;
  fixed.force.gravity = wanted.gravity;
  fixed.force.quadrupole = wanted.order == 2;
  double mass = 0;
  for (const double m : start.all.mass) mass += m;
  fixed.force.mass = power_of_two(mass);
  fixed.stride = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(1, start.all.size() / (samples_a_piece * pieces)));
  return fixed;
}

} // namespace

double finished_run::imbalance() const {
  const double sum = std::accumulate(busy.begin(), busy.end(), 0.0);
  return sum > 0 ? *std::max_element(busy.begin(), busy.end()) * static_cast<double>(busy.size()) / sum : 1;
}

finished_run run_job(const initial& start, const settings& wanted_here, const frame_function& on_frame) {
  // Unless the user wants another policy, or none.
  if (tern::rank() == 0 && tern::run_options().source(tern::balance::balance_option.name()) == "default")
    tern::balance::use(usual_policy).get();
  tern::barrier();
  rank_state& mine = here();
  finished_run run;
  loop_numbers about;
  constants fixed;
  if (tern::rank() == 0) {
    run.softening = wanted_here.softening.value_or(start.softening);
    about = {wanted_here.steps, wanted_here.step.value_or(start.step), wanted_here.pieces_for(start.all.size())};
    fixed = constants_of(wanted_here, start, run.softening, wanted_here.pieces_for(start.all.size()));
    mine.pieces = tern::mobile_array<piece>({.name = "pieces"}, {static_cast<std::int64_t>(about.pieces)});
  }
  about = tern::broadcast(about);
  mine.fixed = tern::broadcast(fixed);
  mine.pieces = tern::broadcast(mine.pieces);
  run.pieces = mine.pieces;
  run.step = about.dt;
  run.piece_count = static_cast<std::uint32_t>(about.pieces);
  const std::uint32_t pieces = run.piece_count;
  distribute(start.all, pieces);
  apps::progress_begin({"attracting", "steps"}, about.steps, wanted_here.quiet);
  const tern::stopwatch clock;
  recorder records(run, about.dt);
  std::uint64_t frame = 0;
  const auto film = [&](std::uint64_t step) {
    if (tern::rank() != 0 || !frame_is_due(wanted_here, step, frame)) return;
    on_frame(frame++, static_cast<double>(step) * about.dt, whole_snapshot());
  };
  find_forces(0);
  records.add(0);
  film(0);
  for (std::uint64_t step = 1; step <= about.steps; ++step) {
    piece_plan plan;
    if (tern::rank() == 0)
      plan = plan_pieces(tern::reduce<&piece::sample>(mine.pieces, join_samples()).get(), pieces);
    agree_on_plan(std::move(plan));
    on_each_piece<&piece::advance>("drift", about.dt);
    find_forces(about.dt / 2);
    records.add(step);
    tern::balance::phase();
    if (tern::rank() == 0) apps::progress_one();
    film(step);
  }
  run.seconds = clock.seconds();
  apps::progress_end();
  run.policy = tern::balance::in_use();
  run.moved = tern::allreduce(tern::balance::count().arrived, std::plus<>());
  run.fetched_trees = tern::allreduce(mine.trees.fetched_trees(), std::plus<>());
  return run;
}

std::vector<extract> gather_bodies(const finished_run& run) {
  std::vector<extract> all;
  ask_each_piece<&piece::extract>(run.pieces, [&](extract part) { all.push_back(std::move(part)); });
  return all;
}

} // namespace nbody

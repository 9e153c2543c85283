// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/job/job.hpp"

#include "apps/common/progress.hpp"
#include "apps/nbody/job/rank_state.hpp"
#include "apps/nbody/job/step.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <numeric>

#include <tern/balance/balance.hpp>
#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>

namespace nbody {
namespace {

constexpr const char* usual_policy = "curve";

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
  /// The next step begins now.
  void begin_step() { clock_.restart(); }

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
struct loop_settings {
  std::uint64_t steps = 0;
  double dt = 0;
  std::string checkpoint; // folder
  std::uint64_t every = 1;
  template <class A> void serialize(A& ar) { ar(steps, dt, checkpoint, every); }
  bool is_saved(std::uint64_t step) const { return !checkpoint.empty() && (step % every == 0 || step == steps); }
};

/// What to save after a step. On rank 0; others give nothing.
course course_of(const finished_run& run, const settings& wanted) {
  course now;
  now.begun = wanted;
  now.begun.softening = run.softening;
  now.begun.step = run.step;
  now.fixed = here().fixed;
  now.records = run.steps;
  return now;
}

} // namespace

double finished_run::imbalance() const {
  const double sum = std::accumulate(busy.begin(), busy.end(), 0.0);
  return sum > 0 ? *std::max_element(busy.begin(), busy.end()) * static_cast<double>(busy.size()) / sum : 1;
}

finished_run run_job(const initial& start, const settings& wanted_here, const frame_function& on_frame,
                     const course* from) {
  // Unless the user wants another policy, or none.
  if (tern::rank() == 0 && tern::run_options().source(tern::balance::balance_option.name()) == "default")
    tern::balance::use(usual_policy).get();
  tern::barrier();
  finished_run run;
  loop_settings about;
  if (tern::rank() == 0) {
    run.softening = wanted_here.softening.value_or(start.softening);
    about = {wanted_here.steps, wanted_here.step.value_or(start.step), wanted_here.checkpoint, wanted_here.every};
  }
  about = tern::broadcast(about);
  if (!from) make_pieces(start, wanted_here);
  run.pieces = here().pieces;
  run.step = about.dt;
  run.piece_count = static_cast<std::uint32_t>(run.pieces.size()[0]);
  const std::uint64_t done = from ? from->step : 0;
  apps::progress_begin({"attracting", "steps"}, about.steps - done, wanted_here.quiet);
  const tern::stopwatch clock;
  const double seconds_before = from ? from->seconds : 0;
  recorder records(run, about.dt);
  std::uint64_t frame = 0;
  std::vector<double> view;
  const auto film = [&](std::uint64_t step) {
    if (tern::rank() != 0 || !frame_is_due(wanted_here, step, frame)) return;
    view = on_frame(frame++, static_cast<double>(step) * about.dt, whole_snapshot());
  };
  if (from) {
    run.gone_on_after = done;
    run.busy.resize(static_cast<std::size_t>(tern::size()));
    run.steps = from->records;
    for (const step_record& r : run.steps) run.interactions += r.sum.interactions;
    frame = from->frame;
    view = from->view;
  } else {
    make_trees();
    attract_all(0);
    records.add(0);
    film(0);
  }
  for (std::uint64_t step = done + 1; step <= about.steps; ++step) {
    plan_again();
    advance_all(about.dt);
    make_trees();
    attract_all(about.dt / 2);
    records.add(step);
    tern::balance::phase();
    if (tern::rank() == 0) apps::progress_one();
    film(step);
    if (!about.is_saved(step)) continue;
    course now;
    if (tern::rank() == 0) {
      now = course_of(run, wanted_here);
      now.step = step;
      now.frame = frame;
      now.view = view;
      now.seconds = seconds_before + clock.seconds();
    }
    save_course(about.checkpoint, now);
    if (tern::rank() == 0 && !wanted_here.quiet)
      std::fprintf(stderr, "nbody: step %llu of %llu is saved in %s\n", static_cast<unsigned long long>(step),
                   static_cast<unsigned long long>(about.steps), about.checkpoint.c_str());
    records.begin_step();
  }
  run.seconds = seconds_before + clock.seconds();
  apps::progress_end();
  run.policy = tern::balance::in_use();
  run.moved = tern::allreduce(tern::balance::count().arrived, std::plus<>());
  run.fetched_trees = tern::allreduce(here().trees.fetched_trees(), std::plus<>());
  return run;
}

std::vector<extract> gather_bodies(const finished_run& run) {
  std::vector<extract> all;
  ask_each_piece<&piece::extract>(run.pieces, [&](extract part) { all.push_back(std::move(part)); });
  return all;
}

} // namespace nbody

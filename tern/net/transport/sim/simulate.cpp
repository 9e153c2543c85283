// SPDX-License-Identifier: Apache-2.0
#include <tern/net/simulate.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <sstream>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/job/rank_life.hpp>
#include <tern/net/report.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/transport/sim/sim_job.hpp>
#include <tern/task/sim.hpp>

namespace tern::sim {
namespace {

std::string text_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const tern::error& x) {
    return x.message();
  } catch (const std::exception& x) {
    return x.what();
  }
}

// Nothing can happen any more, and some have not ended.
error stuck(const detail::sim_job& job, const simulation& world,
            const std::vector<std::unique_ptr<net::rank_life>>& lives, const std::vector<std::exception_ptr>& failed) {
  std::vector<net::node*> waiting;
  std::string circle;
  for (std::size_t r = 0; r < failed.size(); ++r) {
    if (job.crashed(static_cast<int>(r)) || !failed[r]) continue;
    waiting.push_back(&lives[r]->here());
    if (const std::string text = text_of(failed[r]); circle.empty() && text.find("for each other") != text.npos)
      circle = "\nrank " + std::to_string(r) + ": " + text;
  }
  std::string text = circle + net::without_messages(net::describe(waiting, 0));
  for (const std::string& f : job.faults()) text += "\nbefore that, " + f;
  return error(errc::deadlock,
               "nothing can happen any more at " + std::to_string(world.seconds()) + " s of virtual time, and " +
                   std::to_string(waiting.size()) + " of " + std::to_string(failed.size()) +
                   " ranks have not ended:" + text,
               job.faults().empty() ? "look at what they wait for, and which code should have sent it"
                                    : "what went wrong was ordered by the option 'faults'");
}

// Has a rank of a job that may lose some come to its end?
bool outlived(const std::vector<std::unique_ptr<net::rank_life>>& lives) {
  return std::any_of(lives.begin(), lives.end(),
                     [](const auto& life) { return life->here().generation().guarded() && life->has_ended(); });
}

} // namespace

outcome run(const world& w, const std::function<int()>& main, const options& opts) {
  check(w);
  net::handler_table::freeze();
  simulation world({.seed = w.seed, .preempt = w.preempt, .step_seconds = w.step});
  detail::sim_job job(w, world);
  const auto shared = std::make_shared<const options>(opts);
  std::vector<std::unique_ptr<net::rank_life>> lives;
  std::vector<simulation::member> members;
  lives.reserve(static_cast<std::size_t>(w.ranks));
  members.reserve(lives.capacity());
  for (int r = 0; r < w.ranks; ++r) {
    lives.push_back(std::make_unique<net::rank_life>(shared, job.end(r), &world, w.workers, w.apart == 1));
    net::rank_life* const life = lives.back().get();
    scheduler& fibers = life->here().fibers();
    job.connect(r, fibers);
    members.push_back({&fibers, [life, &main] { life->live(main); }});
  }
  job.plan_faults();
  const std::vector<std::exception_ptr> failed = world.run(members);
  bool ended = true;
  std::vector<bool> alive;
  for (int r = 0; r < w.ranks; ++r) {
    const bool done = !failed[static_cast<std::size_t>(r)];
    alive.push_back(done);
    ended = ended && (done || (job.crashed(r) && outlived(lives)));
  }
  if (!ended) {
    error why = stuck(job, world, lives, failed);
    net::report_failure(why.what());
    throw why;
  }
  outcome o;
  for (std::size_t r = 0; r < lives.size(); ++r)
    if (alive[r]) o.code = std::max(o.code, lives[r]->end());
  // The last first, as they were made.
  while (!lives.empty()) lives.pop_back();
  o.seconds = world.seconds();
  o.messages = job.messages();
  o.bytes = job.bytes();
  o.trace_hash = world.trace_hash();
  o.events = world.events();
  o.faults = job.faults();
  return o;
}

} // namespace tern::sim

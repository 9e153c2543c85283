// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/base/options.hpp>
#include <tern/net/hang/hang_watches.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/net/report/tracing.hpp>
#include <tern/net/simulate.hpp>
#include <tern/net/transport/sim/sim_job.hpp>
#include <tern/net/transport_kind.hpp>

namespace tern::net::detail {
namespace {

const option<std::string> sim_option{
    "sim", "",
    "simulate the job, with a network, faults and virtual time; as ranks=256,workers=4,seed=7,faults=delay:reorder"};

class sim_kind final : public transport_kind {
public:
  sim_kind()
      : transport_kind({.name = "sim",
                        .what = "in a simulation",
                        .words = "sim:WORD=VALUE,…",
                        .automatic = "if that is set",
                        .preference = 3}) {}

  bool accepts(std::string_view word) const override { return word == name() || word.starts_with("sim:"); }
  bool suits(const options& opts) const override { return !opts[sim_option].empty(); }
  bool simulates() const noexcept override { return true; }

  int run(job_start& job, rank_runner) const override {
    const report_session reports(job.opts, hang_watches(job.opts));
    const sim::world w = world_of(job);
    trace_session trace(job.opts, trace_session::job::simulated, 0, w.ranks, w.workers);
    log_info("Tern " TERN_VERSION ": " + std::to_string(w.ranks) + (w.ranks == 1 ? " rank" : " ranks") +
             ", simulated: " + sim::to_string(w));
    try {
      const int code = sim::run(w, job.main, job.opts).code;
      trace.end();
      trace.merge();
      if (code != 0) sim::detail::tell_replay(w);
      return code;
    } catch (const std::exception& e) {
      log_error(e.what());
      sim::detail::give_up(w, 1);
    }
  }

private:
  static sim::world world_of(const job_start& job) {
    sim::world w;
    w.ranks = job.ranks;
    if (job.workers > 0) w.workers = job.workers;
    w = sim::parse_world(job.opts[sim_option], std::move(w));
    const std::string_view word(job.word);
    return word.starts_with("sim:") ? sim::parse_world(word.substr(4), std::move(w)) : w;
  }
};

} // namespace

const transport_kind& sim_transport() {
  static const sim_kind one;
  return one;
}

} // namespace tern::net::detail

// SPDX-License-Identifier: Apache-2.0
#include <tern/net/message/rank_base.hpp>

#include <utility>

#include <tern/net/termination/worker_number.hpp>

namespace tern::net {
namespace {

thread_local rank_base* polled_apart = nullptr; // by the calling thread, which is no worker

std::unique_ptr<scheduler> make_scheduler(scheduler::settings s, rank_base& context, event_source& events,
                                          work_source& source, sim::simulation* world) {
  s.context = &context;
  s.events = &events;
  s.source = &source;
  s.simulation = world;
  return std::make_unique<scheduler>(std::move(s));
}

} // namespace

rank_base::rank_base(rank_settings s, event_source& events)
    : wire_(std::move(s.wire)), rank_(wire_->rank()), size_(wire_->size()), world_(s.world),
      simulated_(world_ != nullptr), polls_apart_(s.polls_apart), has_server_(s.has_server),
      single_worker_(s.fibers.workers == 1), one_thread_(single_worker_ && !polls_apart_ && !simulated_),
      computing_(s.fibers.workers - (has_server_ ? 1 : 0)),
      scheduler_(make_scheduler(std::move(s.fibers), *this, events, socket_, world_)), core_(&scheduler_->inside()),
      counters_(scheduler_->workers(), simulated_) {
  shutdown_.begin(*core_, polls_apart_);
}

rank_base::~rank_base() = default;

int rank_base::worker_here() const noexcept { return detail::worker_number(core_); }

void rank_base::fatal(const std::string& what, int code) noexcept {
  end_job(what, code);
  __builtin_unreachable(); // g++ does not see [[noreturn]] through the virtual call
}

rank_base* rank_base::current_apart() noexcept { return polled_apart; }
rank_base* rank_base::poll_apart_for(rank_base* who) noexcept { return std::exchange(polled_apart, who); }

} // namespace tern::net

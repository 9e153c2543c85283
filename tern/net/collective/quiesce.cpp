// SPDX-License-Identifier: Apache-2.0
#include <tern/net/collective/quiesce.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <tern/base/clock.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/collective/collective_table.hpp>
#include <tern/net/collective/inner_communicator.hpp>
#include <tern/net/node.hpp>
#include <tern/task/fiber.hpp>

namespace tern::net::detail {
namespace {

constexpr int rounds_in_a_row = 16;
constexpr std::chrono::duration<double> longest_pause{1e-3};

const collective_kind closing_kind{"the end of the job"};
// By quiescence.
const collective_kind quiesce_kinds[] = {collective_kind("quiesce", true), collective_kind("quiesce (fibers)", true),
                                         collective_kind("quiesce (timers)", true)};

// Summed over all ranks by termination detection: of messages sent, and done.
using counts = std::array<std::uint64_t, 2>;

// \param sent what this rank had sent when all was quiet. \return whether no rank has sent anything
// since, and none can any more.
bool close_job(node& here, const inner_communicator& all, std::uint64_t sent, const std::source_location& where) {
  job_shutdown& shutdown = here.shutdown();
  shutdown.set(shutdown_state::deciding);
  shutdown.pass_barrier(); // a sender that has not been counted now sees the state
  const bool quiet = all.allreduce(
      closing_kind, here.counters().begun() == sent, [](bool a, bool b) { return a && b; }, where);
  if (quiet) here.end_epochs();
  shutdown.set(quiet ? shutdown_state::closed : shutdown_state::open);
  return quiet;
}

} // namespace

void quiesce(node& here, quiescence of, const std::source_location& where, bool closes) {
  const message_counters& counters = here.counters();
  job_shutdown& shutdown = here.shutdown();
  const inner_communicator all_ranks(here.collectives().everyone());
  // What waits here for space would not be handled by the next wave, which might take that space
  // for ever.
  const auto idle = [&] { return shutdown.is_idle() && here.queued_messages() == 0; };
  counts before{~0ull, 0};
  const double begun = steady_seconds();
  for (int round = 0;; ++round) {
    shutdown.wait_until_idle(idle);
    if (of != quiescence::messages) {
      here.fibers().quiesce(of == quiescence::timers);
      if (!idle()) continue; // something has come
    }
    // In this order: never counts a reply as done but not as sent.
    const bool all = of != quiescence::messages;
    const std::uint64_t done = all ? counters.ended_of_all() : counters.ended();
    const counts mine{all ? counters.begun_of_all() : counters.begun(), done};
    const counts now = all_ranks.allreduce(
        quiesce_kinds[static_cast<std::size_t>(of)], mine,
        [](const counts& a, const counts& b) {
          return counts{a[0] + b[0], a[1] + b[1]};
        },
        where);
    // The second sum was begun after the first was complete everywhere. If nothing was sent or done
    // in between, and as much was done as sent, nothing was in flight then and nothing can have
    // begun since, but by fibers. If these rested too when each rank gave its part of the second,
    // nothing but timers could wake any.
    const bool all_done = now[0] == now[1];
    if (all_done && now == before && (!closes || close_job(here, all_ranks, mine[0], where))) return;
    before = now;
    if (all_done) continue;
    // What is in flight to this rank must be able to arrive. Work that goes on for long has the
    // worker, and the network, to itself: the next round comes after a sixteenth of the time that
    // this has taken.
    if (round < rounds_in_a_row || here.simulated())
      this_fiber::yield();
    else
      this_fiber::sleep_for(std::min(longest_pause, std::chrono::duration<double>((steady_seconds() - begun) / 16)));
  }
}

} // namespace tern::net::detail

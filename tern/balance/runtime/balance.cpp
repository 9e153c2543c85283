// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/balance.hpp>

#include <cmath>
#include <utility>
#include <vector>

#include <tern/balance/recording.hpp>
#include <tern/balance/runtime/balancer.hpp>
#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_failure.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/sync.hpp>

namespace tern::balance {

const option<std::string> balance_option{
    "balance",
    "none",
    "which policy moves mobile objects between ranks, with its parameters: diffusion:limit=2; none: they stay",
    {.verify = [](const std::string& policy, const options&) { check_policy(policy); }}};
const option<std::string> order_option{
    "balance-order", "plan",
    "while a policy is in use, which of the objects that wait for a worker of their rank comes first",
    one_of({"fifo", "lifo", "priority", "heavy", "locality", "plan"})};
const option<std::string> load_option{
    "balance-load", "declared",
    "what an invocation counts as load: what its class declares, else seconds as measured; always as measured; "
    "each the same; or as declared, and in programs that mark phases the trend of the last three",
    one_of({"declared", "measured", "constant", "trend"})};
const option<double> period_option{"balance-period", 0.05,
                                   "seconds between the calls of a policy on a rank where something waits",
                                   between<double>(1e-6, 1e6)};

const option<bool> aside_option{"balance-aside", true,
                                "a policy that brings a rank no gain stands aside there, until the load changes or it "
                                "is time to try again"};

const option<std::string> record_option{
    "record", "", "store what all mobile objects do in this file, for tern replay, which tries other policies on it"};

namespace detail {

namespace {

const rank_local<balancer> the_balancer;

/// The first rank's: one change at a time, in an order that all ranks keep.
struct changes {
  mutex one_at_a_time;
  std::uint32_t generation = 0;
};
const rank_local<changes> the_changes;

/// That lives: it makes the changes.
int first_rank() { return living().front(); }
void be_there() { balancer::here(); }
void take_policy(std::uint32_t generation, const std::string& text) {
  balancer::here().use(generation, text);
  balancer::here().catch_up();
}
void take_enable(bool on) {
  balancer::here().enable(on);
  balancer::here().catch_up();
}

template <auto F, class... A> void tell_all(const A&... args) {
  std::vector<future<void>> told;
  for (const int r : living()) told.push_back(call<F>(r, args...));
  for (auto& t : told) t.get();
}

void change_policy(const std::string& text) {
  changes& c = *the_changes;
  const std::lock_guard hold(c.one_at_a_time);
  tell_all<&be_there>(); // as in `begin`
  tell_all<&take_policy>(++c.generation, text);
}

void change_enable(bool on) {
  const std::lock_guard hold(the_changes->one_at_a_time);
  tell_all<&take_enable>(on);
}

void has_failed(std::uint32_t generation) {
  changes& c = *the_changes;
  const std::lock_guard hold(c.one_at_a_time);
  if (generation == c.generation) tell_all<&take_policy>(++c.generation, std::string("none"));
}

/// What rank 0's options say, which count for all.
struct wishes {
  std::string policy, record;
  template <class A> void serialize(A& ar) { ar(policy, record); }
};

wishes agree(net::node& here) {
  const wishes own{here.opts()[balance_option], here.opts()[record_option]};
  if (here.rank() == 0 && !own.record.empty()) check_place(own.record); // now, and not when all is done
  if (!here.wire().processes()) return own;                             // they have the same options
  wishes all = communicator::world().broadcast(own, 0);
  if (all.policy != own.policy || all.record.empty() != own.record.empty())
    log_warning("the options 'balance' and 'record' of rank 0 count, which are others than those of rank " +
                std::to_string(here.rank()));
  return all;
}

void begin(net::node& here) {
  const wishes all = agree(here);
  const bool balanced = split_policy(all.policy).name != "none";
  if (!balanced && all.record.empty()) return;
  balancer& b = balancer::here();
  if (!all.record.empty()) b.record();
  if (balanced && here.rank() == 0) the_changes->generation = 1;
  barrier(); // the first that goes on sends messages to all others' balancers
  if (balanced) b.use(1, all.policy);
}

void end(net::node& here) {
  if (balancer* const b = the_balancer.if_made(here)) b->close();
}

const net::rank_stage the_stage{&begin, &end};
const net::detail::abandon_hook the_hook{[](net::node& here, const error&) {
  if (balancer* const b = the_balancer.if_made(here)) b->abandon();
}};

} // namespace

balancer& balancer::here() { return *the_balancer; }
balancer* balancer::if_made(net::node& of) noexcept { return the_balancer.if_made(of); }

void tell_of_failure(std::uint32_t generation) { send<&has_failed>(first_rank(), generation); }
void go_on_from(std::uint32_t generation) { the_changes->generation = generation; }

} // namespace detail

future<void> use(std::string policy) {
  check_policy(policy);
  return call<&detail::change_policy>(detail::first_rank(), std::move(policy));
}

future<void> enable(bool on) { return call<&detail::change_enable>(detail::first_rank(), on); }

std::string in_use() { return detail::balancer::here().in_use(); }

namespace detail {
namespace {

// 0: of all objects.
void mark_phase(std::uint64_t array) {
  quiesce();
  balancer& b = balancer::here();
  b.begin_round(array);
  quiesce();
  b.end_round();
  barrier(); // no rank counts loads as those of a phase any more when the next begins anywhere
}

} // namespace

void phase_of(std::uint64_t array) {
  static_cast<void>(mobile::detail::array_table::here().need(array)); // throws if there is none
  mark_phase(array);
}

} // namespace detail

void phase() { detail::mark_phase(0); }

void charge_device(double seconds) {
  if (!(seconds >= 0 && std::isfinite(seconds)))
    throw error(errc::invalid_argument, "balance::charge_device was given " + std::to_string(seconds) + " seconds",
                "a time of work is at least 0 and finite");
  mobile::detail::running_invocation::required("tern::balance::charge_device").charge_device(seconds);
}

counters count() { return detail::balancer::here().count(); }

} // namespace tern::balance
